package cluster

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/clickhouse"
	"github.com/spate-io/spate/store/schema"
	"github.com/spate-io/spate/store/serve/servetest"
	"github.com/spate-io/spate/store/storetest"
)

func TestMain(m *testing.M) { servetest.Main(m) }

const testDatabase = "default"

// target is a cluster of so many shards.
func target(shards, copies int) Target {
	cfg := DefaultConfig()
	cfg.Name, cfg.Copies = "edge", copies
	for i := range shards {
		var s Shard
		for j := range copies {
			s.Replicas = append(s.Replicas, fmt.Sprintf("s%dr%d:8123", i+1, j+1))
		}
		cfg.Shards = append(cfg.Shards, s)
	}
	return Target{Cluster: cfg, Database: testDatabase, Retention: schema.DefaultRetention()}
}

func server(t testing.TB, addrs ...string) clickhouse.Config {
	t.Helper()
	cfg, err := clickhouse.ParseAddress("clickhouse://" + strings.Join(addrs, ",") + "/" + testDatabase + "?quarantine=50ms")
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func single(t testing.TB, addr string) *clickhouse.DB {
	t.Helper()
	db, err := clickhouse.Open(context.Background(), server(t, addr), clickhouse.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func plan(t testing.TB, tg Target) []string {
	t.Helper()
	list, err := Plan(context.Background(), tg, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

var (
	onCluster   = regexp.MustCompile(" ON CLUSTER `edge`")
	replicated  = regexp.MustCompile(`ENGINE = Replicated(\w+)\('[^']*', '[^']*'(?:, )?([^)]*)\)`)
	window      = regexp.MustCompile(`\breplicated_deduplication_window = (\d+), replicated_deduplication_window_seconds = \d+`)
	distributed = regexp.MustCompile(`ENGINE = Distributed\('edge', '\w+', '(\w+)', cityHash64\(\w+\)\)`)
)

// plain gives the statement that one server without Keeper can run in place of one of a plan: replicated tables are not
// replicated, and what lies over all shards lies over this one.
func plain(sql string) string {
	sql = onCluster.ReplaceAllString(sql, "")
	sql = replicated.ReplaceAllString(sql, "ENGINE = $1($2)")
	sql = window.ReplaceAllString(sql, "non_replicated_deduplication_window = $1")
	return distributed.ReplaceAllString(sql, "ENGINE = Merge(currentDatabase(), '^$1$$')")
}

// makeShard makes the tables of a shard on a server.
func makeShard(t testing.TB, db store.DB, tg Target) {
	t.Helper()
	for _, sql := range plan(t, tg) {
		storetest.Exec(t, db, plain(sql))
	}
}
