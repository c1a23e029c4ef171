package cluster

import (
	"testing"

	"github.com/spate-io/spate/store/storetest"
)

// What a move does on a server of a cluster: rows are put together in a table that is not replicated, and its parts attached to the
// replicated one. The other replica gets them, and a view on the table is not fed by them.
func TestOldServers_AttachedPartsAreReplicated(t *testing.T) {
	nodes := oldCluster(t, 1, 2)[0]
	for _, n := range nodes {
		n.must(t, "CREATE TABLE m_local (d Date, zone_id String, requests UInt64) ENGINE = ReplicatedSummingMergeTree('/clickhouse/tables/{shard}/m', '{replica}') PARTITION BY toYYYYMM(d) ORDER BY (zone_id, d)", nil)
		n.must(t, "CREATE TABLE h_local (d Date, zone_id String, requests UInt64) ENGINE = ReplicatedSummingMergeTree('/clickhouse/tables/{shard}/h', '{replica}') PARTITION BY toYYYYMM(d) ORDER BY (zone_id, d)", nil)
		n.must(t, "CREATE MATERIALIZED VIEW h_mv TO h_local AS SELECT d, zone_id, requests FROM m_local", nil)
	}
	one := nodes[0]
	one.must(t, "CREATE TABLE spate_move_m AS m_local ENGINE = SummingMergeTree PARTITION BY toYYYYMM(d) ORDER BY (zone_id, d)", nil)
	one.must(t, "INSERT INTO m_local SELECT toDate('2024-03-05'), 'live', 1", nil)
	one.must(t, "INSERT INTO spate_move_m SELECT toDate('2024-03-01') + number % 7, toString(number), 1 FROM numbers(1000)", nil)
	one.must(t, "ALTER TABLE m_local ATTACH PARTITION ID '202403' FROM spate_move_m", nil)
	for i, n := range nodes {
		storetest.WaitFor(t, func() bool {
			s, err := n.ask("SELECT sum(requests), uniq(zone_id) FROM m_local", nil)
			return err == nil && s == "1001\t1001"
		}, "attached rows on the replica")
		if got := n.must(t, "SELECT sum(requests) FROM h_local", nil); got != "1" {
			t.Errorf("replica %d: the view was fed %s rows, want the one that was inserted", i+1, got)
		}
	}
}
