package producer

import "github.com/prometheus/client_golang/prometheus"

// metrics are the numbers of one Producer.
type metrics struct {
	connections      prometheus.Gauge
	connectionsTotal prometheus.Counter
	frames           prometheus.Counter
	events           prometheus.Counter
	bytes            prometheus.Counter
	dropped          prometheus.Counter
	gaps             prometheus.Counter
	acks             prometheus.Counter
	refused          *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	if r == nil {
		r = prometheus.NewRegistry()
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "spate_producer_" + name, Help: help})
	}
	m := &metrics{
		connections: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "spate_producer_connections", Help: "Workers that are connected now.",
		}),
		connectionsTotal: counter("connections_total", "Connections of workers taken."),
		frames:           counter("frames_total", "Frames taken from workers."),
		events:           counter("events_total", "Events in frames taken from workers."),
		bytes:            counter("bytes_total", "Bytes of frames taken from workers."),
		dropped:          counter("dropped_events_total", "Events that workers said they lost because their buffer was full."),
		gaps:             counter("missing_frames_total", "Frames that workers passed over."),
		acks:             counter("acks_total", "Acknowledgements sent to workers."),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "spate_producer_refused_total", Help: "Connections closed because of what the worker sent.",
		}, []string{"reason"}),
	}
	for _, c := range []prometheus.Collector{
		m.connections, m.connectionsTotal, m.frames, m.events, m.bytes, m.dropped, m.gaps, m.acks, m.refused,
	} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}
