package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/spate-io/spate/edge/wire"
	"github.com/spate-io/spate/event/batch"
)

// conn is one connection of an edge.
//
// Two goroutines: the one of serve reads, checks and produces; reply writes everything. What is done of a batch may be
// reported from anywhere and in any order; answers go out in the order of the batches.
type conn struct {
	g     *Gateway
	ctx   context.Context // ends when the connection has to
	c     *timedConn
	edges []string
	edge  string // the first of them, for logs and metrics
	state *edgeState
	r     *wire.Reader
	w     *wire.Writer
	sem   *semaphore.Weighted // bytes in flight
	slots *semaphore.Weighted // batches in flight

	mu      sync.Mutex
	answers []*answer // in order; those not done yet hold the others back
	wake    chan struct{}
	pongs   []uint64
	failed  error // the bus would not take a batch
	last    uint64
}

// answer is what will be said of a batch.
type answer struct {
	n       uint64
	done    bool
	refusal *refusal
	size    int64
}

// timedConn gives every read and write its own time, so that a large frame may take long and a silent peer may not.
type timedConn struct {
	net.Conn
	read, write time.Duration
	stopped     atomic.Bool
}

// stop ends the present read and all later ones.
func (c *timedConn) stop() {
	c.stopped.Store(true)
	_ = c.Conn.SetReadDeadline(time.Unix(1, 0))
}

// Read reads within the time.
func (c *timedConn) Read(b []byte) (int, error) {
	if err := c.Conn.SetReadDeadline(time.Now().Add(c.read)); err != nil {
		return 0, err //nolint:wrapcheck // an io.Reader
	}
	if c.stopped.Load() { // looked at after the deadline was set, which may have undone stop's
		return 0, os.ErrDeadlineExceeded
	}
	return c.Conn.Read(b)
}

// Write writes within the time.
func (c *timedConn) Write(b []byte) (int, error) {
	if err := c.Conn.SetWriteDeadline(time.Now().Add(c.write)); err != nil {
		return 0, err //nolint:wrapcheck // an io.Writer
	}
	return c.Conn.Write(b)
}

// serve speaks with an edge until either side ends it. It closes c.
func (g *Gateway) serve(ctx context.Context, c net.Conn, edges []string) (err error) {
	defer c.Close() //nolint:errcheck // the edge sees an end either way
	tc := &timedConn{Conn: c, read: g.cfg.HandshakeTimeout.D(), write: g.cfg.WriteTimeout.D()}
	v := &conn{
		g: g, c: tc, edges: edges, wake: make(chan struct{}, 1),
		r: wire.NewReader(tc, int(g.cfg.MaxBatch)), w: wire.NewWriter(tc),
		sem: semaphore.NewWeighted(int64(g.cfg.ConnInflightBytes)), slots: semaphore.NewWeighted(int64(g.cfg.Window)),
	}
	if err := v.hello(); err != nil {
		g.met.rejected.WithLabelValues("hello").Inc()
		return err
	}
	tc.read = g.cfg.IdleTimeout.D()
	if v.state = g.join(v.edge); v.state == nil {
		g.met.rejected.WithLabelValues("too_many").Inc()
		return errors.Join(fmt.Errorf("more than %d connections", g.cfg.MaxEdgeConnections), v.w.GoAway(wire.GoAwayOverload, "too many connections of this edge"))
	}
	defer g.part(v.edge, v.state)
	if err := v.w.Welcome(wire.Welcome{
		Version: wire.Version, MaxBatch: uint32(g.cfg.MaxBatch), Window: uint32(g.cfg.Window), Keepalive: g.cfg.PingInterval.D(), Name: g.deps.Name,
	}); err != nil {
		return err
	}
	return v.run(ctx)
}

