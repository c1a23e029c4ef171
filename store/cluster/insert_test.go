package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spate-io/spate/analytics/analyticstest"
	"github.com/spate-io/spate/core/load"
	"github.com/spate-io/spate/event"
	"github.com/spate-io/spate/internal/zone"
	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/clickhouse"
	"github.com/spate-io/spate/store/schema"
	"github.com/spate-io/spate/store/serve/servetest"
	"github.com/spate-io/spate/store/storetest"
)

func openCluster(t *testing.T, tg Target) *DB {
	t.Helper()
	db, err := Open(t.Context(), tg.Cluster, server(t, tg.Cluster.Shards[0].Replicas...), Deps{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// block is what the loader inserts for a range of offsets.
type block struct {
	token    string
	requests []analyticstest.Request
}

func (b *block) inserts(t testing.TB) []store.Insert {
	built := schema.NewHTTPBlock(nil)
	var buf []byte
	for i := range b.requests {
		buf = b.requests[i].HTTP.Append(buf[:0])
		v, _, err := event.ReadHTTP(buf)
		if err != nil {
			t.Fatal(err)
		}
		built.Append(v, &b.requests[i].Result)
	}
	return built.Inserts(b.token)
}

func blocksOf(requests []analyticstest.Request, n int) []*block {
	var list []*block
	for i := 0; i < len(requests); i += n {
		list = append(list, &block{fmt.Sprintf("requests:00/%d/%d", i%3, i), requests[i:min(i+n, len(requests))]})
	}
	return list
}

// Replicas that die, that do what they are told without saying so, that are read-only, that hang; a server that is killed and
// comes back; a loader that dies between two shards and another that repeats what it announced: at the end each request is in
// the raw table of its zone's shard once, every number of every rollup is what plain counting gives, and each question about a
// zone is answered as by an embedded store with the same requests.
func TestInsert_ExactlyOnceThroughFaults(t *testing.T) {
	now := time.Date(2024, 3, 5, 12, 34, 56, 0, time.UTC)
	requests := analyticstest.Over(9, 1500, now, 50*time.Hour)
	servers, tg := startShards(t, 2, 2)
	for _, s := range servers {
		makeShard(t, single(t, *s.addr.Load()), tg)
	}
	stop := make(chan struct{})
	var faults sync.WaitGroup
	faults.Go(func() { breakReplicas(servers, stop) })

	blocks := blocksOf(requests, 75)
	var wg sync.WaitGroup
	queue := make(chan *block)
	for w := range 3 {
		wg.Go(func() {
			loadBlocks(t, tg.Cluster, server(t, tg.Cluster.Shards[0].Replicas...), queue, rand.New(rand.NewPCG(uint64(w), 1)))
		})
	}
	for i, b := range blocks {
		queue <- b
		if i == len(blocks)/2 {
			servers[1].process.Kill()
			servers[1].start(t)
		}
	}
	close(queue)
	wg.Wait()
	close(stop)
	faults.Wait()
	for _, s := range servers {
		for _, r := range s.replicas {
			r.set(alive)
			if r.inserts.Load() == 0 {
				t.Errorf("replica %s of %s took no insert", r.addr, s.path)
			}
		}
	}
	// Whoever comes later repeats everything: nothing changes.
	again := openCluster(t, tg)
	for _, b := range blocks[len(blocks)-10:] {
		for _, in := range b.inserts(t) {
			if err := again.Insert(t.Context(), in); err != nil {
				t.Fatal(err)
			}
		}
	}
	checkShards(t, servers, requests, now)
}

func checkShards(t *testing.T, servers []*shardServer, requests []analyticstest.Request, now time.Time) {
	t.Helper()
	one := analyticstest.Store(t, single(t, servetest.Start(t, servetest.Options{}).Addr), requests)
	for i, s := range servers {
		shard := single(t, *s.addr.Load())
		var here []analyticstest.Request
		for _, q := range requests {
			if ShardOf(q.ZoneID, len(servers)) == i {
				here = append(here, q)
			}
		}
		if len(here) == 0 || len(here) == len(requests) {
			t.Fatalf("shard %d has %d of %d requests", i+1, len(here), len(requests))
		}
		rows := "SELECT count(), sum(cityHash64(tuple(* EXCEPT StoredOn))) FROM http_requests"
		want := storetest.Text(t, one, rows+fmt.Sprintf(" WHERE cityHash64(ZoneID) %% %d = %d", len(servers), i))
		if got := storetest.Text(t, shard, rows); got != want {
			t.Errorf("shard %d: rows and their hash %s, want %s", i+1, got, want)
		}
		analyticstest.CheckRollups(t, shard, here)
		for _, name := range analyticstest.Zones() {
			if ShardOf(zone.ID(name), len(servers)) != i {
				continue
			}
			for _, r := range questions[:2] {
				want, got := answers(t, service(t, one, now), zone.ID(name), r), answers(t, service(t, shard, now), zone.ID(name), r)
				if d := cmp.Diff(want, got); d != "" {
					t.Errorf("%s %+v (-embedded +shard):\n%.2000s", name, r, d)
				}
			}
		}
	}
}

// breakReplicas lets one replica of each shard after the other fail in every way, and sometimes both.
func breakReplicas(servers []*shardServer, stop <-chan struct{}) {
	r := rand.New(rand.NewPCG(1, 2))
	tick := time.NewTicker(60 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		for _, s := range servers {
			for _, rep := range s.replicas {
				rep.set(alive)
			}
			s.replicas[r.IntN(len(s.replicas))].set(mode(r.IntN(int(gateway) + 1)))
			if r.IntN(4) == 0 {
				s.replicas[r.IntN(len(s.replicas))].set([]mode{swallow, dead}[r.IntN(2)])
			}
		}
	}
}

// loadBlocks inserts as the loader does: the inserts of a block in order, each until it is through, under a time limit; and
// now and then it dies in between, so that another, which remembers nothing, begins the block again.
func loadBlocks(t *testing.T, cfg Config, servers clickhouse.Config, queue <-chan *block, r *rand.Rand) {
	fresh := func() *DB {
		db, err := connect(context.Background(), cfg, servers, Deps{})
		if err != nil {
			t.Error(err)
		}
		return db
	}
	db := fresh()
	defer func() { _ = db.Close() }()
	for b := range queue {
		for !loadBlock(t, db, b, r) {
			_ = db.Close()
			db = fresh()
		}
	}
}

// loadBlock gives false when the loader died.
func loadBlock(t *testing.T, db *DB, b *block, r *rand.Rand) bool {
	deadline := time.Now().Add(60 * time.Second)
	for _, in := range b.inserts(t) {
		for {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			err := db.Insert(ctx, in)
			cancel()
			if err == nil {
				break
			}
			if load.Malformed(err) {
				t.Errorf("a block that nothing is wrong with would be set aside: %v", err)
			}
			if time.Now().After(deadline) {
				t.Errorf("%s does not get through: %v", b.token, err)
				return true
			}
			if r.IntN(3) == 0 {
				return false
			}
		}
		if r.IntN(10) == 0 {
			return false
		}
	}
	return true
}

// A replica that hangs uses up its share of the time, not all of it, and is asked last from then on.
func TestInsert_GoesOnToTheNextReplica(t *testing.T) {
	servers, tg := startShards(t, 1, 3)
	makeShard(t, single(t, *servers[0].addr.Load()), tg)
	requests := analyticstest.Generate(9, 50, time.Now())
	for _, m := range []mode{dead, swallow, readOnly, hang, gateway} {
		t.Run(fmt.Sprint(m), func(t *testing.T) {
			db := openCluster(t, tg)
			servers[0].replicas[0].set(m)
			servers[0].replicas[1].set(m)
			defer func() {
				servers[0].replicas[0].set(alive)
				servers[0].replicas[1].set(alive)
			}()
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			b := block{"mode" + fmt.Sprint(m), requests}
			for _, in := range b.inserts(t) {
				if err := db.Insert(ctx, in); err != nil {
					t.Error(err)
				}
			}
		})
	}
	if got := storetest.Text(t, single(t, *servers[0].addr.Load()), "SELECT count() FROM http_requests"); got != "250" {
		t.Errorf("%s rows", got)
	}
}

// What one shard has and another refuses is never cut otherwise: the error does not say that the block is malformed. What all
// refuse with the same words is.
func TestInsert_PartlyRefusedIsNotMalformed(t *testing.T) {
	servers, tg := startShards(t, 2, 1)
	tg.Cluster.Copies = 1
	var shards []store.DB
	for _, s := range servers {
		shards = append(shards, single(t, *s.addr.Load()))
		makeShard(t, shards[len(shards)-1], tg)
	}
	db := openCluster(t, tg)
	b := block{"t", analyticstest.Generate(9, 500, time.Now())}
	in := b.inserts(t)[0]
	const add, drop = "ALTER TABLE http_requests_local ADD CONSTRAINT c CHECK ClientASN = 4242424242", "ALTER TABLE http_requests_local DROP CONSTRAINT c"
	storetest.Exec(t, shards[1], add)
	err := db.Insert(t.Context(), in)
	var partly *PartlyError
	if !errors.As(err, &partly) || load.Malformed(err) || !store.Retriable(err) || !strings.Contains(err.Error(), "shard 2") {
		t.Errorf("one shard refused: %v", err)
	}
	if err := db.Insert(t.Context(), in); !errors.As(err, &partly) {
		t.Errorf("again: %v", err)
	}
	storetest.Exec(t, shards[0], add)
	other := b
	other.token = "u"
	if err := db.Insert(t.Context(), other.inserts(t)[0]); !load.Malformed(err) {
		t.Errorf("both refused: %v", err)
	}
	for _, s := range shards {
		storetest.Exec(t, s, drop)
	}
	if err := db.Insert(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if got := storetest.Text(t, shards[0], "SELECT count() FROM http_requests") + "+" + storetest.Text(t, shards[1], "SELECT count() FROM http_requests"); got == "500+0" || got == "0+500" || !sums(got, 500) {
		t.Errorf("rows: %s", got)
	}
}

func sums(s string, want int) bool {
	a, b := 0, 0
	_, err := fmt.Sscanf(s, "%d+%d", &a, &b)
	return err == nil && a+b == want
}

// Tables that are not about zones are the same on all servers; a token keeps a repetition out, whichever server it goes to.
func TestInsert_Everywhere(t *testing.T) {
	servers, tg := startShards(t, 1, 2)
	makeShard(t, single(t, *servers[0].addr.Load()), tg)
	rows := []schema.LedgerRow{{Edge: "e", Minute: time.Now(), Events: 5}}
	for i := range 4 {
		servers[0].replicas[i%2].set(swallow)
		servers[0].replicas[(i+1)%2].set(alive)
		if err := schema.RecordLedger(t.Context(), openCluster(t, tg), "token", rows); err != nil {
			t.Fatal(err)
		}
	}
	if got := storetest.Text(t, single(t, *servers[0].addr.Load()), "SELECT sum(events) FROM ledger"); got != "5" {
		t.Errorf("%s events", got)
	}
}

// A cluster that is not the one that the store was made for is refused, in words that say what to do.
func TestOpen_RefusesAnotherLayout(t *testing.T) {
	servers, tg := startShards(t, 2, 1)
	open := func(cfg Config) error {
		db, err := Open(t.Context(), cfg, server(t, cfg.Shards[0].Replicas...), Deps{})
		if err == nil {
			err = db.CheckVersion(t.Context())
			_ = db.Close()
		}
		return err
	}
	if err := open(tg.Cluster); err == nil || !strings.Contains(err.Error(), "run `spate store apply`") {
		t.Errorf("an empty database: %v", err)
	}
	for _, s := range servers {
		makeShard(t, single(t, *s.addr.Load()), tg)
	}
	if err := open(tg.Cluster); err != nil {
		t.Errorf("as it was made: %v", err)
	}
	swapped := tg.Cluster
	swapped.Shards = []Shard{tg.Cluster.Shards[1], tg.Cluster.Shards[0]}
	if err := open(swapped); err == nil || !strings.Contains(err.Error(), "the order must be") {
		t.Errorf("shards in another order: %v", err)
	}
	fewer := tg.Cluster
	fewer.Shards = fewer.Shards[:1]
	if err := open(fewer); err == nil || !strings.Contains(err.Error(), "made for 2 shards") {
		t.Errorf("fewer shards: %v", err)
	}
	storetest.Exec(t, single(t, *servers[0].addr.Load()), "INSERT INTO schema_migrations (version, name) VALUES (9999, 'later')")
	if err := open(tg.Cluster); !errors.Is(err, schema.ErrNewer) {
		t.Errorf("a newer store: %v", err)
	}
	servers[1].replicas[0].set(dead)
	if err := open(tg.Cluster); !errors.Is(err, schema.ErrNewer) {
		t.Errorf("with a dead shard: %v", err)
	}
	servers[0].replicas[0].set(dead)
	if err := open(tg.Cluster); err == nil || !strings.Contains(err.Error(), "no server answers") {
		t.Errorf("with all dead: %v", err)
	}
}
