package spool

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/spate-io/spate/event"
	"github.com/spate-io/spate/event/batch"
	"github.com/spate-io/spate/internal/config"
)

// testBatch makes a batch of one event whose sequence is n, with pad bytes of path.
func testBatch(t testing.TB, n uint64, pad int) []byte {
	t.Helper()
	enc, err := batch.NewEncoder(batch.None, 0)
	if err != nil {
		t.Fatal(err)
	}
	ev := event.HTTP{EdgeStartTimestamp: int64(n), ClientRequestPath: make([]byte, pad)}
	raw := ev.Append(nil)
	b, err := enc.Encode(nil, batch.Header{Type: batch.HTTPRequests, Name: batch.Name{Edge: "e1", Epoch: 7, Sequence: n}, Events: 1, First: int64(n), Last: int64(n)}, raw)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func sequence(t testing.TB, b []byte) uint64 {
	t.Helper()
	h, _, err := batch.ParseHeader(b)
	if err != nil {
		t.Fatal(err)
	}
	return h.Name.Sequence
}

func stream(n uint64) (s [16]byte) {
	binary.BigEndian.PutUint64(s[8:], n)
	return s
}

func small(dir string) Config {
	c := DefaultConfig()
	c.Dir, c.SegmentBytes, c.MaxBytes = dir, 4<<10, 64<<10
	return c
}

func mustOpen(t testing.TB, c Config, deps Deps, destinations ...string) *Spool {
	t.Helper()
	s, err := Open(c, destinations, deps)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func put(t testing.TB, s *Spool, from, to uint64) {
	t.Helper()
	for n := from; n <= to; n++ {
		if _, err := s.Append([]Origin{{stream(1), n}}, testBatch(t, n, 500)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
}

// read reads all that is there now without committing.
func read(t testing.TB, c *Cursor) (seqs []uint64, last Record) {
	t.Helper()
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		r, err := c.Next(ctx, nil)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			c.s.mu.Lock()
			idle := c.read.Index >= c.s.synced
			c.s.mu.Unlock()
			if idle {
				return seqs, last
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		seqs, last = append(seqs, sequence(t, r.Batch)), r
	}
}

func want(t testing.TB, got []uint64, from, to uint64) {
	t.Helper()
	var all []uint64
	for n := from; n <= to; n++ {
		all = append(all, n)
	}
	if fmt.Sprint(got) != fmt.Sprint(all) {
		t.Fatalf("read %v, want %d to %d", got, from, to)
	}
}

func TestSpool_GivesEveryCursorAllInOrder(t *testing.T) {
	cfg := small(t.TempDir())
	s := mustOpen(t, cfg, Deps{}, "a", "b")
	put(t, s, 1, 30)
	got, last := read(t, s.Cursor("a"))
	want(t, got, 1, 30)
	if err := s.Cursor("a").Commit(last.End); err != nil {
		t.Fatal(err)
	}
	if n, bytes, oldest := s.Backlog("b"); n != 30 || bytes == 0 || oldest.IsZero() {
		t.Fatalf("backlog of b: %d records, %d bytes, oldest %v", n, bytes, oldest)
	}
	if len(s.segs) < 3 {
		t.Fatalf("%d segments: nothing may go before b has passed it", len(s.segs))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	s = mustOpen(t, cfg, Deps{}, "a", "b")
	if p, _ := s.Position(stream(1)); p != 30 || s.Epoch() != 7 {
		t.Fatalf("position %d epoch %d after reopening", p, s.Epoch())
	}
	put(t, s, 31, 40)
	got, _ = read(t, s.Cursor("a"))
	want(t, got, 31, 40)
	got, last = read(t, s.Cursor("b"))
	want(t, got, 1, 40)
	for _, d := range []string{"a", "b"} {
		if err := s.Cursor(d).Commit(last.End); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.segs) != 1 {
		t.Fatalf("%d segments left, want the newest only", len(s.segs))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, cfg, Deps{}, "a", "b")
	if p, _ := s.Position(stream(1)); p != 40 {
		t.Fatalf("position %d: it must outlive the segments", p)
	}
}

func TestSpool_NextWaitsForDurableRecords(t *testing.T) {
	s := mustOpen(t, small(t.TempDir()), Deps{}, "a")
	if _, err := s.Append(nil, testBatch(t, 1, 10)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := s.Cursor("a").Next(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a record that is not durable was given: %v", err)
	}
	got := make(chan uint64)
	go func() {
		r, err := s.Cursor("a").Next(t.Context(), nil)
		if err != nil {
			t.Error(err)
			close(got)
			return
		}
		got <- sequence(t, r.Batch)
	}()
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	if n := <-got; n != 1 {
		t.Fatal(n)
	}
}

func TestSpool_Full(t *testing.T) {
	fill := func(s *Spool) (n uint64, err error) {
		for n = 1; n < 1000; n++ {
			if _, err = s.Append([]Origin{{stream(1), n}}, testBatch(t, n, 500)); err != nil {
				return n, err
			}
		}
		return n, s.Sync()
	}
	t.Run("block", func(t *testing.T) {
		s := mustOpen(t, small(t.TempDir()), Deps{}, "a")
		n, err := fill(s)
		if !errors.Is(err, ErrFull) {
			t.Fatalf("after %d: %v", n, err)
		}
		if b := s.Bytes(); b > int64(s.cfg.MaxBytes) {
			t.Fatalf("%d bytes", b)
		}
		space := s.Space()
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
		got, last := read(t, s.Cursor("a"))
		want(t, got, 1, n-1)
		if err := s.Cursor("a").Commit(last.End); err != nil {
			t.Fatal(err)
		}
		<-space
		if _, err := s.Append(nil, testBatch(t, n, 500)); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("drop_oldest", func(t *testing.T) {
		cfg := small(t.TempDir())
		cfg.WhenFull = FullDropOldest
		s := mustOpen(t, cfg, Deps{}, "a", "b")
		r, err := func() (Record, error) { put(t, s, 1, 2); return s.Cursor("b").Next(t.Context(), nil) }()
		if err != nil || sequence(t, r.Batch) != 1 {
			t.Fatal(err)
		}
		if _, err := fill(s); err != nil {
			t.Fatal(err)
		}
		if b := s.Bytes(); b > int64(s.cfg.MaxBytes) {
			t.Fatalf("%d bytes", b)
		}
		for _, d := range []string{"a", "b"} {
			got, _ := read(t, s.Cursor(d))
			want(t, got, got[0], 999)
			dropped := metric(t, s.met.droppedEvents.WithLabelValues(d))
			if total := float64(len(got)) + dropped; total != 1001 {
				t.Fatalf("%s: %d given and %v dropped, want 1001 together", d, len(got), dropped)
			}
		}
	})
}

func TestSpool_PositionsWithoutBatches(t *testing.T) {
	cfg := small(t.TempDir())
	s := mustOpen(t, cfg, Deps{}, "a")
	put(t, s, 1, 2)
	_, last := read(t, s.Cursor("a"))
	for n := uint64(3); n < 500; n++ {
		if _, err := s.AppendPositions([]Origin{{stream(1), n}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := s.Cursor("a").Commit(last.End); err != nil {
		t.Fatal(err)
	}
	if got, _ := read(t, s.Cursor("a")); len(got) != 0 {
		t.Fatal(got)
	}
	if n, _, _ := s.Backlog("a"); n != 0 || len(s.segs) != 1 {
		t.Fatalf("%d records and %d segments are left; records without batches must not wait for an ack", n, len(s.segs))
	}
	_ = s.Close()
	s = mustOpen(t, cfg, Deps{}, "a")
	if p, _ := s.Position(stream(1)); p != 499 {
		t.Fatal(p)
	}
}

func TestSpool_OneProcess(t *testing.T) {
	cfg := small(t.TempDir())
	s := mustOpen(t, cfg, Deps{}, "a")
	if _, err := Open(cfg, []string{"a"}, Deps{}); !errors.Is(err, ErrLocked) {
		t.Fatal(err)
	}
	_ = s.Close()
	mustOpen(t, cfg, Deps{}, "a")
}

func TestConfig_Validate(t *testing.T) {
	ok := DefaultConfig()
	var p config.Problems
	if ok.Validate(&p); p.Err() != nil {
		t.Fatal(p.Err())
	}
	bad := Config{}
	if bad.Validate(&p); p.Err() == nil {
		t.Fatal("an empty config passed")
	}
}

func TestStreams_ForgetsTheStillest(t *testing.T) {
	s := streams{}
	for n := uint64(0); n < 100; n++ {
		s.advance(Origin{stream(n), 1}, int64(n))
	}
	if gone := s.forget(80); gone != 30 || len(s) != 70 {
		t.Fatal(gone, len(s))
	}
	if _, ok := s[stream(29)]; ok {
		t.Fatal("an old one stayed")
	}
	if _, ok := s[stream(30)]; !ok {
		t.Fatal("a newer one went")
	}
}
