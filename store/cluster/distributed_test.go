package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spate-io/spate/analytics"
	"github.com/spate-io/spate/analytics/analyticstest"
	"github.com/spate-io/spate/core/tops"
	"github.com/spate-io/spate/internal/zone"
	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/schema"
	"github.com/spate-io/spate/store/serve/servetest"
	"github.com/spate-io/spate/store/storetest"
)

// oneEngine is a server whose engine has a cluster of so many shards, which are all itself. Distributed tables over it are
// real ones: the engine looks for the shards of a query, and asks itself once for each.
func oneEngine(t *testing.T, shards int) (*DB, Target) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "engine.d"), 0o755); err != nil {
		t.Fatal(err)
	}
	shard := "<shard><internal_replication>true</internal_replication><replica><host>127.0.0.1</host><port>9000</port></replica></shard>"
	xml := "<clickhouse><tcp_port>9000</tcp_port><macros><shard>s1</shard><replica>r1</replica></macros><remote_servers><edge>" + strings.Repeat(shard, shards) + "</edge></remote_servers></clickhouse>"
	if err := os.WriteFile(filepath.Join(dir, "engine.d", "cluster.xml"), []byte(xml), 0o644); err != nil {
		t.Fatal(err)
	}
	addr := servetest.Start(t, servetest.Options{Path: dir}).Addr
	db := single(t, addr)
	if got := storetest.Text(t, db, "SELECT count(), sum(is_local) FROM system.clusters WHERE cluster = 'edge'"); got != fmt.Sprintf("%d\t%d", shards, shards) {
		t.Fatalf("the engine has shards and local ones: %s", got)
	}
	tg := target(shards, 1)
	for i := range tg.Cluster.Shards {
		tg.Cluster.Shards[i].Replicas = []string{addr}
	}
	for _, sql := range plan(t, tg) {
		over := distributed.FindString(sql)
		if over == "" {
			over = "none"
		}
		storetest.Exec(t, db, strings.Replace(plain(sql), plain(over), over, 1))
	}
	many, err := connect(t.Context(), tg.Cluster, server(t, addr), Deps{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = many.Close() })
	return many, tg
}

func service(t *testing.T, db store.DB, now time.Time) *analytics.Service {
	t.Helper()
	s, err := analytics.New(analytics.DefaultConfig(), analytics.Deps{DB: db, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// answers gives all that can be asked about a zone.
func answers(t *testing.T, s *analytics.Service, id string, r analytics.Range) map[string]any {
	t.Helper()
	out := map[string]any{}
	keep := func(name string, v any, err error) {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		out[name] = v
	}
	d, err := s.Dashboard(t.Context(), id, r)
	keep("dashboard", d, err)
	c, _, err := s.Colos(t.Context(), id, r)
	keep("colos", c, err)
	l, err := s.Latency(t.Context(), id, r)
	keep("latency", l, err)
	tick, _, err := s.Live(t.Context(), id, 0)
	keep("live", tick, err)
	for _, dim := range analytics.Dimensions() {
		top, err := s.Top(t.Context(), id, r, analytics.TopQuestion{Dimension: dim, Metric: "requests", Limit: 100})
		keep("top "+dim, top, err)
	}
	return out
}

var questions = []analytics.Range{{Since: "-360"}, {Since: "-4320"}, {Since: "-527000"}, {Since: "2023-12-31T23:40:00Z", Until: "2024-01-01T00:20:00Z"}}

// Every question about a zone is answered over a distributed table of two shards as by the embedded store, and by one shard
// alone: both shards here are the same rows, so that an answer made of two would be twice as much.
func TestDistributed_AZonesQuestionIsAnsweredByItsShard(t *testing.T) {
	now := time.Date(2024, 3, 5, 12, 34, 56, 0, time.UTC)
	requests := analyticstest.Generate(3, 1500, now)
	many, _ := oneEngine(t, 2)
	analyticstest.Insert(t, many, requests)
	if got, want := storetest.Text(t, many, "SELECT count() FROM http_requests"), fmt.Sprint(2*len(requests)); got != want {
		t.Fatalf("two shards of the same rows have %s, want %s: the table is not a distributed one", got, want)
	}
	one := analyticstest.Store(t, single(t, servetest.Start(t, servetest.Options{}).Addr), requests)
	for i, name := range append(analyticstest.Zones(), "nothing.example") {
		for _, r := range []analytics.Range{questions[i], questions[(i+1)%len(questions)]} {
			want, got := answers(t, service(t, one, now), zone.ID(name), r), answers(t, service(t, many, now), zone.ID(name), r)
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s %+v (-embedded +cluster):\n%.2000s", name, r, d)
			}
		}
	}
	// What asks all shards, with subqueries over all shards in it, is understood.
	if err := maker(t, many, now).Round(t.Context()); err != nil {
		t.Errorf("top lists: %v", err)
	}
	if _, err := service(t, many, now).Delivery(t.Context(), analytics.Range{Since: "-60"}, analytics.Backlog{}); err != nil {
		t.Errorf("delivery: %v", err)
	}
}

func maker(t *testing.T, db store.DB, now time.Time) *tops.Maker {
	t.Helper()
	cfg := tops.DefaultConfig()
	cfg.HourRequests = 1
	m, err := tops.New(cfg, tops.Deps{DB: db, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Top lists that are made over distributed tables, read and written, are those of the embedded store, and so is every number
// of every rollup; rows that are added by INSERT SELECT are where the cut of an insert would have put them.
func TestDistributed_TopListsAndRollups(t *testing.T) {
	now := time.Date(2024, 3, 5, 12, 34, 56, 0, time.UTC)
	requests := analyticstest.Generate(4, 3000, now)
	many, _ := oneEngine(t, 1)
	analyticstest.Insert(t, many, requests)
	analyticstest.CheckRollups(t, many, requests)
	one := analyticstest.Store(t, single(t, servetest.Start(t, servetest.Options{}).Addr), requests)
	for _, db := range []store.DB{one, many} {
		if err := maker(t, db, now).Round(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, table := range []string{schema.TopHour, schema.TopDay} {
		all := "SELECT zone_id, dimension, time, requests, bytes, errors, distinct_values, floor_requests, floor_bytes, arraySort(listed) FROM " + table + " FINAL ORDER BY 1, 2, 3"
		want, got := storetest.Text(t, one, all), storetest.Text(t, many, all)
		if strings.Count(want, "\n") < 100 || want != got {
			t.Errorf("%s: %d lines, %d of the embedded store", table, strings.Count(got, "\n"), strings.Count(want, "\n"))
		}
	}
	if err := schema.DefaultRetention().Apply(context.Background(), &recorder{db: many, version: 1}); err != nil {
		t.Errorf("retention: %v", err)
	}
}
