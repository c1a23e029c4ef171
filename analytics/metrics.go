package analytics

import "github.com/prometheus/client_golang/prometheus"

// metrics of a service, by question: dashboard, colos, latency, top, live.
type metrics struct {
	duration *prometheus.HistogramVec
	rows     *prometheus.CounterVec
	errors   *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	if r == nil {
		r = prometheus.NewRegistry()
	}
	labels := []string{"question"}
	m := &metrics{
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "spate_analytics_query_duration_seconds", Help: "Time the store took for a question.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, labels),
		rows: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "spate_analytics_read_rows_total", Help: "Rows the store read for questions.",
		}, labels),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "spate_analytics_errors_total", Help: "Questions the store did not answer.",
		}, labels),
	}
	r.MustRegister(m.duration, m.rows, m.errors)
	return m
}
