package ledger

import "github.com/prometheus/client_golang/prometheus"

// metrics of a writer.
type metrics struct {
	open     prometheus.Gauge
	overflow prometheus.Counter
	failures prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	if r == nil {
		r = prometheus.NewRegistry()
	}
	m := &metrics{
		open: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "spate_ledger_open_rows", Help: "Minutes of edges whose counts wait to be written.",
		}),
		overflow: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "spate_ledger_uncounted_events_total", Help: "Accepted events that the ledger does not know of, because the store took nothing for long.",
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "spate_ledger_failures_total", Help: "Attempts to write counts of edges that did not succeed.",
		}),
	}
	r.MustRegister(m.open, m.overflow, m.failures)
	return m
}
