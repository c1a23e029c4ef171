// Package maintain looks after a store: backs it up while it works and restores it, checks what lies in it, and erases
// what has to go. It knows the tables by what the engine says of them, not by their names, wherever that is possible.
//
// The process that has an embedded store open does the work: [Server] takes orders on a socket in the store's directory,
// which only the owner of the directory can reach, and [Call] gives them. When nobody has it open, the caller opens it and
// calls the same functions.
package maintain

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/spate-io/spate/store"
)

// Engine is an embedded store as a backup needs it. chdb.DB satisfies it.
type Engine interface {
	store.DB
	// Hold lets no insert begin or be under way until release is called.
	Hold(ctx context.Context) (release func(), err error)
	// Path is the directory of the store.
	Path() string
}

// Servers is a store of several servers, each of which has tables of its own. cluster.DB satisfies it.
type Servers interface {
	store.DB
	// Cluster is the name that the servers have for all of them, Database where the tables are.
	Cluster() string
	Database() string
	// Each calls fn with each server alone.
	Each(ctx context.Context, fn func(addr string, db store.DB) error) error
}

// system gives what a system table is read from, of all servers where there are several, with the condition that it is about
// this store.
func system(db store.DB, name string) string {
	if s, ok := db.(Servers); ok {
		return "clusterAllReplicas(" + store.Quote(s.Cluster()) + ", system." + name + ") WHERE database = " + store.Quote(s.Database())
	}
	return "system." + name + " WHERE database = currentDatabase()"
}

// localSuffix is what a table on one server has behind the name of the one over all servers.
const localSuffix = "_local"

// Note is told how work goes on, a line at a time without a line's end. It may be called from one goroutine at a time.
type Note func(format string, args ...any)

// table is one table of the store with data of its own.
type table struct {
	name string
	dir  string // below the engine's data directory; empty on a server
}

// tables gives the tables that have parts.
func tables(ctx context.Context, db store.DB) ([]table, error) {
	rows, err := texts(ctx, db, `SELECT name, arrayElement(data_paths, 1) FROM system.tables
WHERE database = currentDatabase() AND engine LIKE '%MergeTree' ORDER BY name`, nil)
	if err != nil {
		return nil, fmt.Errorf("list tables: %w", err)
	}
	list := make([]table, len(rows))
	for i, r := range rows {
		list[i] = table{r[0], r[1]}
	}
	return list, nil
}

// texts runs a query and gives its rows, every value as text.
func texts(ctx context.Context, db store.DB, sql string, params map[string]string) ([][]string, error) {
	var b bytes.Buffer
	_, err := db.Stream(ctx, store.Query{
		SQL: sql, Params: params, Format: "JSONCompactStringsEachRow", Priority: store.Background,
		Settings: map[string]string{"max_execution_time": "0"},
	}, &b)
	if err != nil {
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

// number runs a query that gives one number.
func number(ctx context.Context, db store.DB, sql string, params map[string]string) (uint64, error) {
	rows, err := texts(ctx, db, sql, params)
	if err != nil || len(rows) == 0 || len(rows[0]) == 0 {
		return 0, err
	}
	return strconv.ParseUint(rows[0][0], 10, 64)
}

// run runs a statement, however long that takes.
func run(ctx context.Context, db store.DB, sql string, params map[string]string) error {
	return db.Exec(ctx, store.Query{SQL: sql, Params: params, Priority: store.Background, Settings: map[string]string{"max_execution_time": "0"}})
}

// Rows gives the number of rows that each table has, as the engine stores them.
func Rows(ctx context.Context, db store.DB) (map[string]uint64, error) {
	list, err := tables(ctx, db)
	if err != nil {
		return nil, err
	}
	out := map[string]uint64{}
	for _, t := range list {
		if out[t.name], err = number(ctx, db, "SELECT count() FROM "+store.Ident(t.name), nil); err != nil {
			return nil, fmt.Errorf("count %s: %w", t.name, err)
		}
	}
	return out, nil
}
