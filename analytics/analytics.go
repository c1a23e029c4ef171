// Package analytics turns questions about a zone's traffic into SQL and the rows that come back into answers.
//
// The steps are small and mostly pure: a Range resolves to a Window (window.go), a statement prints SQL with parameters
// (statement.go), and one file per question names its columns and folds rows into the answer. Service is the type; it is
// not an HTTP server and does not know who asks.
//
// The invariant: every statement about traffic is about one zone. statement.query is the only place that makes SQL for it
// (delivery.go asks other tables, about edges); it always puts the
// zone's condition in, and no text from outside ever becomes part of a statement: it travels as a parameter.
package analytics

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/spate-io/spate/internal/config"
	"github.com/spate-io/spate/store"
)

// ErrQuestion says that a question is wrong otherwise than by its time range.
var ErrQuestion = errors.New("the question cannot be understood")

// ErrBusy says that the live views of too many zones are open already.
var ErrBusy = errors.New("too many zones are looked at live")

// Config is the section "api.analytics".
type Config struct {
	// Settle is how old a minute must be to count as completely aggregated.
	Settle config.Duration `yaml:"settle"`
	// LiveEvery is how long the answer of a live view serves all who look at it.
	LiveEvery config.Duration `yaml:"live_every"`
	// LiveZones bounds the zones whose live view is kept at once.
	LiveZones int `yaml:"live_zones"`
	// ShareFor is how long an answer serves others who ask the same; 0 asks the store every time.
	ShareFor config.Duration `yaml:"share_for"`
	// TopMemory bounds what one question for the top of a dimension may use.
	TopMemory config.Size `yaml:"top_memory"`
	// TopRequests is how many requests a question for the top of a dimension counts one by one; where there are more, lists
	// made beforehand answer it.
	TopRequests uint64 `yaml:"top_requests"`
}

// DefaultConfig has values for an embedded store.
func DefaultConfig() Config {
	return Config{
		Settle: config.Duration(10 * time.Second), LiveEvery: config.Duration(900 * time.Millisecond),
		LiveZones: 500, ShareFor: config.Duration(300 * time.Millisecond), TopMemory: 256 * config.MiB, TopRequests: 2_000_000,
	}
}

// Validate adds what is wrong to p.
func (c *Config) Validate(p *config.Problems) {
	p.Check(c.Settle.D() >= 0 && c.Settle.D() <= 24*time.Hour, "settle", c.Settle, "must be 0s to 24h")
	p.Check(c.LiveEvery.D() >= 100*time.Millisecond && c.LiveEvery.D() <= time.Minute, "live_every", c.LiveEvery, "must be 100ms to 1m")
	p.Check(c.LiveZones >= 1 && c.LiveZones <= 100_000, "live_zones", c.LiveZones, "must be 1 to 100000")
	p.Check(c.ShareFor.D() >= 0 && c.ShareFor.D() <= time.Minute, "share_for", c.ShareFor, "must be 0s to 1m")
	p.Check(c.TopMemory >= 16*config.MiB, "top_memory", c.TopMemory, "must be at least 16MiB")
}

// Deps are what a Service works with.
type Deps struct {
	DB         store.DB
	Registerer prometheus.Registerer // nil: counted for nobody
	Now        func() time.Time      // nil: time.Now
}

// Service answers questions. Its methods may be called from any goroutine. Answers may be shared with other callers: do not
// change them.
type Service struct {
	cfg     Config
	db      store.DB
	now     func() time.Time
	metrics *metrics
	live    liveCache
	sharing sharing
}

// New gives a service. It starts nothing.
func New(cfg Config, deps Deps) (*Service, error) {
	if deps.DB == nil {
		return nil, errors.New("analytics needs a store")
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	return &Service{cfg: cfg, db: deps.DB, now: deps.Now, metrics: newMetrics(deps.Registerer), live: liveCache{byZone: map[string]*liveZone{}}}, nil
}

// run asks the store one statement about a zone and counts it. fold is called for every block in results.
func (s *Service) run(ctx context.Context, question string, q store.Query, results proto.Results, fold func(rows int) error) error {
	start := time.Now()
	stats, err := s.db.Select(ctx, q, results, func(_ context.Context, rows int) error { return fold(rows) })
	s.metrics.duration.WithLabelValues(question).Observe(time.Since(start).Seconds())
	s.metrics.rows.WithLabelValues(question).Add(float64(stats.Rows))
	if err != nil {
		s.metrics.errors.WithLabelValues(question).Inc()
		return fmt.Errorf("ask for %s: %w", question, err)
	}
	return nil
}
