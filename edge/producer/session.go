package producer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/spate-io/spate/edge/forward"
	"github.com/spate-io/spate/event"
)

// session is one connection. One goroutine reads and puts; another writes acknowledgements. The sink's callback only
// leaves the position and a signal.
type session struct {
	p    *Producer
	conn net.Conn
	log  *slog.Logger
	done chan struct{} // closed when the stream is free again

	durable atomic.Uint64
	wake    chan struct{}
}

// run talks to the worker until one side ends it.
func (s *session) run(ctx context.Context) error {
	r := bufio.NewReaderSize(s.conn, 64<<10)
	h, err := s.greet(r)
	if err != nil {
		return s.refuse(err)
	}
	s.done = make(chan struct{})
	s.wake = make(chan struct{}, 1)
	s.p.streams.take(h.stream, s)
	defer close(s.done)
	defer s.p.streams.leave(h.stream)

	held, _ := s.p.deps.Sink.Position(h.stream)
	if err := s.write(appendAnswer(nil, kindHello, held, "")); err != nil {
		return err
	}
	s.log.Debug("worker connected", "held", held)
	cancel := s.p.deps.Sink.OnDurable(h.stream, s.reached)
	defer cancel()

	stopped := make(chan struct{})
	quit := make(chan struct{})
	go func() {
		defer close(stopped)
		s.acknowledge(quit)
	}()
	err = s.receive(ctx, r, h.stream, held)
	close(quit)
	// The writer may sit in a write to a worker that does not read.
	_ = s.conn.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	<-stopped
	return s.refuse(err)
}

// greet reads the hello.
func (s *session) greet(r io.Reader) (hello, error) {
	if err := s.conn.SetReadDeadline(time.Now().Add(s.p.cfg.Timeout.D())); err != nil {
		return hello{}, err
	}
	var b [helloSize]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return hello{}, io.EOF // somebody looked whether we are here
		}
		return hello{}, fmt.Errorf("read hello: %w", err)
	}
	h, err := parseHello(&b)
	if err != nil {
		return h, err
	}
	edge := make([]byte, h.edgeLength)
	if _, err := io.ReadFull(r, edge); err != nil {
		return h, fmt.Errorf("read edge name of hello: %w", err)
	}
	s.log = s.log.With("edge", string(edge), "worker", h.worker, "pid", h.pid)
	return h, nil
}

// receive puts frame after frame. The payload's memory is used again, for Put reads it only while it runs.
func (s *session) receive(ctx context.Context, r io.Reader, stream [16]byte, after uint64) error {
	var header [frameSize]byte
	var payload []byte
	known := after
	for {
		// Between frames a worker may be silent for as long as it likes.
		if err := s.conn.SetReadDeadline(time.Time{}); err != nil {
			return err
		}
		if _, err := io.ReadFull(r, header[:1]); err != nil {
			return err
		}
		if err := s.conn.SetReadDeadline(time.Now().Add(s.p.cfg.Timeout.D())); err != nil {
			return err
		}
		if _, err := io.ReadFull(r, header[1:]); err != nil {
			return fmt.Errorf("read frame header: %w", err)
		}
		f, err := parseFrame(&header, after, int64(s.p.cfg.MaxFrame))
		if err != nil {
			return err
		}
		if cap(payload) < int(f.length) {
			payload = make([]byte, max(int(f.length), 128<<10))
		}
		payload = payload[:f.length]
		if _, err := io.ReadFull(r, payload); err != nil {
			return fmt.Errorf("read frame %d: %w", f.position, err)
		}
		if err := check(f, payload); err != nil {
			return err
		}
		if after != 0 && f.position != after+1 {
			s.p.metrics.gaps.Add(float64(f.position - after - 1))
		}
		if err := s.put(ctx, f, payload, stream, known); err != nil {
			return err
		}
		after = f.position
	}
}

func (s *session) put(ctx context.Context, f frame, payload []byte, stream [16]byte, known uint64) error {
	m := s.p.metrics
	m.frames.Inc()
	m.bytes.Add(float64(f.length) + frameSize)
	if f.position > known {
		m.events.Add(float64(f.events))
		m.dropped.Add(float64(f.dropped))
	}
	err := s.p.deps.Sink.Put(ctx, forward.Chunk{
		Events: payload, Count: f.events, Dropped: f.dropped,
		Origin: forward.Origin{Stream: stream, Position: f.position},
	})
	if err != nil {
		return fmt.Errorf("hand on frame %d: %w", f.position, err)
	}
	return nil
}

// check reads every message of a frame and compares their number with what the header says.
func check(f frame, payload []byte) error {
	n, err := event.Walk(payload, func(event.View) error { return nil })
	if err != nil {
		return &Refusal{Kind: reasonMessages, Position: f.position, Reason: fmt.Sprintf("event %d: %v", n, err)}
	}
	if n != int(f.events) {
		return &Refusal{Kind: reasonMessages, Position: f.position, Reason: fmt.Sprintf("%d events, the header says %d", n, f.events)}
	}
	return nil
}

// reached is the sink's callback: it leaves the position for the writing goroutine and never blocks.
func (s *session) reached(position uint64) {
	for {
		old := s.durable.Load()
		if position <= old {
			return
		}
		if s.durable.CompareAndSwap(old, position) {
			break
		}
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// acknowledge writes the newest durable position whenever there is a newer one.
func (s *session) acknowledge(quit <-chan struct{}) {
	var b []byte
	for {
		select {
		case <-quit:
			return
		case <-s.wake:
		}
		b = appendAnswer(b[:0], kindAck, s.durable.Load(), "")
		if err := s.write(b); err != nil {
			// Ends the reading side too; it reports.
			_ = s.conn.Close()
			return
		}
		s.p.metrics.acks.Inc()
	}
}

func (s *session) write(b []byte) error {
	if err := s.conn.SetWriteDeadline(time.Now().Add(s.p.cfg.Timeout.D())); err != nil {
		return err
	}
	if _, err := s.conn.Write(b); err != nil {
		return fmt.Errorf("answer worker: %w", err)
	}
	return nil
}

// refuse tells the worker why, when err is a Refusal, and gives err back.
func (s *session) refuse(err error) error {
	var refusal *Refusal
	if errors.As(err, &refusal) {
		_ = s.write(appendAnswer(nil, kindRefused, refusal.Position, refusal.Reason))
	}
	return err
}
