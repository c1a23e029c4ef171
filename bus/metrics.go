package bus

import "github.com/prometheus/client_golang/prometheus"

// producerMetrics are the numbers of one producer.
type producerMetrics struct {
	records  prometheus.Counter
	bytes    prometheus.Counter
	failures prometheus.Counter
	buffered prometheus.Gauge
	seconds  prometheus.Histogram
}

func newProducerMetrics(reg prometheus.Registerer) *producerMetrics {
	if reg == nil {
		reg = prometheus.NewRegistry()
	}
	m := &producerMetrics{
		records:  prometheus.NewCounter(prometheus.CounterOpts{Name: "spate_bus_produced_records_total", Help: "Records that the bus has acknowledged."}),
		bytes:    prometheus.NewCounter(prometheus.CounterOpts{Name: "spate_bus_produced_bytes_total", Help: "Bytes of values that the bus has acknowledged."}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "spate_bus_produce_failures_total", Help: "Records that the bus refused for good."}),
		buffered: prometheus.NewGauge(prometheus.GaugeOpts{Name: "spate_bus_buffered_bytes", Help: "Bytes of values handed in and not acknowledged yet."}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "spate_bus_produce_seconds", Help: "From Produce to acknowledgement.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 16)}),
	}
	reg.MustRegister(m.records, m.bytes, m.failures, m.buffered, m.seconds)
	return m
}

// lagMetrics are what the lag monitor shows.
type lagMetrics struct {
	messages *prometheus.GaugeVec
	seconds  *prometheus.GaugeVec
	failures prometheus.Counter
}

func newLagMetrics(reg prometheus.Registerer) *lagMetrics {
	if reg == nil {
		reg = prometheus.NewRegistry()
	}
	labels := []string{"group", "topic", "partition"}
	m := &lagMetrics{
		messages: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "spate_bus_lag_messages", Help: "Records that a group has not committed."}, labels),
		seconds:  prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "spate_bus_lag_seconds", Help: "Age of the oldest record that a group has not committed."}, labels),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "spate_bus_lag_failures_total", Help: "Readings of lag that did not succeed."}),
	}
	reg.MustRegister(m.messages, m.seconds, m.failures)
	return m
}
