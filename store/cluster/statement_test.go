package cluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func rewriterForTest() *rewriter {
	return &rewriter{cluster: "edge", database: "db", keeper: "/clickhouse/tables"}
}

func TestRewriter_Statement(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     []string
	}{
		{"sharded", "CREATE TABLE IF NOT EXISTS http_x (\n    zone_id String\n) ENGINE = AggregatingMergeTree\nORDER BY zone_id\nSETTINGS non_replicated_deduplication_window = 10;", []string{
			"CREATE TABLE IF NOT EXISTS `db`.`http_x_local` ON CLUSTER `edge` (\n    zone_id String\n) ENGINE = ReplicatedAggregatingMergeTree('/clickhouse/tables/{shard}/db/http_x_local', '{replica}')\nORDER BY zone_id\n" +
				"SETTINGS replicated_deduplication_window = 10, replicated_deduplication_window_seconds = 2592000",
			"CREATE TABLE IF NOT EXISTS `db`.`http_x` ON CLUSTER `edge` AS `db`.`http_x_local` ENGINE = Distributed('edge', 'db', 'http_x_local', cityHash64(zone_id))",
		}},
		{"everywhere", "CREATE TABLE zones (\nid String\n) ENGINE = ReplacingMergeTree(version)\nORDER BY id", []string{
			"CREATE TABLE `db`.`zones` ON CLUSTER `edge` (\nid String\n) ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/all/db/zones', '{shard}-{replica}', version)\nORDER BY id",
		}},
		{"passing", "-- what a block adds up to\nCREATE TABLE http_requests_flow (\na UInt8\n) ENGINE = Null", []string{"CREATE TABLE `db`.`http_requests_flow_local` ON CLUSTER `edge` (\na UInt8\n) ENGINE = Null"}},
		{"view", "CREATE MATERIALIZED VIEW IF NOT EXISTS http_x_mv TO http_x AS\nSELECT a FROM http_requests AS f GROUP BY a", []string{
			"CREATE MATERIALIZED VIEW IF NOT EXISTS `db`.`http_x_mv` ON CLUSTER `edge` TO `db`.`http_x_local` AS\nSELECT a FROM `db`.`http_requests_local` AS f GROUP BY a",
		}},
		{"add_column", "ALTER TABLE http_x ADD COLUMN IF NOT EXISTS a UInt8 CODEC(Delta(8), ZSTD(1))", []string{
			"ALTER TABLE `db`.`http_x_local` ON CLUSTER `edge` ADD COLUMN IF NOT EXISTS a UInt8 CODEC(Delta(8), ZSTD(1))", "ALTER TABLE `db`.`http_x` ON CLUSTER `edge` ADD COLUMN IF NOT EXISTS a UInt8",
		}},
		{"drop_column", "ALTER TABLE http_x DROP COLUMN a", []string{"ALTER TABLE `db`.`http_x` ON CLUSTER `edge` DROP COLUMN a", "ALTER TABLE `db`.`http_x_local` ON CLUSTER `edge` DROP COLUMN a"}},
		{"ttl", "ALTER TABLE http_x MODIFY TTL t + INTERVAL 1 DAY", []string{"ALTER TABLE `db`.`http_x_local` ON CLUSTER `edge` MODIFY TTL t + INTERVAL 1 DAY"}},
		{"delete", "ALTER TABLE `http_x` DELETE WHERE a = 1", []string{"ALTER TABLE `db`.`http_x_local` ON CLUSTER `edge` DELETE WHERE a = 1"}},
		{"delete_of_local", "ALTER TABLE `http_x_local` DELETE WHERE a = 1", []string{"ALTER TABLE `db`.`http_x_local` ON CLUSTER `edge` DELETE WHERE a = 1"}},
		{"modify_query", "ALTER TABLE http_x_mv MODIFY QUERY SELECT a FROM http_requests", []string{"ALTER TABLE `db`.`http_x_mv` ON CLUSTER `edge` MODIFY QUERY SELECT a FROM `db`.`http_requests_local`"}},
		{"drop", "DROP TABLE IF EXISTS http_x SYNC", []string{"DROP TABLE IF EXISTS `db`.`http_x` ON CLUSTER `edge` SYNC", "DROP TABLE IF EXISTS `db`.`http_x_local` ON CLUSTER `edge` SYNC"}},
		{"drop_view", "DROP VIEW IF EXISTS http_x_mv", []string{"DROP VIEW IF EXISTS `db`.`http_x_mv` ON CLUSTER `edge`"}},
		{"rows", "INSERT INTO zones VALUES (1)", []string{"INSERT INTO `db`.`zones` VALUES (1)"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := rewriterForTest().statement(c.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	for _, bad := range []string{"", "CREATE TABLE t (a UInt8) ENGINE = Memory", "RENAME TABLE a TO b", "CREATE VIEW v AS SELECT 1", "CREATE TABLE t (a UInt8) ENGINE = ReplicatedMergeTree ORDER BY a"} {
		if got, err := rewriterForTest().statement(bad); err == nil {
			t.Errorf("%q gave %q", bad, got)
		}
	}
}
