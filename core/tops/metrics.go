package tops

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	written  *prometheus.CounterVec // by table
	due      *prometheus.GaugeVec   // by table
	failures prometheus.Counter
	round    prometheus.Histogram
}

func newMetrics(r prometheus.Registerer) *metrics {
	f := promauto.With(r)
	return &metrics{
		written:  f.NewCounterVec(prometheus.CounterOpts{Name: "spate_tops_written_total", Help: "Zones' hours or days whose top lists were written."}, []string{"table"}),
		due:      f.NewGaugeVec(prometheus.GaugeOpts{Name: "spate_tops_due", Help: "Hours or days whose top lists were missing or too old when last looked for."}, []string{"table"}),
		failures: f.NewCounter(prometheus.CounterOpts{Name: "spate_tops_failures_total", Help: "Statements for top lists that failed."}),
		round:    f.NewHistogram(prometheus.HistogramOpts{Name: "spate_tops_round_duration_seconds", Help: "How long it took to look for and write top lists.", Buckets: prometheus.ExponentialBuckets(0.01, 4, 8)}),
	}
}
