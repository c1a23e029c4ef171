package move

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/chdb/chdbtest"
	"github.com/spate-io/spate/store/maintain"
	"github.com/spate-io/spate/store/schema"
	"github.com/spate-io/spate/store/serve/servetest"
)

// Whatever made both stores differ, one more run makes them equal, and copies no more than what differs.
func TestRun_CopiesWhatDiffersAnew(t *testing.T) {
	src := source(t)
	ingest(t, src, 0, 1000, 6)
	others(t, src)
	dst, _ := target(t)
	moved(t, src, dst, options(t))
	const damage = "SETTINGS mutations_sync = 2"
	for _, c := range []struct {
		name   string
		db     store.DB
		change []string
		table  string // that differs
		pieces int    // how many at most
	}{
		{"late_events", src, nil, "http_requests", 7},
		{"erased_requests", src, []string{"ALTER TABLE http_requests DELETE WHERE ClientIP = (SELECT any(ClientIP) FROM http_requests) " + damage}, "http_requests", 7},
		{"erased_zone", src, []string{"ALTER TABLE http_requests_1m DELETE WHERE zone_id = 'zone3' " + damage}, "http_requests_1m", 4},
		{"changed_text", src, []string{"ALTER TABLE http_requests UPDATE ClientXForwardedFor = 'x' WHERE ClientRequestPath = '/p/7' " + damage}, "http_requests", 1},
		{"dropped_partition", src, []string{"ALTER TABLE notices DROP PARTITION ID '" + answerPartition(t, src, "notices") + "'"}, "notices", 31},
		{"new_zone", src, []string{"INSERT INTO zones (id, name) VALUES ('c', 'c.test')"}, "zones", 1},
		{"target_lost_rows", dst, []string{"ALTER TABLE http_requests DELETE WHERE ClientRequestPath = '/p/8' " + damage}, "http_requests", 1},
		{"target_changed_a_value", dst, []string{"ALTER TABLE http_requests UPDATE EdgeResponseStatus = 500 WHERE ClientRequestPath = '/p/9' " + damage}, "http_requests", 1},
		{"target_changed_a_map", dst, []string{"ALTER TABLE http_requests_1h UPDATE requests_by_status = map(200, 1) WHERE zone_id = 'zone1' AND time = (SELECT max(time) FROM http_requests_1h) " + damage}, "http_requests_1h", 1},
		{"target_changed_uniques", dst, []string{"ALTER TABLE http_requests_1d UPDATE uniques = arrayReduce('uniqState', [toIPv6('::9')]) WHERE zone_id = 'zone1' AND time = (SELECT max(time) FROM http_requests_1d) " + damage}, "http_requests_1d", 1},
		{"target_changed_names_of_batches", dst, []string{"ALTER TABLE ledger_batches UPDATE sequences = bitmapBuild([toUInt64(1)]) WHERE 1 " + damage}, "ledger_batches", 1},
		{"target_lost_a_partition", dst, []string{"ALTER TABLE http_requests_1mo DROP PARTITION ID 'all'"}, "http_requests_1mo", 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.change == nil {
				ingest(t, src, 100_000, 200, 6)
			}
			exec(t, c.db, c.change...)
			o := options(t)
			o.Verify = true
			r, err := run(t.Context(), src, dst, o)
			if d := r.of(c.table); err != nil || r.Equal || d.Differing == 0 || d.Differing > c.pieces {
				t.Fatalf("verify: %v, %+v", err, d)
			}
			r = moved(t, src, dst, options(t))
			if d := r.of(c.table); d.Differing != 0 {
				t.Errorf("%+v", d)
			}
		})
	}
	alike(t, src, dst)
}

func answerPartition(t *testing.T, db Source, table string) string {
	return answer(t, db, "SELECT max(partition_id) FROM system.parts WHERE active AND table = '"+table+"' AND database = currentDatabase()")
}

