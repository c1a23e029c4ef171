package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spate-io/spate/store/schema"
	"github.com/spate-io/spate/store/storetest"
)

func apply(t *testing.T, tg Target, o ApplyOptions) (*Applied, string, error) {
	t.Helper()
	var notes strings.Builder
	a, err := Apply(t.Context(), tg, server(t, tg.Cluster.Shards[0].Replicas...), o, func(format string, args ...any) { fmt.Fprintf(&notes, format+"\n", args...) })
	return a, notes.String(), err
}

const definitions = "SELECT name, replaceRegexpOne(create_table_query, ' UUID .[0-9a-f-]+.', '') FROM system.tables WHERE database = 'default' ORDER BY name"

// What apply makes is what the plan says; a second time changes nothing; cut off anywhere, it goes on where it was; a server
// without tables, and one without a view, get them, with the same ids.
func TestApply_MakesGoesOnAndRepairs(t *testing.T) {
	servers, tg := startShards(t, 2, 2)
	latest, err := schema.Latest()
	if err != nil {
		t.Fatal(err)
	}
	a, _, err := apply(t, tg, ApplyOptions{DryRun: true})
	if err != nil || len(a.Statements) < 60 || servers[0].replicas[0].queue.ran > 0 {
		t.Fatalf("dry run: %v, %d statements", err, servers[0].replicas[0].queue.ran)
	}
	if diff := cmp.Diff(plan(t, tg), a.Statements); diff != "" {
		t.Error(diff)
	}
	queue := servers[0].replicas[0].queue
	for cut := 3; ; cut += 17 {
		queue.ran, queue.cutAt = 0, cut
		if _, _, err := apply(t, tg, ApplyOptions{}); err == nil {
			break
		} else if cut > 300 {
			t.Fatal(err)
		}
	}
	queue.cutAt = 0
	a, notes, err := apply(t, tg, ApplyOptions{})
	if err != nil || a.From != latest || a.To != latest || len(a.Repaired) > 0 || len(a.Absent) > 0 {
		t.Fatalf("again: %+v, %v\n%s", a, err, notes)
	}
	shard := []string{*servers[0].addr.Load(), *servers[1].addr.Load()}
	want := storetest.Text(t, single(t, shard[0]), definitions)
	if got := storetest.Text(t, single(t, shard[1]), definitions); got != want {
		t.Errorf("servers differ: %s", cmp.Diff(want, got))
	}
	for _, sql := range []string{"DROP VIEW http_requests_1h_mv SYNC", "DROP TABLE http_requests SYNC", "DROP TABLE http_requests_local SYNC"} {
		storetest.Exec(t, single(t, shard[1]), sql)
	}
	a, notes, err = apply(t, tg, ApplyOptions{})
	if err != nil || len(a.Repaired) != 6 { // three tables, by way of both replicas
		t.Errorf("repair: %+v, %v\n%s", a, err, notes)
	}
	if got := storetest.Text(t, single(t, shard[1]), definitions); got != want {
		t.Errorf("after repair: %s", cmp.Diff(want, got))
	}
	ids := "SELECT name, extract(create_table_query, 'UUID .([0-9a-f-]+)') AS id, length(id) FROM system.tables WHERE database = 'default' AND engine = 'MaterializedView' ORDER BY name SETTINGS show_table_uuid_in_table_create_query_if_not_nil = 1"
	if diff := cmp.Diff(storetest.Text(t, single(t, shard[0]), ids), storetest.Text(t, single(t, shard[1]), ids)); diff != "" || !strings.Contains(storetest.Text(t, single(t, shard[0]), ids), "\t36") {
		t.Error(diff, storetest.Text(t, single(t, shard[0]), ids))
	}
	storetest.Exec(t, single(t, shard[1]), "DROP VIEW http_requests_1d_mv SYNC")
	storetest.Exec(t, single(t, shard[1]), storetest.Text(t, single(t, shard[0]), "SELECT create_table_query FROM system.tables WHERE name = 'http_requests_1d_mv' FORMAT RawBLOB"))
	if _, _, err := apply(t, tg, ApplyOptions{}); err == nil || !strings.Contains(err.Error(), "http_requests_1d_mv has another id") {
		t.Errorf("another id: %v", err)
	}
	storetest.Exec(t, single(t, shard[1]), "DROP VIEW http_requests_1d_mv SYNC")
	if _, _, err := apply(t, tg, ApplyOptions{}); err != nil {
		t.Errorf("dropped and made again: %v", err)
	}
	storetest.Exec(t, single(t, shard[1]), "ALTER TABLE http_requests_flow_local ADD COLUMN surplus UInt8")
	if _, _, err := apply(t, tg, ApplyOptions{}); err == nil || !strings.Contains(err.Error(), "http_requests_flow_local is not what it is on") {
		t.Errorf("another column: %v", err)
	}
}