// hello reads the edge's first frame and settles who it is.
func (v *conn) hello() error {
	t, _, err := v.r.Next()
	if err != nil {
		return fmt.Errorf("read hello: %w", err)
	}
	away := func(c wire.Code, err error) error { return errors.Join(err, v.w.GoAway(c, err.Error())) }
	if t != wire.TypeHello {
		return away(wire.GoAwayProtocol, fmt.Errorf("%s instead of hello: %w", t, wire.ErrFrame))
	}
	b, err := v.r.Control()
	if err != nil {
		return err
	}
	h, err := wire.ParseHello(b)
	if err != nil {
		return away(wire.GoAwayProtocol, err)
	}
	if h.Min > wire.Version || h.Max < wire.Version {
		return away(wire.GoAwayVersion, fmt.Errorf("versions %d to %d: %w", h.Min, h.Max, wire.ErrVersion))
	}
	if len(v.g.cfg.Edges) > 0 {
		v.edges = slices.DeleteFunc(slices.Clone(v.edges), func(e string) bool { return !slices.Contains(v.g.cfg.Edges, e) })
	}
	if len(v.edges) == 0 || !slices.Contains(v.edges, h.Edge) {
		return away(wire.GoAwayForbidden, fmt.Errorf("edge %q may not connect as %q", h.Edge, v.edges))
	}
	v.edge = h.Edge
	return nil
}

// run reads and answers until the connection ends. When ctx ends the edge is told to go away and gets its last answers.
func (v *conn) run(ctx context.Context) error {
	// Produced batches outlive the connection: an edge that sends them again finds them dropped further on.
	rctx, stopReading := context.WithCancel(ctx)
	defer stopReading()
	v.ctx = rctx
	wctx, stopWriting := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWriting()
	unblock := context.AfterFunc(rctx, v.c.stop)
	defer unblock()

	written := make(chan error, 1)
	go func() {
		err := v.reply(wctx)
		stopReading() // a broken connection, or a bus that takes nothing
		written <- err
	}()
	rerr := v.read(context.WithoutCancel(ctx))

	gone := rerr != nil && !errors.Is(rerr, context.Canceled)
	switch {
	case ctx.Err() != nil && !gone:
		rerr = v.w.GoAway(wire.GoAwayShutdown, "gateway stops")
		v.settle(v.g.cfg.DrainTimeout.D())
	case gone && errors.Is(rerr, wire.ErrFrame) || errors.Is(rerr, wire.ErrTooLarge):
		rerr = errors.Join(rerr, v.w.GoAway(wire.GoAwayProtocol, rerr.Error()))
	}
	stopWriting()
	werr := <-written
	if errors.Is(rerr, io.EOF) {
		rerr = nil
	}
	if errors.Is(rerr, context.Canceled) {
		rerr = nil // reply says why
	}
	return errors.Join(rerr, werr)
}

// settle waits until all batches are answered, or the time is over.
func (v *conn) settle(d time.Duration) {
	deadline := time.Now().Add(d)
	for {
		v.mu.Lock()
		left, failed := len(v.answers), v.failed
		v.mu.Unlock()
		if left == 0 || failed != nil || !time.Now().Before(deadline) {
			return
		}
		pause(context.Background(), 2*time.Millisecond)
	}
}

// read takes frames until the connection ends; its error is context.Canceled when v.ctx has ended.
func (v *conn) read(pctx context.Context) error {
	for {
		t, size, err := v.r.Next()
		if v.ctx.Err() != nil {
			return context.Canceled
		}
		if err != nil {
			return err
		}
		if t == wire.TypeBatch {
			err = v.batch(pctx, int64(size))
		} else {
			err = v.control(t)
		}
		if v.ctx.Err() != nil && (err == nil || errors.Is(err, os.ErrDeadlineExceeded)) {
			return context.Canceled
		}
		if err != nil {
			return err
		}
	}
}

func (v *conn) control(t wire.Type) error {
	b, err := v.r.Control()
	if err != nil {
		return err
	}
	switch t { //nolint:exhaustive // the rest is wrong here
	case wire.TypePing:
		n, err := wire.ParseNumber(b)
		if err != nil {
			return err
		}
		v.mu.Lock()
		if len(v.pongs) < 16 { // an edge that pings faster than it reads misses some
			v.pongs = append(v.pongs, n)
		}
		v.mu.Unlock()
		v.nudge()
	case wire.TypePong:
	default:
		return fmt.Errorf("unexpected %s: %w", t, wire.ErrFrame)
	}
	return nil
}

