// Package cluster is a [store.DB] on a ClickHouse cluster: replicated tables on every server, distributed tables over them.
//
// [DB] is the main type. What reads goes to any live server, over the distributed tables. Statements that make or change
// tables become those for a cluster, on all servers. An insert is cut by zone, and each piece goes to a live replica of its
// shard, into the local table, under the insert's own token: replicas share the tokens of what they stored, so a piece that
// comes again, to the same replica or another, changes nothing.
//
// The invariant: the same block is always cut into the same pieces, so that an insert of which only some shards have their
// piece is brought to its end by repeating it as a whole. This needs the number of shards to stay what it is, which the store
// itself remembers, and [Open] checks. docs/adr/0008 has the reasons.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/clickhouse"
)

var _ store.DB = (*DB)(nil)

// Deps are what a cluster's client is given.
type Deps struct {
	// Logger may be nil.
	Logger *slog.Logger
	// Registerer may be nil.
	Registerer prometheus.Registerer
}

// DB is a client of a cluster. All its methods may be called from any number of goroutines.
type DB struct {
	cfg     Config
	server  clickhouse.Config // for all servers
	log     *slog.Logger
	metrics *metrics
	rewrite *rewriter
	all     *clickhouse.DB   // any server
	ddl     *clickhouse.DB   // any server, for statements that name their database, which may not be there yet
	shards  []*clickhouse.DB // the replicas of each
	done    *progress
	absent  absent
}

// Open makes a client. It asks the servers how the cluster looks when the configuration does not say, and compares it with
// what the store was made for. Some servers may be dead; one must answer. The caller closes it.
func Open(ctx context.Context, cfg Config, server clickhouse.Config, deps Deps) (*DB, error) {
	db, err := connect(ctx, cfg, server, deps)
	if err != nil {
		return nil, fmt.Errorf("open cluster %s: %w", cfg.Name, err)
	}
	if err := db.checkLayout(ctx); err != nil {
		_ = db.Close() // the error that matters is the first
		return nil, fmt.Errorf("open cluster %s: %w", cfg.Name, err)
	}
	db.log.InfoContext(ctx, "cluster is open", "cluster", cfg.Name, "shards", len(db.shards), "copies", db.cfg.Copies, "database", server.Database, "quorum", db.cfg.quorum())
	return db, nil
}

// connect makes a client that knows the servers, whatever is on them.
func connect(ctx context.Context, cfg Config, server clickhouse.Config, deps Deps) (*DB, error) {
	if cfg.Name == "" {
		return nil, errors.New("no name of a cluster")
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	if deps.Registerer == nil {
		deps.Registerer = prometheus.NewRegistry()
	}
	if len(cfg.Shards) == 0 {
		var err error
		if cfg.Shards, err = Discover(ctx, cfg, server, deps); err != nil {
			return nil, err
		}
	}
	db := &DB{
		cfg: cfg, server: server, log: deps.Logger, metrics: newMetrics(deps.Registerer), done: newProgress(),
		rewrite: &rewriter{cluster: cfg.Name, database: server.Database, keeper: cfg.KeeperPath},
	}
	server.Replicas = true
	server.Settings = settings(server.Settings)
	var everyone []string
	for i, s := range cfg.Shards {
		one := server
		one.Addresses = rotated(s.Replicas)
		everyone = append(everyone, s.Replicas...)
		c, err := clickhouse.New(ctx, one, db.clientDeps(deps, strconv.Itoa(i+1)))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("shard %d: %w", i+1, err), db.Close())
		}
		db.shards = append(db.shards, c)
	}
	server.Addresses = rotated(everyone)
	var err error
	if db.all, err = clickhouse.New(ctx, server, db.clientDeps(deps, "all")); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	server.Database = anyDatabase
	if db.ddl, err = clickhouse.New(ctx, server, db.clientDeps(deps, "ddl")); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// clientDeps tell the metrics of the clients apart.
func (db *DB) clientDeps(deps Deps, shard string) clickhouse.Deps {
	return clickhouse.Deps{Logger: deps.Logger, Registerer: prometheus.WrapRegistererWith(prometheus.Labels{"shard": shard}, deps.Registerer)}
}

// settings gives those of every statement: what the configuration says, and what a cluster needs besides.
func settings(configured map[string]string) map[string]string {
	m := map[string]string{
		// A subquery over all servers is answered once, as on one server, and its answer sent to them.
		"distributed_product_mode": "global",
		// A zone's question goes to the zone's shard alone.
		"optimize_skip_unused_shards": "1",
		// An answer without a shard would look like one with less traffic.
		"skip_unavailable_shards": "0",
		// A replica that is further behind is asked only when there is no other.
		"max_replica_delay_for_distributed_queries":          "15",
		"fallback_to_stale_replicas_for_distributed_queries": "1",
		// INSERT SELECT over all servers ends when the rows are on their shards.
		"distributed_foreground_insert": "1",
		// A server that does not answer is given up soon: there is another with the same rows.
		"connect_timeout_with_failover_ms": "2000",
	}
	maps.Copy(m, configured)
	return m
}

// rotated gives the list begun anywhere, so that processes do not all use the same server.
func rotated(list []string) []string {
	i := rand.IntN(len(list))
	return append(append(make([]string, 0, len(list)), list[i:]...), list[:i]...)
}

// Shards gives the number of shards.
func (db *DB) Shards() int { return len(db.shards) }

// Cluster gives the cluster's name, for functions like clusterAllReplicas.
func (db *DB) Cluster() string { return db.cfg.Name }

// Database gives the database that the tables are in.
func (db *DB) Database() string { return db.server.Database }

// Each calls fn with each server alone, one after the other. The store given is closed when fn has returned.
func (db *DB) Each(ctx context.Context, fn func(addr string, one store.DB) error) error {
	for _, s := range db.cfg.Shards {
		for _, addr := range s.Replicas {
			cfg := db.server
			cfg.Addresses = []string{addr}
			one, err := clickhouse.New(ctx, cfg, clickhouse.Deps{})
			if err == nil {
				err = errors.Join(fn(addr, one), one.Close())
			}
			if err != nil {
				return fmt.Errorf("%s: %w", addr, err)
			}
		}
	}
	return nil
}

// Stream implements [store.DB].
func (db *DB) Stream(ctx context.Context, q store.Query, w io.Writer) (store.Stats, error) {
	return db.all.Stream(ctx, q, w)
}

// Select implements [store.DB].
func (db *DB) Select(ctx context.Context, q store.Query, results proto.Results, onBlock func(context.Context, int) error) (store.Stats, error) {
	return db.all.Select(ctx, q, results, onBlock)
}

// Exec implements [store.DB]: what makes or changes a table does so on all servers. One that is dead does it when it is back.
func (db *DB) Exec(ctx context.Context, q store.Query) error {
	list, err := db.rewrite.statement(q.SQL)
	if err != nil {
		return err
	}
	for _, sql := range list {
		q.SQL = sql
		if err := db.run(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

// Close ends what runs and closes all connections. Calling it again does nothing.
func (db *DB) Close() error {
	var errs []error
	for _, c := range db.shards {
		errs = append(errs, c.Close())
	}
	for _, c := range []*clickhouse.DB{db.all, db.ddl} {
		if c != nil {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}

// forgetAbsent is for how long servers that did not run a statement are not waited for.
const forgetAbsent = 10 * time.Minute
