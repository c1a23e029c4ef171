package analytics_test

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/spate-io/spate/analytics"
	"github.com/spate-io/spate/analytics/analyticstest"
	"github.com/spate-io/spate/histogram"
	"github.com/spate-io/spate/internal/zone"
	"github.com/spate-io/spate/store/chdb/chdbtest"
)

// tally counts requests the plain way.
type tally struct {
	t     analytics.Traffic
	addrs map[netip.Addr]bool
}

func newTally(since, until time.Time) *tally {
	c := &tally{addrs: map[netip.Addr]bool{}}
	c.t.Since, c.t.Until = since, until
	r, b := &c.t.Requests, &c.t.Bandwidth
	r.HTTPStatus, r.ContentType, r.Country, r.IPClass, r.SSLProtocol = counts(), counts(), counts(), counts(), counts()
	b.ContentType, b.Country = counts(), counts()
	c.t.Threats.Type, c.t.Threats.Country, c.t.Pageviews.SearchEngine = counts(), counts(), counts()
	r.SSLProtocols, b.SSLProtocol, b.SSLProtocols = r.SSLProtocol, r.SSLProtocol, r.SSLProtocol
	c.t.Pageviews.SearchEngines = c.t.Pageviews.SearchEngine
	return c
}

func counts() analytics.Counts { return analytics.Counts{} }

func (c *tally) add(q *analyticstest.Request) {
	t, bytes := &c.t, q.EdgeResponseBytes
	t.Requests.All++
	t.Bandwidth.All += bytes
	if q.Cached {
		t.Requests.Cached++
		t.Bandwidth.Cached += bytes
	} else {
		t.Requests.Uncached++
		t.Bandwidth.Uncached += bytes
	}
	ssl := string(q.ClientSSLProtocol)
	if ssl == "" {
		ssl = "none"
		t.Requests.SSL.Unencrypted++
		t.Bandwidth.SSL.Unencrypted += bytes
	} else {
		t.Requests.SSL.Encrypted++
		t.Bandwidth.SSL.Encrypted += bytes
	}
	t.Requests.SSLProtocol[ssl]++
	t.Requests.HTTPStatus[fmt.Sprint(q.EdgeResponseStatus)]++
	t.Requests.ContentType[q.EdgeResponseContentClass]++
	t.Requests.Country[q.ClientCountry]++
	t.Requests.IPClass[q.ClientIPClass]++
	t.Bandwidth.ContentType[q.EdgeResponseContentClass] += bytes
	t.Bandwidth.Country[q.ClientCountry] += bytes
	if len(q.Threat) > 0 {
		t.Threats.All++
		t.Threats.Type[string(q.Threat)]++
		t.Threats.Country[q.ClientCountry]++
	}
	if q.PageView {
		t.Pageviews.All++
		if q.BotClass == "search_engine" {
			t.Pageviews.SearchEngine[strings.ToLower(q.UserAgentBrowser)]++
		}
	}
	c.addrs[netip.AddrFrom16(q.ClientIP.As16())] = true
	t.Uniques.All = uint64(len(c.addrs))
}

// in gives the requests of a zone in a window.
func in(all []analyticstest.Request, zoneID string, w analytics.Window) []*analyticstest.Request {
	var out []*analyticstest.Request
	for i := range all {
		q := &all[i]
		if q.ZoneID == zoneID && w.Index(time.Unix(0, q.EdgeStartTimestamp)) >= 0 {
			out = append(out, q)
		}
	}
	return out
}

func index(w analytics.Window, q *analyticstest.Request) int {
	return w.Index(time.Unix(0, q.EdgeStartTimestamp))
}

func trueDashboard(all []analyticstest.Request, zoneID string, w analytics.Window) *analytics.Dashboard {
	totals := newTally(w.Since, w.Until)
	var points []*tally
	for i := range w.Points() {
		points = append(points, newTally(w.At(i)))
	}
	for _, q := range in(all, zoneID, w) {
		totals.add(q)
		points[index(w, q)].add(q)
	}
	d := &analytics.Dashboard{Window: w, Totals: totals.t}
	for _, p := range points {
		d.Timeseries = append(d.Timeseries, p.t)
	}
	return d
}