// Quick looks only at what was added, and still finds all of it.
func TestRun_QuickFindsWhatWasAdded(t *testing.T) {
	src := source(t)
	ingest(t, src, 0, 2000, 10*24)
	dst, _ := target(t)
	moved(t, src, dst, options(t))
	for i := range 2 {
		ingest(t, src, 10_000+1000*i, 100, 3+100*i)
		exec(t, src, "OPTIMIZE TABLE http_requests_1h FINAL") // parts that are merged meanwhile are not news
		o := options(t)
		o.Quick = true
		var asked atomic.Int64
		r := moved(t, watched{src, func(q store.Query) {
			if strings.Contains(q.SQL, "cityHash64") && strings.Contains(q.SQL, "FROM `http_requests` ") {
				asked.Add(1)
			}
		}}, dst, o)
		if i == 0 && asked.Load() > 4 {
			t.Errorf("%d partitions of requests were compared for three hours", asked.Load())
		}
		if raw := r.of("http_requests"); raw.Rows != uint64(2000+100*(i+1)) || raw.Copied == 0 || raw.Copied > raw.Rows/2 {
			t.Errorf("%+v", raw)
		}
		alike(t, src, dst)
	}
}

type watched struct {
	Source
	see func(store.Query)
}

func (w watched) Stream(ctx context.Context, q store.Query, out io.Writer) (store.Stats, error) {
	w.see(q)
	return w.Source.Stream(ctx, q, out)
}

// The run is cut off at every call that changes the target; each time the next run goes on. At the end nothing is there twice.
func TestRun_CutOffAnywhere(t *testing.T) {
	src := source(t)
	ingest(t, src, 0, 400, 3)
	others(t, src)
	dst, _ := target(t)
	cut := &cutting{DB: dst}
	for n := 1; ; n += 1 + n/4 {
		ctx, cancel := context.WithCancel(t.Context())
		cut.left, cut.cancel = n, cancel
		o := options(t)
		o.Note, o.BatchRows = nil, 100
		r, err := run(ctx, src, cut, o)
		cancel()
		if err == nil && r.Equal {
			t.Logf("ended after %d calls", n)
			break
		}
		if !errors.Is(err, context.Canceled) && !errors.Is(err, errCut) || n > 2000 {
			t.Fatalf("cut off at %d: %v", n, err)
		}
	}
	moved(t, src, dst, options(t))
	alike(t, src, dst)
}

var errCut = errors.New("cut off")

// cutting is a target that is away after some calls: the last one is carried out, and its answer is lost.
type cutting struct {
	store.DB
	left   int
	cancel func()
}

func (c *cutting) Exec(ctx context.Context, q store.Query) error {
	return c.count(func() error { return c.DB.Exec(context.WithoutCancel(ctx), q) })
}

func (c *cutting) Insert(ctx context.Context, in store.Insert) error {
	return c.count(func() error { return c.DB.Insert(context.WithoutCancel(ctx), in) })
}

func (c *cutting) count(fn func() error) error {
	if c.left <= 0 {
		return errCut
	}
	err := fn()
	if c.left--; c.left == 0 {
		c.cancel()
		return errCut
	}
	return err
}

// The target's process dies and comes back; the run waits for it, and the next one finds nothing amiss.
func TestRun_SurvivesTheTargetsDeath(t *testing.T) {
	src := source(t)
	ingest(t, src, 0, 6000, 5*24)
	dir := t.TempDir()
	p := servetest.Start(t, servetest.Options{Path: dir})
	for n := range 3 {
		dst := dial(t, p)
		killed := make(chan struct{})
		var asked atomic.Int64
		w := watched{src, func(q store.Query) {
			if q.Format == "Native" && asked.Add(1) == int64(3+4*n) {
				p.Kill()
				close(killed)
			}
		}}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-killed; cancel() }() // nobody waits for it here
		o := options(t)
		o.Note, o.BatchRows = nil, 300
		if r, err := run(ctx, w, dst, o); err == nil {
			t.Fatalf("the target died, and all was well: %+v", r)
		}
		cancel()
		p = servetest.Start(t, servetest.Options{Path: dir})
	}
	dst := dial(t, p)
	moved(t, src, dst, options(t))
	alike(t, src, dst)
}

