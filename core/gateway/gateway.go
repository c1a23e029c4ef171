// Package gateway takes batches from edges and puts them on the bus.
//
// Each connection belongs to an edge that is known by its certificate, or by whoever made an in-process pipe. A batch is
// checked down to the framing of its last message before it is produced, and acknowledged, in order, when the bus has it on
// disk. What is wrong is refused with a reason, and the edge goes on with the next. A gateway that has as much in flight as
// it may stops reading; it does not grow.
package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"github.com/spate-io/spate/edge/wire"
	"github.com/spate-io/spate/event/batch"
	"github.com/spate-io/spate/internal/certs"
)

// Producer puts a batch on the bus as one record.
type Producer interface {
	// Produce takes value, which stays as it is until done was called. done is called once, from any goroutine, possibly
	// before Produce returns: with nil when the record is durable on the bus. An error that has a method Permanent() bool
	// which gives true says that the bus will never take the record; the batch is then refused. Any other ends the
	// connection, and the edge sends the batch again.
	Produce(ctx context.Context, name batch.Name, value []byte, done func(error))
}

// Deps are what a gateway needs from its surroundings; only Producer must be there.
type Deps struct {
	Producer   Producer
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Name       string // told to the edges, for their log
}

// Gateway is the part. Its methods may be called from any goroutine.
type Gateway struct {
	cfg      Config
	deps     Deps
	log      *slog.Logger
	met      *metrics
	inflight *semaphore.Weighted
	decoders chan *batch.Decoder // as many batches are checked at a time

	wg sync.WaitGroup // of connections

	mu    sync.Mutex
	ctx   context.Context // of Run; nil outside of it
	addr  net.Addr
	conns int
	edges map[string]*edgeState
	quiet map[string]*muted
	ended bool
}

// edgeState is what the connections of an edge share.
type edgeState struct {
	conns   int
	bytes   *rate.Limiter
	batches *rate.Limiter
}

// New checks its arguments and makes a gateway that does nothing before Run.
func New(cfg Config, deps Deps) (*Gateway, error) {
	if deps.Producer == nil {
		return nil, errors.New("gateway: no producer")
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	g := &Gateway{
		cfg: cfg, deps: deps, log: deps.Logger, met: newMetrics(deps.Registerer),
		inflight: semaphore.NewWeighted(int64(cfg.InflightBytes)),
		decoders: make(chan *batch.Decoder, runtime.GOMAXPROCS(0)),
		edges:    map[string]*edgeState{}, quiet: map[string]*muted{},
	}
	for range cap(g.decoders) {
		g.decoders <- batch.NewDecoder(int(cfg.MaxRaw))
	}
	return g, nil
}

// Ready is nil while the gateway takes connections.
func (g *Gateway) Ready() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ctx == nil || g.ctx.Err() != nil || g.cfg.Listen != "" && g.addr == nil {
		return errors.New("gateway does not listen")
	}
	return nil
}

// Addr is the address that the gateway listens on, nil when it does not.
func (g *Gateway) Addr() net.Addr {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.addr
}

// Run listens until ctx ends, then tells the edges to go away, waits for the bus to take what is in flight, and closes. It
// may be called once.
func (g *Gateway) Run(ctx context.Context) error {
	var l net.Listener
	if g.cfg.Listen != "" {
		conf, err := certs.Server(certs.Files(g.cfg.TLS), g.log)
		if err != nil {
			return fmt.Errorf("gateway: %w", err)
		}
		lc := net.ListenConfig{KeepAlive: 15 * time.Second}
		tcp, err := lc.Listen(ctx, "tcp", g.cfg.Listen)
		if err != nil {
			return fmt.Errorf("gateway: %w", err)
		}
		l = tls.NewListener(tcp, conf)
		g.log.Info("gateway listens", "address", l.Addr().String())
	}
	g.mu.Lock()
	g.ctx = ctx
	if l != nil {
		g.addr = l.Addr()
	}
	g.mu.Unlock()
	var err error
	if l != nil {
		stop := context.AfterFunc(ctx, func() { _ = l.Close() })
		err = g.accept(ctx, l)
		stop()
	}
	<-ctx.Done()
	g.mu.Lock()
	g.ended = true // no connection begins from here on
	g.mu.Unlock()
	g.wg.Wait()
	g.met.close()
	return err
}

