package tops

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/spate-io/spate/analytics/analyticstest"
	"github.com/spate-io/spate/internal/config"
	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/chdb/chdbtest"
	"github.com/spate-io/spate/store/maintain"
	"github.com/spate-io/spate/store/schema"
)

var noon = time.Date(2024, 3, 5, 12, 34, 56, 0, time.UTC)

// watched is a store that counts statements, and refuses them when it is told to.
type watched struct {
	store.DB
	mu      sync.Mutex
	writes  int
	refuse  func(q store.Query) error
	foreign []string // statements that could be in the way of others
}

func (w *watched) look(q store.Query) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if q.Priority != store.Background || q.Settings["max_threads"] != "1" || q.Settings["max_memory_usage"] == "" {
		w.foreign = append(w.foreign, q.SQL)
	}
	if strings.HasPrefix(q.SQL, "INSERT") {
		w.writes++
	}
	if w.refuse != nil {
		return w.refuse(q)
	}
	return nil
}

func (w *watched) Exec(ctx context.Context, q store.Query) error {
	if err := w.look(q); err != nil {
		return err
	}
	return w.DB.Exec(ctx, q)
}

func (w *watched) Select(ctx context.Context, q store.Query, r proto.Results, f func(context.Context, int) error) (store.Stats, error) {
	if err := w.look(q); err != nil {
		return store.Stats{}, err
	}
	return w.DB.Select(ctx, q, r, f)
}

// taken gives how many statements wrote since it was asked last.
func (w *watched) taken() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.writes
	w.writes = 0
	return n
}

func openStore(t *testing.T, requests []analyticstest.Request) *watched {
	t.Helper()
	return &watched{DB: analyticstest.Store(t, chdbtest.Open(t), requests)}
}

