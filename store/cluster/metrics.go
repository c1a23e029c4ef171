package cluster

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	pieces *prometheus.CounterVec // result: stored, failed, known
	cut    prometheus.Histogram
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		pieces: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "spate_cluster_insert_pieces_total", Help: "Pieces of inserts for shards; known ones were stored by an earlier try and are not sent again.",
		}, []string{"result"}),
		cut: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "spate_cluster_cut_duration_seconds", Help: "Time to cut a block by shard.", Buckets: prometheus.ExponentialBuckets(0.0001, 4, 8),
		}),
	}
	r.MustRegister(m.pieces, m.cut)
	return m
}
