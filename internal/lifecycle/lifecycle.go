// Package lifecycle runs the parts of a process: started in order, each once the one before it is ready, and stopped in
// reverse order, so that whoever makes work stops before whoever takes it.
//
// A part is inert until Run and has ended all its goroutines when Run returns. The Group is the only place that knows
// order; parts do not know one another.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/pprof"
	"sync/atomic"
	"time"
)

// Part is one piece of a process.
type Part interface {
	// Run opens, works until ctx is cancelled, drains and closes. It returns nil on a clean stop.
	Run(ctx context.Context) error
	// Ready returns nil when the part can do its work, else the reason why not. Any goroutine may call it, before,
	// during and after Run.
	Ready() error
}

// Named is a part with the name it has in logs, in /ready and in errors.
type Named struct {
	Name string
	Part Part
}

// State is what one part says of itself.
type State struct {
	Name   string `json:"name"`
	Ready  bool   `json:"ready"`
	Reason string `json:"reason,omitempty"`
}

// Group runs parts. Make one with New; Run it once.
type Group struct {
	parts    []Named
	log      *slog.Logger
	start    time.Duration
	drain    time.Duration
	draining atomic.Bool
	started  atomic.Int32
}

// Options bound how long a part may take.
type Options struct {
	StartTimeout time.Duration // from Run to Ready; default 60 s
	DrainTimeout time.Duration // from cancel to the end of Run; default 20 s
}

// ErrAborted is the cause with which Run ends when abort was closed before all parts had drained.
var ErrAborted = errors.New("stopped before everything was drained")

// New returns a group of the given parts, in start order.
func New(log *slog.Logger, opts Options, parts ...Named) *Group {
	if opts.StartTimeout <= 0 {
		opts.StartTimeout = time.Minute
	}
	if opts.DrainTimeout <= 0 {
		opts.DrainTimeout = 20 * time.Second
	}
	return &Group{parts: parts, log: log, start: opts.StartTimeout, drain: opts.DrainTimeout}
}

// running is a part whose Run was called.
type running struct {
	Named
	cancel context.CancelFunc
	done   chan struct{} // closed when Run has returned
	err    error         // what it returned; read after done
}

// Run starts all parts, calls onReady once every one is ready, and waits until ctx is cancelled or a part ends by
// itself. Then it stops what it has started, last first. A value on abort ends the waiting for parts that drain slowly.
// The error names the part that failed first.
func (g *Group) Run(ctx context.Context, abort <-chan struct{}, onReady func()) error {
	ended := make(chan *running, len(g.parts))
	var up []*running
	var failure error
	for _, p := range g.parts {
		r := launch(p, ended)
		up = append(up, r)
		if failure = g.awaitReady(ctx, r, ended); failure != nil || ctx.Err() != nil {
			break
		}
		g.started.Add(1)
		g.log.Debug("part ready", "part", p.Name)
	}
	if failure == nil && ctx.Err() == nil {
		if onReady != nil {
			onReady()
		}
		select {
		case <-ctx.Done():
		case r := <-ended:
			failure = endedEarly(r)
		}
	}
	g.draining.Store(true)
	return errors.Join(failure, g.stop(up, abort))
}

func launch(p Named, ended chan<- *running) *running {
	// Deliberately not derived from the caller's context: the group decides when each part stops.
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{Named: p, cancel: cancel, done: make(chan struct{})}
	go func() {
		// Goroutines inherit labels, so a CPU profile says which part works.
		pprof.Do(ctx, pprof.Labels("part", p.Name), func(ctx context.Context) { r.err = p.Part.Run(ctx) })
		close(r.done)
		ended <- r
	}()
	return r
}

// awaitReady returns nil when r is ready or ctx is done, and an error when any part ended or r took too long.
func (g *Group) awaitReady(ctx context.Context, r *running, ended <-chan *running) error {
	deadline := time.NewTimer(g.start)
	defer deadline.Stop()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for {
		reason := r.Part.Ready()
		if reason == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case e := <-ended:
			return endedEarly(e)
		case <-deadline.C:
			return fmt.Errorf("start %s: not ready after %s: %w", r.Name, g.start, reason)
		case <-poll.C:
		}
	}
}

func endedEarly(r *running) error {
	if r.err != nil {
		return fmt.Errorf("%s: %w", r.Name, r.err)
	}
	return fmt.Errorf("%s: ended by itself", r.Name)
}

// stop cancels parts last first; each gets the drain time before the next one down is cancelled.
func (g *Group) stop(up []*running, abort <-chan struct{}) error {
	var errs []error
	for i := len(up) - 1; i >= 0; i-- {
		r := up[i]
		r.cancel()
		timeout := time.NewTimer(g.drain)
		select {
		case <-r.done:
			if r.err != nil && !errors.Is(r.err, context.Canceled) {
				errs = append(errs, fmt.Errorf("stop %s: %w", r.Name, r.err))
			}
			g.log.Debug("part stopped", "part", r.Name)
		case <-timeout.C:
			errs = append(errs, fmt.Errorf("stop %s: still draining after %s", r.Name, g.drain))
		case <-abort:
			timeout.Stop()
			return errors.Join(append(errs, ErrAborted)...)
		}
		timeout.Stop()
	}
	return errors.Join(errs...)
}

// Ready returns nil when all parts run, are ready, and the group is not stopping.
func (g *Group) Ready() error {
	if g.draining.Load() {
		return errors.New("stopping")
	}
	for _, s := range g.States() {
		if !s.Ready {
			return fmt.Errorf("%s: %s", s.Name, s.Reason)
		}
	}
	return nil
}

// States asks every part, in start order. Any goroutine may call it.
func (g *Group) States() []State {
	states := make([]State, len(g.parts))
	started := int(g.started.Load())
	for i, p := range g.parts {
		states[i] = State{Name: p.Name, Ready: true}
		reason := p.Part.Ready()
		if reason == nil && i >= started {
			reason = errors.New("starting")
		}
		if reason != nil {
			states[i].Ready, states[i].Reason = false, reason.Error()
		}
	}
	return states
}
