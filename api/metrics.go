package api

import "github.com/prometheus/client_golang/prometheus"

// metrics of the API.
type metrics struct {
	requests *prometheus.CounterVec   // route, status
	duration *prometheus.HistogramVec // route
	refused  *prometheus.CounterVec   // reason
	streams  prometheus.Gauge
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "spate_api_requests_total", Help: "Requests answered, by route and HTTP status.",
		}, []string{"route", "status"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "spate_api_request_duration_seconds", Help: "Time to answer, by route.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"route"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "spate_api_refused_total", Help: "Requests refused: identity, scope, busy (no place free in time), streams (too many open).",
		}, []string{"reason"}),
		streams: prometheus.NewGauge(prometheus.GaugeOpts{Name: "spate_api_live_streams", Help: "Live streams open."}),
	}
	r.MustRegister(m.requests, m.duration, m.refused, m.streams)
	return m
}
