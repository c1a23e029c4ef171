package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/clickhouse"
	"github.com/spate-io/spate/store/schema"
)

// layoutTable remembers what the store was made for: how many shards rows were cut for, and by which key.
const layoutTable = "cluster_layout"

// layoutKey names the way in which zones are given to shards, should there be another one day.
const layoutKey = "cityHash64(zone) % shards"

// Discover asks the servers of the address for the cluster's shards. They do not know the ports of their HTTP interfaces: all
// have the one of the first address.
func Discover(ctx context.Context, cfg Config, server clickhouse.Config, deps Deps) ([]Shard, error) {
	_, port, err := net.SplitHostPort(server.Addresses[0])
	if err != nil {
		return nil, err
	}
	server.Database = anyDatabase
	db, err := clickhouse.New(ctx, server, clickhouse.Deps{Logger: deps.Logger})
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }() // nothing was written
	rows, err := texts(ctx, db, "SELECT toString(shard_num), host_name FROM system.clusters WHERE cluster = {name:String} ORDER BY shard_num, replica_num",
		map[string]string{"name": store.Text(cfg.Name)})
	if err != nil {
		return nil, fmt.Errorf("ask for the shards: %w", err)
	}
	var shards []Shard
	last := ""
	for _, r := range rows {
		if r[0] != last {
			last = r[0]
			shards = append(shards, Shard{})
		}
		s := &shards[len(shards)-1]
		s.Replicas = append(s.Replicas, net.JoinHostPort(r[1], port))
	}
	if len(shards) == 0 {
		return nil, fmt.Errorf("the servers know no cluster %q: see remote_servers in their configuration", cfg.Name)
	}
	for i, s := range shards {
		if len(s.Replicas) != cfg.Copies {
			return nil, fmt.Errorf("shard %d of the servers' remote_servers has %d replicas, store.cluster.copies is %d", i+1, len(s.Replicas), cfg.Copies)
		}
	}
	return shards, nil
}

// anyDatabase is there on every server: for statements that name their database, which may not be there yet.
const anyDatabase = "default"

// checkLayout compares the number of shards with the one that the store was made for.
func (db *DB) checkLayout(ctx context.Context) error {
	made, err := db.layout(ctx)
	if err != nil {
		return err
	}
	switch {
	case made == "":
		return fmt.Errorf("there is no store in database %s: run `spate store apply`", db.server.Database)
	case made != layoutText(len(db.shards)):
		return fmt.Errorf("the store was made for %s, configured is %s: rows would be looked for where they are not; "+
			"another number of shards is a new database and `spate store move`, see docs/how-to/cluster.md", made, layoutText(len(db.shards)))
	}
	return db.checkOrder(ctx)
}

// layout reads what the store was made for; empty when there is none on any live server.
func (db *DB) layout(ctx context.Context) (string, error) {
	list, err := db.ask(ctx, "SELECT layout FROM "+db.rewrite.name(layoutTable)+" LIMIT 1")
	if err != nil {
		return "", fmt.Errorf("read what the store was made for: %w", err)
	}
	if len(list) == 0 {
		return "", nil
	}
	return list[0], nil
}

// Version gives the version of the store's tables, 0 when no live server has any. A server that was just added knows of none.
func (db *DB) Version(ctx context.Context) (uint32, error) {
	list, err := db.ask(ctx, "SELECT toString(max(version)) FROM "+db.rewrite.name(schema.Migrations))
	if err != nil {
		return 0, fmt.Errorf("read version of the store: %w", err)
	}
	highest := uint64(0)
	for _, s := range list {
		v, err := strconv.ParseUint(s, 10, 32)
		if err != nil {
			return 0, fmt.Errorf("read version of the store: %w", err)
		}
		highest = max(highest, v)
	}
	return uint32(highest), nil
}

// CheckVersion says what to do when the store's tables are not those of this program.
func (db *DB) CheckVersion(ctx context.Context) error {
	at, err := db.Version(ctx)
	if err != nil {
		return err
	}
	latest, err := schema.Latest()
	switch {
	case err != nil:
		return err
	case at > latest:
		return fmt.Errorf("%w: it has version %d, this program knows up to %d; use the newer program", schema.ErrNewer, at, latest)
	case at < latest:
		return fmt.Errorf("the cluster's tables have version %d, this program needs %d: run `spate store apply`", at, latest)
	}
	return nil
}

