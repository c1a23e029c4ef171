// Package input takes access logs in while they are written: it follows files through their rotations, listens for syslog,
// and takes lines over HTTP. Lines become events with package accesslog and go to the forwarder as chunks.
//
// The main type is Inputs, a part that runs all configured inputs. The invariant of followed files: each line is taken
// once; the position in a log is the forwarder's, durable together with the events, and belongs to the content of the log
// (its path and first line), not to a file name or an inode. Importing whole files is package ingest.
package input

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/spate-io/spate/edge/forward"
	"github.com/spate-io/spate/edge/ingest"
	"github.com/spate-io/spate/event/notice"
	"github.com/spate-io/spate/internal/config"
)

// Deps are what the inputs need. Sink is required.
type Deps struct {
	Sink       forward.Sink
	Tell       func(notice.Notice) // of refused lines; nil: nobody
	EdgeName   string              // of events
	ColoCode   string
	Logger     *slog.Logger          // nil: no logging
	Registerer prometheus.Registerer // nil: metrics are kept but not registered
}

// Inputs runs all inputs of an edge. Make one with New; Run it once.
type Inputs struct {
	runners []runner
	ready   []atomic.Bool
	names   []string
	bad     []*ingest.Complaints
}

// runner is one input: it calls up when it is open.
type runner interface {
	run(ctx context.Context, up func()) error
}

// New checks the configuration and opens nothing.
func New(cfg []Config, deps Deps) (*Inputs, error) {
	if deps.Sink == nil {
		return nil, errors.New("inputs need a sink")
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	var p config.Problems
	for i := range cfg {
		p.Under(fmt.Sprintf("[%d]", i), cfg[i].Validate)
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	m, err := newMetrics(deps.Registerer)
	if err != nil {
		return nil, err
	}
	in := &Inputs{ready: make([]atomic.Bool, len(cfg))}
	for _, c := range cfg {
		c = c.withDefaults()
		b := base{cfg: c, deps: deps, metrics: m, texts: c.defaults(deps.EdgeName, deps.ColoCode), log: deps.Logger.With("input", c.Type)}
		b.bad = ingest.NewComplaints(c.Type+" "+cmp.Or(c.Path, c.Listen), deps.Tell)
		in.bad = append(in.bad, b.bad)
		switch c.Type {
		case TypeFile:
			in.runners = append(in.runners, newFollower(b))
			in.names = append(in.names, "file "+c.Path)
		case TypeSyslog:
			in.runners = append(in.runners, &syslogServer{base: b})
			in.names = append(in.names, "syslog "+c.Listen)
		case TypeHTTP:
			in.runners = append(in.runners, &pushServer{base: b})
			in.names = append(in.names, "http "+c.Listen)
		}
	}
	return in, nil
}

// Run takes lines in until ctx is cancelled. An input that cannot be opened ends all.
func (in *Inputs) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { in.complain(ctx); return nil })
	for i, r := range in.runners {
		g.Go(func() error {
			defer in.ready[i].Store(false)
			if err := r.run(ctx, func() { in.ready[i].Store(true) }); err != nil && ctx.Err() == nil {
				return fmt.Errorf("input %s: %w", in.names[i], err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return nil
}

// complain tells, from time to time and at the end, of refused lines.
func (in *Inputs) complain(ctx context.Context) {
	tick := time.NewTicker(15 * time.Second)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
		for _, b := range in.bad {
			b.Flush()
		}
	}
}

// Ready returns nil when every input is open.
func (in *Inputs) Ready() error {
	var closed []string
	for i := range in.ready {
		if !in.ready[i].Load() {
			closed = append(closed, in.names[i])
		}
	}
	if len(closed) > 0 {
		return fmt.Errorf("not open: %s", strings.Join(closed, ", "))
	}
	return nil
}

// Addr gives the address that input i listens on, for ports that were 0; empty when it does not listen.
func (in *Inputs) Addr(i int) string {
	if l, ok := in.runners[i].(interface{ address() string }); ok {
		return l.address()
	}
	return ""
}
