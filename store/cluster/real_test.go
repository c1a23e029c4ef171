package cluster

import (
	"context"
	"crypto/rand"
	"fmt"
	rnd "math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spate-io/spate/analytics/analyticstest"
	"github.com/spate-io/spate/internal/zone"
	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/clickhouse"
	"github.com/spate-io/spate/store/maintain"
	"github.com/spate-io/spate/store/schema"
	"github.com/spate-io/spate/store/serve/servetest"
	"github.com/spate-io/spate/store/storetest"
)

// What TestOnCluster needs besides storetest.ServerEnv, which names all servers' HTTP interfaces.
const (
	clusterEnv = "SPATE_TEST_CLICKHOUSE_CLUSTER" // the cluster's name in remote_servers
	copiesEnv  = "SPATE_TEST_CLICKHOUSE_COPIES"  // its replicas per shard, 2 unless set
	killEnv    = "SPATE_TEST_CLICKHOUSE_KILL"    // a shell command that kills one server
	reviveEnv  = "SPATE_TEST_CLICKHOUSE_REVIVE"  // one that starts it again
)

// On a real cluster: plan and apply in a database of its own; load while a server is killed, with loaders that die in between;
// then every row, every number of every rollup and every answer are those of an embedded store.
func TestOnCluster(t *testing.T) {
	address := storetest.Server(t)
	name := os.Getenv(clusterEnv)
	if name == "" {
		t.Skipf("%s is not set: not run against a cluster", clusterEnv)
	}
	servers, err := clickhouse.ParseAddress(address)
	if err != nil {
		t.Fatal(err)
	}
	tg := Target{Cluster: DefaultConfig(), Database: "spate_test_" + strings.ToLower(rand.Text()[:10]), Retention: schema.DefaultRetention()}
	tg.Cluster.Name, tg.Cluster.Copies, servers.Database = name, 2, tg.Database
	if n, err := strconv.Atoi(os.Getenv(copiesEnv)); err == nil {
		tg.Cluster.Copies = n
	}
	if tg.Cluster.Shards, err = Discover(t.Context(), tg.Cluster, servers, Deps{}); err != nil {
		t.Fatal(err)
	}
	if a, err := Apply(t.Context(), tg, servers, ApplyOptions{}, t.Logf); err != nil || len(a.Absent) > 0 {
		t.Fatalf("%+v, %v", a, err)
	}
	t.Cleanup(func() {
		db, err := connect(context.Background(), tg.Cluster, servers, Deps{})
		if err == nil {
			err = db.run(context.Background(), store.Query{SQL: "DROP DATABASE IF EXISTS " + store.Ident(tg.Database) + db.rewrite.on() + " SYNC"})
			_ = db.Close()
		}
		if err != nil {
			t.Error(err)
		}
	})
	now := time.Date(2024, 3, 5, 12, 34, 56, 0, time.UTC)
	requests := analyticstest.Generate(21, 20_000, now)
	loadUnderKill(t, tg.Cluster, servers, blocksOf(requests, 200))
	if a, err := Apply(t.Context(), tg, servers, ApplyOptions{}, t.Logf); err != nil || len(a.Repaired) > 0 {
		t.Errorf("apply again: %+v, %v", a, err)
	}
	db, err := Open(t.Context(), tg.Cluster, servers, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if err := db.CheckVersion(t.Context()); err != nil {
		t.Error(err)
	}
	caughtUp(t, db)
	checkCluster(t, db, requests, now)
}

// loadUnderKill loads the blocks; after a third a server is killed, after two thirds it is started again.
func loadUnderKill(t *testing.T, cfg Config, servers clickhouse.Config, blocks []*block) {
	t.Helper()
	var wg sync.WaitGroup
	queue := make(chan *block)
	for w := range 4 {
		wg.Go(func() { loadBlocks(t, cfg, servers, queue, rnd.New(rnd.NewPCG(uint64(w), 1))) })
	}
	for i, b := range blocks {
		queue <- b
		switch i {
		case len(blocks) / 3:
			command(t, killEnv)
		case len(blocks) * 2 / 3:
			command(t, reviveEnv)
		}
	}
	close(queue)
	wg.Wait()
}

func command(t *testing.T, env string) {
	t.Helper()
	if os.Getenv(env) == "" {
		t.Logf("%s is not set: no server is killed", env)
		return
	}
	if out, err := exec.Command("sh", "-c", os.Getenv(env)).CombinedOutput(); err != nil { //nolint:gosec,noctx // whoever runs the test wrote it
		t.Errorf("%s: %v\n%s", env, err, out)
	}
}

// caughtUp waits until no replica has anything left to fetch.
func caughtUp(t *testing.T, db *DB) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		rows, err := texts(t.Context(), db.all, "SELECT toString(sum(queue_size)), toString(sum(is_readonly)), toString(count()) FROM clusterAllReplicas({name:String}, system.replicas) WHERE database = {database:String}",
			map[string]string{"name": store.Text(db.cfg.Name), "database": store.Text(db.server.Database)})
		if err == nil && rows[0][0] == "0" && rows[0][1] == "0" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("replicas have not caught up: %v, %v", rows, err)
		}
		select {
		case <-t.Context().Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func checkCluster(t *testing.T, db *DB, requests []analyticstest.Request, now time.Time) {
	t.Helper()
	one := analyticstest.Store(t, single(t, servetest.Start(t, servetest.Options{}).Addr), requests)
	const rows = "SELECT count(), sum(cityHash64(tuple(* EXCEPT StoredOn))) FROM http_requests"
	if got, want := storetest.Text(t, db, rows), storetest.Text(t, one, rows); got != want {
		t.Errorf("rows and their hash %s, want %s", got, want)
	}
	analyticstest.CheckRollups(t, db, requests)
	shardOfServer := 0
	err := db.Each(t.Context(), func(addr string, server store.DB) error {
		shard := shardOfServer / db.cfg.Copies
		shardOfServer++
		here := fmt.Sprintf(" WHERE cityHash64(ZoneID) %% %d = %d", db.Shards(), shard)
		if got, want := storetest.Text(t, server, strings.Replace(rows, "http_requests", "http_requests_local", 1)), storetest.Text(t, one, rows+here); got != want {
			t.Errorf("%s: %s, want %s", addr, got, want)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	for _, db := range []store.DB{one, db} {
		if err := maker(t, db, now).Round(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range append(analyticstest.Zones(), "nothing.example") {
		for _, r := range questions {
			want, got := answers(t, service(t, one, now), zone.ID(name), r), answers(t, service(t, db, now), zone.ID(name), r)
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s %+v (-embedded +cluster):\n%.2000s", name, r, d)
			}
		}
	}
	r, err := maintain.Check(t.Context(), db, maintain.CheckOptions{Retention: schema.DefaultRetention()}, t.Logf)
	if err != nil || len(r.Findings) > 0 {
		t.Errorf("check: %+v, %v", r, err)
	}
}
