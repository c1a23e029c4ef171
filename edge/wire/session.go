package wire

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/spate-io/spate/edge/spool"
)

// session is one connection of a shipper while it is used.
//
// Three goroutines: send reads the source and writes batches; the one that called session reads acknowledgements and
// alone commits; keep writes pings, pongs and tries better gateways. A gateway under load stops reading, so a write may
// block for long; it sends pings all the while, and silence for the idle timeout is what ends a session.
type session struct {
	s *Shipper
	*link
	cancel context.CancelCauseFunc // ends send and keep

	pong chan uint64
	next chan *link // a better gateway's, at most one

	mu       sync.Mutex
	cond     chan struct{} // closed and replaced when the window opens
	inflight []sent
	bytes    int64
	number   uint64 // of the last batch sent
	acked    uint64
	progress bool
}

type sent struct {
	n        uint64
	at, end  spool.Position
	bytes    int64
	when     time.Time
	unsent   Code // not 0: never sent, to be refused here
	unsentBy string
}

var errWindDown = errors.New("session winds down")

// session sends on l until it breaks, ctx ends, or a gateway earlier in the list answers again; then that one's link is
// given. progress says that something was acknowledged.
func (s *Shipper) session(ctx context.Context, l *link) (better *link, progress bool, err error) {
	sctx, cancel := context.WithCancelCause(ctx)
	e := &session{s: s, link: l, cancel: cancel, pong: make(chan uint64, 1), next: make(chan *link, 1), cond: make(chan struct{})}
	s.o.Source.Rewind()
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := e.send(sctx); err != nil && !errors.Is(err, context.Canceled) {
			cancel(err)
			_ = l.conn.SetReadDeadline(time.Unix(1, 0)) // wakes receive
		}
	})
	wg.Go(func() { e.keep(sctx) })
	stop := context.AfterFunc(ctx, func() { _ = l.conn.SetDeadline(time.Unix(1, 0)) })
	err = e.receive(sctx)
	if cause := context.Cause(sctx); cause != nil && !errors.Is(cause, errWindDown) {
		err = cause
	}
	stop()
	cancel(nil)
	_ = l.conn.Close() // wakes a write that blocks
	wg.Wait()
	s.o.Metrics.inflight.WithLabelValues(s.o.Destination).Set(0)
	s.o.Metrics.inflightBytes.WithLabelValues(s.o.Destination).Set(0)
	select {
	case better = <-e.next:
	default:
	}
	return better, e.progress, err
}

// send writes batches as the window allows.
func (e *session) send(ctx context.Context) error {
	window := min(e.s.cfg.Window, int(e.welcome.Window))
	var buf []byte
	for {
		if err := e.waitWindow(ctx, window); err != nil {
			return err
		}
		rec, err := e.s.o.Source.Next(ctx, buf)
		if err != nil {
			return fmt.Errorf("read spool: %w", err)
		}
		if cap(rec.Batch) > cap(buf) {
			buf = rec.Batch[:0]
		}
		v := sent{at: rec.Start, end: rec.End, bytes: int64(len(rec.Batch)), when: time.Now()}
		if len(rec.Batch) > int(e.welcome.MaxBatch) {
			v.unsent, v.unsentBy = RefuseTooLarge, fmt.Sprintf("%d bytes, and the gateway takes %d", len(rec.Batch), e.welcome.MaxBatch)
		}
		e.mu.Lock()
		if v.unsent == 0 {
			e.number++
		}
		v.n = e.number
		e.inflight = append(e.inflight, v)
		e.bytes += v.bytes
		alone := len(e.inflight) == 1
		if v.unsent != 0 && alone {
			e.settle(e.acked)
		}
		e.gauges()
		e.mu.Unlock()
		if v.unsent != 0 {
			continue
		}
		if err := e.w.Batch(v.n, rec.Batch); err != nil {
			return err
		}
		e.s.o.Metrics.batches.WithLabelValues(e.s.o.Destination).Inc()
		e.s.o.Metrics.bytes.WithLabelValues(e.s.o.Destination).Add(float64(v.bytes))
	}
}

// waitWindow waits until another batch may be sent. One batch may always be in flight, whatever its size.
func (e *session) waitWindow(ctx context.Context, window int) error {
	for {
		e.mu.Lock()
		open := len(e.inflight) == 0 || len(e.inflight) < window && e.bytes < int64(e.s.cfg.WindowBytes)
		wait := e.cond
		e.mu.Unlock()
		if open {
			return ctx.Err()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-wait:
		}
	}
}

// receive reads what the gateway says until the connection ends. After a wind-down it ends when nothing is in flight.
func (e *session) receive(ctx context.Context) error {
	for winding := false; ; {
		if err := e.conn.SetReadDeadline(time.Now().Add(e.s.cfg.IdleTimeout.D())); err != nil {
			return fmt.Errorf("read: %w", err)
		}
		// Looked at after the deadline was set: one that was meant to wake this goroutine may have been set before.
		switch cause := context.Cause(ctx); {
		case cause == nil:
		case !errors.Is(cause, errWindDown):
			return cause
		case e.idle():
			return errWindDown
		case e.linger() != nil:
			return errWindDown
		}
		t, _, err := e.r.Next()
		if errors.Is(err, os.ErrDeadlineExceeded) && !winding && errors.Is(context.Cause(ctx), errWindDown) {
			winding = true // it was between two frames, or the next read says that it was not
			continue
		}
		if err != nil {
			return fmt.Errorf("read: %w", err)
		}
		b, err := e.r.Control()
		if err != nil {
			return err
		}
		if err := e.handle(t, b); err != nil {
			return err
		}
	}
}