// batch makes room for a batch before it reads it, checks it, and hands it to the bus.
func (v *conn) batch(pctx context.Context, size int64) error {
	if err := v.admit(size); err != nil {
		return err
	}
	n, b, err := v.r.Batch(nil)
	if err == nil && n != v.last+1 {
		err = fmt.Errorf("batch %d after %d: %w", n, v.last, wire.ErrFrame)
	}
	if err != nil {
		v.free(size)
		return err
	}
	v.last = n
	a := &answer{n: n, size: size}
	v.mu.Lock()
	v.answers = append(v.answers, a)
	v.mu.Unlock()

	d := <-v.g.decoders
	h, no := verify(d, b, v.edges)
	v.g.decoders <- d
	if no != nil {
		v.finish(a, h, no)
		return nil
	}
	begin := time.Now()
	var once sync.Once
	v.g.deps.Producer.Produce(pctx, h.Name, b, func(err error) {
		once.Do(func() { v.produced(a, h, len(b), begin, err) })
	})
	return nil
}

// produced is told by the bus, from any goroutine.
func (v *conn) produced(a *answer, h batch.Header, size int, begin time.Time, err error) {
	g := v.g
	var p interface{ Permanent() bool }
	switch {
	case err == nil:
		g.met.produce.Observe(time.Since(begin).Seconds())
		g.met.batches.WithLabelValues(h.Name.Edge).Inc()
		if h.Type == batch.HTTPRequests {
			g.met.events.WithLabelValues(h.Name.Edge).Add(float64(h.Events))
		}
		g.met.bytes.WithLabelValues(h.Name.Edge).Add(float64(size))
		g.met.rawBytes.WithLabelValues(h.Name.Edge).Add(float64(h.RawLen))
		g.met.dropped.WithLabelValues(h.Name.Edge).Add(float64(h.Dropped))
		v.finish(a, h, nil)
	case errors.As(err, &p) && p.Permanent():
		v.finish(a, h, refuse(wire.RefuseBus, "%v", err))
	default:
		g.met.failed.WithLabelValues(h.Name.Edge).Inc()
		v.mu.Lock()
		if v.failed == nil {
			v.failed = fmt.Errorf("produce %s: %w", h.Name, err)
		}
		v.mu.Unlock()
		v.free(a.size)
		v.nudge()
	}
}

// finish notes what is to be said of a batch.
func (v *conn) finish(a *answer, h batch.Header, no *refusal) {
	if no != nil {
		v.g.met.refused.WithLabelValues(v.edge, no.code.RefuseName()).Inc()
		v.g.logSome("refuse "+v.edge+no.code.RefuseName(), "batch refused", "edge", v.edge, "batch", h.Name.String(), "reason", no.code.RefuseName(), "err", no)
	}
	v.free(a.size)
	v.mu.Lock()
	a.done, a.refusal = true, no
	v.mu.Unlock()
	v.nudge()
}

func (v *conn) nudge() {
	select {
	case v.wake <- struct{}{}:
	default:
	}
}

// reply writes answers, pongs and pings until ctx ends or the connection breaks.
func (v *conn) reply(ctx context.Context) error {
	ping := time.NewTicker(v.g.cfg.PingInterval.D())
	defer ping.Stop()
	for token := uint64(1); ; {
		select {
		case <-ctx.Done():
			return v.flush() // what was done meanwhile
		case <-v.wake:
			if err := v.flush(); err != nil {
				return err
			}
		case <-ping.C:
			if err := v.w.Ping(token); err != nil {
				return err
			}
			token++
		}
	}
}

// flush writes the pongs and the answers that are due. Its error may be that the bus has failed.
func (v *conn) flush() error {
	v.mu.Lock()
	pongs, failed := v.pongs, v.failed
	v.pongs = nil
	var due []*answer
	for len(v.answers) > 0 && v.answers[0].done {
		due = append(due, v.answers[0])
		v.answers = v.answers[1:]
	}
	v.mu.Unlock()
	for _, p := range pongs {
		if err := v.w.Pong(p); err != nil {
			return err
		}
	}
	for i, a := range due {
		var err error
		switch {
		case a.refusal != nil:
			err = v.w.Refuse(a.n, a.refusal.code, a.refusal.text)
		case i+1 == len(due) || due[i+1].refusal != nil: // one ack for all before it
			err = v.w.Ack(a.n)
		}
		if err != nil {
			return err
		}
	}
	if failed != nil {
		return errors.Join(failed, v.w.GoAway(wire.GoAwayUnavailable, "the bus does not take batches now"))
	}
	return nil
}
