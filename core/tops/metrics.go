package tops

import (
	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	written  *prometheus.CounterVec // by table
	due      *prometheus.GaugeVec   // by table
	failures prometheus.Counter
	round    prometheus.Histogram
}

func newMetrics(r prometheus.Registerer) *metrics {
	if r == nil {
		r = prometheus.NewRegistry()
	}
	m := &metrics{
		written:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "spate_tops_written_total", Help: "Zones' hours or days whose top lists were written."}, []string{"table"}),
		due:      prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "spate_tops_due", Help: "Hours or days whose top lists were missing or too old when last looked for."}, []string{"table"}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "spate_tops_failures_total", Help: "Statements for top lists that failed."}),
		round:    prometheus.NewHistogram(prometheus.HistogramOpts{Name: "spate_tops_round_duration_seconds", Help: "How long it took to look for and write top lists.", Buckets: prometheus.ExponentialBuckets(0.01, 4, 8)}),
	}
	r.MustRegister(m.written, m.due, m.failures, m.round)
	return m
}
