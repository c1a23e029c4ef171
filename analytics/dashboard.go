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
			{schema.ColRequests, func(t *Traffic) *uint64 { return &t.Requests.All }},
			{schema.ColCachedRequests, func(t *Traffic) *uint64 { return &t.Requests.Cached }},
			{schema.ColEncryptedRequests, func(t *Traffic) *uint64 { return &t.Requests.SSL.Encrypted }},
			{schema.ColResponseBytes, func(t *Traffic) *uint64 { return &t.Bandwidth.All }},
			{schema.ColCachedBytes, func(t *Traffic) *uint64 { return &t.Bandwidth.Cached }},
			{schema.ColEncryptedBytes, func(t *Traffic) *uint64 { return &t.Bandwidth.SSL.Encrypted }},
			{schema.ColThreats, func(t *Traffic) *uint64 { return &t.Threats.All }},
			{schema.ColPageViews, func(t *Traffic) *uint64 { return &t.Pageviews.All }},
			{schema.ColUniques, func(t *Traffic) *uint64 { return &t.Uniques.All }},
		},
		maps: []mapping[Traffic]{
			{schema.ColByStatus, func(t *Traffic) *Counts { return &t.Requests.HTTPStatus }},
			{schema.ColByContent, func(t *Traffic) *Counts { return &t.Requests.ContentType }},
			{schema.ColByCountry, func(t *Traffic) *Counts { return &t.Requests.Country }},
			{schema.ColByIPClass, func(t *Traffic) *Counts { return &t.Requests.IPClass }},
			{schema.ColBySSL, func(t *Traffic) *Counts { return &t.Requests.SSLProtocol }},
			{schema.ColBytesByContent, func(t *Traffic) *Counts { return &t.Bandwidth.ContentType }},
			{schema.ColBytesByCountry, func(t *Traffic) *Counts { return &t.Bandwidth.Country }},
			{schema.ColThreatsByType, func(t *Traffic) *Counts { return &t.Threats.Type }},
			{schema.ColThreatsByCountry, func(t *Traffic) *Counts { return &t.Threats.Country }},
			{schema.ColViewsByEngine, func(t *Traffic) *Counts { return &t.Pageviews.SearchEngine }},
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
	if fewRows(w) {
		if err := s.addDashboard(ctx, zone, d); err != nil {
			return nil, err
		}
		d.complete()
		return d, nil
	}
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
	d.complete()
	return d, nil
}

// complete sets what follows from other fields, in all points and in the totals.
func (d *Dashboard) complete() {
	for i := range d.Timeseries {
		t := &d.Timeseries[i]
		t.Since, t.Until = d.Window.At(i)
		t.complete()
	}
	d.Totals.Since, d.Totals.Until = d.Window.Since, d.Window.Until
	d.Totals.complete()
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
	t.Pageviews.SearchEngine = lower(t.Pageviews.SearchEngine)
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
