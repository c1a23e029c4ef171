package forward

import (
	"context"
	"time"
)

// Delivered waits until everything that Put took before the call has been acknowledged by every destination. Its error is
// ctx's, or ErrStopping when the forwarder ends meanwhile.
func (f *Forwarder) Delivered(ctx context.Context) error {
	if err := f.await(ctx); err != nil {
		return err
	}
	f.flushNews()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		f.mu.Lock()
		gathering := f.current != nil || f.waiting > 0
		f.mu.Unlock()
		if !gathering && f.backlog() == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-f.closed:
			return ErrStopping
		case <-tick.C:
		}
	}
}

// backlog is how many batches of the spool destinations have not acknowledged, added up.
func (f *Forwarder) backlog() (batches uint64) {
	for _, d := range f.cfg.Destinations {
		n, _, _ := f.sp.Backlog(d.Name)
		batches += n
	}
	return batches
}
