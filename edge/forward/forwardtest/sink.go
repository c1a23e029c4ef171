// Package forwardtest has a forward.Sink in memory for the tests of inputs.
package forwardtest

import (
	"context"
	"slices"
	"sync"

	"github.com/spate-io/spate/edge/forward"
)

var _ forward.Sink = (*Sink)(nil)

// Sink keeps all chunks in memory. Chunks become durable when the test calls Sync, or at once with Auto.
type Sink struct {
	// Auto makes each chunk durable before Put returns. Set it before the first call.
	Auto bool

	mu       sync.Mutex
	chunks   []forward.Chunk
	dupes    int
	position map[[16]byte]uint64
	durable  map[[16]byte]uint64
	watch    map[int]watch
	next     int
	err      error
}

type watch struct {
	stream [16]byte
	fn     func(uint64)
}

// New gives an empty sink.
func New() *Sink {
	return &Sink{position: map[[16]byte]uint64{}, durable: map[[16]byte]uint64{}, watch: map[int]watch{}}
}

// Put stores a copy of the chunk, drops it when its position is known, or gives the error set with Fail.
func (s *Sink) Put(ctx context.Context, c forward.Chunk) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	if s.err != nil {
		defer s.mu.Unlock()
		return s.err
	}
	if p, ok := s.position[c.Origin.Stream]; ok && c.Origin.Position <= p {
		s.dupes++
	} else {
		c.Events = slices.Clone(c.Events)
		s.chunks = append(s.chunks, c)
		s.position[c.Origin.Stream] = c.Origin.Position
	}
	s.mu.Unlock()
	if s.Auto {
		s.Sync()
	}
	return nil
}

// Position is the highest position put for the stream.
func (s *Sink) Position(stream [16]byte) (uint64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.position[stream]
	return p, ok
}

// OnDurable registers fn; it is called at once when the stream already has a durable position.
func (s *Sink) OnDurable(stream [16]byte, fn func(uint64)) (cancel func()) {
	s.mu.Lock()
	id := s.next
	s.next++
	s.watch[id] = watch{stream, fn}
	p, ok := s.durable[stream]
	s.mu.Unlock()
	if ok {
		fn(p)
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watch, id)
	}
}

// Sync makes all chunks durable and calls the callbacks.
func (s *Sink) Sync() {
	s.mu.Lock()
	type call struct {
		fn func(uint64)
		p  uint64
	}
	var calls []call
	for _, w := range s.watch {
		if p, ok := s.position[w.stream]; ok && s.durable[w.stream] != p {
			calls = append(calls, call{w.fn, p})
		}
	}
	for k, p := range s.position {
		s.durable[k] = p
	}
	s.mu.Unlock()
	for _, c := range calls {
		c.fn(c.p)
	}
}

// Fail makes each later Put give err; nil makes it work again.
func (s *Sink) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// Chunks gives the chunks so far in order of arrival, and how many were dropped as known.
func (s *Sink) Chunks() (chunks []forward.Chunk, duplicates int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.chunks), s.dupes
}
