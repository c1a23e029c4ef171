// Package store is what the rest of Spate knows of the database: run a statement, stream an answer, read typed columns,
// insert one block. It speaks ClickHouse's SQL and nothing else; store/chdb is the engine inside this process,
// store/clickhouse a server or cluster. Tables and migrations are in store/schema.
//
// The invariant that everything above relies on: one Insert is one block, stored as a whole or not at all, and a second
// Insert with the same token changes nothing, in the table and in every table that materialized views feed from it.
package store

import (
	"context"
	"io"
	"time"

	"github.com/ClickHouse/ch-go/proto"
)

// Query is one statement.
type Query struct {
	// SQL is the statement, with {name:Type} where a parameter goes.
	SQL string
	// Params are the values of the parameters as ClickHouse text, by name. They are sent beside the statement, never
	// pasted into it. Text goes in as it is; use [Text] for strings from outside, which escapes what the text form needs.
	Params map[string]string
	// Settings are ClickHouse settings for this statement alone. A name the engine does not know is an error.
	Settings map[string]string
	// ID names the query in the engine's own tables and errors; empty lets the engine choose.
	ID string
	// Format is the output format of Stream, for example JSONEachRow; empty means the one that the SQL names, else
	// TabSeparated.
	Format string
	// Priority decides which bound counts the query; see [Priority].
	Priority Priority
	// Small says that the answer of Select fits into memory several times over. It may then come as a whole, which costs less.
	Small bool
}

// Priority separates kinds of work so that one cannot starve another. Inserts come before all of them.
type Priority uint8

// The priorities.
const (
	// Interactive is the default: dashboards and API calls that read rollups.
	Interactive Priority = iota
	// Scan is for dashboards that read raw requests: it has the connections of Interactive and yields the processors.
	Scan
	// Background is for migrations, exports, checks, and for SQL that users write: it yields the processors and has connections of
	// its own.
	Background
)

// PriorityHeader is the HTTP header in which a query's priority goes from a role to `spate store serve`; what comes without it is
// [Background]. Other servers do not know it.
const PriorityHeader = "X-Spate-Priority"

var priorityNames = [...]string{Interactive: "interactive", Scan: "scan", Background: "background"}

// String gives the name as in [PriorityHeader].
func (p Priority) String() string { return priorityNames[p] }

// ParsePriority reads the name. Any other is [Background].
func ParsePriority(name string) Priority {
	for p, n := range priorityNames {
		if n == name {
			return Priority(p)
		}
	}
	return Background
}

// Stats tells what a statement cost.
type Stats struct {
	// Rows and Bytes are what was read from tables (bytes uncompressed).
	Rows, Bytes uint64
	// ResultRows and ResultBytes are what came out.
	ResultRows, ResultBytes uint64
	// Elapsed is the time the engine took.
	Elapsed time.Duration
}

// Insert is one block for one table.
type Insert struct {
	// Table is the table's name.
	Table string
	// Columns are the columns the block has, in its order.
	Columns []string
	// Block is one block in ClickHouse's Native format, all Columns in it. It is only read during the call.
	Block []byte
	// Token identifies the content; a second Insert with the same token is a no-op. Empty means no de-duplication.
	Token string
	// Settings are ClickHouse settings for this insert alone.
	Settings map[string]string
}

// DB is a ClickHouse engine. All methods may be called from any number of goroutines. Errors of the engine are *[Error];
// [Retriable] decides what may be tried again.
type DB interface {
	// Exec runs a statement and throws its answer away.
	Exec(ctx context.Context, q Query) error
	// Stream runs a query and writes the answer to w as it comes, in q.Format. What was written before an error is
	// incomplete.
	Stream(ctx context.Context, q Query, w io.Writer) (Stats, error)
	// Select runs a query and decodes the answer into results, block by block: results hold one block, rows its length,
	// whenever onBlock is called, and are reset after it. Names and types of results must equal those of the answer.
	Select(ctx context.Context, q Query, results proto.Results, onBlock func(ctx context.Context, rows int) error) (Stats, error)
	// Insert stores one block. It returns after the block is in the table and in all tables fed from it.
	Insert(ctx context.Context, in Insert) error
	// Close ends running statements and releases the engine. Calls after Close fail with [ErrClosed].
	Close() error
}
