package clickhouse_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/clickhouse"
	"github.com/spate-io/spate/store/serve/servetest"
	"github.com/spate-io/spate/store/storetest"
)

func cluster() *clickhouse.Cluster {
	return clickhouse.NewCluster(clickhouse.ClusterConfig{Name: "edge", Copies: 2, Shards: 2}, clickhouse.PlaceByZone)
}

func TestCluster_Statement(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     []string
	}{
		{"sharded", "CREATE TABLE IF NOT EXISTS http_x (\n    zone_id String\n) ENGINE = AggregatingMergeTree\nORDER BY zone_id\nSETTINGS non_replicated_deduplication_window = 10;", []string{
			"CREATE TABLE IF NOT EXISTS http_x_local ON CLUSTER `edge` (\n    zone_id String\n) ENGINE = ReplicatedAggregatingMergeTree('/clickhouse/tables/{shard}/{database}/http_x_local', '{replica}')\nORDER BY zone_id\nSETTINGS replicated_deduplication_window = 10",
			"CREATE TABLE IF NOT EXISTS http_x ON CLUSTER `edge` AS http_x_local ENGINE = Distributed('edge', currentDatabase(), 'http_x_local', cityHash64(zone_id))",
		}},
		{"everywhere", "CREATE TABLE zones (\nid String\n) ENGINE = ReplacingMergeTree(version)\nORDER BY id", []string{
			"CREATE TABLE zones ON CLUSTER `edge` (\nid String\n) ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/all/{database}/zones', '{shard}-{replica}', version)\nORDER BY id",
		}},
		{"passing", "CREATE TABLE http_requests_flow (\na UInt8\n) ENGINE = Null", []string{"CREATE TABLE http_requests_flow_local ON CLUSTER `edge` (\na UInt8\n) ENGINE = Null"}},
		{"view", "CREATE MATERIALIZED VIEW IF NOT EXISTS http_x_mv TO http_x AS\nSELECT a FROM http_requests AS f GROUP BY a", []string{
			"CREATE MATERIALIZED VIEW IF NOT EXISTS http_x_mv ON CLUSTER `edge` TO http_x_local AS\nSELECT a FROM http_requests_local AS f GROUP BY a",
		}},
		{"add_column", "ALTER TABLE http_x ADD COLUMN IF NOT EXISTS a UInt8", []string{
			"ALTER TABLE http_x_local ON CLUSTER `edge` ADD COLUMN IF NOT EXISTS a UInt8", "ALTER TABLE http_x ON CLUSTER `edge` ADD COLUMN IF NOT EXISTS a UInt8",
		}},
		{"drop_column", "ALTER TABLE http_x DROP COLUMN a", []string{"ALTER TABLE http_x ON CLUSTER `edge` DROP COLUMN a", "ALTER TABLE http_x_local ON CLUSTER `edge` DROP COLUMN a"}},
		{"ttl", "ALTER TABLE http_x MODIFY TTL t + INTERVAL 1 DAY", []string{"ALTER TABLE http_x_local ON CLUSTER `edge` MODIFY TTL t + INTERVAL 1 DAY"}},
		{"modify_query", "ALTER TABLE http_x_mv MODIFY QUERY SELECT a FROM http_requests", []string{"ALTER TABLE http_x_mv ON CLUSTER `edge` MODIFY QUERY SELECT a FROM http_requests_local"}},
		{"drop", "DROP TABLE IF EXISTS http_x SYNC", []string{"DROP TABLE IF EXISTS http_x ON CLUSTER `edge` SYNC", "DROP TABLE IF EXISTS http_x_local ON CLUSTER `edge` SYNC"}},
		{"rows", "INSERT INTO zones VALUES (1)", []string{"INSERT INTO zones VALUES (1)"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := cluster().Statement(c.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	for _, bad := range []string{"", "CREATE TABLE t (a UInt8) ENGINE = Memory", "RENAME TABLE a TO b", "CREATE VIEW v AS SELECT 1", "CREATE TABLE t (a UInt8) ENGINE = ReplicatedMergeTree ORDER BY a"} {
		if got, err := cluster().Statement(bad); err == nil {
			t.Errorf("%q gave %q", bad, got)
		}
	}
}

// migrations are the frozen files of the schema, cut as it cuts them.
func migrations(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "schema", "migrations", "*.sql"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no migrations: %v", err)
	}
	var list []string
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range strings.Split(string(b), ";\n") {
			if s = strings.TrimSpace(stripComments(s)); s != "" {
				list = append(list, s)
			}
		}
	}
	return list
}

func stripComments(s string) string {
	var lines []string
	for _, l := range strings.Split(s, "\n") {
		if !strings.HasPrefix(l, "--") {
			lines = append(lines, l)
		}
	}
	return strings.Join(lines, "\n")
}

func TestCluster_EveryStatementOfTheSchemaIsParsedByTheEngine(t *testing.T) {
	list, err := cluster().Statements(migrations(t))
	if err != nil {
		t.Fatal(err)
	}
	p := servetest.Start(t, servetest.Options{})
	db := open(t, "clickhouse://"+p.Addr)
	defer func() { _ = db.Close() }()
	for _, sql := range list {
		if strings.HasPrefix(sql, "CREATE") && !strings.Contains(sql, "ON CLUSTER `edge`") {
			t.Errorf("on one server only: %.100s", sql)
		}
		var b bytes.Buffer
		if _, err := db.Stream(context.Background(), store.Query{SQL: "EXPLAIN AST " + sql}, &b); err != nil {
			t.Errorf("%v\n%s", err, sql)
		}
	}
}

func TestCluster_Check(t *testing.T) {
	p := servetest.Start(t, servetest.Options{})
	db := open(t, "clickhouse://"+p.Addr)
	defer func() { _ = db.Close() }()
	if err := cluster().Check(context.Background(), db); err == nil || !strings.Contains(err.Error(), `no cluster "edge"`) {
		t.Errorf("got %v", err)
	}
	on := cluster().On(db)
	if err := on.Exec(context.Background(), store.Query{SQL: "RENAME TABLE a TO b"}); err == nil {
		t.Error("a statement without a cluster's form was run")
	}
	if got := storetest.Text(t, on, "SELECT 1"); got != "1" {
		t.Errorf("got %q", got)
	}
}
