package embedded

import "github.com/prometheus/client_golang/prometheus"

// metrics are the broker's own numbers.
type metrics struct {
	bytes    prometheus.Gauge
	segments prometheus.Gauge
	deleted  prometheus.Counter
	refusing prometheus.Gauge
	refused  prometheus.Counter
	held     prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	if reg == nil {
		reg = prometheus.NewRegistry()
	}
	m := &metrics{
		bytes:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "spate_broker_log_bytes", Help: "Bytes of all log segments on disk."}),
		segments: prometheus.NewGauge(prometheus.GaugeOpts{Name: "spate_broker_segments", Help: "Log segments on disk."}),
		deleted:  prometheus.NewCounter(prometheus.CounterOpts{Name: "spate_broker_deleted_bytes_total", Help: "Bytes that retention deleted."}),
		refusing: prometheus.NewGauge(prometheus.GaugeOpts{Name: "spate_broker_refusing", Help: "1 while produce requests are refused for want of space."}),
		refused:  prometheus.NewCounter(prometheus.CounterOpts{Name: "spate_broker_refused_requests_total", Help: "Requests to store records or offsets refused for want of space."}),
		held:     prometheus.NewGauge(prometheus.GaugeOpts{Name: "spate_broker_held_bytes", Help: "Bytes past their retention that are kept because a consumer group has not read them."}),
	}
	reg.MustRegister(m.bytes, m.segments, m.deleted, m.refusing, m.refused, m.held)
	return m
}
