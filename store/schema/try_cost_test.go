package schema_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/chdb/chdbtest"
	"github.com/spate-io/spate/store/schema"
)

func cpu() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func TestTryTable(t *testing.T) {
	if os.Getenv("TRY") != "table" {
		t.Skip()
	}
	db := chdbtest.Open(t)
	if err := schema.Migrate(context.Background(), db); err != nil {
		t.Fatal(err)
	}
	b := schema.NewHTTPBlock()
	in := blockOf(t, b, madeEvents(100, 100), "x", enrichMade)
	if err := db.Insert(context.Background(), in); err != nil {
		t.Fatal(err)
	}
	run := func(name, sql string, settings map[string]string) {
		best, bestCPU := time.Hour, time.Hour
		for range 6 {
			t0, c0 := time.Now(), cpu()
			if err := db.Exec(context.Background(), store.Query{SQL: sql, Settings: settings}); err != nil {
				t.Fatal(err)
			}
			best, bestCPU = min(best, time.Since(t0)), min(bestCPU, cpu()-c0)
		}
		t.Log(name, best, bestCPU)
	}
	for _, c := range []struct{ name, from, to string }{{"codec", "CODEC(ZSTD(1))", ""}, {"both", "", ""}} {
		_ = c
	}
	ddl := rows(t, db, "SELECT create_table_query FROM system.tables WHERE name = 'http_requests_1mo' FORMAT TSVRaw")
	mk := func(name string, f func(string) string) {
		execSQL(t, db, f(strings.Replace(ddl, "http_requests_1mo", name, 1)))
		run("insert into "+name, "INSERT INTO "+name+" SELECT * FROM http_requests_1mo", map[string]string{"max_threads": "1"})
	}
	run("select combine", "SELECT * FROM http_requests_1mo", nil)
	mk("t_same", func(s string) string { return s })
	mk("t_lz4", func(s string) string { return strings.ReplaceAll(s, "CODEC(ZSTD(1))", "") })
	mk("t_null", func(s string) string { return s[:strings.Index(s, "ENGINE")] + "ENGINE=Null" })
	mk("t_compact", func(s string) string { return s + ", min_bytes_for_wide_part=100000000, min_rows_for_wide_part=10000000" })
	mk("t_compact_marks", func(s string) string { return s + ", compress_marks=0, compress_primary_key=0" })
	mk("t_nosparse", func(s string) string { return s + ", ratio_of_defaults_for_sparse_serialization=1" })
	mk("t_smallbuf", func(s string) string { return s + ", max_compress_block_size=65536, min_compress_block_size=16384" })
	mk("t_plain", func(s string) string { return strings.Replace(s, "AggregatingMergeTree", "MergeTree", 1) })
	mk("t_ng", func(s string) string { return s + ", index_granularity_bytes=0" })
	mk("t_col_stats", func(s string) string { return s + ", auto_statistics_types=''" })
	for n := 5; n < 45; n += 10 {
		_ = n
	}
}

func TestTryCost(t *testing.T) {
	if os.Getenv("TRY") != "cost" {
		t.Skip()
	}
	db := chdbtest.Open(t)
	if err := schema.Migrate(context.Background(), db); err != nil {
		t.Fatal(err)
	}
	b := schema.NewHTTPBlock()
	seq := uint64(0)
	run := func(name string, settings map[string]string) {
		best, bestCPU := time.Hour, time.Hour
		for range 4 {
			seq++
			in := blockOf(t, b, madeEvents(100+seq*500, 100), fmt.Sprint("t/0/", seq), enrichMade)
			in.Settings = settings
			t0, c0 := time.Now(), cpu()
			if err := db.Insert(context.Background(), in); err != nil {
				t.Fatal(err)
			}
			best, bestCPU = min(best, time.Since(t0)), min(bestCPU, cpu()-c0)
		}
		t.Log(name, best, bestCPU)
	}
	run("all", nil)
	run("nojit", map[string]string{"compile_expressions": "0", "compile_aggregate_expressions": "0"})
	run("nojit max_threads=1", map[string]string{"compile_expressions": "0", "compile_aggregate_expressions": "0", "max_threads": "1"})
	run("old analyzer", map[string]string{"enable_analyzer": "0", "compile_aggregate_expressions": "0"})
	run("no token", map[string]string{"insert_deduplication_token": "", "insert_deduplicate": "0"})
	for _, v := range []string{"http_colos_1mo", "http_colos_1d", "http_colos_1h", "http_colos_1m", "http_requests_1mo", "http_requests_1d", "http_requests_1h", "http_requests_1m", "http_requests_flow"} {
		if err := db.Exec(context.Background(), store.Query{SQL: "DROP VIEW " + v + "_mv"}); err != nil {
			t.Fatal(err)
		}
		run("without "+v, nil)
	}
}
