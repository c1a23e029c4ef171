// Package producer is the forwarder's ear on the machine of a web server: it takes frames of events from nginx workers
// over a unix socket, checks every byte, hands the events on as chunks, and tells each worker up to where its frames are on
// disk.
//
// The main type is Producer. Its protocol is in docs/format/producer.md. The invariant: a position is acknowledged only
// after the sink has said that it is durable, and what a worker sends again is recognised by (stream, position). The
// package does not batch, spool or ship; that is package forward, which it knows as a Sink only.
package producer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spate-io/spate/edge/forward"
)

// Sink is where chunks go; *forward.Forwarder is one. The producer puts the chunks of one stream from one goroutine at a
// time, in the order of their positions.
type Sink = forward.Sink

// Deps are what a Producer needs from outside. Sink is required.
type Deps struct {
	Sink       Sink
	Logger     *slog.Logger          // nil: no logging
	Registerer prometheus.Registerer // nil: metrics are kept but not registered
}

// Producer listens on a unix socket for workers. Make one with New; Run it once.
type Producer struct {
	cfg     Config
	deps    Deps
	metrics *metrics
	log     *slog.Logger

	listening atomic.Bool
	streams   streams
}

// New checks its arguments and opens nothing.
func New(cfg Config, deps Deps) (*Producer, error) {
	if deps.Sink == nil {
		return nil, errors.New("producer needs a sink")
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	m, err := newMetrics(deps.Registerer)
	if err != nil {
		return nil, fmt.Errorf("register metrics of the producer: %w", err)
	}
	return &Producer{cfg: cfg, deps: deps, metrics: m, log: deps.Logger}, nil
}

// Ready returns nil while the socket is open.
func (p *Producer) Ready() error {
	if !p.listening.Load() {
		return fmt.Errorf("socket %s is not open", p.cfg.Socket)
	}
	return nil
}

// Run listens until ctx is cancelled. A worker's connection that misbehaves is closed and does not hurt the others. When
// Run returns all connections are closed and the socket is gone.
func (p *Producer) Run(ctx context.Context) error {
	ln, err := listen(p.cfg)
	if err != nil {
		return err
	}
	p.listening.Store(true)
	defer p.listening.Store(false)
	p.log.Info("listening for workers", "socket", p.cfg.Socket)

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = ln.Close() })
	defer stop()

	var conns sync.WaitGroup
	defer conns.Wait()
	slots := make(chan struct{}, p.cfg.MaxConnections)
	for {
		c, err := ln.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			cancel()
			return fmt.Errorf("accept on %s: %w", p.cfg.Socket, err)
		}
		select {
		case slots <- struct{}{}:
		default:
			p.metrics.refused.WithLabelValues(reasonBusy).Inc()
			_ = c.Close()
			continue
		}
		conns.Go(func() {
			defer func() { <-slots }()
			p.serve(ctx, c)
		})
	}
}

// serve runs one connection to its end and reports how it ended.
func (p *Producer) serve(ctx context.Context, c net.Conn) {
	p.metrics.connections.Inc()
	p.metrics.connectionsTotal.Inc()
	defer p.metrics.connections.Dec()
	// Closing is the only way to end a read or a write that is under way.
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	defer func() { _ = c.Close() }()

	s := &session{p: p, conn: c, log: p.log}
	err := s.run(ctx)
	var refusal *Refusal
	switch {
	case err == nil, ctx.Err() != nil, errors.Is(err, io.EOF):
		s.log.Debug("worker left", "err", err)
	case errors.As(err, &refusal):
		p.metrics.refused.WithLabelValues(refusal.Kind).Inc()
		s.log.Warn("refused a worker's bytes", "reason", refusal.Reason, "position", refusal.Position)
	default:
		s.log.Warn("worker connection broke", "err", err)
	}
}

// streams makes sure that one stream is served by one connection at a time: a worker that connects again has given up
// its connection before, even when this side has not noticed yet.
type streams struct {
	mu   sync.Mutex
	held map[[16]byte]*session
}

// take makes s the owner of the stream, after closing the owner before and waiting until it is gone.
func (t *streams) take(stream [16]byte, s *session) {
	for {
		t.mu.Lock()
		if t.held == nil {
			t.held = map[[16]byte]*session{}
		}
		old := t.held[stream]
		if old == nil {
			t.held[stream] = s
			t.mu.Unlock()
			return
		}
		t.mu.Unlock()
		_ = old.conn.Close()
		<-old.done
	}
}

func (t *streams) leave(stream [16]byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.held, stream)
}