// ask puts a question that has one answer to every live server, and gives the answers. Those without the table have none.
func (db *DB) ask(ctx context.Context, sql string) ([]string, error) {
	var list []string
	var dead []error
	answered := false
	err := db.eachServer(ctx, func(_ int, _ string, one *clickhouse.DB) error {
		rows, err := texts(ctx, one, sql, nil)
		var e *store.Error
		switch {
		case store.IsCode(err, store.CodeUnknownTable), store.IsCode(err, store.CodeUnknownDatabase):
			answered = true
		case errors.As(err, &e), ctx.Err() != nil:
			return err
		case err != nil:
			dead = append(dead, err)
		default:
			answered = true
			for _, r := range rows {
				list = append(list, r[0])
			}
		}
		return nil
	})
	if err == nil && !answered {
		err = fmt.Errorf("no server answers: %w", errors.Join(dead...))
	}
	return list, err
}

// Check says whether what a single server has is really a cluster's, whose tables are not to be used one server at a time.
func Check(ctx context.Context, db store.DB) error {
	rows, err := texts(ctx, db, "SELECT name FROM system.tables WHERE database = currentDatabase() AND name = {name:String}", map[string]string{"name": layoutTable})
	if err != nil {
		return fmt.Errorf("look for a cluster: %w", err)
	}
	if len(rows) > 0 {
		return errors.New("the database is that of a cluster: name it in store.cluster")
	}
	return nil
}

// layoutStatements make the table of the layout and fill it, unless it is filled.
func layoutStatements(w *rewriter, shards int) ([]string, error) {
	list, err := w.statement("CREATE TABLE IF NOT EXISTS " + layoutTable + " (layout String, made DateTime DEFAULT now()) ENGINE = MergeTree ORDER BY layout")
	if err != nil {
		return nil, err
	}
	table := w.name(layoutTable)
	return append(list, fmt.Sprintf("INSERT INTO %s (layout) SELECT %s WHERE (SELECT count() FROM %s) = 0", table, store.Quote(layoutText(shards)), table)), nil
}

func layoutText(shards int) string { return fmt.Sprintf("%d shards by %s", shards, layoutKey) }

// checkOrder asks a live server of each shard which shard it takes itself for: rows that were inserted in another order than
// the servers' would be looked for where they are not.
func (db *DB) checkOrder(ctx context.Context) error {
	name := map[string]string{"name": store.Text(db.cfg.Name)}
	rows, err := texts(ctx, db.ddl, "SELECT toString(uniqExact(shard_num)), toString(uniqExact(shard_weight)) FROM system.clusters WHERE cluster = {name:String}", name)
	switch {
	case err != nil:
		return fmt.Errorf("ask for the cluster: %w", err)
	case rows[0][0] != fmt.Sprint(len(db.shards)):
		return fmt.Errorf("the servers' remote_servers have %s shards in cluster %s, configured are %d", rows[0][0], db.cfg.Name, len(db.shards))
	case rows[0][1] != "1":
		return fmt.Errorf("the servers' remote_servers give the shards of %s different weights: they must be equal", db.cfg.Name)
	}
	for i, c := range db.shards {
		rows, err := texts(ctx, c, "SELECT toString(shard_num) FROM system.clusters WHERE cluster = {name:String} AND is_local", name)
		if store.IsCode(err, store.CodeUnknownDatabase) { // before the first apply
			continue
		}
		var e *store.Error
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &e):
			return fmt.Errorf("shard %d: ask for its number: %w", i+1, err)
		case err != nil:
			db.log.WarnContext(ctx, "shard has no live server", "shard", i+1, "err", err)
		case len(rows) == 0:
			db.log.WarnContext(ctx, "server does not find itself in the cluster, so the order of shards is not checked", "shard", i+1, "cluster", db.cfg.Name)
		case rows[0][0] != fmt.Sprint(i+1):
			return fmt.Errorf("a server of store.cluster.shards[%d] says that it is of shard %s: the order must be that of the servers' remote_servers", i, rows[0][0])
		}
	}
	return nil
}

// texts runs a query whose columns are all text and gives its rows.
func texts(ctx context.Context, db store.DB, sql string, params map[string]string) ([][]string, error) {
	var b bytes.Buffer
	q := store.Query{SQL: sql, Params: params, Format: "JSONCompactStringsEachRow", Priority: store.Background}
	if _, err := db.Stream(ctx, q, &b); err != nil {
		return nil, err
	}
	var out [][]string
	for dec := json.NewDecoder(&b); dec.More(); {
		var row []string
		if err := dec.Decode(&row); err != nil {
			return nil, fmt.Errorf("decode answer: %w", err)
		}
		out = append(out, row)
	}
	return out, nil
}
