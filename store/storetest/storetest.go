// Package storetest is the suite that every [store.DB] must pass: the embedded engine, the same engine behind its HTTP
// interface, a ClickHouse server.
//
// The suite makes tables with names of its own, so that it can run beside others on a shared server, and drops them.
package storetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/spate-io/spate/store"
)

// ServerEnv names the variable with the address of a real server, in the form of store/clickhouse.
const ServerEnv = "SPATE_TEST_CLICKHOUSE"

// Target is what the suite runs on.
type Target struct {
	// Open gives a store whose data outlives it; the suite closes it. Two may be open at a time if Shared is set.
	Open func(t testing.TB) store.DB
	// Shared says that Open may be called while another store is open.
	Shared bool
}

// Server gives the address of the real server to test with; the test is skipped, with a line that says so, when there is
// none.
func Server(t testing.TB) string {
	t.Helper()
	addr := os.Getenv(ServerEnv)
	if addr == "" {
		t.Skipf("%s is not set: not run against a ClickHouse server", ServerEnv)
	}
	return addr
}

// Run runs the suite.
func Run(t *testing.T, target Target) {
	db := target.Open(t)
	closed := false
	defer func() {
		if !closed {
			_ = db.Close() // the test has failed already
		}
	}()
	for _, c := range []struct {
		name string
		fn   func(t *testing.T, db store.DB)
	}{
		{"exec", testExec},
		{"stream_formats", testStream},
		{"stream_large", testStreamLarge},
		{"params_hostile", testParams},
		{"settings", testSettings},
		{"select_types", testSelectTypes},
		{"select_many_blocks", testSelectMany},
		{"select_stopped_by_caller", testSelectStopped},
		{"errors", testErrors},
		{"error_late_in_stream", testLateError},
		{"writer_fails", testWriterFails},
		{"cancel", testCancel},
		{"insert_one_block", testInsert},
		{"insert_refused_whole", testInsertRefused},
		{"token_through_views", testTokens},
		{"no_token_no_dedup", testNoToken},
		{"failing_view_is_retried", testFailingView},
		{"concurrent", testConcurrent},
		{"query_id", testQueryID},
	} {
		t.Run(c.name, func(t *testing.T) { c.fn(t, db) })
	}
	t.Run("close", func(t *testing.T) {
		closed = true
		testClose(t, db)
	})
	if t.Failed() {
		return
	}
	t.Run("open_again", func(t *testing.T) {
		again := target.Open(t)
		if got := Text(t, again, "SELECT 1"); got != "1" {
			t.Errorf("got %q", got)
		}
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Table makes a table with a name of its own and drops it when the test ends. columns is what stands between the
// brackets, rest what follows them.
func Table(t testing.TB, db store.DB, columns, rest string) string {
	t.Helper()
	name := "t_" + strings.ToLower(rand.Text()[:12])
	Exec(t, db, "CREATE TABLE "+name+" ("+columns+") "+rest)
	t.Cleanup(func() {
		if err := db.Exec(context.Background(), store.Query{SQL: "DROP TABLE IF EXISTS " + name}); err != nil && !errors.Is(err, store.ErrClosed) {
			t.Error(err)
		}
	})
	return name
}

// Exec runs a statement that must not fail.
func Exec(t testing.TB, db store.DB, sql string) {
	t.Helper()
	if err := db.Exec(context.Background(), store.Query{SQL: sql}); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// Text gives the answer of a query as TabSeparated, without the last line end.
func Text(t testing.TB, db store.DB, sql string) string {
	t.Helper()
	return Stream(t, db, store.Query{SQL: sql})
}

// Stream gives the answer of a query in its format, without the last line end.
func Stream(t testing.TB, db store.DB, q store.Query) string {
	t.Helper()
	var b bytes.Buffer
	if _, err := db.Stream(context.Background(), q, &b); err != nil {
		t.Fatalf("%s: %v", q.SQL, err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// Block makes a Native block of the columns n UInt64, with the numbers from..to-1, and s String, with text that is hard to
// carry.
func Block(t testing.TB, from, to uint64) []byte {
	t.Helper()
	var n proto.ColUInt64
	var s proto.ColStr
	for i := from; i < to; i++ {
		n.Append(i)
		s.Append(hard(i))
	}
	return Encode(t, proto.Input{{Name: "n", Data: &n}, {Name: "s", Data: &s}})
}

func hard(i uint64) string { return fmt.Sprintf("it's %d\x00\n'\\\t\xff__exception__", i) }

// hardSQL is hard(n) in SQL.
const hardSQL = `concat('it\'s ', toString(n), '\0\n\'\\\t\xff__exception__')`

// Encode makes a Native block of columns.
func Encode(t testing.TB, in proto.Input) []byte {
	t.Helper()
	var buf proto.Buffer
	b := proto.Block{Columns: len(in), Rows: in[0].Data.Rows()}
	if err := b.EncodeRawBlock(&buf, 0, in); err != nil {
		t.Fatal(err)
	}
	return buf.Buf
}
