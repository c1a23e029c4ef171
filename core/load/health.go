package load

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// health judges by progress: a partition is well while its position moves or there is nothing to do.
type health struct {
	mu       sync.Mutex
	member   bool
	reason   error     // why not connected
	since    time.Time // when end offsets could last be read
	problem  error     // why they cannot
	progress map[int32]*progress
}

// progress is one partition as it was when it last moved.
type progress struct {
	committed, end int64
	moved          time.Time // when it last moved or had nothing to do
	worker         *worker
}

func (h *health) joined() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.member, h.reason, h.since = true, nil, time.Now()
}

func (h *health) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reason = err
}

// Ready returns nil when the loader is a member of its group, whether or not there is a partition for it.
func (l *Loader) Ready() error {
	l.health.mu.Lock()
	defer l.health.mu.Unlock()
	if l.health.member {
		return nil
	}
	if l.health.reason != nil {
		return l.health.reason
	}
	return errNotConnected
}

// Live returns nil while every partition that this loader owns now moves or has nothing to do. It fails when one with
// work has not moved for Config.Stall, and when offsets could not be read for as long.
func (l *Loader) Live() error {
	return l.health.judge(time.Now(), l.cfg.Stall.D())
}

func (h *health) judge(now time.Time, stall time.Duration) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.member {
		return nil // that is Ready's matter
	}
	if h.problem != nil && now.Sub(h.since) > stall {
		return fmt.Errorf("offsets could not be read for %s: %w", now.Sub(h.since).Round(time.Second), h.problem)
	}
	for id, p := range h.progress {
		if still := now.Sub(p.moved); p.end > p.committed && still > stall {
			return fmt.Errorf("partition %d has stood at offset %d for %s with %d records to load", id, p.committed, still.Round(time.Second), p.end-p.committed)
		}
	}
	return nil
}

// observe takes in what is owned and where the partitions start and end. Partitions that went away are forgotten; one that came,
// or came back, starts anew.
func (h *health) observe(now time.Time, owned map[int32]*worker, starts, ends map[int32]int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.since, h.problem = now, nil
	next := make(map[int32]*progress, len(owned))
	for id, w := range owned {
		p := &progress{committed: max(w.committed.Load(), starts[id]), end: ends[id], moved: now, worker: w}
		if old := h.progress[id]; old != nil && old.worker == w && old.committed == p.committed && old.end > old.committed {
			p.moved = old.moved
		}
		next[id] = p
	}
	h.progress = next
}

// watch reads end offsets until ctx is done.
func (l *Loader) watch(ctx context.Context) {
	every := min(max(l.cfg.Stall.D()/10, 50*time.Millisecond), 5*time.Second)
	for sleep(ctx, every) == nil {
		ask, cancel := context.WithTimeout(ctx, max(every, 5*time.Second))
		starts, ends, err := l.bounds(ask)
		cancel()
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			l.health.mu.Lock()
			l.health.problem = err
			l.health.mu.Unlock()
			continue
		}
		l.mu.Lock()
		owned := make(map[int32]*worker, len(l.workers))
		for id, w := range l.workers {
			owned[id] = w
		}
		l.mu.Unlock()
		l.health.observe(time.Now(), owned, starts, ends)
		for id, w := range owned {
			l.metrics.lag.WithLabelValues(w.label()).Set(float64(ends[id] - max(w.committed.Load(), starts[id])))
		}
	}
}
