package gateway

import "context"

// admit waits until the limits allow size more bytes. While it waits the connection is not read.
func (v *conn) admit(size int64) error {
	g := v.g
	if e := v.state; e.bytes != nil && e.bytes.Tokens() < float64(size) || e.batches != nil && e.batches.Tokens() < 1 {
		g.met.waits.WithLabelValues("rate").Inc()
	}
	if l := v.state.batches; l != nil {
		if err := l.Wait(v.ctx); err != nil {
			return context.Canceled
		}
	}
	if l := v.state.bytes; l != nil {
		if err := l.WaitN(v.ctx, int(min(size, int64(l.Burst())))); err != nil {
			return context.Canceled
		}
	}
	size = v.weight(size)
	if !v.slots.TryAcquire(1) {
		g.met.waits.WithLabelValues("window").Inc()
		if v.slots.Acquire(v.ctx, 1) != nil {
			return context.Canceled
		}
	}
	if !v.sem.TryAcquire(size) {
		g.met.waits.WithLabelValues("connection").Inc()
		if v.sem.Acquire(v.ctx, size) != nil {
			v.slots.Release(1)
			return context.Canceled
		}
	}
	if !g.inflight.TryAcquire(size) {
		g.met.waits.WithLabelValues("gateway").Inc()
		if g.inflight.Acquire(v.ctx, size) != nil {
			v.sem.Release(size)
			v.slots.Release(1)
			return context.Canceled
		}
	}
	g.met.inflight.Add(float64(size))
	return nil
}

// weight is what a batch counts against the limits: never more than a limit, or it could never pass.
func (v *conn) weight(size int64) int64 {
	return min(size, int64(v.g.cfg.ConnInflightBytes), int64(v.g.cfg.InflightBytes))
}

func (v *conn) free(size int64) {
	size = v.weight(size)
	v.g.inflight.Release(size)
	v.sem.Release(size)
	v.slots.Release(1)
	v.g.met.inflight.Sub(float64(size))
}