func (e *session) idle() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.inflight) == 0
}

func (e *session) handle(t Type, b []byte) error {
	switch t { //nolint:exhaustive // the rest is wrong here
	case TypeAck:
		n, err := ParseNumber(b)
		if err != nil {
			return err
		}
		return e.done(n, 0, "")
	case TypeRefuse:
		n, c, text, err := ParseRefuse(b)
		if err != nil {
			return err
		}
		return e.done(n, max(c, 1), text)
	case TypePing:
		n, err := ParseNumber(b)
		if err != nil {
			return err
		}
		select {
		case e.pong <- n:
		default: // one is waiting to be written; it says as much
		}
	case TypePong:
	case TypeGoAway:
		g, err := ParseGoAway(b)
		if err != nil {
			return err
		}
		e.s.log.Info("gateway goes away", "code", g.Code, "text", g.Text)
		e.cancel(errWindDown)
	default:
		return fmt.Errorf("unexpected %s: %w", t, ErrFrame)
	}
	return nil
}

// done takes an acknowledgement of all up to n, or the refusal of n.
func (e *session) done(n uint64, c Code, text string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n > e.number || n < e.acked || c != 0 && n == e.acked {
		return fmt.Errorf("answer to batch %d after %d of %d: %w", n, e.acked, e.number, ErrFrame)
	}
	if c != 0 {
		e.settle(n - 1)
		v := e.inflight[0]
		e.refuse(v, c, text)
		e.pop()
		e.commit(v.end)
	}
	e.acked = n
	e.settle(n)
	e.progress = true
	e.gauges()
	close(e.cond)
	e.cond = make(chan struct{})
	return nil
}

// settle takes what is done up to n out of flight, and what was never sent and comes next. It needs mu.
func (e *session) settle(n uint64) {
	var last *sent
	now := time.Now()
	for len(e.inflight) > 0 && e.inflight[0].n <= n {
		v := e.inflight[0]
		if v.unsent != 0 {
			e.refuse(v, v.unsent, v.unsentBy)
		} else {
			e.s.o.Metrics.acked.WithLabelValues(e.s.o.Destination).Inc()
			e.s.o.Metrics.ack.WithLabelValues(e.s.o.Destination).Observe(now.Sub(v.when).Seconds())
		}
		last = &v
		e.pop()
	}
	if last != nil {
		e.commit(last.end)
	}
}

func (e *session) pop() {
	e.bytes -= e.inflight[0].bytes
	e.inflight = append(e.inflight[:0], e.inflight[1:]...)
}

func (e *session) refuse(v sent, c Code, text string) {
	e.s.o.Metrics.refused.WithLabelValues(e.s.o.Destination, c.RefuseName()).Inc()
	e.s.o.Source.Refuse(v.at, uint16(c), text)
}

func (e *session) commit(p spool.Position) {
	if err := e.s.o.Source.Commit(p); err != nil {
		e.s.log.Warn("commit of a spool cursor", "err", err)
	}
}

func (e *session) gauges() {
	e.s.o.Metrics.inflight.WithLabelValues(e.s.o.Destination).Set(float64(len(e.inflight)))
	e.s.o.Metrics.inflightBytes.WithLabelValues(e.s.o.Destination).Set(float64(e.bytes))
}

// keep writes pings and pongs, and looks for a better gateway.
func (e *session) keep(ctx context.Context) {
	ping := time.NewTicker(e.s.cfg.PingInterval.D())
	defer ping.Stop()
	var look <-chan time.Time
	if e.index > 0 {
		t := time.NewTicker(e.s.cfg.ReturnAfter.D())
		defer t.Stop()
		look = t.C
	}
	for token := uint64(1); ; {
		var err error
		select {
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), errWindDown) {
				_ = e.conn.SetReadDeadline(time.Unix(1, 0)) // wakes receive, which sees why
			}
			return
		case n := <-e.pong:
			err = e.w.Pong(n)
		case <-ping.C:
			err = e.w.Ping(token)
			token++
		case <-look:
			if l, lerr := e.s.connectAny(ctx, e.index); lerr == nil {
				e.next <- l
				e.s.log.Info("going back to a preferred gateway", "gateway", e.s.name(l.index))
				e.cancel(errWindDown)
			}
		}
		if err != nil {
			return // receive finds out
		}
	}
}

// linger gives a session that winds down a bounded time for what is in flight.
func (e *session) linger() error {
	return e.conn.SetReadDeadline(time.Now().Add(e.s.cfg.HandshakeTimeout.D())) //nolint:wrapcheck // only tested for nil
}
