package forward

import "sync"

// watchers are the callbacks for durable positions. They are called from the writer, one at a time.
type watchers struct {
	mu   sync.Mutex
	all  map[int]*watcher
	next int
}

type watcher struct {
	stream [16]byte
	fn     func(uint64)
}

func (w *watchers) add(stream [16]byte, fn func(uint64)) (cancel func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = map[int]*watcher{}
	}
	id := w.next
	w.next++
	w.all[id] = &watcher{stream: stream, fn: fn}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.all, id)
	}
}

// call tells every watcher its stream's position; one that has been told it before may hear it again.
func (w *watchers) call(position func([16]byte) (uint64, bool)) {
	w.mu.Lock()
	all := make([]*watcher, 0, len(w.all))
	for _, v := range w.all {
		all = append(all, v)
	}
	w.mu.Unlock()
	for _, v := range all {
		if p, ok := position(v.stream); ok {
			v.fn(p)
		}
	}
}

// OnDurable calls fn with the stream's durable position: soon, when it has one, and after each sync and each chunk dropped
// as a duplicate, so possibly with a position that it was told before. fn runs on a goroutine of the forwarder, must not
// block and must not call the forwarder.
func (f *Forwarder) OnDurable(stream [16]byte, fn func(position uint64)) (cancel func()) {
	cancel = f.watch.add(stream, fn)
	f.wake()
	return cancel
}

// Position gives the highest position of the stream that was accepted, durable or not. Before Run has opened the spool it
// waits for that; when Run has ended without opening it gives false.
func (f *Forwarder) Position(stream [16]byte) (uint64, bool) {
	select {
	case <-f.opened:
	case <-f.closed:
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	p, ok := f.known[stream]
	return p, ok
}

// Durable gives the position of the stream up to which all is on disk. It waits as Position does.
func (f *Forwarder) Durable(stream [16]byte) (uint64, bool) {
	select {
	case <-f.opened:
	case <-f.closed:
	}
	f.mu.Lock()
	sp := f.sp
	f.mu.Unlock()
	if sp == nil {
		return 0, false
	}
	return sp.DurablePosition(stream)
}