// Events come while the move runs. What it says is equal is equal; the rest comes with the next run.
func TestRun_IngestGoesOn(t *testing.T) {
	src := source(t)
	ingest(t, src, 0, 3000, 40)
	dst, _ := target(t)
	stop, stopped := make(chan struct{}), make(chan struct{})
	var n atomic.Int64
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			ingest(t, src, 10_000+20*i, 20, 1+i%6)
			n.Add(20)
		}
	}()
	r, err := run(t.Context(), src, dst, options(t))
	close(stop)
	<-stopped
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d events came meanwhile; equal %v", n.Load(), r.Equal)
	o := options(t)
	o.Quick = true
	if raw := moved(t, src, dst, o).of("http_requests"); raw.Rows != uint64(3000+n.Load()) {
		t.Errorf("%+v, want %d rows", raw, 3000+n.Load())
	}
	alike(t, src, dst)
}

// A target that Spate has stored into is left as it is.
func TestRun_LeavesForeignRowsAlone(t *testing.T) {
	src := source(t)
	ingest(t, src, 0, 1000, 30)
	dst, _ := target(t)
	if err := schema.Migrate(t.Context(), dst); err != nil {
		t.Fatal(err)
	}
	refused := func(t *testing.T) {
		t.Helper()
		before := contents(t, dst)
		_, err := run(t.Context(), src, dst, options(t))
		if !errors.Is(err, ErrForeign) {
			t.Fatalf("%v", err)
		}
		t.Log(err)
		for name, want := range before {
			if got := contents(t, dst)[name]; got != want {
				t.Errorf("%s was changed", name)
			}
		}
	}
	t.Run("before_the_move", func(t *testing.T) {
		ingest(t, dst, 50_000, 10, 5)
		refused(t)
	})
	t.Run("overwritten", func(t *testing.T) {
		o := options(t)
		o.Overwrite = true
		moved(t, src, dst, o)
		alike(t, src, dst)
	})
	t.Run("after_the_move", func(t *testing.T) {
		ingest(t, dst, 60_000, 10, 5) // Spate has gone over
		refused(t)
	})
}

func TestRun_RefusesTheSameStore(t *testing.T) {
	src := source(t)
	ingest(t, src, 0, 10, 1)
	if _, err := run(t.Context(), src, src, options(t)); err == nil || !strings.Contains(err.Error(), "the same store") {
		t.Errorf("%v", err)
	}
}

// Rows that are due are left behind, whether the engine has dropped them already or not, and make no difference.
func TestRun_LeavesWhatHasExpired(t *testing.T) {
	src := source(t)
	ingest(t, src, 0, 500, 10)
	exec(t, src, "SYSTEM STOP MERGES http_requests", "INSERT INTO http_requests (ZoneID, EdgeStartTimestamp, StoredOn) SELECT 'old', now() - toIntervalHour(number), today() - 30 FROM numbers(100)")
	dst, _ := target(t)
	if raw := moved(t, src, dst, options(t)).of("http_requests"); raw.Rows != 500 {
		t.Errorf("%+v", raw)
	}
	exec(t, src, "SYSTEM START MERGES http_requests", "ALTER TABLE http_requests DELETE WHERE ZoneID = 'old'")
	if r := moved(t, src, dst, options(t)); r.CopiedRows != 0 {
		t.Errorf("%+v", r)
	}
}

// What a zone's own rule keeps for longer is moved, and is kept in the target.
func TestRun_TakesRetentionAlong(t *testing.T) {
	src := source(t)
	others(t, src)
	keep := schema.DefaultRetention()
	keep.Rules = []schema.RetentionRule{{Zones: []string{"b.test"}, Raw: 300}}
	if err := keep.Apply(t.Context(), src); err != nil {
		t.Fatal(err)
	}
	exec(t, src, "INSERT INTO http_requests (ZoneID, EdgeStartTimestamp, StoredOn) SELECT 'b', now() - toIntervalHour(number), today() - 100 FROM numbers(50)")
	dst, _ := target(t)
	o := options(t)
	o.Retention = keep
	moved(t, src, dst, o)
	exec(t, dst, "OPTIMIZE TABLE http_requests FINAL")
	ingest(t, src, 0, 100, 3)
	t.Run("a_target_that_keeps_less", func(t *testing.T) {
		dst, _ := target(t)
		o.Retention.Rules = nil
		o.Retention.Minute = 1
		exec(t, src, "INSERT INTO http_requests_1m (zone_id, time, requests, stored_on) VALUES ('old', now(), 5, today() - 3)")
		moved(t, src, dst, o)
		exec(t, dst, "OPTIMIZE TABLE http_requests FINAL", "OPTIMIZE TABLE http_requests_1m FINAL")
		if raw := moved(t, src, dst, o).of("http_requests"); raw.Rows != 100 || raw.Copied != 0 {
			t.Errorf("%+v", raw)
		}
		o.Verify = true
		if r := moved(t, src, dst, o); r.of("http_requests_1m").Differing != 0 {
			t.Errorf("%+v", r)
		}
		o.Verify = false
	})
	exec(t, src, "ALTER TABLE http_requests DELETE WHERE ZoneID != 'b'")
	if got := answer(t, dst, "SELECT count() FROM http_requests"); got != answer(t, src, "SELECT count() FROM http_requests") {
		t.Errorf("%s requests", got)
	}
}

