// Package tops writes, for every zone, hour and day that is over, lists of the most frequent paths, addresses, user agents
// and so on, so that the question for them can be answered when single requests have expired.
//
// Maker is the part. It keeps no state in the store besides the lists: an hour is due when the rollup has counted more
// requests than its lists have, whatever the reason (it has just ended, events came late, a log of past years was
// imported, the process was down). Lists are made from the raw table, exactly. To make them again is harmless, and of two
// lists for the same time the store keeps the one that saw more requests; so lists made of what is left of expired raw
// rows never replace better ones, and several Makers may work on one store.
package tops

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spate-io/spate/internal/lifecycle"
	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/schema"
)

// Deps are what a Maker works with.
type Deps struct {
	DB store.DB
	// RawDays is how many days raw rows are kept, 0 for ever: what was stored before then is not looked at.
	RawDays    int
	Logger     *slog.Logger          // nil: nothing is logged
	Registerer prometheus.Registerer // nil: counted for nobody
	Now        func() time.Time      // nil: time.Now
}

// fullEvery is how often all that raw rows may still be there for is looked at; in between, what was stored since
// yesterday.
const fullEvery = 24 * time.Hour

// Maker is the part. Run it once; Round may be called instead, by one goroutine at a time.
type Maker struct {
	cfg     Config
	db      store.DB
	rawDays int
	log     *slog.Logger
	now     func() time.Time
	metrics *metrics

	lastFull time.Time
	// tried has, by table and time, how many requests the rollup had when lists were last made: what is lacking then has
	// expired, and trying again would bring nothing.
	tried map[string]map[uint32]uint64
}

var _ lifecycle.Part = (*Maker)(nil)

// New gives a maker that has done nothing.
func New(cfg Config, deps Deps) (*Maker, error) {
	if deps.DB == nil {
		return nil, errors.New("tops: needs a store")
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	return &Maker{
		cfg: cfg, db: deps.DB, rawDays: deps.RawDays, log: deps.Logger, now: deps.Now, metrics: newMetrics(deps.Registerer),
		tried: map[string]map[uint32]uint64{},
	}, nil
}

// Ready is nil: nobody waits for lists.
func (m *Maker) Ready() error { return nil }

// Run makes lists until ctx is cancelled.
func (m *Maker) Run(ctx context.Context) error {
	wait := min(m.cfg.Every.D(), 10*time.Second) // a process that has just started has better things to do
	for {
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-t.C:
		}
		start := time.Now()
		err := m.Round(ctx)
		m.metrics.round.Observe(time.Since(start).Seconds())
		if err != nil && ctx.Err() == nil {
			m.log.Warn("top lists cannot be made, trying again", "err", err)
		}
		wait = m.cfg.Every.D()
	}
}

// Round makes all lists that are due, the newest first. An error ends the work on its table; what was written stays.
func (m *Maker) Round(ctx context.Context) error {
	now := m.now().UTC()
	since := now.AddDate(0, 0, -1)
	full := m.lastFull.IsZero() || now.Sub(m.lastFull) >= fullEvery
	if full {
		since = time.Unix(0, 0).UTC()
		if m.rawDays > 0 {
			since = now.AddDate(0, 0, -m.rawDays)
		}
	}
	var errs []error
	for _, l := range schema.TopLevels() {
		if err := m.level(ctx, l, since, now); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", l.Table, err))
		}
	}
	if full && len(errs) == 0 {
		m.lastFull = now
	}
	return errors.Join(errs...)
}

// level makes the due lists of one table.
func (m *Maker) level(ctx context.Context, l schema.TopLevel, stored, now time.Time) error {
	over := now.Add(-m.cfg.Settle.D()).Truncate(l.Step)
	due, err := m.due(ctx, l, stored, over)
	if err != nil {
		return err
	}
	m.metrics.due.WithLabelValues(l.Table).Set(float64(len(due)))
	for len(due) > 0 {
		n := min(len(due), timesAtOnce)
		if err := m.make(ctx, l, due[:n]); err != nil {
			return err
		}
		due = due[n:]
		m.metrics.due.WithLabelValues(l.Table).Set(float64(len(due)))
	}
	return nil
}

// make makes the lists of some times, for all zones that lack them.
func (m *Maker) make(ctx context.Context, l schema.TopLevel, times []due) error {
	list, err := m.missing(ctx, l, times)
	if err != nil {
		return err
	}
	for _, b := range batches(list, m.cfg.Requests) {
		if err := m.fill(ctx, l, b); err != nil {
			return err
		}
	}
	for _, t := range times {
		m.tried[l.Table][t.at] = t.counted
	}
	return nil
}

// fill writes the lists of one batch, those of the last dimension last: where they are, the others are. A batch that needs
// too much memory is halved; one zone's hour that does is left out.
func (m *Maker) fill(ctx context.Context, l schema.TopLevel, b []share) error {
	for _, d := range schema.TopDimensions() {
		err := m.db.Exec(ctx, m.statement(l, d, b))
		switch {
		case err == nil:
			continue
		case ctx.Err() != nil:
			return ctx.Err()
		}
		m.metrics.failures.Inc()
		if !store.IsCode(err, codeMemory) {
			return fmt.Errorf("write lists of %s: %w", d.Name, err)
		}
		if len(b) == 1 {
			m.log.Warn("a top list needs more memory than it may use", "zone", b[0].zone, "at", time.Unix(int64(b[0].at), 0).UTC(),
				"dimension", d.Name, "requests", b[0].requests, "err", err)
			continue
		}
		half := len(b) / 2
		if err := m.fill(ctx, l, b[:half]); err != nil {
			return err
		}
		return m.fill(ctx, l, b[half:])
	}
	m.metrics.written.WithLabelValues(l.Table).Add(float64(len(b)))
	return nil
}

// codeMemory is MEMORY_LIMIT_EXCEEDED.
const codeMemory = 241
