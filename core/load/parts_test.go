package load

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/spate-io/spate/bus"
	"github.com/spate-io/spate/event/batch"
	"github.com/spate-io/spate/internal/config"
	"github.com/spate-io/spate/store"
)

func TestWindow_KnowsNamesWithinItsBounds(t *testing.T) {
	name := func(i int) batch.Name { return batch.Name{Edge: "e", Epoch: 1, Sequence: uint64(i)} }
	t.Run("same_record_is_no_duplicate_of_itself", func(t *testing.T) {
		w := newWindow(Window{Batches: 10, PerEdge: 10})
		for _, c := range []struct {
			offset int64
			want   bool
		}{{5, false}, {5, false}, {6, true}, {5, false}} {
			if got := w.seen(name(1), c.offset, 0); got != c.want {
				t.Errorf("at offset %d: seen is %v, want %v", c.offset, got, c.want)
			}
		}
	})
	t.Run("count", func(t *testing.T) {
		w := newWindow(Window{Batches: 3, PerEdge: 10})
		for i := range 5000 {
			w.seen(name(i), int64(i), 0)
		}
		if w.len() != 3 || len(w.all.list) > 300 || len(w.edges["e"].order.list) > 300 {
			t.Errorf("%d names in lists of %d and %d", w.len(), len(w.all.list), len(w.edges["e"].order.list))
		}
		if w.seen(name(4999), 6000, 0) != true || w.seen(name(4996), 6001, 0) != false {
			t.Error("the last three must be known, the one before not")
		}
	})
	t.Run("a_quiet_edge_is_not_crowded_out", func(t *testing.T) {
		w := newWindow(Window{Batches: 1000, PerEdge: 100})
		quiet := batch.Name{Edge: "quiet", Epoch: 1, Sequence: 1}
		w.seen(quiet, 0, 0)
		for i := range 100_000 {
			w.seen(name(i), int64(i+1), 0)
		}
		if !w.seen(quiet, 200_000, 0) {
			t.Error("the quiet edge's batch is forgotten")
		}
		if w.len() != 101 || w.all.len() > 300 {
			t.Errorf("%d names, list of %d", w.len(), w.all.len())
		}
	})
	t.Run("time", func(t *testing.T) {
		w := newWindow(Window{Batches: 100, PerEdge: 100, Time: config.Duration(time.Second)})
		w.seen(name(1), 1, 1000)
		w.seen(name(2), 2, 1500)
		w.seen(name(3), 3, 2001) // 1 is older than a second now
		if w.seen(name(1), 4, 2001) || !w.seen(name(2), 5, 2001) {
			t.Error("want 1 forgotten and 2 known")
		}
	})
	t.Run("off", func(t *testing.T) {
		w := newWindow(Window{})
		w.seen(name(1), 1, 0)
		if w.seen(name(1), 2, 0) {
			t.Error("a window of no names knows one")
		}
	})
	t.Run("saved_and_restored", func(t *testing.T) {
		w := newWindow(Window{Batches: 500, PerEdge: 100})
		for i := range 2000 {
			w.seen(batch.Name{Edge: fmt.Sprintf("e%d", i%7), Epoch: uint64(1 << 60), Sequence: uint64(i)}, int64(i), 1e12+int64(i))
		}
		id := [16]byte{1, 2, 3}
		b := encodeWindow(id, 2000, w.entries())
		gotID, at, entries, err := decodeWindow(b)
		if err != nil || gotID != id || at != 2000 {
			t.Fatalf("decode: %v, id %x, at %d", err, gotID, at)
		}
		if diff := cmp.Diff(w.entries(), entries, cmp.AllowUnexported(windowEntry{})); diff != "" {
			t.Errorf("entries (-want +got):\n%s", diff)
		}
		for n := range b {
			if _, _, _, err := decodeWindow(b[:n]); err == nil {
				t.Fatalf("a prefix of %d bytes is taken", n)
			}
		}
		t.Logf("%d names in %d bytes", len(entries), len(b))
	})
}

func FuzzDecodeWindow(f *testing.F) {
	f.Add(encodeWindow([16]byte{9}, 12, []windowEntry{{batch.Name{Edge: "e", Epoch: 4, Sequence: 5}, 6, 7}, {batch.Name{Edge: "x", Epoch: 4, Sequence: 5}, 8, 7}}))
	f.Add([]byte(windowMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, offset, entries, err := decodeWindow(b)
		if err == nil && offset < 0 {
			t.Errorf("offset %d", offset)
		}
		if len(entries) > len(b) {
			t.Errorf("%d entries from %d bytes", len(entries), len(b))
		}
	})
}