// The store of a running Spate is read through its socket, and from a server into an embedded store.
func TestRun_BetweenAnyTwo(t *testing.T) {
	db := chdbtest.Open(t)
	if err := schema.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	ingest(t, db, 0, 2000, 100)
	others(t, db)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- maintain.NewServer(maintain.Deps{DB: db}).Run(ctx) }()
	var src *maintain.Reader
	for deadline := time.Now().Add(10 * time.Second); src == nil; {
		var err error
		if src, err = maintain.DialReader(t.Context(), db.Path()); err != nil && time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	dst, _ := target(t)
	moved(t, src, dst, options(t))
	alike(t, db, dst)
	if _, err := texts(t.Context(), src, "SELECT nothing"); !store.IsCode(err, 47) {
		t.Errorf("%v", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := maintain.DialReader(t.Context(), db.Path()); !errors.Is(err, maintain.ErrNotRunning) {
		t.Errorf("%v", err)
	}
	for _, table := range slices.Sorted(func(yield func(string) bool) {
		for name := range contents(t, db) {
			if !yield(name) {
				return
			}
		}
	}) {
		exec(t, db, "TRUNCATE TABLE "+table)
	}
	moved(t, dst, db, options(t))
	alike(t, dst, db)
}

func TestRun_DryRunChangesNothing(t *testing.T) {
	src := source(t)
	ingest(t, src, 0, 100, 10)
	dst, _ := target(t)
	for _, o := range []Options{{DryRun: true}, {Verify: true}} {
		r, err := run(t.Context(), src, dst, o)
		if err != nil || r.Equal || r.of("http_requests").Differing != 11 {
			t.Errorf("%v, %+v", err, r)
		}
	}
	if got := answer(t, dst, "SELECT count() FROM system.tables WHERE database = currentDatabase()"); got != "0" {
		t.Errorf("there are %s tables", got)
	}
}

func TestPace_HoldsTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &mover{bucket: newBucket(1 << 20)}
		began := time.Now()
		for range 50 {
			if err := m.pace(t.Context(), 300<<10); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took < 13*time.Second || took > 15*time.Second {
			t.Errorf("15 MB took %s at 1 MiB a second", took)
		}
	})
}

func TestDueFrom_ReadsRulesThatTablesHave(t *testing.T) {
	f := func(engine, want string) {
		t.Helper()
		if got := dueFrom(engine); got != want {
			t.Errorf("%s: %q, want %q", engine, got, want)
		}
	}
	f("MergeTree ORDER BY x TTL a + toIntervalDay(30) SETTINGS y = 1", "a + toIntervalDay(30)")
	f("MergeTree ORDER BY x TTL a + toIntervalDay(multiIf(z IN ('p', 'q'), 3, 30)) SETTINGS y = 1", "a + toIntervalDay(multiIf(z IN ('p', 'q'), 3, 30))")
	f("MergeTree ORDER BY x TTL a + toIntervalDay(30)", "a + toIntervalDay(30)")
	f("MergeTree ORDER BY x TTL a + toIntervalDay(30) WHERE b SETTINGS y = 1", "")
	f("MergeTree ORDER BY x SETTINGS y = 1", "")
}
