package analytics

import (
	"context"
	"strings"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/spate-io/spate/store/schema"
)

// trafficLayout says which columns of a rollup make a Traffic.
func trafficLayout() layout[Traffic] {
	return layout[Traffic]{
		counters: []counter[Traffic]{
			{sum(schema.ColRequests), func(t *Traffic, n uint64) { t.Requests.All = n }},
			{sum(schema.ColCachedRequests), func(t *Traffic, n uint64) { t.Requests.Cached = n }},
			{sum(schema.ColEncryptedRequests), func(t *Traffic, n uint64) { t.Requests.SSL.Encrypted = n }},
			{sum(schema.ColResponseBytes), func(t *Traffic, n uint64) { t.Bandwidth.All = n }},
			{sum(schema.ColCachedBytes), func(t *Traffic, n uint64) { t.Bandwidth.Cached = n }},
			{sum(schema.ColEncryptedBytes), func(t *Traffic, n uint64) { t.Bandwidth.SSL.Encrypted = n }},
			{sum(schema.ColThreats), func(t *Traffic, n uint64) { t.Threats.All = n }},
			{sum(schema.ColPageViews), func(t *Traffic, n uint64) { t.Pageviews.All = n }},
			{"toUInt64(" + schema.UniquesMerge + "(" + schema.ColUniques + "))", func(t *Traffic, n uint64) { t.Uniques.All = n }},
		},
		maps: []mapping[Traffic]{
			{sumMap(schema.ColByStatus), func(t *Traffic, m Counts) { t.Requests.HTTPStatus = m }},
			{sumMap(schema.ColByContent), func(t *Traffic, m Counts) { t.Requests.ContentType = m }},
			{sumMap(schema.ColByCountry), func(t *Traffic, m Counts) { t.Requests.Country = m }},
			{sumMap(schema.ColByIPClass), func(t *Traffic, m Counts) { t.Requests.IPClass = m }},
			{sumMap(schema.ColBySSL), func(t *Traffic, m Counts) { t.Requests.SSLProtocol = m }},
			{sumMap(schema.ColBytesByContent), func(t *Traffic, m Counts) { t.Bandwidth.ContentType = m }},
			{sumMap(schema.ColBytesByCountry), func(t *Traffic, m Counts) { t.Bandwidth.Country = m }},
			{sumMap(schema.ColThreatsByType), func(t *Traffic, m Counts) { t.Threats.Type = m }},
			{sumMap(schema.ColThreatsByCountry), func(t *Traffic, m Counts) { t.Threats.Country = m }},
			{sumMap(schema.ColViewsByEngine), func(t *Traffic, m Counts) { t.Pageviews.SearchEngine = lower(m) }},
		},
	}
}

// Dashboard answers how much traffic a zone had: a point for each step of the window and the totals, both of whole points.
// Uniques of the totals are those of the window as a whole, not the sum of the points'.
func (s *Service) Dashboard(ctx context.Context, zone string, r Range) (*Dashboard, error) {
	w, err := r.Resolve(s.now(), s.cfg.Settle.D())
	if err != nil {
		return nil, err
	}
	return shared(ctx, &s.sharing, w.key("dashboard", zone), s.cfg.ShareFor.D(), func(ctx context.Context) (*Dashboard, error) {
		return s.askDashboard(ctx, zone, w)
	})
}

func (s *Service) askDashboard(ctx context.Context, zone string, w Window) (*Dashboard, error) {
	d := &Dashboard{Window: w, Timeseries: make([]Traffic, w.Points())}
	rows := trafficLayout().receive()
	p := newPoints()
	err := s.run(ctx, "dashboard", dashboardStatement(w).query(zone, w), append(p.results(), rows.results()...), func(n int) error {
		for i := range n {
			if t := p.target(i, &d.Totals, d.Timeseries); t != nil {
				rows.fill(t, i)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i := range d.Timeseries {
		t := &d.Timeseries[i]
		t.Since, t.Until = w.At(i)
		t.complete()
	}
	d.Totals.Since, d.Totals.Until = w.Since, w.Until
	d.Totals.complete()
	return d, nil
}

func dashboardStatement(w Window) statement {
	return statement{from: rollup(w), columns: append(pointColumns(), trafficLayout().sql()...), group: bySets}
}

// complete sets what follows from other fields, and empty maps for nil ones.
func (t *Traffic) complete() {
	r, b := &t.Requests, &t.Bandwidth
	r.Uncached, r.SSL.Unencrypted = less(r.All, r.Cached), less(r.All, r.SSL.Encrypted)
	b.Uncached, b.SSL.Unencrypted = less(b.All, b.Cached), less(b.All, b.SSL.Encrypted)
	for _, m := range []*Counts{
		&r.HTTPStatus, &r.ContentType, &r.Country, &r.IPClass, &r.SSLProtocol, &b.ContentType, &b.Country,
		&t.Threats.Type, &t.Threats.Country, &t.Pageviews.SearchEngine,
	} {
		if *m == nil {
			*m = Counts{}
		}
	}
	r.SSLProtocols, b.SSLProtocol, b.SSLProtocols = r.SSLProtocol, r.SSLProtocol, r.SSLProtocol
	t.Pageviews.SearchEngines = t.Pageviews.SearchEngine
}

// lower gives the map with names in lower case, as the original has those of search engines.
func lower(m Counts) Counts {
	out := Counts{}
	for k, n := range m {
		out[strings.ToLower(k)] += n
	}
	return out
}

func less(a, b uint64) uint64 {
	if b > a {
		return 0
	}
	return a - b
}

// bySets groups by point and, in the same pass, over all points: states of uniques merge in the engine for both.
const bySets = "GROUP BY GROUPING SETS ((point), ())"

// pointColumns are the columns that say which point, or the totals, a row of a statement with bySets is about.
func pointColumns() []string {
	return []string{"{point} AS point", "toUInt8(grouping(point)) AS total"}
}

// points receives pointColumns.
type points struct {
	point proto.ColUInt32
	total proto.ColUInt8
}

func newPoints() *points { return &points{} }

func (p *points) results() proto.Results {
	return proto.Results{{Name: "point", Data: &p.point}, {Name: "total", Data: &p.total}}
}

// target gives what row i is about: the totals, a point, or nil when it lies outside.
func (p *points) target(i int, totals *Traffic, points []Traffic) *Traffic {
	return pick(p, i, totals, points)
}

func pick[T any](p *points, i int, totals *T, points []T) *T {
	if p.total.Row(i) != 0 {
		return totals
	}
	if n := int(p.point.Row(i)); n < len(points) {
		return &points[n]
	}
	return nil
}