// accept takes connections until the listener is closed.
func (g *Gateway) accept(ctx context.Context, l net.Listener) error {
	for {
		c, err := l.Accept()
		if ctx.Err() != nil {
			if err == nil {
				_ = c.Close()
			}
			return nil
		}
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return fmt.Errorf("gateway: %w", err)
			}
			g.logSome("accept", "connection could not be accepted", "err", err)
			pause(ctx, 50*time.Millisecond) // out of file descriptors, most likely
			continue
		}
		if !g.enter() {
			g.met.rejected.WithLabelValues("too_many").Inc()
			g.logSome("too_many", "too many connections", "remote", c.RemoteAddr().String())
			_ = c.Close()
			continue
		}
		go func() {
			defer g.leave()
			g.serveTLS(ctx, c)
		}()
	}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// enter counts a connection in, if there may be one more.
func (g *Gateway) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended || g.conns >= g.cfg.MaxConnections {
		return false
	}
	g.conns++
	g.wg.Add(1)
	return true
}

func (g *Gateway) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.conns--
	g.wg.Done()
}

// serveTLS makes sure who is there and serves it.
func (g *Gateway) serveTLS(ctx context.Context, c net.Conn) {
	remote := c.RemoteAddr().String()
	t, ok := c.(*tls.Conn)
	if !ok {
		_ = c.Close()
		return
	}
	hctx, cancel := context.WithTimeout(ctx, g.cfg.HandshakeTimeout.D())
	err := t.HandshakeContext(hctx)
	cancel()
	if err != nil {
		_ = c.Close()
		g.met.rejected.WithLabelValues("tls").Inc()
		g.logSome("tls", "connection refused", "remote", remote, "err", err)
		return
	}
	peer := t.ConnectionState().PeerCertificates
	if len(peer) == 0 { // cannot be: the handshake demands one
		_ = c.Close()
		return
	}
	if err := g.serve(ctx, c, certs.Names(peer[0])); err != nil {
		g.logSome("conn "+peer[0].Subject.CommonName, "connection ended", "remote", remote, "edge", peer[0].Subject.CommonName, "err", err)
	}
}

// ServeConn serves a connection whose edge is known without a certificate, such as one end of a pipe, until it ends or ctx
// or Run does. It closes c. An edge that goes away is no error.
func (g *Gateway) ServeConn(ctx context.Context, c net.Conn, edge string) error {
	return g.serveKnown(ctx, c, []string{edge})
}

func (g *Gateway) serveKnown(ctx context.Context, c net.Conn, edges []string) error {
	g.mu.Lock()
	run := g.ctx
	g.mu.Unlock()
	if run == nil || run.Err() != nil || !g.enter() {
		_ = c.Close()
		return errors.New("gateway takes no connections")
	}
	defer g.leave()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(run, cancel)()
	return g.serve(ctx, c, edges)
}

// Dialer gives edges of the same process a way in: its connections are pipes on which the given names may be used. It may
// be made before Run; it connects while Run runs.
func (g *Gateway) Dialer(edges ...string) wire.Dialer {
	return wire.InProcess(func(c net.Conn) {
		if err := g.serveKnown(context.Background(), c, edges); err != nil {
			g.logSome("pipe", "in-process connection ended", "edges", edges, "err", err)
		}
	})
}

// muted is a kind of line that is logged once in ten seconds.
type muted struct {
	last time.Time
	n    int
}

// logSome logs a line about a connection, but not more than one of its kind in ten seconds: whoever connects must not be
// able to fill the log.
func (g *Gateway) logSome(kind, msg string, args ...any) {
	g.mu.Lock()
	now := time.Now()
	m := g.quiet[kind]
	if m == nil {
		if len(g.quiet) > 4096 {
			clear(g.quiet)
		}
		m = &muted{}
		g.quiet[kind] = m
	}
	if now.Sub(m.last) < 10*time.Second {
		m.n++
		g.mu.Unlock()
		return
	}
	unlogged := m.n
	m.last, m.n = now, 0
	g.mu.Unlock()
	g.log.Warn(msg, append(args, "unlogged", unlogged)...) //nolint:sloglint // constant at each call
}

// join finds or makes what the connections of an edge share; nil when it has too many.
func (g *Gateway) join(edge string) *edgeState {
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.edges[edge]
	if e == nil {
		e = &edgeState{}
		if r := g.cfg.Rate.Bytes; r > 0 {
			e.bytes = rate.NewLimiter(rate.Limit(r), int(max(r, g.cfg.MaxBatch)))
		}
		if r := g.cfg.Rate.Batches; r > 0 {
			e.batches = rate.NewLimiter(rate.Limit(r), r)
		}
		g.edges[edge] = e
	}
	if e.conns >= g.cfg.MaxEdgeConnections {
		return nil
	}
	e.conns++
	g.met.connections.WithLabelValues(edge).Inc()
	return e
}

func (g *Gateway) part(edge string, e *edgeState) {
	g.mu.Lock()
	defer g.mu.Unlock()
	e.conns--
	g.met.connections.WithLabelValues(edge).Dec()
}