func TestApply_TellsOfDeadServersAndRefusesNewerStores(t *testing.T) {
	servers, tg := startShards(t, 1, 3)
	servers[0].replicas[2].set(dead)
	a, notes, err := apply(t, tg, ApplyOptions{})
	if err != nil || len(a.Absent) != 2 || !strings.Contains(notes, servers[0].replicas[2].addr+" does not answer") {
		t.Errorf("with a dead replica: %+v, %v\n%s", a, err, notes)
	}
	storetest.Exec(t, single(t, *servers[0].addr.Load()), "INSERT INTO schema_migrations (version, name) VALUES (9999, 'later')")
	if _, _, err := apply(t, tg, ApplyOptions{}); !errors.Is(err, schema.ErrNewer) {
		t.Errorf("a newer store: %v", err)
	}
}

// A store of a single server is not taken for a cluster's, nor the other way round.
func TestApply_LeavesASingleServersStoreAlone(t *testing.T) {
	servers, tg := startShards(t, 1, 1)
	one := single(t, *servers[0].addr.Load())
	if err := schema.Migrate(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	if err := Check(t.Context(), one); err != nil {
		t.Error(err)
	}
	if _, _, err := apply(t, tg, ApplyOptions{}); err == nil || !strings.Contains(err.Error(), "store of a single server") || servers[0].replicas[0].queue.ran > 0 {
		t.Errorf("%v, %d statements", err, servers[0].replicas[0].queue.ran)
	}
	servers, tg = startShards(t, 1, 1)
	makeShard(t, single(t, *servers[0].addr.Load()), tg)
	if err := Check(t.Context(), single(t, *servers[0].addr.Load())); err == nil || !strings.Contains(err.Error(), "store.cluster") {
		t.Errorf("a cluster's: %v", err)
	}
}

// Servers whose configuration cannot carry a cluster are refused before anything is made.
func TestApply_LooksAtMacros(t *testing.T) {
	servers, tg := startShards(t, 2, 1)
	name := filepath.Join(servers[1].path, "engine.d", "cluster.xml")
	good, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range [][3]string{
		{"<shard>s2</shard>", "<shard>s1</shard>", `macro shard "s1" is that of shard 1, too`},
		{"<shard>s2</shard>", "", "macros shard and replica must be set"},
		{"<shard>s2</shard>", "<shard>all</shard>", `macro shard must not be "all"`},
		{"<port>9000</port></replica></shard></edge>", "<port>9000</port></replica></shard><shard><replica><host>192.0.2.9</host><port>9000</port></replica></shard></edge>", "cluster edge"},
	} {
		servers[1].process.Stop()
		if err := os.WriteFile(name, []byte(strings.Replace(string(good), c[0], c[1], 1)), 0o644); err != nil {
			t.Fatal(err)
		}
		servers[1].start(t)
		_, _, err := apply(t, tg, ApplyOptions{})
		if err == nil && c[2] == "cluster edge" {
			continue // the first server that answers knows two
		}
		if err == nil || !strings.Contains(err.Error(), c[2]) || servers[0].replicas[0].queue.ran > 0 {
			t.Errorf("%s: %v", c[1], err)
		}
	}
}
