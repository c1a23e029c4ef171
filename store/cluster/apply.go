package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/clickhouse"
	"github.com/spate-io/spate/store/schema"
)

// Note is told what is being done, one line at a time.
type Note func(format string, args ...any)

// Applied is what [Apply] did.
type Applied struct {
	// From and To are the versions of the tables before and after.
	From, To uint32
	// Statements is how many were run, or would be.
	Statements []string
	// Repaired are the tables that were made on servers that lacked them, as server and table.
	Repaired []string
	// Absent are the servers that could not be asked, or have not run all statements: they will when they are back.
	Absent []string
}

// ApplyOptions say how.
type ApplyOptions struct {
	// DryRun changes nothing and gives the statements that would be run.
	DryRun bool
	// Deps are for the clients.
	Deps Deps
}

// Apply makes the servers' tables what t says. It may be cut off and begun again, and be run on what is there already, while
// ingest goes on. A store that is newer is left alone, with an error that is [schema.ErrNewer]. Tables that a live server lacks,
// because it is new or was away for long, are made there as another has them.
func Apply(ctx context.Context, t Target, server clickhouse.Config, o ApplyOptions, note Note) (*Applied, error) {
	if t.Cluster.Name == "" {
		return applyServer(ctx, t, server, o, note)
	}
	a := &Applied{}
	db, err := connect(ctx, t.Cluster, server, o.Deps)
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }() // what was run is through
	t.Cluster = db.cfg
	if err := db.prepare(ctx, a, note); err != nil {
		return nil, err
	}
	if a.From, err = db.Version(ctx); err != nil {
		return nil, err
	}
	if made, err := db.layout(ctx); err != nil {
		return nil, err
	} else if made != "" && made != layoutText(len(db.shards)) {
		return nil, db.checkLayout(ctx)
	} else if made == "" && a.From > 0 {
		return nil, fmt.Errorf("database %s has a store of a single server: give the cluster another one, and move with `spate store move`", t.Database)
	}
	if a.Statements, err = Plan(ctx, t, a.From, db); err != nil {
		return nil, err
	}
	if o.DryRun {
		return a, nil
	}
	if err := db.make(ctx, t, a, note); err != nil {
		return a, err
	}
	return a, db.repair(ctx, a, note)
}

// applyServer is Apply for one server, or several with the same data.
func applyServer(ctx context.Context, t Target, server clickhouse.Config, o ApplyOptions, note Note) (*Applied, error) {
	db, err := clickhouse.Open(ctx, server, clickhouse.Deps{Logger: o.Deps.Logger, Registerer: o.Deps.Registerer})
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }() // what was run is through
	a := &Applied{}
	a.From, err = schema.Version(ctx, db)
	if err != nil && !store.IsCode(err, store.CodeUnknownTable) {
		return nil, err
	}
	if a.Statements, err = Plan(ctx, t, a.From, db); err != nil || o.DryRun {
		return a, err
	}
	note("version %d, %d statements", a.From, len(a.Statements))
	if err := schema.Migrate(ctx, db); err != nil {
		return a, err
	}
	if err := t.Retention.Apply(ctx, db); err != nil {
		return a, err
	}
	a.To, err = schema.Version(ctx, db)
	return a, err
}

// prepare looks at every server before anything is changed.
func (db *DB) prepare(ctx context.Context, a *Applied, note Note) error {
	if err := db.checkOrder(ctx); err != nil {
		return err
	}
	var problems []error
	shardOf := map[string]int{} // by macro
	replicas := map[string]string{}
	err := db.eachServer(ctx, func(shard int, addr string, one *clickhouse.DB) error {
		f, err := db.facts(ctx, one)
		var e *store.Error
		switch {
		case errors.As(err, &e):
			return err
		case err != nil:
			note("%s does not answer: %v", addr, err)
			a.Absent = append(a.Absent, addr)
			return nil
		}
		note("%s is alive: shard %d, macros shard %q and replica %q, version %s", addr, shard+1, f.shard, f.replica, f.version)
		problems = append(problems, f.problems(addr)...)
		if other, ok := shardOf[f.shard]; ok && other != shard {
			problems = append(problems, fmt.Errorf("%s: macro shard %q is that of shard %d, too", addr, f.shard, other+1))
		}
		shardOf[f.shard] = shard
		key := f.shard + "\x00" + f.replica
		if other, ok := replicas[key]; ok {
			problems = append(problems, fmt.Errorf("%s: macros shard %q and replica %q are those of %s, too", addr, f.shard, f.replica, other))
		}
		replicas[key] = addr
		return nil
	})
	if err != nil {
		return err
	}
	macrosOfShard := map[int]string{}
	for m, s := range shardOf {
		if other, ok := macrosOfShard[s]; ok {
			problems = append(problems, fmt.Errorf("servers of shard %d have the macros shard %q and %q: they must have the same", s+1, other, m))
		}
		macrosOfShard[s] = m
	}
	return errors.Join(problems...)
}

