package analytics_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/spate-io/spate/analytics"
	"github.com/spate-io/spate/analytics/analyticstest"
	"github.com/spate-io/spate/core/tops"
	"github.com/spate-io/spate/internal/config"
	"github.com/spate-io/spate/internal/zone"
	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/chdb/chdbtest"
	"github.com/spate-io/spate/store/schema"
)

// topRanges are answered from lists of days, of hours, and of both with single requests of the running hour.
var topRanges = []analytics.Range{
	{Since: "-4320"},
	{Since: "-527000"},
	{Since: "2024-02-28T23:15:10Z", Until: "2024-03-01T00:45:30Z"},
	{Since: "2023-12-31T23:40:00Z", Until: "2024-01-01T00:20:00Z"},
	{Since: "2023-12-30T00:00:00Z", Until: "2024-01-02T00:00:00Z"},
	{Since: "2023-11-15T05:00:00Z", Until: "2024-02-29T05:00:00Z"},
	{Since: "2024-03-01T05:00:00Z", Until: "2024-03-04T06:00:00Z", Delta: 60},
}

func exec(t *testing.T, db store.DB, sql string) {
	t.Helper()
	if err := db.Exec(t.Context(), store.Query{SQL: sql}); err != nil {
		t.Fatal(err)
	}
}

// expire removes single requests of before a time, most of them as the engine does when they are due: by the week.
func expire(t *testing.T, db store.DB, before time.Time) {
	t.Helper()
	monday := before.AddDate(0, 0, -(int(before.Weekday())+6)%7).Format(time.DateOnly)
	var weeks []string
	for _, w := range strings.Fields(number(t, db, "SELECT DISTINCT partition FROM system.parts WHERE active AND table = 'http_requests' AND partition < '"+monday+"'")) {
		weeks = append(weeks, "DROP PARTITION '"+w+"'")
	}
	if len(weeks) > 0 {
		exec(t, db, "ALTER TABLE http_requests "+strings.Join(weeks, ", "))
	}
	exec(t, db, "ALTER TABLE http_requests DELETE WHERE EdgeStartTimestamp < toDateTime('"+before.Format(time.DateTime)+"', 'UTC') SETTINGS mutations_sync = 2")
}

