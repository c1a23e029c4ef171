package gateway

import "github.com/prometheus/client_golang/prometheus"

// metrics are the gateway's figures. Edge names are bounded: they come from certificates that the operator has signed.
type metrics struct {
	all []prometheus.Collector
	reg prometheus.Registerer

	connections                                *prometheus.GaugeVec
	rejected, batches, events, bytes, rawBytes *prometheus.CounterVec
	dropped, refused, failed                   *prometheus.CounterVec
	inflight                                   prometheus.Gauge
	produce                                    prometheus.Histogram
	waits                                      *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	if reg == nil {
		reg = prometheus.NewRegistry()
	}
	m := &metrics{reg: reg}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "spate_gateway_" + name, Help: help}, labels)
		m.all = append(m.all, v)
		return v
	}
	m.connections = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "spate_gateway_connections", Help: "Connections by edge."}, []string{"edge"})
	m.rejected = counter("rejected_connections_total", "Connections that were not let in, by reason.", "reason")
	m.batches = counter("batches_total", "Batches on the bus.", "edge")
	m.events = counter("events_total", "Events in the batches on the bus.", "edge")
	m.bytes = counter("bytes_total", "Bytes of the batches on the bus.", "edge")
	m.rawBytes = counter("raw_bytes_total", "Bytes of the events in them before compression.", "edge")
	m.dropped = counter("edge_dropped_events_total", "Events that edges say were lost at their sources.", "edge")
	m.refused = counter("refused_batches_total", "Batches refused.", "edge", "reason")
	m.failed = counter("produce_failures_total", "Batches that the bus did not take; the edge sends them again.", "edge")
	m.waits = counter("waits_total", "Times that a connection was not read because of a limit.", "limit")
	m.inflight = prometheus.NewGauge(prometheus.GaugeOpts{Name: "spate_gateway_inflight_bytes", Help: "Bytes on their way to the bus."})
	m.produce = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "spate_gateway_produce_seconds", Help: "Time until a batch was on the bus.", Buckets: prometheus.ExponentialBuckets(0.0005, 2.5, 12),
	})
	m.all = append(m.all, m.connections, m.inflight, m.produce)
	for _, c := range m.all {
		_ = reg.Register(c) // a second gateway on one registry goes uncounted
	}
	return m
}

func (m *metrics) close() {
	for _, c := range m.all {
		m.reg.Unregister(c)
	}
}
