package forward

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spate-io/spate/edge/spool"
	"github.com/spate-io/spate/event/batch"
)

// encode compresses batches until there are no more.
func (f *Forwarder) encode() error {
	enc, err := batch.NewEncoder(f.codec, f.cfg.Batch.Level)
	for b := range f.work {
		if err != nil {
			b.err = err
		} else if b.name.Sequence > 0 {
			h := batch.Header{Type: b.typ, Name: b.name, Events: b.events, Dropped: b.dropped, First: b.first, Last: b.last}
			b.data, b.err = enc.Encode(b.data[:0], h, b.raw)
		}
		close(b.done)
	}
	return nil
}

// write brings batches into the spool in order, syncs as the policy says, and reports what is durable. It ends when there
// are no more batches, and gives them up when ctx ends.
func (f *Forwarder) write(ctx context.Context) error {
	ledger := time.NewTicker(10 * time.Second)
	defer ledger.Stop()
	var booked []rows // of appended batches, until they are synced
	given := false    // up: nothing may follow a batch that is missing, for its positions would cover the missing ones
	for {
		var due <-chan time.Time
		var timer *time.Timer
		if wait, ok := f.sp.SyncDue(); ok {
			timer = time.NewTimer(wait)
			due = timer.C
		}
		select {
		case b, ok := <-f.sealed:
			if timer != nil {
				timer.Stop()
			}
			if !ok {
				return f.sync(ctx, &booked)
			}
			<-b.done
			if given = given || !f.append(ctx, b); !given {
				booked = append(booked, b.book)
			}
			f.unwait(b)
			if wait, ok := f.sp.SyncDue(); ok && wait == 0 && len(f.sealed) == 0 {
				_ = f.sync(ctx, &booked)
			}
		case <-due:
			_ = f.sync(ctx, &booked)
		case <-f.notify:
			if timer != nil {
				timer.Stop()
			}
			f.watch.call(f.sp.DurablePosition)
		case <-ledger.C:
			if timer != nil {
				timer.Stop()
			}
			if err := f.sp.SyncCursors(); err != nil {
				f.log.Warn("sync of spool cursors", "err", err)
			}
			f.emitLedger()
			f.sendNews()
		}
	}
}

// append brings one batch into the spool, trying until it succeeds or ctx ends. False says that it was given up: nothing of
// it was reported, so whoever sent it sends it again.
func (f *Forwarder) append(ctx context.Context, b *sealed) bool {
	for attempt := 0; ; attempt++ {
		space := f.sp.Space()
		err := b.err
		switch {
		case err != nil:
			f.log.Error("batch could not be encoded, its events are dropped", "batch", b.name, "events", b.events, "err", err)
			f.hollow(b)
			continue
		case b.name.Sequence > 0:
			_, err = f.sp.Append(b.origins, b.data)
		default:
			_, err = f.sp.AppendPositions(b.origins)
		}
		if err == nil {
			f.setDown(nil)
			f.met.appended(b)
			return true
		}
		f.setDown(fmt.Errorf("spool takes no batches: %w", err))
		if attempt == 0 {
			f.log.Warn("spool takes no batches", "err", err)
		}
		if errors.Is(err, spool.ErrTooLarge) && b.events > 0 {
			f.log.Error("batch fits nowhere, its events are dropped", "batch", b.name, "events", b.events, "err", err)
			f.hollow(b)
			continue
		}
		// What waits for a sync must not wait for space: the destinations can only free it once they may read it.
		if serr := f.sp.Sync(); serr == nil {
			f.watch.call(f.sp.DurablePosition)
		}
		retry := time.NewTimer(min(time.Second, 20*time.Millisecond<<min(attempt, 6)))
		select {
		case <-ctx.Done():
			retry.Stop()
			f.log.Error("batch was given up at the stop", "batch", b.name, "events", b.events, "err", err)
			return false
		case <-space:
		case <-retry.C:
		}
		retry.Stop()
	}
}

// hollow makes a batch that can never be written one that only reports its events as dropped, under the same name and with
// the same positions.
func (f *Forwarder) hollow(b *sealed) {
	if b.typ == batch.HTTPRequests {
		b.dropped += b.events
	}
	b.events, b.first, b.last, b.raw = 0, 0, 0, b.raw[:0]
	var lost rows
	for _, r := range b.book {
		lost.minute(r.Minute).Duplicates += r.Duplicates
	}
	b.book = lost
	enc, err := batch.NewEncoder(batch.None, 0)
	if err == nil {
		b.data, err = enc.Encode(nil, batch.Header{Type: batch.HTTPRequests, Name: b.name, Dropped: b.dropped}, nil)
	}
	b.err = err
}

// sync makes what was appended durable and says so.
func (f *Forwarder) sync(ctx context.Context, booked *[]rows) error {
	for attempt := 0; ; attempt++ {
		err := f.sp.Sync()
		if err == nil {
			break
		}
		f.setDown(fmt.Errorf("spool cannot be synced: %w", err))
		if ctx.Err() != nil {
			return fmt.Errorf("sync spool: %w", err)
		}
		if attempt == 0 {
			f.log.Error("spool cannot be synced", "err", err)
		}
		t := time.NewTimer(min(time.Second, 20*time.Millisecond<<min(attempt, 6)))
		select {
		case <-ctx.Done():
			t.Stop()
		case <-t.C:
		}
	}
	f.setDown(nil)
	for _, r := range *booked {
		f.book.add(r)
	}
	*booked = (*booked)[:0]
	f.watch.call(f.sp.DurablePosition)
	return nil
}

func (f *Forwarder) setDown(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if (f.down == nil) != (err == nil) {
		f.met.blocked(err != nil)
	}
	f.down = err
}

// wake makes the writer call the callbacks.
func (f *Forwarder) wake() {
	select {
	case f.notify <- struct{}{}:
	default:
	}
}
