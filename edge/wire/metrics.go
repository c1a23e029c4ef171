package wire

import "github.com/prometheus/client_golang/prometheus"

// Metrics are the figures of all shippers of a process, by destination. Make one with NewMetrics and share it.
type Metrics struct {
	all []prometheus.Collector
	reg prometheus.Registerer

	connected, inflight, inflightBytes        *prometheus.GaugeVec
	connects, failures, batches, bytes, acked *prometheus.CounterVec
	refused                                   *prometheus.CounterVec
	ack                                       *prometheus.HistogramVec
}

// NewMetrics registers the shippers' metrics; reg may be nil.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	if reg == nil {
		reg = prometheus.NewRegistry()
	}
	m := &Metrics{reg: reg}
	gauge := func(name, help string) *prometheus.GaugeVec {
		v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "spate_wire_" + name, Help: help}, []string{"destination"})
		m.all = append(m.all, v)
		return v
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "spate_wire_" + name, Help: help}, append([]string{"destination"}, labels...))
		m.all = append(m.all, v)
		return v
	}
	m.connected = gauge("connected", "1 while a gateway of the destination has welcomed the shipper.")
	m.inflight = gauge("inflight_batches", "Batches sent and not acknowledged.")
	m.inflightBytes = gauge("inflight_bytes", "Bytes of the batches sent and not acknowledged.")
	m.connects = counter("connects_total", "Connections that a gateway welcomed.")
	m.failures = counter("connection_failures_total", "Connections that could not be made or broke.")
	m.batches = counter("sent_batches_total", "Batches sent, again after a reconnect too.")
	m.bytes = counter("sent_bytes_total", "Bytes of the batches sent.")
	m.acked = counter("acked_batches_total", "Batches acknowledged.")
	m.refused = counter("refused_batches_total", "Batches refused, by reason.", "reason")
	m.ack = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "spate_wire_ack_seconds", Help: "Time from sending a batch to its acknowledgement.",
		Buckets: prometheus.ExponentialBuckets(0.0005, 2.5, 12),
	}, []string{"destination"})
	m.all = append(m.all, m.ack)
	for _, c := range m.all {
		_ = reg.Register(c) // a second set of shippers on one registry goes uncounted
	}
	return m
}

// Close takes the metrics out of the registry.
func (m *Metrics) Close() {
	for _, c := range m.all {
		m.reg.Unregister(c)
	}
}