func trueColos(all []analyticstest.Request, zoneID string, w analytics.Window) []analytics.Colo {
	byColo := map[string][]analyticstest.Request{}
	for _, q := range in(all, zoneID, w) {
		byColo[string(q.EdgeColoCode)] = append(byColo[string(q.EdgeColoCode)], *q)
	}
	colo := func(t analytics.Traffic) analytics.ColoTraffic {
		return analytics.ColoTraffic{
			Since: t.Since, Until: t.Until, Threats: t.Threats,
			Requests:  analytics.ColoRequests{All: t.Requests.All, Cached: t.Requests.Cached, Uncached: t.Requests.Uncached, Country: t.Requests.Country, HTTPStatus: t.Requests.HTTPStatus},
			Bandwidth: analytics.ColoBandwidth{All: t.Bandwidth.All, Cached: t.Bandwidth.Cached, Uncached: t.Bandwidth.Uncached},
		}
	}
	out := []analytics.Colo{}
	for _, id := range slices.Sorted(maps.Keys(byColo)) {
		d := trueDashboard(byColo[id], zoneID, w)
		c := analytics.Colo{ColoID: id, Totals: colo(d.Totals)}
		for _, p := range d.Timeseries {
			c.Timeseries = append(c.Timeseries, colo(p))
		}
		out = append(out, c)
	}
	return out
}

// trueTop counts by a dimension the plain way.
func trueTop(all []analyticstest.Request, zoneID string, w analytics.Window, dimension, metric string, limit int) *analytics.Top {
	rows := map[string]*analytics.TopRow{}
	top := &analytics.Top{Window: w, Dimension: dimension, Rows: []analytics.TopRow{}}
	for _, q := range in(all, zoneID, w) {
		value := map[string]string{
			"path": string(q.ClientRequestPath), "host": string(q.ClientRequestHost), "referer": string(q.ClientRequestReferer),
			"user_agent": string(q.ClientRequestUserAgent), "client_ip": q.ClientIP.String(), "country": q.ClientCountry, "asn": fmt.Sprint(q.ClientASN),
			"status": fmt.Sprint(q.EdgeResponseStatus), "method": string(q.ClientRequestMethod), "protocol": string(q.ClientRequestProtocol),
			"browser": q.UserAgentBrowser, "os": q.UserAgentOS, "device": q.ClientDeviceType, "bot": q.BotClass,
			"content": q.EdgeResponseContentClass, "cache": string(q.CacheCacheStatus),
		}[dimension]
		r := rows[value]
		if r == nil {
			r = &analytics.TopRow{Value: value}
			rows[value] = r
		}
		r.Requests++
		r.Bytes += q.EdgeResponseBytes
		top.Total.Requests++
		top.Total.Bytes += q.EdgeResponseBytes
		if q.EdgeResponseStatus >= 400 {
			r.Errors++
		}
	}
	for _, r := range rows {
		top.Rows = append(top.Rows, *r)
	}
	slices.SortFunc(top.Rows, func(a, b analytics.TopRow) int {
		byRequests, byBytes := cmp.Compare(b.Requests, a.Requests), cmp.Compare(b.Bytes, a.Bytes)
		if metric == "bytes" {
			byRequests, byBytes = byBytes, byRequests
		}
		return cmp.Or(byRequests, byBytes, cmp.Compare(a.Value, b.Value))
	})
	top.Rows = top.Rows[:min(limit, len(top.Rows))]
	return top
}

