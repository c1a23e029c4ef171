package spool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"
)

// trial is a run of a spool against faults, and what it may rely on afterwards.
type trial struct {
	t       *testing.T
	fs      *memFS
	cfg     Config
	durable uint64            // all batches up to here were reported durable
	next    uint64            // the batch to append next
	done    map[string]uint64 // by cursor: committed up to
	last    map[string]uint64 // by cursor: last batch given in this life
}

// life opens the spool, appends, syncs, reads and commits, until n batches are durable or something stays broken.
func (r *trial) life(n uint64) {
	var s *Spool
	var err error
	for try := 0; try < 3; try++ { // a fault that comes once must not keep the spool shut
		if s, err = Open(r.cfg, []string{"a", "b"}, Deps{FS: r.fs}); err == nil {
			break
		}
	}
	if err != nil {
		if !r.fs.crashed {
			r.t.Fatalf("open: %v", err)
		}
		return
	}
	defer s.Close() //nolint:errcheck // it may have crashed
	r.last = map[string]uint64{}
	if p, _ := s.Position(stream(1)); p+1 > r.next {
		r.next = p + 1
	} else {
		r.next = max(p, r.durable) + 1
		if p < r.durable {
			r.t.Fatalf("position %d, but %d was durable", p, r.durable)
		}
	}
	r.durable = r.next - 1 // what Open finds is durable
	for r.durable < n {
		if !r.append(s) {
			return
		}
		if r.next%3 == 0 && !r.sync(s) {
			return
		}
		if r.next%5 == 0 {
			r.consume(s, "a", 4)
		}
		if r.next%11 == 0 {
			r.consume(s, "b", 6)
			_ = s.SyncCursors()
		}
	}
}

func (r *trial) append(s *Spool) bool {
	for range 4 {
		_, err := s.Append([]Origin{{stream(1), r.next}}, testBatch(r.t, r.next, 300))
		if err == nil {
			r.next++
			return true
		}
		if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EIO) && !errors.Is(err, errCrashed) {
			r.t.Fatalf("append: %v", err)
		}
	}
	if !r.fs.crashed {
		r.t.Fatal("append did not recover")
	}
	return false
}

func (r *trial) sync(s *Spool) bool {
	for range 4 {
		if err := s.Sync(); err == nil {
			r.durable = r.next - 1
			return true
		}
	}
	if !r.fs.crashed {
		r.t.Fatal("sync did not recover")
	}
	return false
}

// consume reads up to n batches of a cursor, checks that they come in order, and commits them.
func (r *trial) consume(s *Spool, name string, n int) {
	c := s.Cursor(name)
	for range n {
		s.mu.Lock()
		idle := c.read.Index >= s.synced
		s.mu.Unlock()
		if idle {
			return
		}
		rec, err := c.Next(context.Background(), nil)
		if err != nil {
			if !r.fs.crashed {
				r.t.Fatalf("next of %s: %v", name, err)
			}
			return
		}
		seq, last := sequence(r.t, rec.Batch), r.last[name]
		if last == 0 && seq > r.done[name]+1 || last != 0 && seq != last+1 { // a crash may undo commits
			r.t.Fatalf("%s got %d after %d, with %d committed", name, seq, last, r.done[name])
		}
		_ = c.Commit(rec.End)
		r.last[name], r.done[name] = seq, max(seq, r.done[name])
	}
}

// check opens the spool once more without faults and sees that each cursor gives all that must be there.
func (r *trial) check() {
	s, err := Open(r.cfg, []string{"a", "b"}, Deps{FS: r.fs})
	if err != nil {
		r.t.Fatalf("open after all: %v", err)
	}
	defer s.Close() //nolint:errcheck // not what is tested
	pos, _ := s.Position(stream(1))
	if pos < r.durable {
		r.t.Fatalf("position %d, but %d was durable", pos, r.durable)
	}
	for _, d := range []string{"a", "b"} {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		last := uint64(0)
		for {
			s.mu.Lock()
			idle := s.cursors[d].read.Index >= s.synced
			s.mu.Unlock()
			if idle {
				break
			}
			rec, err := s.Cursor(d).Next(ctx, nil)
			if err != nil {
				r.t.Fatal(err)
			}
			seq := sequence(r.t, rec.Batch)
			if last == 0 && seq > r.done[d]+1 || last != 0 && seq != last+1 {
				r.t.Fatalf("%s got %d after %d, with %d committed", d, seq, last, r.done[d])
			}
			if !bytes.Equal(rec.Batch, testBatch(r.t, seq, 300)) {
				r.t.Fatalf("%s got other bytes for %d", d, seq)
			}
			last = seq
		}
		cancel()
		if max(last, r.done[d]) != pos {
			r.t.Fatalf("%s got up to %d and has %d committed, but the position is %d: it must stand and fall with the batch", d, last, r.done[d], pos)
		}
	}
}

func TestSpool_SurvivesACrashAndAFaultAtEveryStep(t *testing.T) {
	base := small("/spool")
	const batches = 40
	plain := &trial{t: t, fs: newMemFS(), cfg: base, done: map[string]uint64{}}
	plain.life(batches)
	steps := plain.fs.ops
	plain.check()
	if steps < 60 || plain.durable < batches {
		t.Fatalf("%d steps and %d durable: the trial does too little", steps, plain.durable)
	}
	seeds := 6
	if testing.Short() {
		seeds = 1
	}
	for _, fault := range []error{errCrashed, syscall.ENOSPC, syscall.EIO} {
		t.Run(map[error]string{errCrashed: "crash", syscall.ENOSPC: "no_space", syscall.EIO: "io_error"}[fault], func(t *testing.T) {
			for seed := range seeds {
				for at := 1; at <= steps; at++ {
					rnd := rand.New(rand.NewPCG(uint64(seed), uint64(at)))
					r := &trial{t: t, fs: newMemFS(), cfg: base, done: map[string]uint64{}}
					r.fs.failAt, r.fs.fault = at, fault
					ok := t.Run(fmt.Sprintf("seed_%d_step_%d", seed, at), func(t *testing.T) {
						r.t = t
						r.life(batches)
						r.fs = r.fs.crash(rnd)
						if seed%2 == 1 { // a second crash while it mends the first
							r.fs.failAt, r.fs.fault = 1+rnd.IntN(20), errCrashed
							r.life(batches)
							r.fs = r.fs.crash(rnd)
						}
						r.check()
					})
					if !ok {
						return
					}
				}
			}
		})
	}
	t.Logf("%d steps", steps)
}