func TestIntent_ReadsWhatItWrites(t *testing.T) {
	for _, s := range []span{{0, 0}, {5, 9}, {1 << 40, 1<<40 + 3}} {
		got, ok, err := parseIntent(s.intent())
		if got != s || !ok || err != nil {
			t.Errorf("parse %q: %v %v %v", s.intent(), got, ok, err)
		}
	}
	if _, ok, err := parseIntent(""); ok || err != nil {
		t.Errorf("no metadata: %v %v", ok, err)
	}
	for _, text := range []string{"x", "spate1", "spate1 5", "spate1 9-5", "spate1 -1-4", "spate2 1-2", "spate1 1-2 "} {
		if _, ok, err := parseIntent(text); ok || err == nil {
			t.Errorf("parse %q: %v %v, want an error", text, ok, err)
		}
	}
	id := [16]byte{0xab, 1}
	if got := (span{7, 9}).token("http_requests", id, 3); got != "http_requests:ab01000000000000/3/7-9" {
		t.Errorf("token %q", got)
	}
}

func FuzzParseIntent(f *testing.F) {
	f.Add("spate1 1-2")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		s, ok, err := parseIntent(text)
		if ok && (err != nil || s.first < 0 || s.last < s.first) {
			t.Errorf("parse %q: %v %v", text, s, err)
		}
	})
}

func TestHealth_JudgesByProgress(t *testing.T) {
	const stall = time.Minute
	start := time.Now()
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	worker0 := new(worker)
	seen := func(h *health, s int, w *worker, committed, end int64) {
		w.committed.Store(committed)
		h.observe(at(s), map[int32]*worker{0: w}, map[int32]int64{0: 0}, map[int32]int64{0: end})
	}
	newHealth := func() *health {
		h := new(health)
		h.joined()
		return h
	}
	check := func(t *testing.T, h *health, s int, want string) {
		t.Helper()
		err := h.judge(at(s), stall)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("after %d s: %v, want %q", s, err, want)
		}
	}
	t.Run("idle_is_well", func(t *testing.T) {
		h := newHealth()
		seen(h, 0, worker0, 10, 10)
		seen(h, 600, worker0, 10, 10)
		check(t, h, 600, "")
	})
	t.Run("work_without_progress_fails", func(t *testing.T) {
		h := newHealth()
		seen(h, 0, worker0, 10, 10)
		seen(h, 500, worker0, 10, 11) // work came just now
		check(t, h, 500, "")
		seen(h, 555, worker0, 10, 20)
		check(t, h, 555, "")
		seen(h, 565, worker0, 10, 30)
		check(t, h, 565, "stood at offset 10")
		seen(h, 570, worker0, 11, 30)
		check(t, h, 570, "")
	})
	t.Run("a_partition_that_came_back_starts_anew", func(t *testing.T) {
		h := newHealth()
		seen(h, 0, worker0, 10, 30)
		seen(h, 61, new(worker), 10, 30)
		check(t, h, 61, "")
	})
	t.Run("a_partition_that_went_is_forgotten", func(t *testing.T) {
		h := newHealth()
		seen(h, 0, worker0, 10, 30)
		h.observe(at(61), nil, nil, nil)
		check(t, h, 200, "")
	})
	t.Run("what_retention_took_is_no_work", func(t *testing.T) {
		h := newHealth()
		worker0.committed.Store(-1)
		for _, s := range []int{0, 100} {
			h.observe(at(s), map[int32]*worker{0: worker0}, map[int32]int64{0: 30}, map[int32]int64{0: 30})
		}
		check(t, h, 100, "")
	})
	t.Run("offsets_that_cannot_be_read_fail", func(t *testing.T) {
		h := newHealth()
		seen(h, 0, worker0, 10, 10)
		h.problem = errBoom
		check(t, h, 59, "")
		check(t, h, 61, "could not be read")
	})
}

func TestLoader_LiveFailsWhileTheStoreIsAwayAndRecovers(t *testing.T) {
	t.Parallel()
	cfg := startBus(t, 2)
	e := newEdge(t, cfg, "fra1")
	db := newMemory()
	away := make(chan struct{})
	db.fault = func(int, store.Insert, bool) error {
		select {
		case <-away:
			return nil
		default:
			return errBoom
		}
	}
	lc := testConfig()
	lc.Stall = config.Duration(500 * time.Millisecond)
	l := newLoader(t, lc, cfg, db)
	background(t, l.Run)
	waitFor(t, "ready", l.Ready)
	e.put(0, e.seal(1))
	waitFor(t, "live fails", func() error {
		if l.Live() == nil {
			return errors.New("still live")
		}
		return nil
	})
	close(away)
	waitFor(t, "live again", l.Live)
	if err := db.holds(e); err != nil {
		t.Error(err)
	}
}