// ranges cover every resolution, month ends, a leap day, a turn of the year, and ends inside of points.
var ranges = []analytics.Range{
	{},
	{Since: "-59"},
	{Since: "-35", Until: "-5"},
	{Since: "-59", Continuous: true},
	{Since: "-419"},
	{Since: "-899", Until: "-7"},
	{Since: "-4320"},
	{Since: "-527000"},
	{Since: "2024-02-28T23:15:10Z", Until: "2024-03-01T00:45:30Z"},
	{Since: "2024-02-28T23:15:10Z", Until: "2024-03-01T00:45:30Z", Delta: 15},
	{Since: "2024-02-29T23:30:00Z", Until: "2024-03-01T00:10:00Z"},
	{Since: "2023-12-31T23:40:00Z", Until: "2024-01-01T00:20:00Z"},
	{Since: "2023-12-30T00:00:00Z", Until: "2024-01-02T00:00:00Z"},
	{Since: "2023-11-15T05:00:00Z", Until: "2024-02-29T05:00:00Z"},
	{Since: "2024-02-27T00:00:00+03:30", Until: "2024-03-01T12:00:00+03:30", Delta: 1440},
	{Since: "2023-06-01T00:00:00Z", Until: "2023-06-01T00:07:00Z"},
}

func TestAnswers_EqualPlainCounting(t *testing.T) {
	now := time.Date(2024, 3, 5, 12, 34, 56, 0, time.UTC)
	all := analyticstest.Generate(1, 20_000, now)
	s, err := analytics.New(analytics.DefaultConfig(), analytics.Deps{DB: analyticstest.Store(t, chdbtest.Open(t), all), Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range ranges {
		w, err := r.Resolve(now, analytics.DefaultConfig().Settle.D())
		if err != nil {
			t.Fatal(err)
		}
		others := append(analyticstest.Zones()[1:], "nothing.example")
		for _, name := range []string{analyticstest.Zones()[0], others[i%len(others)]} {
			t.Run(fmt.Sprintf("range_%d_of_%d_minutes/%s", i, w.Minutes(), name), func(t *testing.T) {
				id := zone.ID(name)
				checkDashboard(t, s, all, id, r, w)
				checkColos(t, s, all, id, r, w)
				checkLatency(t, s, all, id, r, w)
				if i%5 == 0 && name == analyticstest.Zones()[0] {
					checkTop(t, s, all, id, r, w)
				}
			})
		}
	}
}

// Leap days, the century without one, and turns of the year and the month, by the minute, the hour and the day.
func TestAnswers_Calendar(t *testing.T) {
	now := time.Date(2104, 3, 2, 12, 0, 0, 0, time.UTC)
	all := analyticstest.Calendar(41, 4000)
	s, err := analytics.New(analytics.DefaultConfig(), analytics.Deps{DB: analyticstest.Store(t, chdbtest.Open(t), all), Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	id := zone.ID(analyticstest.Zones()[0])
	for _, r := range []analytics.Range{
		{Since: "2100-02-26T00:00:00Z", Until: "2100-03-03T00:00:00Z"},
		{Since: "2100-02-28T23:58:30Z", Until: "2100-03-01T00:01:10Z"},
		{Since: "2100-02-28T12:00:00+05:45", Until: "2100-03-01T12:00:00+05:45", Delta: 60},
		{Since: "2000-02-27T00:00:00Z", Until: "2000-03-04T00:00:00Z"},
		{Since: "2000-02-28T23:30:00Z", Until: "2000-03-01T00:30:00Z", Delta: 15},
		{Since: "1999-07-01T00:00:00Z", Until: "2000-03-01T00:00:30Z"},
		{Since: "1972-02-27T00:00:00Z", Until: "1972-03-02T00:00:00Z"},
		{Since: "2024-02-29T23:59:59Z", Until: "2024-03-01T00:00:01Z"},
		{Since: "2024-02-29T00:00:00Z", Until: "2024-03-01T00:00:00Z", Delta: 1440},
		{Since: "2023-03-01T00:00:00Z", Until: "2024-02-29T23:59:59Z"},
		{Since: "2038-01-19T03:13:00Z", Until: "2038-01-19T03:15:00Z"},
		{Since: "2104-02-27T00:00:00Z", Until: "2104-03-02T00:00:00Z"},
	} {
		w, err := r.Resolve(now, analytics.DefaultConfig().Settle.D())
		if err != nil {
			t.Fatal(err)
		}
		t.Run(w.Since.Format("2006-01-02T1504")+"_of_"+w.Until.Sub(w.Since).String(), func(t *testing.T) {
			if len(in(all, id, w)) == 0 {
				t.Error("no request in the range")
			}
			checkDashboard(t, s, all, id, r, w)
			checkColos(t, s, all, id, r, w)
			checkLatency(t, s, all, id, r, w)
			checkTop(t, s, all, id, r, w, "path")
		})
	}
}

// Every number of every rollup is what a plain program counts: with requests out of order and of all ages in each block, after
// late ones came for minutes that were merged long ago, and after everything is merged.
func TestRollups_EqualPlainCounting(t *testing.T) {
	now := time.Date(2024, 3, 5, 12, 34, 56, 0, time.UTC)
	all := append(analyticstest.Generate(31, 1200, now), analyticstest.Over(32, 900, now, 40*time.Minute)...)
	db := analyticstest.Store(t, chdbtest.Open(t), all)
	analyticstest.CheckRollups(t, db, all)
	merge := func() {
		for table := range analyticstest.Rollups(nil) {
			exec(t, db, "OPTIMIZE TABLE "+table+" FINAL")
		}
	}
	merge()
	late := append(analyticstest.Calendar(33, 700), analyticstest.Over(34, 200, now, 40*time.Minute)...)
	late = append(late, analyticstest.Generate(35, 300, now)...)
	analyticstest.Insert(t, db, late)
	all = append(all, late...)
	analyticstest.CheckRollups(t, db, all)
	merge()
	analyticstest.CheckRollups(t, db, all)
}

func checkDashboard(t *testing.T, s *analytics.Service, all []analyticstest.Request, id string, r analytics.Range, w analytics.Window) {
	t.Helper()
	got, err := s.Dashboard(t.Context(), id, r)
	if err != nil {
		t.Fatal(err)
	}
	if d := gocmp.Diff(trueDashboard(all, id, w), got); d != "" {
		t.Errorf("dashboard (-truth +answer):\n%.3000s", d)
	}
}

func checkColos(t *testing.T, s *analytics.Service, all []analyticstest.Request, id string, r analytics.Range, w analytics.Window) {
	t.Helper()
	got, _, err := s.Colos(t.Context(), id, r)
	if err != nil {
		t.Fatal(err)
	}
	if d := gocmp.Diff(trueColos(all, id, w), got); d != "" {
		t.Errorf("colos (-truth +answer):\n%.3000s", d)
	}
}

// checkTop compares the top of some dimensions, by default all.
func checkTop(t *testing.T, s *analytics.Service, all []analyticstest.Request, id string, r analytics.Range, w analytics.Window, dimensions ...string) {
	t.Helper()
	if dimensions == nil {
		dimensions = analytics.Dimensions()
	}
	for _, d := range dimensions {
		for metric, limit := range map[string]int{"requests": 1000, "bytes": 3} {
			got, err := s.Top(t.Context(), id, r, analytics.TopQuestion{Dimension: d, Metric: metric, Limit: limit})
			if err != nil {
				t.Fatal(err)
			}
			if d := gocmp.Diff(trueTop(all, id, w, d, metric, limit), got); d != "" {
				t.Errorf("top by %s (-truth +answer):\n%.2000s", metric, d)
			}
		}
	}
}

func checkLatency(t *testing.T, s *analytics.Service, all []analyticstest.Request, id string, r analytics.Range, w analytics.Window) {
	t.Helper()
	got, err := s.Latency(t.Context(), id, r)
	if err != nil {
		t.Fatal(err)
	}
	whole, sum, most := histogram.New(), 0.0, 0.0
	points := make([]*histogram.Histogram, w.Points())
	var exact []float64
	for _, q := range in(all, id, w) {
		if q.EdgeEndTimestamp == 0 {
			continue
		}
		us := int64(q.RequestDurationUs)
		i := index(w, q)
		if points[i] == nil {
			points[i] = histogram.New()
		}
		points[i].Record(us, 0)
		whole.Record(us, 0)
		exact = append(exact, float64(us)/1000)
		sum, most = sum+float64(us), max(most, float64(us))
	}
	slices.Sort(exact)
	cells := uint64(0)
	for _, c := range got.Heatmap.Counts {
		cells += c[2]
	}
	if got.Totals.Count != whole.Count() || got.Totals.Count != uint64(len(exact)) || cells != whole.Count() || got.TimeDelta != w.Minutes() {
		t.Errorf("count %d, heatmap %d, truth %d", got.Totals.Count, cells, len(exact))
	}
	for i, p := range got.Timeseries {
		want := points[i]
		switch {
		case want == nil:
			if p.Count != 0 || p.P50Ms != nil {
				t.Errorf("point %d is not empty: %+v", i, p)
			}
		case p.Count != want.Count() || !near(p.P50Ms, want.Quantile(0.5)/1000) || !near(p.P99Ms, want.Quantile(0.99)/1000):
			t.Errorf("point %d: %d, p50 %v, p99 %v; truth %d, %v, %v", i, p.Count, *p.P50Ms, *p.P99Ms, want.Count(), want.Quantile(0.5), want.Quantile(0.99))
		}
	}
	if len(exact) == 0 {
		return
	}
	if !near(got.Totals.MeanMs, sum/float64(len(exact))/1000) || !near(got.Totals.MaxMs, most/1000) {
		t.Errorf("mean %v, max %v; truth %v, %v", *got.Totals.MeanMs, *got.Totals.MaxMs, sum/float64(len(exact))/1000, most/1000)
	}
	for q, ms := range map[float64]*float64{0.5: got.Totals.P50Ms, 0.9: got.Totals.P90Ms, 0.95: got.Totals.P95Ms, 0.99: got.Totals.P99Ms, 0.999: got.Totals.P999Ms} {
		truth := exact[int(math.Ceil(q*float64(len(exact))))-1]
		if math.Abs(*ms-truth) > 0.1*truth {
			t.Errorf("quantile %v is %v, exact %v", q, *ms, truth)
		}
	}
}

func near(got *float64, want float64) bool {
	return got != nil && math.Abs(*got-want) <= 1e-9*math.Abs(want)
}

func TestLive_EqualsPlainCounting(t *testing.T) {
	now := time.Date(2024, 3, 5, 12, 34, 56, 300e6, time.UTC)
	all := analyticstest.Over(2, 3000, now, 200*time.Second)
	db := analyticstest.Store(t, chdbtest.Open(t), all)
	s, err := analytics.New(analytics.DefaultConfig(), analytics.Deps{DB: db, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	id := zone.ID(analyticstest.Zones()[0])
	truth := func(since, until int64) map[int64]uint64 {
		m := map[int64]uint64{}
		for i := range all {
			if sec := all[i].EdgeStartTimestamp / 1e9; all[i].ZoneID == id && sec >= since && sec < until {
				m[sec]++
			}
		}
		return m
	}
	tick, version, err := s.Live(t.Context(), id, 0)
	if err != nil {
		t.Fatal(err)
	}
	got := map[int64]uint64{}
	for _, p := range tick.Points {
		got[p.T] = p.Requests
		if p.S2xx+p.S3xx+p.S4xx+p.S5xx != p.Requests {
			t.Errorf("classes of %d do not add up: %+v", p.T, p)
		}
	}
	if d := gocmp.Diff(truth(now.Unix()-120, now.Unix()+1), got); d != "" {
		t.Error(d)
	}
	now = now.Add(time.Second)
	fresh := analyticstest.Over(3, 50, now, 3*time.Second)
	analyticstest.Insert(t, db, fresh)
	all = append(all, fresh...)
	tick, _, err = s.Live(t.Context(), id, version)
	if err != nil || len(tick.Points) < 2 || len(tick.Points) > 4 {
		t.Fatalf("%d seconds changed: %v", len(tick.Points), err)
	}
	want := truth(0, now.Unix()+1)
	for _, p := range tick.Points {
		if p.Requests != want[p.T] {
			t.Errorf("second %d: %d, truth %d", p.T, p.Requests, want[p.T])
		}
	}
}
