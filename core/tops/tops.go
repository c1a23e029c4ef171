// Package tops writes, for every zone, hour and day that is over, lists of the most frequent paths, addresses, user agents
// and so on, so that the question for them can be answered when single requests have expired.
//
// Maker is the part. It keeps no state in the store besides the lists: an hour of a zone is due when the rollup has counted
// more requests than its lists have, whatever the reason (it has just ended, events came late, a log of past years was
// imported, the process was down). Lists are made from the raw table, exactly. To make them again is harmless, and of two
// lists for the same time the store keeps the one that saw more requests; so lists made of what is left of expired raw
// rows never replace better ones, and several Makers may work on one store.
package tops

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
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

// Maker is the part. Run it once; Round may be called instead, by one goroutine at a time.
type Maker struct {
	cfg     Config
	db      store.DB
	rawDays int
	rows    uint64 // rowsAtOnce, less in tests
	log     *slog.Logger
	now     func() time.Time
	metrics *metrics

	nextFull time.Time // when everything that raw rows may still be there for is looked at again
	// tried has, by table, what lacked lists after they were made, and how many requests the rollup had: what the lists
	// have not seen has expired or was erased, and trying again would bring nothing.
	tried map[string]map[place]uint64
}

const (
	// recent is how old an hour or day may be to be looked at in every round.
	recent = 48 * time.Hour
	// lookShare is the part of the time, one in so many, that looking at everything may take: a large store is looked
	// at as a whole less often.
	lookShare = 100
	// maxTried bounds what is remembered of one table; what is more is tried again.
	maxTried = 200_000
)

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
		cfg: cfg, db: deps.DB, rawDays: deps.RawDays, rows: rowsAtOnce, log: deps.Logger, now: deps.Now, metrics: newMetrics(deps.Registerer),
		tried: map[string]map[place]uint64{},
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
		// Not all at the same time: of several makers, the first does the work and the others find it done.
		wait = time.Duration(float64(m.cfg.Every.D()) * (0.9 + 0.2*rand.Float64()))
	}
}

// Round makes all lists that are due. An error ends the work on its table; what was written stays.
func (m *Maker) Round(ctx context.Context) error {
	now := m.now().UTC()
	full := !now.Before(m.nextFull)
	s := span{stored: now.AddDate(0, 0, -2), since: now.Add(-recent).Truncate(24 * time.Hour)}
	if full {
		s = span{stored: time.Unix(0, 0), since: time.Unix(0, 0)}
		if m.rawDays > 0 {
			s.stored = now.AddDate(0, 0, -m.rawDays)
		}
	}
	var errs []error
	var looked time.Duration
	for _, l := range schema.TopLevels() {
		s.over = now.Add(-m.cfg.Settle.D()).Truncate(l.Step)
		took, err := m.level(ctx, l, s, full)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", l.Table, err))
		}
		looked += took
	}
	if full && len(errs) == 0 && looked*lookShare > m.cfg.Every.D() {
		m.nextFull = now.Add(looked * lookShare)
	}
	return errors.Join(errs...)
}

// level makes the due lists of one table, and says how long it took to look for them.
func (m *Maker) level(ctx context.Context, l schema.TopLevel, s span, full bool) (time.Duration, error) {
	start := time.Now()
	pieces, err := m.pieces(ctx, l, s)
	looked := time.Since(start)
	if err != nil {
		return looked, err
	}
	before, after := m.tried[l.Table], map[place]uint64{}
	if !full { // what is not looked at is not forgotten
		after = maps.Clone(before)
		if after == nil {
			after = map[place]uint64{}
		}
	}
	due := 0
	for _, z := range pieces {
		start := time.Now()
		list, err := m.missing(ctx, l, s, z)
		looked += time.Since(start)
		if err != nil {
			return looked, err
		}
		todo := list[:0]
		for _, h := range list {
			if n, ok := before[place{h.zone, h.at}]; ok && n == h.requests {
				remember(after, h)
				continue
			}
			todo = append(todo, h)
		}
		if len(todo) == 0 {
			continue
		}
		due += len(todo)
		m.metrics.due.WithLabelValues(l.Table).Set(float64(due))
		if err := m.make(ctx, l, s, z, todo, after); err != nil {
			return looked, err
		}
	}
	m.metrics.due.WithLabelValues(l.Table).Set(float64(due))
	m.tried[l.Table] = after
	return looked, nil
}

func remember(tried map[place]uint64, s share) {
	if len(tried) < maxTried {
		tried[place{s.zone, s.at}] = s.requests
	}
}

// make makes the lists of a piece of the zones, and notes in tried what lacks them afterwards.
func (m *Maker) make(ctx context.Context, l schema.TopLevel, s span, z zones, todo []share, tried map[place]uint64) error {
	for _, b := range batches(todo, l.Step, m.cfg.Requests) {
		if err := m.fill(ctx, l, b); err != nil {
			return err
		}
	}
	left, err := m.missing(ctx, l, s, z)
	if err != nil || len(left) == 0 {
		return err
	}
	had := make(map[place]uint64, len(todo))
	for _, h := range todo {
		had[place{h.zone, h.at}] = h.requests
	}
	for _, h := range left {
		if had[place{h.zone, h.at}] == h.requests { // else there came something meanwhile
			remember(tried, h)
		}
	}
	return nil
}

// fill writes the lists of one batch, and at last what all of them have seen: while they are written, some requests may come
// that only the later ones see. A batch that needs too much memory is halved; one list that does is left out.
func (m *Maker) fill(ctx context.Context, l schema.TopLevel, b []share) error {
	for _, d := range schema.TopDimensions() {
		start := time.Now()
		err := m.db.Exec(ctx, m.statement(l.FillTop(d, m.cfg.Values), l, b))
		rest(ctx, time.Since(start))
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
	if err := m.db.Exec(ctx, m.statement(l.SealTop(), l, b)); err != nil {
		return fmt.Errorf("write what lists have seen: %w", err)
	}
	m.metrics.written.WithLabelValues(l.Table).Add(float64(len(b)))
	return nil
}

// rest leaves the processor to ingest and merges for as long as a statement has taken it, when that was long: however much is
// due, half of one processor is the most that it takes.
func rest(ctx context.Context, took time.Duration) {
	if took < longStatement {
		return
	}
	t := time.NewTimer(took)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// longStatement is from when on a statement is felt.
const longStatement = 200 * time.Millisecond

// codeMemory is MEMORY_LIMIT_EXCEEDED.
const codeMemory = 241
