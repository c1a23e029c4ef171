package cluster

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/schema"
	"github.com/spate-io/spate/store/serve/servetest"
	"github.com/spate-io/spate/store/storetest"
)

// Every statement for a cluster is understood by the engine, printed back by it, and is for all servers unless it is about
// rows.
func TestPlan_EveryStatementIsParsedByTheEngine(t *testing.T) {
	db := single(t, servetest.Start(t, servetest.Options{}).Addr)
	list := plan(t, target(2, 3))
	if len(list) < 60 {
		t.Fatalf("only %d statements", len(list))
	}
	for _, sql := range list {
		if !strings.HasPrefix(sql, "INSERT INTO `default`.`schema_migrations`") && !strings.HasPrefix(sql, "INSERT INTO `default`.`cluster_layout`") &&
			!strings.Contains(sql, "ON CLUSTER `edge`") {
			t.Errorf("on one server only: %.100s", sql)
		}
		var b bytes.Buffer
		if _, err := db.Stream(context.Background(), store.Query{SQL: "EXPLAIN AST " + sql}, &b); err != nil {
			t.Errorf("%v\n%s", err, sql)
		}
		printed := storetest.Stream(t, db, store.Query{SQL: "SELECT formatQuery({q:String}) FORMAT RawBLOB", Params: map[string]string{"q": store.Text(sql)}})
		again := storetest.Stream(t, db, store.Query{SQL: "SELECT formatQuery({q:String}) FORMAT RawBLOB", Params: map[string]string{"q": store.Text(printed)}})
		if diff := cmp.Diff(printed, again); diff != "" {
			t.Errorf("%s\n%s", sql, diff)
		}
	}
}

// With replicated engines replaced, the plan makes the same local tables as the migrations make on one server, and views
// between them.
func TestPlan_MakesTheTablesOfOneServer(t *testing.T) {
	shard := single(t, servetest.Start(t, servetest.Options{}).Addr)
	makeShard(t, shard, target(2, 3))
	one := single(t, servetest.Start(t, servetest.Options{}).Addr)
	if err := schema.Migrate(context.Background(), one); err != nil {
		t.Fatal(err)
	}
	if err := schema.DefaultRetention().Apply(context.Background(), one); err != nil {
		t.Fatal(err)
	}
	const tables = `SELECT replaceOne(name, '_local', ''), replaceAll(engine_full, '_local', ''), replaceAll(replaceAll(as_select, '_local', ''), 'Date DEFAULT', 'Date')
FROM system.tables WHERE database = 'default' AND engine != 'Merge' AND name != 'cluster_layout' ORDER BY 1`
	if diff := cmp.Diff(storetest.Text(t, one, tables), storetest.Text(t, shard, tables)); diff != "" {
		t.Error(diff)
	}
	const columns = `SELECT replaceOne(table, '_local', ''), name, type, default_kind, default_expression, compression_codec FROM system.columns WHERE database = 'default' AND table != 'cluster_layout'
AND table IN (SELECT name FROM system.tables WHERE engine != 'Merge' AND database = 'default') ORDER BY 1, position`
	if diff := cmp.Diff(storetest.Text(t, one, columns), storetest.Text(t, shard, columns)); diff != "" {
		t.Error(diff)
	}
	// What lies over all servers has the columns of what lies on each.
	const over = `SELECT replaceOne(table, '_local', ''), name, type, default_kind FROM system.columns WHERE database = 'default' AND table IN (SELECT %s FROM system.tables WHERE engine = 'Merge') ORDER BY 1, position`
	there, here := strings.Replace(over, "%s", "name", 1), strings.Replace(over, "%s", "name || '_local'", 1)
	if diff := cmp.Diff(storetest.Text(t, shard, here), storetest.Text(t, shard, there)); diff != "" {
		t.Error(diff)
	}
	if got := storetest.Text(t, shard, "SELECT count() FROM system.tables WHERE engine = 'Merge'"); got != "11" {
		t.Errorf("%s tables over all servers", got)
	}
	if got := storetest.Text(t, shard, "SELECT layout FROM cluster_layout"); got != "2 shards by cityHash64(zone) % shards" {
		t.Errorf("layout %q", got)
	}
}

// Every table that is about zones is on their shards, but for those that are few rows.
func TestPlace_TablesWithZonesAreSharded(t *testing.T) {
	db := single(t, servetest.Start(t, servetest.Options{}).Addr)
	if err := schema.Migrate(context.Background(), db); err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(storetest.Text(t, db, "SELECT table, name, type FROM system.columns WHERE database = 'default' AND lower(replaceAll(name, '_', '')) = 'zoneid' AND table NOT LIKE '%_mv'"), "\n") {
		f := strings.Split(line, "\t")
		if at := placeOf(f[0]); at.column != f[1] && f[0] != schema.Erasures {
			t.Errorf("table %s has column %s, place %+v", f[0], f[1], at)
		}
	}
}

func TestPlan_FromAVersionHasTheRest(t *testing.T) {
	tg := target(2, 3)
	all := plan(t, tg)
	rest, err := Plan(context.Background(), tg, 3, nil)
	if err != nil {
		t.Fatal(err)
	}
	joined := strings.Join(rest, "\n")
	if len(rest) >= len(all) || strings.Contains(joined, "http_requests_1m_mv") || !strings.Contains(joined, "`notices`") {
		t.Errorf("%d of %d statements:\n%s", len(rest), len(all), joined)
	}
	if _, err := Plan(context.Background(), tg, 9999, nil); !errors.Is(err, schema.ErrNewer) {
		t.Errorf("got %v", err)
	}
	tg.Cluster.Name = ""
	one := plan(t, tg)
	if s := strings.Join(one, "\n"); strings.Contains(s, "ON CLUSTER") || strings.Contains(s, "Replicated") {
		t.Error("a single server gets a cluster's statements")
	}
}
