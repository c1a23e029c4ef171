package input

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the numbers of all inputs, by type.
type metrics struct {
	lines, events, bad *prometheus.CounterVec
	bytes              *prometheus.CounterVec
	rotations          *prometheus.CounterVec
	files              prometheus.Gauge
	refused            *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	if r == nil {
		r = prometheus.NewRegistry()
	}
	vec := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "spate_input_" + name, Help: help}, []string{label})
	}
	m := &metrics{
		lines:     vec("lines_total", "Lines taken in.", "type"),
		events:    vec("events_total", "Lines that were requests.", "type"),
		bad:       vec("bad_lines_total", "Lines that were refused.", "type"),
		bytes:     vec("bytes_total", "Bytes of the lines taken in.", "type"),
		rotations: vec("rotations_total", "Rotations and truncations of followed files.", "kind"),
		files:     prometheus.NewGauge(prometheus.GaugeOpts{Name: "spate_input_files", Help: "Files that are open."}),
		refused:   vec("refused_total", "HTTP requests and syslog connections that were refused.", "reason"),
	}
	for _, c := range []prometheus.Collector{m.lines, m.events, m.bad, m.bytes, m.rotations, m.files, m.refused} {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics of the inputs: %w", err)
		}
	}
	return m, nil
}
