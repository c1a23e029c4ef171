package move

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/chdb/chdbtest"
	"github.com/spate-io/spate/store/cluster"
	"github.com/spate-io/spate/store/schema"
)

var (
	onCluster   = regexp.MustCompile(" ON CLUSTER `edge`")
	replicated  = regexp.MustCompile(`ENGINE = Replicated(\w+)\('[^']*', '[^']*'(?:, )?([^)]*)\)`)
	distributed = regexp.MustCompile(`ENGINE = Distributed\('edge', '\w+', '(\w+)', cityHash64\(\w+\)\)`)
)

// shardsOf makes the servers of a cluster as far as that goes without Keeper: each has the tables of a shard, not replicated.
func shardsOf(t *testing.T, n int) []store.DB {
	t.Helper()
	cfg := cluster.DefaultConfig()
	cfg.Name, cfg.Copies = "edge", 1
	for i := range n {
		cfg.Shards = append(cfg.Shards, cluster.Shard{Replicas: []string{fmt.Sprintf("s%d:8123", i)}})
	}
	plan, err := cluster.Plan(t.Context(), cluster.Target{Cluster: cfg, Database: "default", Retention: schema.DefaultRetention()}, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	var list []store.DB
	for range n {
		db, _ := target(t)
		for _, sql := range plan {
			sql = onCluster.ReplaceAllString(sql, "")
			sql = replicated.ReplaceAllString(sql, "ENGINE = $1($2)")
			sql = distributed.ReplaceAllString(sql, "ENGINE = Merge(currentDatabase(), '^$1$$')")
			exec(t, db, sql)
		}
		list = append(list, db)
	}
	return list
}

// everywhere is a cluster whose servers run every statement.
type everywhere struct {
	store.DB
	list []store.DB
}

func everywhereOf(list []store.DB) store.DB { return &everywhere{list[0], list} }

func (e *everywhere) Exec(ctx context.Context, q store.Query) error {
	for table := range strings.FieldsSeq(q.SQL) { // a cluster's statements name the local tables
		if strings.HasPrefix(table, "http_") {
			q.SQL = strings.Replace(q.SQL, table, table+localSuffix, 1)
			break
		}
	}
	for _, db := range e.list {
		if err := db.Exec(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

func sources(list []store.DB) []Source {
	out := make([]Source, len(list))
	for i, db := range list {
		out[i] = db
	}
	return out
}

// From an embedded store to a cluster, from there to one with more shards, and back: nothing is lost on the way, and every zone is
// where a distributed table looks for it.
func TestRun_ToClustersAndBack(t *testing.T) {
	db := chdbtest.Open(t)
	if err := schema.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	ingest(t, db, 0, 3000, 10)
	others(t, db)
	want := contents(t, db)
	two, three := shardsOf(t, 2), shardsOf(t, 3)
	o := options(t)
	clustered := func(from []Source, to []store.DB) {
		t.Helper()
		for i := range 2 {
			r, err := Run(t.Context(), from, Target{DB: everywhereOf(to), Servers: to}, o)
			if err != nil || !r.Equal {
				t.Fatalf("%v, %+v", err, r)
			}
			if raw := r.of("http_requests"); raw.Rows != 3000 || i == 1 && r.CopiedRows != 0 {
				t.Errorf("%+v", r)
			}
		}
		for i, s := range to {
			for zone := range strings.SplitSeq(answer(t, s, "SELECT DISTINCT zone_id FROM http_requests_1mo_local UNION DISTINCT SELECT DISTINCT ZoneID FROM http_requests_local"), "\n") {
				if zone != "" && cluster.ShardOf(zone, len(to)) != i {
					t.Errorf("%s is on shard %d of %d", zone, i, len(to))
				}
			}
		}
		if got := answer(t, to[0], "SELECT count() FROM zones FINAL"); got != "2" {
			t.Errorf("%s zones", got)
		}
	}
	clustered([]Source{db}, two)
	exec(t, two[1], "INSERT INTO http_requests_local (ZoneID, EdgeStartTimestamp) SELECT ZoneID, now64() FROM http_requests_local LIMIT 1") // Spate has gone over
	if _, err := Run(t.Context(), []Source{db}, Target{DB: everywhereOf(two), Servers: two}, o); !errors.Is(err, ErrForeign) {
		t.Errorf("%v", err)
	}
	o.Overwrite = true
	if r, err := Run(t.Context(), []Source{db}, Target{DB: everywhereOf(two), Servers: two}, o); err != nil || !r.Equal {
		t.Fatalf("%v, %+v", err, r)
	}
	o.Overwrite = false
	if _, err := run(t.Context(), two[0], three[0], o); err == nil || !strings.Contains(err.Error(), "one server of a cluster") {
		t.Errorf("half of a cluster was moved: %v", err)
	}
	if _, err := run(t.Context(), db, three[0], o); err == nil || !strings.Contains(err.Error(), "one server of a cluster") {
		t.Errorf("all went to one server of a cluster: %v", err)
	}
	o.Sharded = true
	clustered(sources(two), three)
	for name := range want {
		exec(t, db, "TRUNCATE TABLE "+name)
	}
	if r, err := Run(t.Context(), sources(three), Target{DB: db}, o); err != nil || !r.Equal {
		t.Fatalf("%v, %+v", err, r)
	}
	for name, text := range contents(t, db) {
		if text != want[name] {
			t.Errorf("%s is not what it was", name)
		}
	}
}

// The table that rows are put together in on a server of a cluster is not replicated, and one that parts can be attached from.
func TestTable_StagingOfReplicatedTables(t *testing.T) {
	db := shardsOf(t, 1)[0]
	tables, err := describe(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	made := regexp.MustCompile(`^(\w*MergeTree)(\(\w*\))?`)
	n := 0
	for _, tb := range tables {
		// As a server with Keeper would describe it.
		engine := made.ReplaceAllStringFunc(tb.engine, func(s string) string {
			m := made.FindStringSubmatch(s)
			args := strings.Trim(m[2], "()")
			if args != "" {
				args = ", " + args
			}
			return "Replicated" + m[1] + "('/clickhouse/tables/{shard}/default/" + tb.onServer() + "', '{replica}'" + args + ")"
		})
		engine = strings.Replace(engine, "non_replicated_deduplication_window = 10000", "replicated_deduplication_window = 10000, replicated_deduplication_window_seconds = 2592000", 1)
		if !strings.HasPrefix(engine, "Replicated") {
			t.Errorf("%s: %s", tb.name, engine)
			continue
		}
		tb.engine = engine
		sql := tb.createStaging()
		if strings.Contains(sql, "eplicated") && strings.Contains(strings.ReplaceAll(sql, "non_replicated_deduplication_window", ""), "eplicated") {
			t.Errorf("%s", sql)
		}
		exec(t, db, sql, "ALTER TABLE "+tb.onServer()+" ATTACH PARTITION ID 'all' FROM "+tb.staging())
		n++
	}
	if n < 12 {
		t.Errorf("%d tables", n)
	}
}
