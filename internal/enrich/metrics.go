package enrich

import "github.com/prometheus/client_golang/prometheus"

// metrics count what is rare, so that counting costs nothing.
type metrics struct {
	agentMisses   prometheus.Counter
	addressMisses prometheus.Counter
	lookupErrors  prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	if r == nil {
		r = prometheus.NewRegistry()
	}
	m := &metrics{
		agentMisses: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "spate_enrich_user_agent_misses_total", Help: "User agents that were classified because the cache did not have them.",
		}),
		addressMisses: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "spate_enrich_address_misses_total", Help: "Addresses that were looked up because the cache did not have them.",
		}),
		lookupErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "spate_enrich_lookup_errors_total", Help: "Lookups in a database of addresses that failed; such an address counts as unknown.",
		}),
	}
	r.MustRegister(m.agentMisses, m.addressMisses, m.lookupErrors)
	return m
}
