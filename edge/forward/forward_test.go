package forward

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spate-io/spate/edge/spool"
	"github.com/spate-io/spate/edge/wire"
	"github.com/spate-io/spate/event"
	"github.com/spate-io/spate/event/batch"
	"github.com/spate-io/spate/internal/config"
)

// away is a destination that is never there.
type away struct{}

func (away) Dial(context.Context) (net.Conn, error) { return nil, errors.New("nobody there") }

func testConfig(t testing.TB) Config {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Edge, cfg.Spool.Dir = "e1", t.TempDir()
	cfg.Spool.Sync = spool.SyncAlways
	cfg.Batch.MaxDelay = config.Duration(2 * time.Millisecond)
	cfg.DrainTimeout = 0
	cfg.Destinations = []Destination{{Name: "dc1"}}
	var p config.Problems
	if cfg.Validate(&p); p.Err() != nil {
		t.Fatal(p.Err())
	}
	return cfg
}

// start runs a forwarder; stop ends it.
func start(t testing.TB, cfg Config, ledger func([]LedgerRow)) (f *Forwarder, stop func()) {
	t.Helper()
	f, err := New(cfg, Deps{Dial: map[string]wire.Dialer{"dc1": away{}}, Ledger: ledger})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	end := make(chan error, 1)
	go func() { end <- f.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-end; err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(stop)
	return f, stop
}

func events(n int, at int64) []byte {
	var b []byte
	for i := range n {
		b = (&event.HTTP{EdgeStartTimestamp: at + int64(i), ConnectionID: uint64(i)}).Append(b)
	}
	return b
}

func chunk(n int, position uint64) Chunk {
	return Chunk{Events: events(n, 1e18), Count: uint32(n), Origin: Origin{Stream: [16]byte{1}, Position: position}}
}

func mustPut(t testing.TB, f *Forwarder, c Chunk) {
	t.Helper()
	if err := f.Put(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

// durable waits until a position is durable.
func durable(t testing.TB, f *Forwarder, stream [16]byte, position uint64) {
	t.Helper()
	reached := make(chan struct{})
	var once sync.Once
	defer f.OnDurable(stream, func(p uint64) {
		if p >= position {
			once.Do(func() { close(reached) })
		}
	})()
	select {
	case <-reached:
	case <-time.After(20 * time.Second):
		t.Fatalf("position %d is not durable", position)
	}
}

// batches reads the headers of all batches in a spool that nobody has open.
func batches(t testing.TB, dir string) (all []batch.Header) {
	t.Helper()
	l, err := spool.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range l.Segments {
		if err := spool.Dump(g.File, func(r spool.RecordInfo) error {
			if r.Problem != "" {
				t.Fatalf("%+v", r)
			}
			if r.Header != nil {
				all = append(all, *r.Header)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func TestForwarder_NamesBatchesWithoutGapsAndEpochsGrow(t *testing.T) {
	cfg := testConfig(t)
	cfg.Batch.MaxEvents = 10
	for run := range 3 {
		f, stop := start(t, cfg, nil)
		for i := range 10 {
			mustPut(t, f, chunk(7, uint64(run*10+i+1)))
		}
		durable(t, f, [16]byte{1}, uint64(run*10+10))
		stop()
	}
	all := batches(t, cfg.Spool.Dir)
	events, epochs := uint32(0), map[uint64]uint64{}
	last := uint64(0)
	for _, h := range all {
		if h.Name.Epoch < last || h.Name.Sequence != epochs[h.Name.Epoch]+1 || h.Events > 10 {
			t.Fatalf("%+v after epoch %d", h, last)
		}
		last = h.Name.Epoch
		epochs[last]++
		events += h.Events
	}
	if len(epochs) != 3 || events != 210 {
		t.Fatal(epochs, events)
	}
}

func TestForwarder_DropsWhatItHas(t *testing.T) {
	cfg := testConfig(t)
	f, stop := start(t, cfg, nil)
	mustPut(t, f, chunk(3, 5))
	mustPut(t, f, chunk(3, 5))
	mustPut(t, f, chunk(3, 4))
	if p, ok := f.Position([16]byte{1}); p != 5 || !ok {
		t.Fatal(p, ok)
	}
	durable(t, f, [16]byte{1}, 5)
	stop()
	f, stop = start(t, cfg, nil)
	mustPut(t, f, chunk(3, 5)) // a worker that did not hear that it was durable
	durable(t, f, [16]byte{1}, 5)
	mustPut(t, f, chunk(2, 6))
	durable(t, f, [16]byte{1}, 6)
	stop()
	events := uint32(0)
	for _, h := range batches(t, cfg.Spool.Dir) {
		events += h.Events
	}
	if events != 5 {
		t.Fatalf("%d events, want 5", events)
	}
}

func TestForwarder_ReportsDrops(t *testing.T) {
	cfg := testConfig(t)
	f, stop := start(t, cfg, nil)
	mustPut(t, f, Chunk{Dropped: 9, Origin: Origin{[16]byte{1}, 1}}) // a batch of its own
	durable(t, f, [16]byte{1}, 1)
	mustPut(t, f, Chunk{Origin: Origin{[16]byte{1}, 2}}) // a position only
	durable(t, f, [16]byte{1}, 2)
	bad := chunk(4, 3)
	one := len(bad.Events) / 4
	bad.Events[2*one+4], bad.Events[2*one+5] = 0xff, 0xff // the third is malformed
	mustPut(t, f, bad)
	durable(t, f, [16]byte{1}, 3)
	stop()
	all := batches(t, cfg.Spool.Dir)
	if len(all) != 2 || all[0].Events != 0 || all[0].Dropped != 9 || all[1].Events != 2 || all[1].Dropped != 2 {
		t.Fatalf("%+v", all)
	}
}

func TestForwarder_StopFlushesAndEndsPut(t *testing.T) {
	cfg := testConfig(t)
	cfg.Batch.MaxDelay = config.Duration(time.Hour)
	f, stop := start(t, cfg, nil)
	mustPut(t, f, chunk(3, 1))
	stop()
	if err := f.Put(t.Context(), chunk(3, 2)); !errors.Is(err, ErrStopping) {
		t.Fatal(err)
	}
	if f.Ready() == nil {
		t.Fatal("ready after the end")
	}
	if all := batches(t, cfg.Spool.Dir); len(all) != 1 || all[0].Events != 3 {
		t.Fatalf("%+v", all)
	}
}

func TestForwarder_WaitsForRun(t *testing.T) {
	cfg := testConfig(t)
	f, err := New(cfg, Deps{Dial: map[string]wire.Dialer{"dc1": away{}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	if err := f.Put(ctx, chunk(1, 1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	// A spool that cannot be opened ends the waiting.
	cfg.Spool.Dir = "/dev/null/spool"
	if f, err = New(cfg, Deps{Dial: map[string]wire.Dialer{"dc1": away{}}}); err != nil {
		t.Fatal(err)
	}
	if f.Run(t.Context()) == nil {
		t.Fatal("a spool in /dev/null")
	}
	if err := f.Put(t.Context(), chunk(1, 1)); !errors.Is(err, ErrStopping) {
		t.Fatal(err)
	}
	if _, ok := f.Position([16]byte{1}); ok {
		t.Fatal("a position without a spool")
	}
}

func TestForwarder_LedgerAddsUp(t *testing.T) {
	cfg := testConfig(t)
	cfg.Batch.MaxEvents = 10 // two chunks: each batch lies in one minute
	var mu sync.Mutex
	sum := map[int64]LedgerRow{}
	f, stop := start(t, cfg, func(rows []LedgerRow) {
		mu.Lock()
		defer mu.Unlock()
		for _, r := range rows {
			v := sum[r.Minute]
			v.Accepted += r.Accepted
			v.Dropped += r.Dropped
			v.Batches += r.Batches
			v.Duplicates += r.Duplicates
			sum[r.Minute] = v
		}
	})
	minute := int64(time.Minute)
	for i := range 4 {
		mustPut(t, f, Chunk{Events: events(5, int64(100+i/2)*minute), Count: 5, Dropped: 1, Origin: Origin{[16]byte{1}, uint64(i + 1)}})
	}
	mustPut(t, f, Chunk{Events: events(5, 100*minute), Count: 5, Origin: Origin{[16]byte{1}, 4}})
	durable(t, f, [16]byte{1}, 4)
	stop()
	if sum[100].Accepted != 10 || sum[101].Accepted != 10 {
		t.Fatalf("%+v", sum)
	}
	var batches, dropped, twice uint64
	for _, r := range sum {
		batches, dropped, twice = batches+r.Batches, dropped+r.Dropped, twice+r.Duplicates
	}
	if batches == 0 || dropped != 4 || twice != 5 {
		t.Fatalf("%+v", sum)
	}
}

func TestForwarder_ManyStreamsAtOnce(t *testing.T) {
	cfg := testConfig(t)
	cfg.Batch.MaxEvents, cfg.Batch.Encoders = 50, 3
	f, stop := start(t, cfg, nil)
	var wg sync.WaitGroup
	var bad atomic.Int32
	for s := range byte(16) {
		wg.Go(func() {
			for p := uint64(1); p <= 100; p++ {
				c := chunk(3, p)
				c.Origin.Stream = [16]byte{s}
				if f.Put(t.Context(), c) != nil {
					bad.Add(1)
				}
			}
			durable(t, f, [16]byte{s}, 100)
		})
	}
	wg.Wait()
	stop()
	events := uint32(0)
	for _, h := range batches(t, cfg.Spool.Dir) {
		events += h.Events
	}
	if events != 16*300 || bad.Load() != 0 {
		t.Fatal(events, bad.Load())
	}
}

func TestConfig_Validate(t *testing.T) {
	bad := DefaultConfig()
	bad.Edge = "Not A Name"
	bad.Batch.Codec = "rar"
	var p config.Problems
	if bad.Validate(&p); p.Err() == nil {
		t.Fatal("passed")
	}
}
