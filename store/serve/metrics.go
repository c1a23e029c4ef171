package serve

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	if r == nil {
		r = prometheus.NewRegistry()
	}
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "spate_serve_requests_total", Help: "Statements that clients sent to the store's HTTP interface, by kind and result.",
		}, []string{"kind", "result"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "spate_serve_request_duration_seconds", Help: "Time from a request's header to the end of its answer.",
			Buckets: prometheus.ExponentialBuckets(0.001, 3, 10),
		}, []string{"kind"}),
	}
	r.MustRegister(m.requests, m.seconds)
	return m
}

// request counts one; q is nil when it was refused before its statement was read.
func (m *metrics) request(q *request, d time.Duration, err error) {
	kind, result := "refused", "ok"
	if q != nil && q.stmt != nil {
		kind = q.stmt.class.String()
	}
	if err != nil {
		result = "error"
	}
	m.requests.WithLabelValues(kind, result).Inc()
	m.seconds.WithLabelValues(kind).Observe(d.Seconds())
}

// String is the label of a class.
func (c class) String() string {
	switch c {
	case classRead:
		return "read"
	case classInsert:
		return "insert"
	case classWrite:
		return "write"
	case classKill:
		return "kill"
	}
	return "session"
}
