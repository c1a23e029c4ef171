package analytics

import (
	"context"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/spate-io/spate/histogram"
	"github.com/spate-io/spate/store/schema"
)

// binsPerRow joins five neighbouring bins to one row of the heatmap: 18 rows per power of ten.
const binsPerRow = 5

func latencyStatement(w Window) statement {
	return statement{
		from: rollup(w), group: "GROUP BY point ORDER BY point",
		columns: []string{
			"{point} AS point",
			"CAST(sumMap(" + schema.ColDurationBins + "), 'Map(Int16, UInt64)') AS bins",
			sum(schema.ColDurationUs) + " AS total_us",
			"toUInt64(max(" + schema.ColMaxDurationUs + ")) AS max_us",
		},
	}
}

// Latency answers how long a zone's requests took. Quantiles come from merged log-linear histograms and are within 5 % of
// a duration that occurred; mean and maximum are exact.
func (s *Service) Latency(ctx context.Context, zone string, r Range) (*Latency, error) {
	w, err := r.Resolve(s.now(), s.cfg.Settle.D())
	if err != nil {
		return nil, err
	}
	return shared(ctx, &s.sharing, w.key("latency", zone), s.cfg.ShareFor.D(), func(ctx context.Context) (*Latency, error) {
		return s.askLatency(ctx, zone, w)
	})
}

func (s *Service) askLatency(ctx context.Context, zone string, w Window) (*Latency, error) {
	l := &Latency{Window: w, TimeDelta: w.Minutes(), Timeseries: make([]LatencyPoint, w.Points())}
	for i := range l.Timeseries {
		l.Timeseries[i].Since, l.Timeseries[i].Until = w.At(i)
	}
	var (
		point     proto.ColUInt32
		total     proto.ColUInt64
		longest   proto.ColUInt64
		bins      = proto.NewMap[int16, uint64](new(proto.ColInt16), new(proto.ColUInt64))
		whole     = histogram.New()
		cells     = heat{}
		sum, most uint64
	)
	results := proto.Results{{Name: "point", Data: &point}, {Name: "bins", Data: bins}, {Name: "total_us", Data: &total}, {Name: "max_us", Data: &longest}}
	err := s.run(ctx, "latency", latencyStatement(w).query(zone, w), results, func(n int) error {
		for i := range n {
			p := int(point.Row(i))
			if p >= len(l.Timeseries) {
				continue
			}
			h := histogram.New()
			for b, count := range bins.Row(i) {
				h.RecordBin(histogram.Bin(b), 0, count)
				cells.add(p, histogram.Bin(b), count)
			}
			l.Timeseries[p].fill(h)
			whole.Merge(h)
			sum, most = sum+total.Row(i), max(most, longest.Row(i))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	l.Totals.fill(whole, sum, most)
	l.Heatmap = cells.answer()
	return l, nil
}

func (p *LatencyPoint) fill(h *histogram.Histogram) {
	if p.Count = h.Count(); p.Count == 0 {
		return
	}
	q := h.Quantiles(0.5, 0.9, 0.95, 0.99)
	p.P50Ms, p.P90Ms, p.P95Ms, p.P99Ms = ms(q[0]), ms(q[1]), ms(q[2]), ms(q[3])
}

func (t *LatencyTotals) fill(h *histogram.Histogram, sum, most uint64) {
	if t.Count = h.Count(); t.Count == 0 {
		return
	}
	q := h.Quantiles(0.5, 0.9, 0.95, 0.99, 0.999)
	t.P50Ms, t.P90Ms, t.P95Ms, t.P99Ms, t.P999Ms = ms(q[0]), ms(q[1]), ms(q[2]), ms(q[3]), ms(q[4])
	t.MeanMs, t.MaxMs = ms(float64(sum)/float64(t.Count)), ms(float64(most))
}

// ms turns microseconds into milliseconds.
func ms(us float64) *float64 {
	v := us / 1000
	return &v
}