func TestLoader_BoundsWhatItFetches(t *testing.T) {
	t.Parallel()
	cfg := startBus(t, 1)
	e := newEdge(t, cfg, "fra1")
	var values [][]byte
	for range 300 {
		values = append(values, e.seal(200))
	}
	for _, v := range values {
		e.cl.Produce(context.Background(), &kgo.Record{Topic: cfg.RequestsTopic(), Value: v}, nil)
	}
	if err := e.cl.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	db := newMemory()
	hold := make(chan struct{})
	db.fault = func(int, store.Insert, bool) error { <-hold; return nil }
	lc := testConfig()
	lc.QueueBytes = 16 * config.KiB
	l := newLoader(t, lc, cfg, db)
	background(t, l.Run)
	var w *worker
	waitFor(t, "paused", func() error {
		l.mu.Lock()
		w = l.workers[0]
		l.mu.Unlock()
		if w == nil {
			return errors.New("no worker")
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if !w.paused {
			return fmt.Errorf("%d bytes queued, not paused", w.bytes)
		}
		return nil
	})
	close(hold)
	waitFor(t, "events in the store", func() error { return db.holds(e) })
}

func TestLoader_TellsTheLedger(t *testing.T) {
	t.Parallel()
	cfg := startBus(t, 1)
	e := newEdge(t, cfg, "fra1")
	enc, err := batch.NewEncoder(batch.None, 0)
	if err != nil {
		t.Fatal(err)
	}
	empty, err := enc.Encode(nil, batch.Header{Type: batch.HTTPRequests, Name: batch.Name{Edge: "fra2", Epoch: 1, Sequence: 1}, Dropped: 77}, nil)
	if err != nil {
		t.Fatal(err)
	}
	v := e.seal(4)
	e.put(0, v, empty, v, []byte("junk"))
	ledger := newBook()
	lc := testConfig()
	lc.LateAfter = config.Duration(time.Nanosecond)
	background(t, newLoader(t, lc, cfg, newMemory(), func(d *Deps) { d.Ledger = ledger }).Run)
	waitFor(t, "position", func() error {
		if n := position(t, cfg, 0); n != 4 {
			return fmt.Errorf("%d of 4", n)
		}
		return nil
	})
	var got []Account
	ledger.mu.Lock()
	for _, rows := range ledger.rows {
		got = append(got, rows...)
	}
	ledger.mu.Unlock()
	h, _, _ := batch.ParseHeader(v)
	want := []Account{
		{Refused: 1},
		{Edge: "fra1", Minute: h.First / int64(time.Minute), Batches: 1, Events: 4, Bytes: uint64(len(v)), Dropped: 1, Duplicates: 1, Late: 4,
			Stored: []Epoch{{h.Name.Epoch, []uint64{h.Name.Sequence}, 4}}},
		{Edge: "fra2", Batches: 1, Bytes: uint64(len(empty)), Dropped: 77, Stored: []Epoch{{1, []uint64{1}, 0}}},
	}
	if diff := cmp.Diff(want, got, cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Oldest" }, cmp.Ignore())); diff != "" {
		t.Errorf("accounts (-want +got):\n%s", diff)
	}
}

func TestConfig_NamesWhatIsWrong(t *testing.T) {
	c := DefaultConfig()
	var p config.Problems
	c.Validate(&p)
	if err := p.Err(); err != nil {
		t.Errorf("defaults: %v", err)
	}
	c.Guarantee, c.Block.MaxEvents, c.SessionTimeout = "maybe", 0, config.Duration(time.Second)
	c.Validate(&p)
	err := p.Err()
	for _, want := range []string{"guarantee", "block.max_events", "session_timeout"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
	if _, err := New(DefaultConfig(), Deps{Bus: bus.DefaultConfig()}); err == nil {
		t.Error("a loader without a store")
	}
}

func TestHTTP_TakesAllOfABatchOrNothing(t *testing.T) {
	b := newHTTPForTest(t)
	raw := newTraffic().raw(10, time.Now())
	if err := b.Add(&batch.Header{Events: 10}, raw); err != nil || b.Rows() != 10 {
		t.Fatalf("add: %v, %d rows", err, b.Rows())
	}
	for name, c := range map[string]struct {
		h   batch.Header
		raw []byte
	}{
		"count":     {batch.Header{Events: 11}, raw},
		"truncated": {batch.Header{Events: 10}, raw[:len(raw)-8]},
	} {
		if err := b.Add(&c.h, c.raw); err == nil || b.Rows() != 10 {
			t.Errorf("%s: %v, %d rows, want an error and 10", name, err, b.Rows())
		}
	}
	for i, table := range []string{"http_requests", "http_requests_flow"} {
		if in := b.Inserts("a")[i]; in.Table != table || len(in.Columns) < 40 || len(in.Block) == 0 || in.Token == "" {
			t.Errorf("table %q, %d columns, %d bytes, token %q", in.Table, len(in.Columns), len(in.Block), in.Token)
		}
	}
	b.Reset()
	if b.Rows() != 0 {
		t.Errorf("%d rows after reset", b.Rows())
	}
}
