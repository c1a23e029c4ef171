package forward

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spate-io/spate/edge/spool"
	"github.com/spate-io/spate/event"
	"github.com/spate-io/spate/event/batch"
)

// sealed is a batch on its way: gathered under mu, then owned by an encoder, then by the writer.
type sealed struct {
	typ     batch.Type
	raw     []byte
	events  uint32
	dropped uint32
	first   int64
	last    int64
	origins []spool.Origin
	chunks  int
	begun   time.Time
	name    batch.Name
	book    rows

	done chan struct{} // closed when packed is set
	data []byte
	err  error
}

// survey is what a look at a chunk's events gives.
type survey struct {
	events      uint32
	size        int // bytes of the good events
	malformed   uint32
	first, last int64
}

// look reads all events of a chunk. Events from the first malformed one on are left out and counted as dropped: they would
// be refused downstream, together with good ones.
func look(c Chunk) survey {
	var v survey
	b := c.Events
	for len(b) > 0 {
		e, n, err := event.ReadHTTP(b)
		if err != nil {
			v.malformed = max(1, c.Count-min(c.Count, v.events))
			break
		}
		t := e.EdgeStartTimestamp()
		if v.events == 0 {
			v.first, v.last = t, t
		}
		v.first, v.last = min(v.first, t), max(v.last, t)
		v.events++
		v.size += n
		b = b[n:]
	}
	return v
}

// Put takes a chunk, blocking while the spool is full or slow. Events that are not well formed are counted as dropped, with
// those behind them in the chunk. Its error is ErrStopping, ctx's, or ErrTooLarge.
func (f *Forwarder) Put(ctx context.Context, c Chunk) error {
	if err := f.await(ctx); err != nil {
		return err
	}
	if len(c.Events) > f.maxChunk() {
		return fmt.Errorf("%d bytes: %w", len(c.Events), ErrTooLarge)
	}
	v := look(c)
	if v.malformed > 0 {
		f.met.malformed.Add(float64(v.malformed))
		f.log.Warn("chunk with malformed events", "events", c.Count, "malformed", v.malformed)
	}
	for {
		f.mu.Lock()
		if f.stopping {
			f.mu.Unlock()
			return ErrStopping
		}
		if p, ok := f.known[c.Origin.Stream]; ok && c.Origin.Position <= p {
			f.mu.Unlock()
			f.duplicate(v)
			return nil
		}
		if !f.fits(v) && !f.sealLocked() {
			room := f.room
			f.mu.Unlock()
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-f.stop:
				return ErrStopping
			case <-room:
			}
			continue
		}
		first := f.current == nil
		f.add(c, v)
		if int(f.current.events) >= f.cfg.Batch.MaxEvents || len(f.current.raw) >= int(f.cfg.Batch.MaxBytes) {
			f.sealLocked() // at once when there is room, else by the next Put or the flusher
		}
		f.mu.Unlock()
		if first {
			select {
			case f.kick <- struct{}{}:
			default:
			}
		}
		return nil
	}
}

// maxChunk is how large a chunk may be so that a batch of it alone fits in the spool, compressible or not.
func (f *Forwarder) maxChunk() int {
	return int(min(batch.MaxRaw, int64(f.cfg.Spool.MaxBytes)/4))
}

// await waits until the spool is open.
func (f *Forwarder) await(ctx context.Context) error {
	select {
	case <-f.opened:
		return nil
	default:
	}
	select {
	case <-f.opened:
		return nil
	case <-f.closed:
		return errors.Join(ErrStopping, f.err)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *Forwarder) duplicate(v survey) {
	f.met.duplicateChunks.Inc()
	f.met.duplicates.Add(float64(v.events))
	f.book.add(rows{{Minute: time.Now().Unix() / 60, Duplicates: uint64(v.events)}})
	f.wake() // whoever sends again wants to hear once more that it is durable
}

// fits says whether the chunk may join the current batch. It needs mu.
func (f *Forwarder) fits(v survey) bool {
	b := f.current
	return b == nil || len(b.raw) == 0 ||
		int(b.events)+int(v.events) <= f.cfg.Batch.MaxEvents && len(b.raw)+v.size <= int(f.cfg.Batch.MaxBytes)
}

// add puts a chunk into the current batch. It needs mu.
func (f *Forwarder) add(c Chunk, v survey) {
	b := f.current
	if b == nil {
		b = &sealed{typ: batch.HTTPRequests, begun: time.Now(), done: make(chan struct{})}
		if n := len(f.spare); n > 0 {
			b.raw, f.spare = f.spare[n-1][:0], f.spare[:n-1]
		}
		f.current = b
	}
	if v.events > 0 {
		if b.events == 0 {
			b.first, b.last = v.first, v.last
		}
		b.first, b.last = min(b.first, v.first), max(b.last, v.last)
	}
	b.raw = append(b.raw, c.Events[:v.size]...)
	b.events += v.events
	b.dropped += c.Dropped + v.malformed
	b.chunks++
	f.known[c.Origin.Stream] = c.Origin.Position
	for i := len(b.origins) - 1; i >= max(0, len(b.origins)-8); i-- {
		if b.origins[i].Stream == c.Origin.Stream {
			b.origins[i].Position = c.Origin.Position
			return
		}
	}
	b.origins = append(b.origins, spool.Origin(c.Origin))
}

// sealLocked names the current batch and sends it on; false when as many as may wait do. It needs mu.
func (f *Forwarder) sealLocked() bool {
	b := f.current
	if b == nil {
		return true
	}
	if f.waiting >= cap(f.sealed) {
		return false
	}
	f.current = nil
	if b.events > 0 {
		b.book.accepted(b.first, uint64(b.events))
	}
	f.send(b)
	return true
}

// send gives a batch its name and sends it to the encoders and the writer, which have room for all that may wait. It needs
// mu.
func (f *Forwarder) send(b *sealed) {
	f.waiting++
	if b.events > 0 || b.dropped > 0 {
		f.sequence++
		b.name = batch.Name{Edge: f.cfg.Edge, Epoch: f.epoch, Sequence: f.sequence}
	}
	f.sealed <- b
	f.work <- b
}

// unwait notes that a batch is in the spool, or given up, and lets a blocked Put go on.
func (f *Forwarder) unwait(b *sealed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting--
	if len(f.spare) < cap(f.sealed) && cap(b.raw) <= 2*int(f.cfg.Batch.MaxBytes) {
		f.spare = append(f.spare, b.raw)
	}
	close(f.room)
	f.room = make(chan struct{})
}

// flush seals the current batch, waiting for room.
func (f *Forwarder) flush() {
	for {
		f.mu.Lock()
		ok, room := f.sealLocked(), f.room
		f.mu.Unlock()
		if ok {
			return
		}
		<-room
	}
}

// flushLoop seals batches that have reached their age, until ctx ends.
func (f *Forwarder) flushLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.kick:
		}
		f.mu.Lock()
		b := f.current
		f.mu.Unlock()
		if b == nil {
			continue
		}
		t := time.NewTimer(f.cfg.Batch.MaxDelay.D() - time.Since(b.begun))
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
		}
		for {
			f.mu.Lock()
			same := f.current == b // one that was full has gone by itself, and the next one kicks again
			ok := !same || f.sealLocked()
			room := f.room
			f.mu.Unlock()
			if ok {
				break
			}
			select {
			case <-ctx.Done():
				return
			case <-room:
			}
		}
		f.rekick()
	}
}

// rekick makes the flusher look at a batch that was begun while it waited for another.
func (f *Forwarder) rekick() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.current != nil {
		select {
		case f.kick <- struct{}{}:
		default:
		}
	}
}
