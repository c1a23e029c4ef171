package clickhouse

import (
	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	calls      *prometheus.CounterVec
	seconds    *prometheus.HistogramVec
	insertSize prometheus.Counter
	quarantine prometheus.GaugeFunc
}

func newMetrics(r prometheus.Registerer, h *hosts) *metrics {
	if r == nil {
		r = prometheus.NewRegistry()
	}
	m := &metrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "spate_clickhouse_calls_total", Help: "Statements sent to ClickHouse servers, by kind and result.",
		}, []string{"kind", "result"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "spate_clickhouse_call_duration_seconds", Help: "Time of a statement, waiting for a connection included.",
			Buckets: prometheus.ExponentialBuckets(0.001, 3, 10),
		}, []string{"kind"}),
		insertSize: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "spate_clickhouse_insert_bytes_total", Help: "Bytes of the blocks that were inserted, uncompressed.",
		}),
		quarantine: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "spate_clickhouse_quarantined_addresses", Help: "Addresses that did not answer and are left alone for a while.",
		}, func() float64 { return float64(h.bad()) }),
	}
	r.MustRegister(m.calls, m.seconds, m.insertSize, m.quarantine)
	return m
}

func (m *metrics) call(c *call, err error) {
	result := "ok"
	if err != nil {
		result = "error"
	}
	m.calls.WithLabelValues(c.kind, result).Inc()
	m.seconds.WithLabelValues(c.kind).Observe(c.stats.Elapsed.Seconds())
}
