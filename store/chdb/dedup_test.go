package chdb_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/chdb"
	"github.com/spate-io/spate/store/chdb/chdbtest"
)

// A process that dies after the engine has written a token and before the part has its name leaves this: the token, no
// part.
func TestOpen_ForgetsTokensWithoutData(t *testing.T) {
	dir := t.TempDir()
	cfg := chdb.DefaultConfig()
	cfg.Path = dir
	db := chdbtest.OpenConfig(t, cfg)
	exec(t, db, "CREATE TABLE t (n UInt64, s String) ENGINE = MergeTree ORDER BY n SETTINGS non_replicated_deduplication_window = 1000")
	insert := func(db store.DB, token string) {
		t.Helper()
		err := db.Insert(context.Background(), store.Insert{Table: "t", Columns: []string{"n", "s"}, Block: block(t, 0, 10), Token: token})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, token := range []string{"a", "b", "c", "d"} {
		insert(db, token)
	}
	exec(t, db, "OPTIMIZE TABLE t FINAL") // the parts of a to d are now one, and d is inserted again below
	insert(db, "e")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	parts, err := filepath.Glob(filepath.Join(dir, "data", "store", "*", "*", "all_5_5_0"))
	if err != nil || len(parts) != 1 {
		t.Fatalf("%v %v", parts, err)
	}
	if err := os.RemoveAll(parts[0]); err != nil {
		t.Fatal(err)
	}
	logs, _ := filepath.Glob(filepath.Join(dir, "data", "store", "*", "*", "deduplication_logs", "*.txt"))
	tear(t, logs[len(logs)-1])

	db = chdbtest.OpenConfig(t, cfg)
	if got := text(t, db, store.Query{SQL: "SELECT count() FROM t"}); got != "40" {
		t.Errorf("%s rows", got)
	}
	insert(db, "e")
	for _, token := range []string{"a", "b", "c", "d", "e"} {
		insert(db, token)
	}
	if got := text(t, db, store.Query{SQL: "SELECT count() FROM t"}); got != "50" {
		t.Errorf("%s rows, want 50", got)
	}
}

// tear adds half a line, as a power cut may leave it.
func tear(t *testing.T, name string) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(string(data), "\n") {
		t.Fatalf("%q", data)
	}
	if err := os.WriteFile(name, append(data, "1\tall_9_9"...), 0o640); err != nil {
		t.Fatal(err)
	}
}