func newMaker(t *testing.T, db store.DB, change func(*Config)) *Maker {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Every, cfg.HourRequests = config.Duration(24*time.Hour), 1 // looks at everything in each round
	if change != nil {
		change(&cfg)
	}
	m, err := New(cfg, Deps{DB: db, Registerer: prometheus.NewRegistry(), Now: func() time.Time { return noon }})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func round(t *testing.T, m *Maker) {
	t.Helper()
	if err := m.Round(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func ask(t *testing.T, db store.DB, sql string) string {
	t.Helper()
	var b bytes.Buffer
	if _, err := db.Stream(t.Context(), store.Query{SQL: sql}, &b); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return strings.TrimSpace(b.String())
}

// complete compares what the lists of every dimension have seen with the rollup, zone by zone and step by step.
func complete(t *testing.T, db store.DB) {
	t.Helper()
	for _, l := range schema.TopLevels() {
		over := noon.Truncate(l.Step).Unix()
		want := ask(t, db, fmt.Sprintf("SELECT count(), sum(n), sum(cityHash64(zone_id, time, n)) FROM (SELECT zone_id, time, sum(requests) AS n FROM %s WHERE time < toDateTime(%d) GROUP BY zone_id, time)", l.Rollup, over))
		for _, d := range schema.TopDimensions() {
			got := ask(t, db, fmt.Sprintf("SELECT count(), sum(requests), sum(cityHash64(zone_id, time, requests)) FROM %s FINAL WHERE dimension = '%s'", l.Table, d.Name))
			if got != want {
				t.Errorf("%s by %s: zones' steps and requests are %s, want %s", l.Table, d.Name, got, want)
			}
		}
	}
}

func TestRound_NothingThere(t *testing.T) {
	db := openStore(t, nil)
	m := newMaker(t, db, nil)
	round(t, m)
	if n := db.taken(); n != 0 {
		t.Errorf("%d statements wrote", n)
	}
}

// All work stands behind ingest and dashboards, one thread at a time, and is cut into pieces.
func TestRound_InPieces(t *testing.T) {
	db := openStore(t, analyticstest.Over(1, 3000, noon, 60*time.Hour))
	m := newMaker(t, db, func(c *Config) { c.Requests = 1000 })
	m.rows = 1 // each zone for itself
	round(t, m)
	complete(t, db)
	if len(db.foreign) > 0 {
		t.Errorf("in the way of others: %s", db.foreign[0])
	}
	if got, want := testutil.ToFloat64(m.metrics.written.WithLabelValues(schema.TopDay)), 6.0; got != want {
		t.Errorf("%v days of zones written, want %v", got, want)
	}
	db.taken()
	round(t, m)
	if n := db.taken(); n != 0 {
		t.Errorf("%d statements wrote where nothing was due", n)
	}
}

// What has no single requests left is tried once, however many zones it is of; what comes later is not held up by it.
func TestRound_WhatHasExpiredIsTriedOnce(t *testing.T) {
	db := openStore(t, analyticstest.Over(2, 200, noon, 30*time.Hour))
	if err := db.DB.Exec(t.Context(), store.Query{SQL: "INSERT INTO " + schema.HTTPHour + " (zone_id, time, requests, stored_on) SELECT lower(hex(MD5(toString(number % 600)))), toDateTime('2024-03-04 10:00:00', 'UTC') + 3600 * intDiv(number, 600), 7, today() FROM numbers(1800)"}); err != nil {
		t.Fatal(err)
	}
	m := newMaker(t, db, nil)
	m.rows = 300
	pieces, err := m.pieces(t.Context(), schema.TopLevels()[0], span{time.Unix(0, 0), time.Unix(0, 0), noon})
	if err != nil || len(pieces) < 6 || len(pieces) > 8 || pieces[0].after != "" || pieces[1].after != pieces[0].upto {
		t.Fatalf("%d pieces: %v", len(pieces), err)
	}
	for _, z := range pieces {
		list, err := m.missing(t.Context(), schema.TopLevels()[0], span{time.Unix(0, 0), time.Unix(0, 0), noon}, z)
		if err != nil || len(list) > 400 {
			t.Fatalf("%d at once: %v", len(list), err)
		}
	}
	round(t, m)
	if db.taken() == 0 {
		t.Fatal("nothing was tried")
	}
	round(t, m)
	if n := db.taken(); n != 0 {
		t.Errorf("%d statements wrote what was tried before", n)
	}
	analyticstest.Insert(t, db.DB, analyticstest.Over(3, 10, noon.Add(-5*time.Hour), time.Minute))
	round(t, m)
	if n, most := db.taken(), len(analyticstest.Zones())*(len(schema.TopDimensions())+1); n == 0 || n > most {
		t.Errorf("%d statements wrote one hour of late requests", n)
	}
}

func TestRound_StoreThatIsAway(t *testing.T) {
	db := openStore(t, analyticstest.Over(4, 500, noon, 6*time.Hour))
	m := newMaker(t, db, nil)
	away := errors.New("connection refused")
	n := 0
	db.refuse = func(store.Query) error { // at a different place each time
		if n--; n < 0 {
			return away
		}
		return nil
	}
	for _, n = range []int{0, 1, 2, 9, 17} {
		if err := m.Round(t.Context()); !errors.Is(err, away) {
			t.Fatalf("got %v", err)
		}
	}
	db.refuse = nil
	round(t, m)
	complete(t, db)
}

// A statement that needs too much memory is halved; an hour that needs too much for itself is left out, and nothing else.
func TestRound_TooMuchMemory(t *testing.T) {
	all := analyticstest.Over(5, 800, noon, 5*time.Hour)
	db := openStore(t, all)
	m := newMaker(t, db, nil)
	memory := store.ParseError("Code: 241. DB::Exception: Query memory limit exceeded. (MEMORY_LIMIT_EXCEEDED)")
	db.refuse = func(q store.Query) error {
		if strings.HasPrefix(q.SQL, "INSERT") && strings.Count(q.Params["pairs"], "(") > 3 {
			return memory
		}
		return nil
	}
	round(t, m)
	complete(t, db)

	refused := fmt.Sprint(noon.Add(-3*time.Hour).Truncate(time.Hour).Unix(), ")")
	late := analyticstest.Over(6, 400, noon.Add(-time.Hour), 4*time.Hour)
	analyticstest.Insert(t, db.DB, late)
	db.refuse = func(q store.Query) error {
		if strings.HasPrefix(q.SQL, "INSERT") && strings.Contains(q.SQL, "'path'") && strings.Contains(q.Params["pairs"], refused) {
			return memory
		}
		return nil
	}
	round(t, m)
	lacks := func(dimension string) string {
		return ask(t, db, "SELECT countIf(r.n > l.n), count() FROM (SELECT zone_id, time, sum(requests) AS n FROM "+schema.HTTPHour+" GROUP BY zone_id, time) AS r INNER JOIN (SELECT zone_id, time, requests AS n FROM "+
			schema.TopHour+" FINAL WHERE dimension = '"+dimension+"') AS l USING (zone_id, time) WHERE time < toDateTime('2024-03-05 12:00:00', 'UTC')")
	}
	if paths, others := lacks("path"), lacks("client_ip"); !strings.HasPrefix(paths, "3\t") || !strings.HasPrefix(others, "0\t") {
		t.Errorf("lists of paths that lack something, and all: %s, of addresses: %s", paths, others)
	}
	db.taken()
	round(t, m)
	if n := db.taken(); n != 0 {
		t.Errorf("%d statements tried again", n)
	}
}

// Several makers and a loader work on one store at the same time.
func TestRound_SeveralAtOnce(t *testing.T) {
	db := openStore(t, analyticstest.Over(7, 1000, noon, 30*time.Hour))
	var wg sync.WaitGroup
	for range 2 {
		m := newMaker(t, db, func(c *Config) { c.Values = 10 })
		wg.Go(func() {
			for range 2 {
				if err := m.Round(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range uint64(6) {
		analyticstest.Insert(t, db.DB, analyticstest.Over(8+i, 200, noon, 30*time.Hour))
	}
	wg.Wait()
	round(t, newMaker(t, db, nil))
	complete(t, db)
}

// An address that is erased while lists are being made is in none afterwards, and does not come back when its hours get late
// requests and lists are made again.
func TestRound_ErasedAddressStaysAway(t *testing.T) {
	all := analyticstest.Over(20, 1500, noon, 20*time.Hour)
	db := openStore(t, all)
	round(t, newMaker(t, db, nil))
	gone := all[0].ClientIP
	var late []analyticstest.Request
	for _, q := range analyticstest.Over(21, 300, noon.Add(-time.Hour), 18*time.Hour) {
		if q.ClientIP != gone {
			late = append(late, q)
		}
	}
	listed := func() string {
		return ask(t, db, "SELECT (SELECT countIf(has(listed, '"+gone.String()+"')) FROM "+schema.TopHour+"), (SELECT countIf(has(listed, '"+gone.String()+"')) FROM "+schema.TopDay+")")
	}
	if strings.HasPrefix(listed(), "0\t") {
		t.Fatal("the address is in no list")
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; ctx.Err() == nil && i < len(late)/2; i++ { // each late request makes lists due
			analyticstest.Insert(t, db.DB, late[i:i+1])
			if err := newMaker(t, db, nil).Round(ctx); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
	}()
	if _, err := maintain.Erase(t.Context(), db.DB, maintain.EraseOptions{IP: gone.String()}, func(string, ...any) {}); err != nil {
		t.Error(err)
	}
	if got := listed(); got != "0\t0" {
		t.Errorf("after erasing it is in %s lists of hours and days", got)
	}
	stop()
	<-ended
	analyticstest.Insert(t, db.DB, late[len(late)/2:])
	round(t, newMaker(t, db, nil))
	if got := listed(); got != "0\t0" {
		t.Errorf("after another round it is in %s lists of hours and days", got)
	}
}

func TestBatches_AreBounded(t *testing.T) {
	hour := func(zone string, at int, n uint64) share { return share{zone, uint32(at * 3600), n} }
	var years, zones, mixed []share
	for i := range 20_000 {
		years = append(years, hour("a", 20_000-i, 1))
		zones = append(zones, hour(fmt.Sprint(i), 5, 1))
	}
	for i := range 500 {
		mixed = append(mixed, hour(fmt.Sprint(i), 9000, 1))
	}
	for i := range 500 {
		mixed = append(mixed, hour(fmt.Sprint(i), 8000-i, 1))
	}
	sizes := func(list []share, requests uint64) []int {
		var got []int
		sum := 0
		for _, b := range batches(list, time.Hour, requests) {
			got = append(got, len(b))
			sum += len(b)
		}
		if sum != len(list) {
			t.Errorf("%d of %d", sum, len(list))
		}
		return got
	}
	for _, list := range [][]share{years, zones} {
		if got := sizes(list, 1<<40); len(got) != 4 || got[0] != sharesAtOnce {
			t.Errorf("20,000 in batches of %v", got)
		}
	}
	if d := cmp.Diff([]int{500, 141}, sizes(mixed, 1<<40)[:2]); d != "" { // 141 zones of 141 hours
		t.Error(d)
	}
	busy := []share{hour("a", 9, 10), hour("b", 9, 1000), hour("c", 9, 10), hour("d", 9, 10)}
	if d := cmp.Diff([]int{1, 1, 2}, sizes(busy, 100)); d != "" {
		t.Error(d)
	}
	if got := batches(nil, time.Hour, 1); got != nil {
		t.Error(got)
	}
}

func TestConfig_Validate(t *testing.T) {
	for yaml, want := range map[string]string{
		"": "", "every: 0s": "", "every: 10ms": "every", "values: 5": "values", "hour_requests: 0": "hour_requests", "memory: 1MiB": "memory", "requests: 10": "requests", "settle: 48h": "settle",
	} {
		c := DefaultConfig()
		err := config.Read(strings.NewReader(yaml), nil, &c)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", yaml, err)
		}
	}
}

// A store that is away when the process starts is waited for, and Run ends when it is told to.
func TestMaker_Run(t *testing.T) {
	db := openStore(t, analyticstest.Over(9, 300, noon, 6*time.Hour))
	var mu sync.Mutex
	n, done := 0, make(chan struct{})
	db.refuse = func(q store.Query) error {
		mu.Lock()
		defer mu.Unlock()
		if n++; n < 4 {
			return io.ErrUnexpectedEOF
		}
		if strings.HasPrefix(q.SQL, "INSERT") && strings.Contains(q.SQL, "'"+schema.TopSeen+"'") {
			select {
			case <-done:
			default:
				close(done)
			}
		}
		return nil
	}
	m := newMaker(t, db, func(c *Config) { c.Every = config.Duration(10 * time.Millisecond) })
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- m.Run(ctx) }()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Error("no lists")
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