func makeTops(t *testing.T, db store.DB, values int, hourRequests uint64, now func() time.Time) *tops.Maker {
	t.Helper()
	cfg := tops.DefaultConfig()
	cfg.Every, cfg.Values, cfg.HourRequests = config.Duration(time.Hour), values, hourRequests
	m, err := tops.New(cfg, tops.Deps{DB: db, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Round(t.Context()); err != nil {
		t.Fatal(err)
	}
	return m
}

// Where lists have room for all values, they answer exactly what single requests did, also when those have expired.
func TestTop_FromListsEqualsPlainCounting(t *testing.T) {
	now := time.Date(2024, 3, 5, 12, 34, 56, 0, time.UTC)
	all := analyticstest.Generate(11, 4_000, now)
	db := analyticstest.Store(t, chdbtest.Open(t), all)
	clock := func() time.Time { return now }
	makeTops(t, db, 1000, 1, clock)
	cfg := analytics.DefaultConfig()
	cfg.TopRequests, cfg.ShareFor = 0, config.Duration(0)
	s, err := analytics.New(cfg, analytics.Deps{DB: db, Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	id := zone.ID(analyticstest.Zones()[0])
	some := []string{"path", "client_ip", "referer", "cache"}
	check := func(t *testing.T, ranges []analytics.Range) {
		for i, r := range ranges {
			w, err := r.Resolve(now, cfg.Settle.D())
			if err != nil {
				t.Fatal(err)
			}
			t.Run(fmt.Sprintf("range_%d", i), func(t *testing.T) { checkTop(t, s, all, id, r, w, some...) })
		}
	}
	check(t, topRanges)
	// All but the running day has expired; ranges of less than an hour are still answered of it.
	expire(t, db, time.Date(2024, 3, 5, 0, 0, 0, 0, time.UTC))
	check(t, append([]analytics.Range{{Since: "-59"}}, topRanges[:2]...))
	check(t, topRanges[4:])
	t.Run("widened_to_hours", func(t *testing.T) {
		r := analytics.Range{Since: "2024-03-04T11:20:00Z", Until: "2024-03-04T11:50:00Z"}
		wide := analytics.Window{Since: time.Date(2024, 3, 4, 11, 0, 0, 0, time.UTC), Until: time.Date(2024, 3, 4, 12, 0, 0, 0, time.UTC), Delta: time.Hour}
		checkTop(t, s, all, id, r, wide, some...)
	})
}

// Where hours had too few requests to have lists, their days answer, and the window is widened to whole days.
func TestTop_OfSmallHoursIsOfTheirDays(t *testing.T) {
	now := time.Date(2024, 3, 5, 12, 34, 56, 0, time.UTC)
	all := analyticstest.Over(17, 800, now, 6*24*time.Hour)
	db := analyticstest.Store(t, chdbtest.Open(t), all)
	clock := func() time.Time { return now }
	makeTops(t, db, 1000, 50, clock)
	if n := number(t, db, "SELECT count() FROM "+schema.TopHour); n != "0" {
		t.Fatalf("%s lists of hours", n)
	}
	expire(t, db, time.Date(2024, 3, 5, 0, 0, 0, 0, time.UTC))
	cfg := analytics.DefaultConfig()
	cfg.ShareFor = 0
	s, err := analytics.New(cfg, analytics.Deps{DB: db, Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	day := func(d, h int) time.Time { return time.Date(2024, 3, d, h, 0, 0, 0, time.UTC) }
	for i, c := range []struct {
		asked        analytics.Range
		since, until time.Time
		delta        time.Duration
	}{
		{analytics.Range{Since: "2024-03-03T11:20:00Z", Until: "2024-03-03T11:50:00Z"}, day(3, 0), day(4, 0), 24 * time.Hour},
		{analytics.Range{Since: "2024-03-02T20:00:00Z", Until: "2024-03-03T06:00:00Z"}, day(2, 0), day(4, 0), 24 * time.Hour},
		{analytics.Range{Since: "2024-03-02T00:00:00Z", Until: "2024-03-04T00:00:00Z"}, day(2, 0), day(4, 0), time.Hour}, // already whole days
		{analytics.Range{Since: "2024-03-01T05:00:00Z", Until: "2024-03-04T06:00:00Z", Delta: 60}, day(1, 0), day(5, 0), 24 * time.Hour},
		{analytics.Range{Since: "2024-03-05T03:00:00Z", Until: "2024-03-05T09:00:00Z"}, day(5, 3), day(5, 9), 15 * time.Minute}, // single requests are there
		{analytics.Range{Since: "2024-03-04T00:00:00Z"}, day(4, 0), day(5, 13), time.Hour},
	} {
		t.Run(fmt.Sprintf("range_%d", i), func(t *testing.T) {
			checkTop(t, s, all, zone.ID(analyticstest.Zones()[0]), c.asked, analytics.Window{Since: c.since, Until: c.until, Delta: c.delta}, "path", "client_ip")
		})
	}
}

// Lists keep the beginning of values that somebody makes longer than anybody needs: they stay bounded, and so does the error.
func TestTop_LongValuesAreCut(t *testing.T) {
	now := time.Date(2024, 3, 5, 12, 34, 56, 0, time.UTC)
	all := analyticstest.Over(18, 900, now, 8*time.Hour)
	tail := strings.Repeat("x", 3000)
	for i := range all {
		if i%3 == 0 { // the same as another up to 1024 bytes, and different after that
			all[i].ClientRequestPath = []byte(fmt.Sprintf("/%d/%s/%d", i%30, tail, i))
			all[i].ClientRequestUserAgent = []byte(tail + fmt.Sprint(i))
		}
	}
	db := analyticstest.Store(t, chdbtest.Open(t), all)
	makeTops(t, db, 1000, 1, func() time.Time { return now })
	if n := number(t, db, "SELECT max(arrayMax(arrayMap(x -> length(x), listed))) FROM "+schema.TopHour+" WHERE notEmpty(listed)"); n != "1024" {
		t.Errorf("the longest value has %s bytes", n)
	}
	cfg := analytics.DefaultConfig()
	cfg.TopRequests = 0
	s, err := analytics.New(cfg, analytics.Deps{DB: db, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		all[i].ClientRequestPath = all[i].ClientRequestPath[:min(1024, len(all[i].ClientRequestPath))]
		all[i].ClientRequestUserAgent = all[i].ClientRequestUserAgent[:min(1024, len(all[i].ClientRequestUserAgent))]
	}
	r := analytics.Range{Since: "-600"} // lists, and single requests of the running hour
	w, err := r.Resolve(now, cfg.Settle.D())
	if err != nil {
		t.Fatal(err)
	}
	checkTop(t, s, all, zone.ID(analyticstest.Zones()[0]), r, w, "path", "user_agent")
}

// Where lists have no room for all values, every count lies between what is shown and that and the bound.
func TestTop_ErrorBoundHolds(t *testing.T) {
	now := time.Date(2024, 3, 5, 12, 34, 56, 0, time.UTC)
	all := analyticstest.Over(12, 30_000, now, 8*24*time.Hour)
	db := analyticstest.Store(t, chdbtest.Open(t), all)
	clock := func() time.Time { return now }
	makeTops(t, db, 10, 1, clock)
	cfg := analytics.DefaultConfig()
	cfg.TopRequests = 0
	s, err := analytics.New(cfg, analytics.Deps{DB: db, Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	id := zone.ID(analyticstest.Zones()[0])
	check := func(t *testing.T, r analytics.Range, dimension, metric string) {
		w, err := r.Resolve(now, cfg.Settle.D())
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Top(t.Context(), id, r, analytics.TopQuestion{Dimension: dimension, Metric: metric, Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		truth := trueTop(all, id, w, dimension, metric, 1<<30)
		if d := gocmp.Diff(truth.Total, got.Total); d != "" {
			t.Errorf("total: %s", d)
		}
		if got.ErrorBound.Requests == 0 || got.ErrorBound.Requests > truth.Total.Requests/2 {
			t.Errorf("bound %+v of %+v says nothing", got.ErrorBound, got.Total)
		}
		shown := map[string]analytics.TopRow{}
		for _, r := range got.Rows {
			shown[r.Value] = r
		}
		for _, want := range truth.Rows {
			r, ok := shown[want.Value]
			if !ok {
				r.ErrorBound = got.ErrorBound
			}
			if r.Requests > want.Requests || want.Requests > r.Requests+r.ErrorBound.Requests ||
				r.Bytes > want.Bytes || want.Bytes > r.Bytes+r.ErrorBound.Bytes || r.Errors > want.Errors {
				t.Errorf("%q: truth %+v, answer %+v", want.Value, want, r)
			}
		}
	}
	for _, dimension := range []string{"path", "client_ip"} {
		for _, metric := range []string{"requests", "bytes"} {
			t.Run(dimension+"/"+metric, func(t *testing.T) {
				check(t, analytics.Range{Since: "-10080"}, dimension, metric)
				check(t, analytics.Range{Since: "-4320"}, dimension, metric)
			})
		}
	}
}

// Lists follow what comes late, are not made worse by what has expired, and are made again only where they must be.
func TestTops_HealThemselves(t *testing.T) {
	now := time.Date(2024, 3, 5, 12, 34, 56, 0, time.UTC)
	all := analyticstest.Over(13, 4000, now, 30*time.Hour)
	db := analyticstest.Store(t, chdbtest.Open(t), all)
	clock := func() time.Time { return now }
	m := makeTops(t, db, 1000, 1, clock)
	lists := func() string { return number(t, db, "SELECT count() FROM "+schema.TopHour) }
	total := func() string {
		return number(t, db, "SELECT sum(requests) FROM "+schema.TopHour+" FINAL WHERE dimension = 'path'")
	}
	over := func() string {
		return number(t, db, "SELECT sum(requests) FROM "+schema.HTTPHour+" WHERE time < toDateTime('"+now.Truncate(time.Hour).Format(time.DateTime)+"', 'UTC')")
	}
	if got, want := total(), over(); got != want {
		t.Fatalf("lists of %s requests, %s are over", got, want)
	}
	before := lists()
	if err := m.Round(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := lists(); got != before {
		t.Errorf("%s lists after a round in which nothing was due, %s before", got, before)
	}
	late := analyticstest.Over(14, 20, now.Add(-20*time.Hour), time.Minute)
	years := analyticstest.Over(15, 300, time.Date(2019, 1, 1, 12, 0, 0, 0, time.UTC), 3*24*time.Hour)
	analyticstest.Insert(t, db, append(late, years...))
	if err := m.Round(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := total(), over(); got != want {
		t.Errorf("lists of %s requests, %s are over", got, want)
	}
	// Half of what the lists were made of expires, and then something comes late.
	exec(t, db, "ALTER TABLE http_requests DELETE WHERE EdgeResponseBytes % 2 = 0 SETTINGS mutations_sync = 2")
	best := total()
	analyticstest.Insert(t, db, analyticstest.Over(16, 50, now.Add(-10*time.Hour), time.Hour))
	for range 2 {
		if err := m.Round(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := total(); got != best {
		t.Errorf("lists of %s requests, %s before", got, best)
	}
	// A process that starts anew does no harm.
	makeTops(t, db, 1000, 1, clock)
	if got := total(); got != best {
		t.Errorf("lists of %s requests, %s before", got, best)
	}
	now = now.Add(2 * time.Hour)
	if err := m.Round(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := number(t, db, "SELECT countDistinct(time) FROM "+schema.TopHour+" WHERE time = toDateTime('2024-03-05 12:00:00', 'UTC')"); got != "1" {
		t.Error("the hour that was running has no lists after its end")
	}
}