// facts are what a server says of itself.
type facts struct{ shard, replica, version, engine string }

func (f facts) problems(addr string) []error {
	var list []error
	switch {
	case f.shard == "" || f.replica == "":
		list = append(list, fmt.Errorf("%s: macros shard and replica must be set in the server's configuration", addr))
	case f.shard == "all":
		list = append(list, fmt.Errorf("%s: macro shard must not be %q", addr, f.shard))
	}
	if f.engine != "" && f.engine != "Atomic" {
		list = append(list, fmt.Errorf("%s: the database is of engine %s, it must be Atomic", addr, f.engine))
	}
	return list
}

func (db *DB) facts(ctx context.Context, one *clickhouse.DB) (facts, error) {
	rows, err := texts(ctx, one, `SELECT (SELECT any(substitution) FROM system.macros WHERE macro = 'shard'), (SELECT any(substitution) FROM system.macros WHERE macro = 'replica'),
version(), (SELECT any(engine) FROM system.databases WHERE name = {database:String})`, map[string]string{"database": store.Text(db.server.Database)})
	if err != nil {
		return facts{}, err
	}
	r := rows[0]
	return facts{shard: r[0], replica: r[1], version: r[2], engine: r[3]}, nil
}

// eachServer calls fn with a client for each server alone, in which statements must name their database.
func (db *DB) eachServer(ctx context.Context, fn func(shard int, addr string, one *clickhouse.DB) error) error {
	for i, s := range db.cfg.Shards {
		for _, addr := range s.Replicas {
			cfg := db.server
			cfg.Addresses, cfg.Database = []string{addr}, anyDatabase
			one, err := clickhouse.New(ctx, cfg, clickhouse.Deps{})
			if err == nil {
				err = errors.Join(fn(i, addr, one), one.Close())
			}
			if err != nil {
				return fmt.Errorf("%s: %w", addr, err)
			}
		}
	}
	return nil
}

// make runs what the plan says.
func (db *DB) make(ctx context.Context, t Target, a *Applied, note Note) error {
	note("version %d, %d statements", a.From, len(a.Statements))
	first := []string{db.rewrite.createDatabase()}
	layout, err := layoutStatements(db.rewrite, len(db.shards))
	if err != nil {
		return err
	}
	for _, sql := range append(first, layout...) {
		if err := db.insist(ctx, store.Query{SQL: sql, Priority: store.Background}); err != nil {
			return fmt.Errorf("%.60q: %w", sql, err)
		}
	}
	if a.From > 0 { // a server without a table could not change it
		if err := db.repair(ctx, a, note); err != nil {
			return err
		}
	}
	told := &telling{DB: db, version: a.From, note: note}
	if err := schema.Migrate(ctx, told); err != nil {
		return err
	}
	if err := t.Retention.Apply(ctx, told); err != nil {
		return err
	}
	if a.To, err = schema.Latest(); err != nil {
		return err
	}
	for _, host := range db.missing() {
		if !slices.Contains(a.Absent, host) {
			a.Absent = append(a.Absent, host)
		}
	}
	return nil
}

// telling notes each statement. It knows the version, which a server that was just added does not.
type telling struct {
	*DB
	version uint32
	note    Note
}

// Select implements [store.DB].
func (t *telling) Select(ctx context.Context, q store.Query, results proto.Results, onBlock func(context.Context, int) error) (store.Stats, error) {
	r := &recorder{db: t.DB, version: t.version}
	return r.Select(ctx, q, results, onBlock)
}

// Exec implements [store.DB].
func (t *telling) Exec(ctx context.Context, q store.Query) error {
	list, err := t.rewrite.statement(q.SQL)
	if err != nil {
		return err
	}
	for _, sql := range list {
		t.note("%s", oneLine(sql))
		q.SQL = sql
		if err := t.insist(ctx, q); err != nil {
			return err
		}
	}
	return nil
}
