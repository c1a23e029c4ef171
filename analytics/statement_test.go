package analytics

import (
	"context"
	"errors"
	"io"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/spate-io/spate/store"
)

// recorder is a store without rows that keeps the questions.
type recorder struct {
	mu      sync.Mutex
	queries []store.Query
	err     error
}

func (r *recorder) Select(_ context.Context, q store.Query, _ proto.Results, _ func(context.Context, int) error) (store.Stats, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queries = append(r.queries, q)
	return store.Stats{}, r.err
}

var errUnexpected = errors.New("only Select was expected")

func (r *recorder) Exec(context.Context, store.Query) error { return errUnexpected }
func (r *recorder) Stream(context.Context, store.Query, io.Writer) (store.Stats, error) {
	return store.Stats{}, errUnexpected
}
func (r *recorder) Insert(context.Context, store.Insert) error { return errUnexpected }
func (r *recorder) Close() error                               { return nil }

func service(t testing.TB, db store.DB, now func() time.Time) *Service {
	t.Helper()
	cfg := DefaultConfig()
	cfg.ShareFor = 0
	s, err := New(cfg, Deps{DB: db, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// hostile is what a request could bring instead of a zone's id or a dimension.
const hostile = "x' OR 1=1 --\\"

// askEverything asks every question in every resolution.
func askEverything(t *testing.T, s *Service, zone string) {
	t.Helper()
	ctx := t.Context()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	for _, since := range []string{"-30", "-300", "-800", "-4000", "-10080", "-500000"} {
		r := Range{Since: since}
		_, err := s.Dashboard(ctx, zone, r)
		check(err)
		_, _, err = s.Colos(ctx, zone, r)
		check(err)
		_, err = s.Latency(ctx, zone, r)
		check(err)
		for _, d := range Dimensions() {
			for _, m := range []string{"", "requests", "bytes"} {
				_, err = s.Top(ctx, zone, r, TopQuestion{d, m, 10})
				check(err)
			}
		}
	}
	_, _, err := s.Live(ctx, zone, 0)
	check(err)
}

var from = regexp.MustCompile(`\bFROM\b`)

func TestStatements_StayInTheirZone(t *testing.T) {
	db := &recorder{}
	askEverything(t, service(t, db, nil), hostile)
	if len(db.queries) < 100 {
		t.Fatalf("only %d questions were asked", len(db.queries))
	}
	for _, q := range db.queries {
		tables := len(from.FindAllString(q.SQL, -1))
		scoped := strings.Count(q.SQL, "WHERE zone_id = {zone:String} AND ") + strings.Count(q.SQL, "WHERE ZoneID = {zone:String} AND ")
		if tables != 1 || scoped != 1 || strings.Contains(q.SQL, " OR ") || strings.Contains(q.SQL, "UNION") || strings.Contains(q.SQL, "JOIN") {
			t.Errorf("reads %d tables with %d zone conditions: %s", tables, scoped, q.SQL)
		}
		if got := q.Params["zone"]; got != store.Text(hostile) {
			t.Errorf("zone parameter %q", got)
		}
		if strings.Contains(q.SQL, "1=1") {
			t.Errorf("text from outside in the statement: %s", q.SQL)
		}
	}
}

func TestTop_RefusesOtherQuestions(t *testing.T) {
	db := &recorder{}
	s := service(t, db, nil)
	for _, q := range []TopQuestion{{"", "", 10}, {"ClientIP", "", 10}, {hostile, "", 10}, {"path", hostile, 10}, {"path", "", 0}, {"path", "", 1001}} {
		if _, err := s.Top(t.Context(), "z", Range{}, q); !errors.Is(err, ErrQuestion) {
			t.Errorf("%+v gave %v", q, err)
		}
	}
	if _, err := s.Top(t.Context(), "z", Range{Since: "x"}, TopQuestion{"path", "", 1}); !errors.Is(err, ErrRange) {
		t.Error(err)
	}
	if len(db.queries) != 0 {
		t.Error("the store was asked")
	}
}

func TestDashboard_EmptyIsComplete(t *testing.T) {
	now := at(t, "2024-03-01T10:07:40Z")
	d, err := service(t, &recorder{}, func() time.Time { return now }).Dashboard(t.Context(), "z", Range{Since: "-59"})
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Timeseries) != 60 || d.Totals.Requests.HTTPStatus == nil || d.Timeseries[7].Pageviews.SearchEngines == nil {
		t.Errorf("%d points: %+v", len(d.Timeseries), d.Totals)
	}
	last := d.Timeseries[59]
	if !last.Until.Equal(at(t, "2024-03-01T10:08:00Z")) || !last.Since.Equal(last.Until.Add(-time.Minute)) {
		t.Errorf("last point %s to %s", last.Since, last.Until)
	}
}

func TestLive_ManyViewersAskOncePerSecond(t *testing.T) {
	db := &recorder{}
	now := at(t, "2024-03-01T10:00:00Z")
	s := service(t, db, func() time.Time { return now })
	for range 20 {
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if _, _, err := s.Live(t.Context(), "z", 0); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		now = now.Add(time.Second)
	}
	if len(db.queries) != 20 {
		t.Errorf("%d questions for 100 viewers in 20 s", len(db.queries))
	}
}

func TestLive_BoundsZones(t *testing.T) {
	now := at(t, "2024-03-01T10:00:00Z")
	s := service(t, &recorder{}, func() time.Time { return now })
	s.cfg.LiveZones = 2
	for _, z := range []string{"a", "b"} {
		if _, _, err := s.Live(t.Context(), z, 0); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := s.Live(t.Context(), "c", 0); !errors.Is(err, ErrBusy) {
		t.Errorf("third zone: %v", err)
	}
	now = now.Add(time.Minute)
	if _, _, err := s.Live(t.Context(), "c", 0); err != nil {
		t.Errorf("after the others were left: %v", err)
	}
}

func TestLive_MergesChanges(t *testing.T) {
	z := &liveZone{seconds: map[int64]*liveSecond{}}
	now := time.Unix(1000, 0)
	p := func(t int64, n uint64) LivePoint { return LivePoint{T: t, Requests: n} }
	z.merge([]LivePoint{p(999, 5), p(998, 1)}, now)
	first := z.version
	if got := z.tick(now, 0).Points; len(got) != 2 || got[0].T != 998 {
		t.Fatalf("%+v", got)
	}
	z.merge([]LivePoint{p(999, 7), p(998, 1), p(1000, 2)}, now.Add(time.Second))
	if got := z.tick(now, first).Points; len(got) != 2 || got[0] != p(999, 7) || got[1] != p(1000, 2) {
		t.Errorf("changes: %+v", got)
	}
	if z.lag != 0 {
		t.Errorf("lag %v", z.lag)
	}
	z.merge([]LivePoint{p(1000, 3)}, now.Add(5*time.Second))
	if z.lag != 4 {
		t.Errorf("lag %v, want 4", z.lag)
	}
	z.merge(nil, now.Add(200*time.Second))
	if got := z.tick(now, 0).Points; len(got) != 0 {
		t.Errorf("old seconds are kept: %+v", got)
	}
}

func TestService_PassesTheStoresError(t *testing.T) {
	want := &store.Error{Code: store.CodeMemoryLimit, Message: "too much"}
	s := service(t, &recorder{err: want}, nil)
	_, err := s.Top(t.Context(), "z", Range{}, TopQuestion{"path", "", 10})
	if !store.IsCode(err, store.CodeMemoryLimit) {
		t.Error(err)
	}
}

// A question that reads one row per request yields the processors to those that rollups answer.
func TestStatement_ThatReadsRequestsIsAScan(t *testing.T) {
	w := Window{Since: time.Unix(0, 0), Until: time.Unix(3600, 0), Delta: time.Hour}
	requests := statement{from: raw(), columns: []string{"count() AS n"}}
	hours := statement{from: rollup(w), columns: []string{"requests AS n"}}
	both := statement{columns: []string{"sum(n)"}}
	for _, c := range []struct {
		name string
		q    store.Query
		want store.Priority
	}{
		{"requests", requests.query("z", w), store.Scan},
		{"a rollup", hours.query("z", w), store.Interactive},
		{"both", both.union([]statement{hours, requests}, "z", w), store.Scan},
		{"rollups", both.union([]statement{hours, hours}, "z", w), store.Interactive},
	} {
		if c.q.Priority != c.want {
			t.Errorf("%s: %v, want %v", c.name, c.q.Priority, c.want)
		}
	}
}
