package ingest

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// tracker follows one log until the ledger has all of it.
type tracker struct {
	entry   *Entry
	sum     Sum // at the end of the chunk before
	saved   bool
	durable atomic.Uint64
	wake    chan struct{}
	cancel  func()
	pending []Entry // states that may be saved once durable
}

// track starts to follow a log.
func (im *importer) track(e *Entry) *tracker {
	if e == nil {
		return nil
	}
	t := &tracker{entry: e, wake: make(chan struct{}, 1)}
	t.cancel = im.d.Sink.OnDurable(e.Stream, func(p uint64) {
		for old := t.durable.Load(); p > old && !t.durable.CompareAndSwap(old, p); old = t.durable.Load() {
		}
		select {
		case t.wake <- struct{}{}:
		default:
		}
	})
	im.tracked = append(im.tracked, t)
	return t
}

// sums gives the marks of a chunk and the sum at its end.
func (t *tracker) sums(j *job) (end Sum, marks []Mark) {
	s := t.sum
	for i, b := range j.blocks {
		s = chain(s, b)
		marks = append(marks, Mark{j.at + uint64(j.cuts[i]), s})
	}
	t.sum = s
	if n := len(j.cuts); n == 0 && j.end > 0 || n > 0 && j.cuts[n-1] < j.end {
		return chain(s, j.tail), marks
	}
	return s, marks
}

// advance moves the entry to the end of a chunk.
func (t *tracker) advance(j *job, end uint64, sum Sum, marks []Mark) {
	e := t.entry
	for _, m := range marks {
		if n := len(e.Marks); n == 0 || m.At > e.Marks[n-1].At {
			e.Marks = append(e.Marks, m)
		}
	}
	e.Position, e.Tail = end, sum
	open := uint64(0) // a bad line at the end is counted when it is whole
	if j.end < len(j.text) {
		open = 1
	}
	e.Lines += j.newLines - open
	e.Events += j.st.events
	e.Bad += uint64(len(j.bad)) - open
	if j.st.events > 0 {
		first, last := time.Unix(0, j.st.first).UTC(), time.Unix(0, j.st.last).UTC()
		if e.First.IsZero() || first.Before(e.First) {
			e.First = first
		}
		if last.After(e.Last) {
			e.Last = last
		}
	}
	snapshot := *e
	snapshot.Marks, snapshot.Names = e.Marks[:len(e.Marks):len(e.Marks)], slices.Clone(e.Names)
	t.pending = append(t.pending, snapshot)
}

// saveEvery bounds how much is parsed again after a crash.
const saveEvery = 2 * time.Second

// saveSome saves, now and then, what has become durable.
func (im *importer) saveSome(ctx context.Context) error {
	if time.Since(im.sum.saved) < saveEvery {
		return nil
	}
	im.sum.saved = time.Now()
	return im.settle(ctx, false)
}

// settle saves what is durable; with wait, it waits until everything is.
func (im *importer) settle(ctx context.Context, wait bool) error {
	left := im.tracked[:0]
	for _, t := range im.tracked {
		for {
			if err := im.saveDurable(ctx, t); err != nil {
				return err
			}
			if len(t.pending) == 0 || !wait {
				break
			}
			select {
			case <-t.wake:
			case <-ctx.Done():
				return fmt.Errorf("wait until events are on disk: %w", ctx.Err())
			}
		}
		if wait {
			t.cancel()
		} else {
			left = append(left, t)
		}
	}
	im.tracked = left
	return nil
}

// saveDurable saves the last of the pending states that is durable.
func (im *importer) saveDurable(ctx context.Context, t *tracker) error {
	p := t.durable.Load()
	n := 0
	for n < len(t.pending) && t.pending[n].Position <= p {
		n++
	}
	if n == 0 {
		return nil
	}
	if err := im.save(ctx, t.pending[n-1]); err != nil {
		return err
	}
	t.pending = t.pending[n:]
	return nil
}
