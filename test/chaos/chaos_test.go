package chaos

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// TestChaos runs for 25 s, or for as many minutes as MINUTES says, with the faults that follow from SEED. SPATE_CHAOS_DIR keeps
// logs and data in that directory; they are kept in any case when something was wrong.
func TestChaos(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	length, seed, rate := 25*time.Second, uint64(1), 400
	if m, err := strconv.ParseFloat(os.Getenv("MINUTES"), 64); err == nil {
		length = time.Duration(m * float64(time.Minute))
	}
	if n, err := strconv.ParseUint(os.Getenv("SEED"), 10, 64); err == nil {
		seed = n
	}
	w := newWorld(t, rate, seed)
	faults := plan(seed, length, w.disk.mounted)
	t.Logf("seed %d, %s, %d faults, disk of its own: %v, in %s", seed, length, len(faults), w.disk.mounted, w.dir)
	w.start(t)
	watch := newWatcher(w.places)
	b := &breaker{w: w, watch: watch, recovery: map[string][]time.Duration{}}
	began := time.Now()
	b.carryOut(faults, began, t.Logf)
	<-time.After(time.Until(began.Add(length)))
	b.under.Wait()
	watch.close()
	judge(t, w, b, seed, time.Since(began))
}

// judge ends the run: everything is mended by now, the generators stop, and each place must come to hold all events once.
func judge(t *testing.T, w *world, b *breaker, seed uint64, took time.Duration) {
	var sum count
	for _, p := range w.places {
		if p.name != "second" {
			p.from.stop()
		}
	}
	for _, p := range w.places {
		select {
		case <-p.from.done:
		case <-time.After(time.Minute):
			t.Errorf("%s: %d of %d events acknowledged", p.name, p.from.acked.Load(), p.from.sent.Load())
		}
		n := p.from.sent.Load()
		c, err := p.settle(n, 2*time.Minute)
		if err != nil || c.doubled > 0 {
			t.Errorf("%s: %v; %s", p.name, err, p.examples(n))
		}
		if err := p.rollups(n, time.Minute); err != nil {
			t.Error(err)
		}
		line, err := p.ledger(w.bin)
		t.Logf("%s: %s", p.name, line)
		if err != nil {
			t.Errorf("%s: spate ledger: %v", p.name, err)
		}
		sum.events, sum.lost, sum.doubled = sum.events+n, sum.lost+c.lost, sum.doubled+c.doubled
	}
	for _, line := range b.table() {
		t.Log(line)
	}
	for _, line := range b.lost {
		t.Error(line)
	}
	for _, p := range w.processes {
		if p.exits > 0 {
			t.Logf("%s ended by itself %d times", p.name, p.exits)
		}
	}
	t.Logf("store: %d requests refused, %d slowed, %d answers lost", w.store.refused.Load(), w.store.slowed.Load(), w.store.swallowed.Load())
	t.Logf("chaos: seed %d, %.1f minutes, kills %d, events %d, lost %d, doubled %d", seed, took.Minutes(), b.kills, sum.events, sum.lost, sum.doubled)
}
