package cluster

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spate-io/spate/store/serve/servetest"
	"github.com/spate-io/spate/store/storetest"
)

// changesRows begins statements for which a replicated table must have come to life. It does not in the embedded engine, which
// has no way for replicas to fetch from one another.
var changesRows = regexp.MustCompile(`^(INSERT|ALTER)`)

// The replicated tables of the plan are made by the engine of today with a real Keeper's forerunner: columns, settings, rules of
// retention, places in Keeper, and the views between them.
func TestPlan_ReplicatedTablesAreMadeWithKeeper(t *testing.T) {
	if _, err := os.Stat(oldZooKeeper); err != nil {
		t.Skipf("%s is not installed: replicated tables are not made", oldZooKeeper)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "engine.d"), 0o755); err != nil {
		t.Fatal(err)
	}
	xml := "<clickhouse><tcp_port>9000</tcp_port><macros><shard>s1</shard><replica>r1</replica></macros><remote_servers><edge><shard><replica><host>127.0.0.1</host><port>9000</port></replica></shard></edge></remote_servers>" +
		startZooKeeper(t) + "</clickhouse>"
	if err := os.WriteFile(filepath.Join(dir, "engine.d", "cluster.xml"), []byte(xml), 0o644); err != nil {
		t.Fatal(err)
	}
	p := servetest.Start(t, servetest.Options{Path: dir})
	t.Cleanup(p.Kill) // replicated tables that never came to life are long in going
	db := single(t, p.Addr)
	made := 0
	for _, sql := range plan(t, target(1, 1)) {
		if changesRows.MatchString(sql) {
			continue
		}
		storetest.Exec(t, db, onCluster.ReplaceAllString(sql, ""))
		if strings.Contains(sql, "Replicated") {
			made++
		}
	}
	got := storetest.Text(t, db, "SELECT count(), countIf(zookeeper_path LIKE '/clickhouse/tables/s1/default/%\\_local'), countIf(zookeeper_path LIKE '/clickhouse/tables/all/default/%'), uniqExact(replica_name) FROM system.replicas")
	if want := "18\t11\t7\t2"; got != want || made != 19 { // a migration drops one
		t.Errorf("replicated tables, of a shard, of all, names of replicas: %s, want %s; %d made", got, want, made)
	}
	// Macros stay in a table's definition, so that another server can be given the same.
	if got := storetest.Text(t, db, "SELECT countIf(engine_full LIKE '%{shard}%' AND engine_full LIKE '%{replica}%'), count() FROM system.tables WHERE engine LIKE 'Replicated%'"); got != "18\t18" {
		t.Errorf("definitions with macros, of all: %s", got)
	}
}
