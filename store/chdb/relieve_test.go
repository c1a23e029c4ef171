package chdb_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spate-io/spate/internal/config"
	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/chdb"
	"github.com/spate-io/spate/store/chdb/chdbtest"
)

// held is a query that has some 67 MB from its first seconds on, and no end.
const held = "SELECT count() FROM (SELECT n, count() FROM (SELECT number % 2000000 AS n FROM numbers(100000000000)) GROUP BY n)"

// A query holds most of the engine's memory. Inserts that need more than the rest are stored, and it is the query that ends.
func TestInsert_EndsTheQueryThatHoldsTheMemory(t *testing.T) {
	cfg := chdb.DefaultConfig()
	cfg.Path, cfg.Memory, cfg.QueryMemory, cfg.Cache = t.TempDir(), 256<<20, 256<<20, config.MiB
	db := chdbtest.OpenConfig(t, cfg)
	ctx := t.Context()
	if err := db.Exec(ctx, store.Query{SQL: "CREATE TABLE t (a UInt64, b String) ENGINE = MergeTree ORDER BY a SETTINGS non_replicated_deduplication_window = 100"}); err != nil {
		t.Fatal(err)
	}
	var block bytes.Buffer
	if _, err := db.Stream(ctx, store.Query{SQL: "SELECT number AS a, repeat('x', 1000) AS b FROM numbers(60000)", Format: "Native", Settings: map[string]string{"max_block_size": "100000"}}, &block); err != nil {
		t.Fatal(err)
	}
	insert := func(token string) error {
		return db.Insert(ctx, store.Insert{Table: "t", Columns: []string{"a", "b"}, Block: block.Bytes(), Token: token})
	}
	if err := insert("alone"); err != nil {
		t.Fatalf("alone: %v", err)
	}
	ended := make(chan error, 1)
	go func() {
		for ctx.Err() == nil { // it may be the one that finds no memory: then it begins again
			_, err := db.Stream(ctx, store.Query{SQL: held, Settings: map[string]string{"max_bytes_before_external_group_by": "0", "max_threads": "1"}}, &bytes.Buffer{})
			if err == nil || strings.Contains(err.Error(), "an insert needed") {
				ended <- err
				return
			}
		}
	}()
	waitForMemory(t, db)
	for i := 0; ; i++ {
		if err := insert(fmt.Sprint(i)); err != nil {
			t.Fatalf("insert %d: %v", i, err)
		}
		select {
		case err := <-ended:
			if !store.IsCode(err, store.CodeMemoryLimit) || !strings.Contains(err.Error(), "an insert needed") || !store.Retriable(err) {
				t.Errorf("the query ended with %v", err)
			}
			var n bytes.Buffer
			if _, err := db.Stream(ctx, store.Query{SQL: "SELECT count() FROM t"}, &n); err != nil || strings.TrimSpace(n.String()) != fmt.Sprint(60000*(i+2)) {
				t.Errorf("%d inserts, %s rows, %v", i+2, n.String(), err)
			}
			return
		default:
		}
		if i > 100 {
			t.Fatal("the query was not ended, and all inserts had memory: the test proves nothing")
		}
	}
}

// waitForMemory waits until the query holds its memory.
func waitForMemory(t *testing.T, db *chdb.DB) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; {
		var b bytes.Buffer
		_, err := db.Stream(t.Context(), store.Query{SQL: "SELECT count() FROM system.processes WHERE query NOT LIKE '%system.processes%' AND memory_usage > 60000000"}, &b)
		if err == nil && strings.TrimSpace(b.String()) == "1" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the query holds nothing: %s %v", b.String(), err)
		}
	}
}

// All connections of queries are taken by queries that do not end. A loader in another process still inserts.
func TestInsertRaw_WithATokenWaitsForNoQuery(t *testing.T) {
	cfg := chdb.DefaultConfig()
	cfg.Path, cfg.Connections = t.TempDir(), 1
	db := chdbtest.OpenConfig(t, cfg)
	if err := db.Exec(t.Context(), store.Query{SQL: "CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := db.Stream(ctx, store.Query{SQL: "SELECT sum(number) FROM numbers(100000000000)", Settings: map[string]string{"max_threads": "1"}}, &bytes.Buffer{})
		ended <- err
	}()
	raw := store.Query{SQL: "INSERT INTO t (a)", Format: "CSV", Settings: map[string]string{"insert_deduplication_token": "x"}}
	for range 3 {
		if _, err := db.InsertRaw(t.Context(), raw, strings.NewReader("1\n2\n")); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case err := <-ended:
		t.Errorf("the query ended with %v: the test proves nothing", err)
	default:
	}
	cancel()
	<-ended
}
