package zone

import "github.com/prometheus/client_golang/prometheus"

// metrics of a registry.
type metrics struct {
	zones   prometheus.Gauge
	created prometheus.Counter
	syncs   *prometheus.CounterVec // result: ok, error
	unknown [reasons]prometheus.Counter
}

// reason says why an event went to the zone "unknown".
type reason int

const (
	noHost reason = iota
	badHost
	notAuto
	tooMany
	tooFast
	reasons
)

func newMetrics(r prometheus.Registerer) *metrics {
	if r == nil {
		r = prometheus.NewRegistry()
	}
	unknown := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "spate_zone_unknown_events_total",
		Help: "Events counted for the zone unknown, by reason: no host, a host that can be no zone, automatic zones off, their number or rate exhausted.",
	}, []string{"reason"})
	m := &metrics{
		zones: prometheus.NewGauge(prometheus.GaugeOpts{Name: "spate_zone_zones", Help: "Zones known."}),
		created: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "spate_zone_created_total", Help: "Zones made from traffic.",
		}),
		syncs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "spate_zone_syncs_total", Help: "Exchanges of zones with the store, by result.",
		}, []string{"result"}),
	}
	for i, name := range []string{"no_host", "bad_host", "not_auto", "too_many", "too_fast"} {
		m.unknown[i] = unknown.WithLabelValues(name)
	}
	r.MustRegister(m.zones, m.created, m.syncs, unknown)
	return m
}
