package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/chdb"
	"github.com/spate-io/spate/store/clickhouse"
	"github.com/spate-io/spate/store/cluster"
	"github.com/spate-io/spate/store/maintain"
	"github.com/spate-io/spate/store/schema"
	"github.com/spate-io/spate/store/serve"
)

// errStoreClosed is what the store answers before its part has opened it and after it has closed it.
var errStoreClosed = errors.New("store is not open")

// storePart opens the store, brings its tables up to date, and closes it last of all parts that use it. It is a store.DB
// itself, so that parts can be built before the store is open.
type storePart struct {
	cfg storeConfig
	log *slog.Logger
	reg prometheus.Registerer
	db  atomic.Pointer[openStore]

	// positions says where the loader stands on the bus, for backups; nil when nobody set it.
	positions func(context.Context) (*maintain.Positions, error)
}

// openStore lets the interface lie behind an atomic pointer.
type openStore struct{ store.DB }

var (
	_ store.DB          = (*storePart)(nil)
	_ serve.RawInserter = (*storePart)(nil)
)

func newStorePart(cfg storeConfig, log *slog.Logger, reg prometheus.Registerer) *storePart {
	return &storePart{cfg: cfg, log: log, reg: reg}
}

// Run opens the store and keeps it open until ctx is cancelled.
func (s *storePart) Run(ctx context.Context) error {
	db, err := openDB(ctx, s.cfg, s.log, s.reg)
	if err != nil {
		return err
	}
	if err := s.prepare(ctx, db); err != nil {
		return errors.Join(err, db.Close())
	}
	s.db.Store(&openStore{db})
	err = s.lookAfter(ctx, db)
	s.db.Store(nil)
	return errors.Join(err, db.Close())
}

// prepare brings the tables up to date. Those of a cluster are brought up to date by `spate store apply`, not by whichever
// process starts first: here it is only seen whether that was done.
func (s *storePart) prepare(ctx context.Context, db store.DB) error {
	if many, ok := db.(*cluster.DB); ok {
		return many.CheckVersion(ctx)
	}
	if s.cfg.Address != embedded {
		if err := cluster.Check(ctx, db); err != nil {
			return err
		}
	}
	if err := schema.Migrate(ctx, db); err != nil {
		return fmt.Errorf("migrate store: %w", err)
	}
	if err := s.cfg.Retention.Apply(ctx, db); err != nil {
		return fmt.Errorf("set retention: %w", err)
	}
	return nil
}

// retentionEvery is how often zones that came since are looked for, where some zones are kept for another time.
const retentionEvery = 10 * time.Minute

// lookAfter takes orders for the embedded store and keeps the rules of retention up to date until ctx is cancelled.
func (s *storePart) lookAfter(ctx context.Context, db store.DB) error {
	group, ctx := errgroup.WithContext(ctx)
	if engine, ok := db.(maintain.Engine); ok {
		group.Go(func() error {
			return maintain.NewServer(maintain.Deps{DB: engine, Positions: s.positions, Retention: s.cfg.Retention, Logger: s.log}).Run(ctx)
		})
	}
	group.Go(func() error {
		tick := time.NewTicker(retentionEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
			if len(s.cfg.Retention.Rules) == 0 {
				continue
			}
			if err := s.cfg.Retention.Apply(ctx, db); err != nil && ctx.Err() == nil {
				s.log.Warn("retention could not be set, trying again", "err", err)
			}
		}
	})
	return group.Wait()
}

// openDB opens the engine that the address names; the caller closes it.
func openDB(ctx context.Context, cfg storeConfig, log *slog.Logger, reg prometheus.Registerer) (store.DB, error) {
	if !clickhouse.IsAddress(cfg.Address) {
		return chdb.Open(ctx, cfg.Embedded, chdb.Deps{Logger: log, Registerer: reg})
	}
	server, err := clickhouse.ParseAddress(cfg.Address)
	if err != nil {
		return nil, err
	}
	if cfg.Cluster.Name != "" {
		return cluster.Open(ctx, cfg.Cluster, server, cluster.Deps{Logger: log, Registerer: reg})
	}
	return clickhouse.Open(ctx, server, clickhouse.Deps{Logger: log, Registerer: reg})
}

// Ready implements lifecycle.Part.
func (s *storePart) Ready() error {
	_, err := s.open()
	return err
}

func (s *storePart) open() (store.DB, error) {
	if db := s.db.Load(); db != nil {
		return db.DB, nil
	}
	return nil, errStoreClosed
}

// Exec implements store.DB.
func (s *storePart) Exec(ctx context.Context, q store.Query) error {
	db, err := s.open()
	if err != nil {
		return err
	}
	return db.Exec(ctx, q)
}

// Stream implements store.DB.
func (s *storePart) Stream(ctx context.Context, q store.Query, w io.Writer) (store.Stats, error) {
	db, err := s.open()
	if err != nil {
		return store.Stats{}, err
	}
	return db.Stream(ctx, q, w)
}

// Select implements store.DB.
func (s *storePart) Select(ctx context.Context, q store.Query, results proto.Results, onBlock func(ctx context.Context, rows int) error) (store.Stats, error) {
	db, err := s.open()
	if err != nil {
		return store.Stats{}, err
	}
	return db.Select(ctx, q, results, onBlock)
}

// Insert implements store.DB.
func (s *storePart) Insert(ctx context.Context, in store.Insert) error {
	db, err := s.open()
	if err != nil {
		return err
	}
	return db.Insert(ctx, in)
}

// InsertRaw implements serve.RawInserter where the engine does.
func (s *storePart) InsertRaw(ctx context.Context, q store.Query, r io.Reader) (store.Stats, error) {
	db, err := s.open()
	if err != nil {
		return store.Stats{}, err
	}
	raw, ok := db.(serve.RawInserter)
	if !ok {
		return store.Stats{}, errors.New("this store takes inserts of data in other formats itself")
	}
	return raw.InsertRaw(ctx, q, r)
}

// Close does nothing: the store is closed by the part's Run.
func (s *storePart) Close() error { return nil }
