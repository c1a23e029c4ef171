package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spate-io/spate/api"
	"github.com/spate-io/spate/bus"
	"github.com/spate-io/spate/core/load"
	"github.com/spate-io/spate/internal/buildinfo"
	"github.com/spate-io/spate/internal/config"
	"github.com/spate-io/spate/internal/enrich"
	"github.com/spate-io/spate/internal/zone"
	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/chdb"
	"github.com/spate-io/spate/store/schema"
)

// StoreOptions say what RunStore measures and with which configuration.
type StoreOptions struct {
	// Events, Zones and Days are the history that dashboards are asked about. Zones share requests by Zipf's law.
	Events, Zones, Days int
	// Ingest is how many requests are put in both ways for each comparison of the engine alone with the whole way; 0
	// leaves ingest out, and then half of what an earlier run in Dir found is put in while dashboards are asked.
	Ingest int
	// Log is an access log in any known format that requests are made from; empty invents them.
	Log string
	// Dir holds everything. A history that an earlier run left there is used again when it is of the same size.
	Dir string
	// Callers ask for dashboards at the same time; Each is how long every kind of question is asked.
	Callers int
	Each    time.Duration
	// Progress gets lines for a person; nil for none.
	Progress io.Writer

	// The configuration of the parts; paths in it are not used.
	StoreConfig chdb.Config
	Bus         bus.Config
	Load        load.Config
	Enrich      enrich.Config
	API         api.Config
}

// Validate adds what is wrong to p.
func (o *StoreOptions) Validate(p *config.Problems) {
	p.Check(o.Events >= 0, "events", o.Events, "must not be negative")
	p.Check(o.Zones >= 1 && o.Zones <= 1_000_000, "zones", o.Zones, "must be 1 to 1000000")
	p.Check(o.Days >= 1 && o.Days <= 366, "days", o.Days, "must be 1 to 366")
	p.Check(o.Ingest >= 0, "ingest", o.Ingest, "must not be negative")
	p.Check(o.Callers >= 1 && o.Callers <= 1000, "callers", o.Callers, "must be 1 to 1000")
	p.Check(o.Each > 0, "each", o.Each, "must be positive")
	p.Check(o.Dir != "", "dir", o.Dir, "must be a path")
}

// Store is a run of RunStore.
type Store struct {
	o       StoreOptions
	log     *slog.Logger
	report  *Report
	traffic *traffic
	shared  *enrich.Enricher
	zones   *zone.Registry
	db      store.DB // that is open
	kept    kept
	retries atomic.Int64 // inserts that were tried again
	progress
}

// kept is what a run leaves for the next one in the same directory.
type kept struct {
	Events  int       `json:"events"`
	Zones   int       `json:"zones"`
	Days    int       `json:"days"`
	Log     string    `json:"log"`
	End     time.Time `json:"end"`
	Maximum float64   `json:"maximum"` // requests per second, end to end, of the traffic of all zones
}

const keptFile = "bench.json"

// RunStore measures the store and gives a report; what was measured before an error is in it.
func RunStore(ctx context.Context, o StoreOptions, log *slog.Logger) (*Report, error) {
	var p config.Problems
	o.Validate(&p)
	if err := p.Err(); err != nil {
		return nil, err
	}
	s := &Store{o: o, log: log, report: &Report{}, progress: progress{o.Progress, time.Now()}}
	if err := os.MkdirAll(o.Dir, 0o750); err != nil {
		return nil, err
	}
	if data, err := os.ReadFile(filepath.Join(o.Dir, keptFile)); err == nil {
		if err := json.Unmarshal(data, &s.kept); err != nil {
			return nil, fmt.Errorf("read %s: %w", keptFile, err)
		}
	}
	if err := s.prepare(); err != nil {
		return nil, err
	}
	steps := []func(context.Context) error{s.measureIngest, s.measureSize, s.measureDashboards}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return s.report, err
		}
	}
	return s.report, nil
}

func (s *Store) prepare() error {
	var err error
	if s.traffic, err = newTraffic(s.o.Zones, s.o.Log); err != nil {
		return err
	}
	if s.shared, err = enrich.New(s.o.Enrich, enrich.Deps{}); err != nil {
		return err
	}
	if s.zones, err = zone.New(s.traffic.zones(), zone.Deps{}); err != nil {
		return err
	}
	r := s.report
	r.set("spate", buildinfo.Version())
	r.set("machine", machine())
	from := "invented"
	if s.o.Log != "" {
		from = filepath.Base(s.o.Log)
	}
	r.set("requests", fmt.Sprintf("%s from %s, %s zones by Zipf's law", number(float64(len(s.traffic.requests))), from, number(float64(s.o.Zones))))
	return nil
}

// keep writes what the next run needs to know.
func (s *Store) keep() error {
	data, err := json.Marshal(s.kept)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.o.Dir, keptFile), data, 0o640)
}

func (s *Store) builder() load.Builder { return load.NewHTTP(s.shared.Fork(), s.zones, nil) }

// open opens the store of that name below the directory and makes its tables; close it before the next.
func (s *Store) open(ctx context.Context, name string) error {
	cfg := s.o.StoreConfig
	cfg.Path, cfg.BackupPath = filepath.Join(s.o.Dir, name), ""
	db, err := chdb.Open(ctx, cfg, chdb.Deps{Logger: s.log})
	if err != nil {
		return err
	}
	if err := schema.Migrate(ctx, db); err != nil {
		return errors.Join(err, db.Close())
	}
	s.db = db
	return nil
}

// fresh opens an empty store of that name.
func (s *Store) fresh(ctx context.Context, name string) error {
	if err := os.RemoveAll(filepath.Join(s.o.Dir, name)); err != nil {
		return err
	}
	return s.open(ctx, name)
}

// drop closes the open store and removes it.
func (s *Store) drop(name string) error {
	return errors.Join(s.db.Close(), os.RemoveAll(filepath.Join(s.o.Dir, name)))
}

// insert puts prepared blocks in. As the loader does, it tries again what may succeed later: an engine that merges may
// have no memory for a moment.
func (s *Store) insert(ctx context.Context, list []store.Insert) error {
	for _, in := range list {
		for wait := 100 * time.Millisecond; ; wait = min(2*wait, time.Second) {
			err := s.db.Insert(ctx, in)
			if err == nil {
				break
			}
			if !store.Retriable(err) || ctx.Err() != nil {
				return err
			}
			s.retries.Add(1)
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(wait):
			}
		}
	}
	return nil
}

// ask runs a query of the measurement itself and gives its answer's fields.
func (s *Store) ask(ctx context.Context, sql string) ([]string, error) {
	var b bytes.Buffer
	if _, err := s.db.Stream(ctx, store.Query{SQL: sql, Priority: store.Background}, &b); err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSpace(b.String()), "\t"), nil
}

// settle waits until the store has nothing to merge, at most for patience.
func (s *Store) settle(ctx context.Context, patience time.Duration) error {
	calm := 0
	for began := time.Now(); time.Since(began) < patience; {
		n, err := s.ask(ctx, "SELECT count() FROM system.merges")
		if err != nil {
			return err
		}
		if calm++; n[0] != "0" {
			calm = 0
		}
		if calm == 6 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
	s.say("the store still merges; going on")
	return nil
}
