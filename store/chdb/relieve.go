package chdb

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/spate-io/spate/store"
)

// Inserts come before queries: a query may hold most of the engine's memory for as long as it runs, and what an insert needs is
// little. So an insert that gets none ends the query that holds the most, and is tried again.

const (
	// relieveTries and relieveWait bound how often an insert is tried again, two seconds in all: a query ends when it next looks
	// whether it has been cancelled, and gives its memory back after that.
	relieveTries = 40
	relieveWait  = 50 * time.Millisecond
	// spared is the part of the engine's memory, one in so many, up to which a query is none that an insert would have to
	// wait for.
	spared = 8
)

// errRelieved is the error of a query that was ended for an insert. It may be tried again, as after any lack of memory.
func errRelieved() error {
	return &store.Error{Code: store.CodeMemoryLimit, Name: "MEMORY_LIMIT_EXCEEDED",
		Message: "the query was ended because it held most of the engine's memory and an insert needed some"}
}

// insertAgain runs an insert until it has had memory.
func (db *DB) insertAgain(ctx context.Context, insert func() error) error {
	err := insert()
	for try := 0; store.IsCode(err, store.CodeMemoryLimit) && try < relieveTries; try++ {
		db.relieve(ctx)
		select {
		case <-ctx.Done():
			return err
		case <-db.closing.Done():
			return err
		case <-time.After(relieveWait):
		}
		err = insert()
	}
	return err
}

// relieve ends the query that holds the most memory, if that is much.
func (db *DB) relieve(ctx context.Context) {
	tag, held := db.largest()
	if tag == "" || held < uint64(db.cfg.Memory)/spared {
		return // merges have it, which end by themselves
	}
	if _, known := db.relieved.LoadOrStore(tag, true); !known {
		db.metrics.relieved.Inc()
		db.log.WarnContext(ctx, "query was ended because an insert needed memory", "query", strings.TrimSpace(tag), "held_bytes", held)
	}
	db.kill("'" + tag + "'")
}

// largest gives the tag of the query that holds the most memory; empty when there is none.
func (db *DB) largest() (tag string, held uint64) {
	db.controlMu.Lock()
	defer db.controlMu.Unlock()
	if db.control == nil {
		return "", 0
	}
	const sql = `SELECT extract(query, '^/\\*spate-[0-9]+\\*/ '), toString(memory_usage) FROM system.processes
WHERE startsWith(query, '/*spate-') AND query_kind != 'Insert' ORDER BY memory_usage DESC LIMIT 1`
	answer, _, err := db.control.exec(nil, sql, "JSONCompactStringsEachRow", nil)
	var row []string
	if err != nil || json.NewDecoder(bytes.NewReader(answer)).Decode(&row) != nil || len(row) != 2 {
		return "", 0 // nothing runs, or there is no memory even for this: the next try asks again
	}
	held, _ = strconv.ParseUint(row[1], 10, 64) // of a query that has just begun it may be below 0
	return row[0], held
}
