package analytics

import (
	"context"
	"slices"
	"strings"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/spate-io/spate/store/schema"
)

func coloLayout() layout[ColoTraffic] {
	return layout[ColoTraffic]{
		counters: []counter[ColoTraffic]{
			{schema.ColRequests, func(t *ColoTraffic) *uint64 { return &t.Requests.All }},
			{schema.ColCachedRequests, func(t *ColoTraffic) *uint64 { return &t.Requests.Cached }},
			{schema.ColResponseBytes, func(t *ColoTraffic) *uint64 { return &t.Bandwidth.All }},
			{schema.ColCachedBytes, func(t *ColoTraffic) *uint64 { return &t.Bandwidth.Cached }},
			{schema.ColThreats, func(t *ColoTraffic) *uint64 { return &t.Threats.All }},
		},
		maps: []mapping[ColoTraffic]{
			{schema.ColByStatus, func(t *ColoTraffic) *Counts { return &t.Requests.HTTPStatus }},
			{schema.ColByCountry, func(t *ColoTraffic) *Counts { return &t.Requests.Country }},
			{schema.ColThreatsByType, func(t *ColoTraffic) *Counts { return &t.Threats.Type }},
			{schema.ColThreatsByCountry, func(t *ColoTraffic) *Counts { return &t.Threats.Country }},
		},
	}
}

func coloStatement(w Window) statement {
	columns := append([]string{"CAST(" + schema.ColColo + ", 'String') AS colo_id"}, pointColumns()...)
	return statement{
		from: coloRollup(w), columns: append(columns, coloLayout().sql()...),
		group: "GROUP BY GROUPING SETS ((colo_id, point), (colo_id))",
	}
}

// Colos answers how much traffic each data centre took for a zone, in the order of their names. Data centres without any in
// the window are left out.
func (s *Service) Colos(ctx context.Context, zone string, r Range) ([]Colo, Window, error) {
	w, err := r.Resolve(s.now(), s.cfg.Settle.D())
	if err != nil {
		return nil, w, err
	}
	colos, err := shared(ctx, &s.sharing, w.key("colos", zone), s.cfg.ShareFor.D(), func(ctx context.Context) (*[]Colo, error) {
		return s.askColos(ctx, zone, w)
	})
	if err != nil {
		return nil, w, err
	}
	return *colos, w, nil
}

func (s *Service) askColos(ctx context.Context, zone string, w Window) (*[]Colo, error) {
	byID := map[string]*Colo{}
	var id proto.ColStr
	p, rows := newPoints(), coloLayout().receive()
	results := append(append(proto.Results{{Name: "colo_id", Data: &id}}, p.results()...), rows.results()...)
	err := s.run(ctx, "colos", coloStatement(w).query(zone, w), results, func(n int) error {
		for i := range n {
			c := byID[id.Row(i)]
			if c == nil {
				c = &Colo{ColoID: strings.Clone(id.Row(i)), Timeseries: make([]ColoTraffic, w.Points())}
				byID[c.ColoID] = c
			}
			if t := pick(p, i, &c.Totals, c.Timeseries); t != nil {
				rows.fill(t, i)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	colos := []Colo{}
	for _, c := range byID {
		for i := range c.Timeseries {
			t := &c.Timeseries[i]
			t.Since, t.Until = w.At(i)
			t.complete()
		}
		c.Totals.Since, c.Totals.Until = w.Since, w.Until
		c.Totals.complete()
		colos = append(colos, *c)
	}
	slices.SortFunc(colos, func(a, b Colo) int { return strings.Compare(a.ColoID, b.ColoID) })
	return &colos, nil
}

// complete sets what follows from other fields, and empty maps for nil ones.
func (t *ColoTraffic) complete() {
	t.Requests.Uncached = less(t.Requests.All, t.Requests.Cached)
	t.Bandwidth.Uncached = less(t.Bandwidth.All, t.Bandwidth.Cached)
	for _, m := range []*Counts{&t.Requests.HTTPStatus, &t.Requests.Country, &t.Threats.Type, &t.Threats.Country} {
		if *m == nil {
			*m = Counts{}
		}
	}
}
