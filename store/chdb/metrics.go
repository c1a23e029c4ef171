package chdb

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spate-io/spate/store"
)

type metrics struct {
	queries    *prometheus.CounterVec
	querySecs  *prometheus.HistogramVec
	readRows   prometheus.Counter
	inserts    *prometheus.CounterVec
	insertSecs prometheus.Histogram
	insertSize prometheus.Counter
	relieved   prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	if r == nil {
		r = prometheus.NewRegistry()
	}
	m := &metrics{
		queries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "spate_store_queries_total", Help: "Statements run, by kind and result.",
		}, []string{"kind", "result"}),
		querySecs: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "spate_store_query_duration_seconds", Help: "Time of a statement, waiting for a connection included.",
			Buckets: prometheus.ExponentialBuckets(0.001, 3, 10),
		}, []string{"kind"}),
		readRows: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "spate_store_read_rows_total", Help: "Rows that statements read from tables.",
		}),
		inserts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "spate_store_inserts_total", Help: "Blocks inserted, by result.",
		}, []string{"result"}),
		insertSecs: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "spate_store_insert_duration_seconds", Help: "Time of an insert, waiting for a connection included.",
			Buckets: prometheus.ExponentialBuckets(0.002, 2.5, 10),
		}),
		insertSize: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "spate_store_insert_bytes_total", Help: "Bytes of the blocks that were inserted, uncompressed.",
		}),
	}
	m.relieved = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "spate_store_queries_ended_for_inserts_total", Help: "Queries that were ended because an insert needed the memory they held.",
	})
	r.MustRegister(m.queries, m.querySecs, m.readRows, m.inserts, m.insertSecs, m.insertSize, m.relieved)
	return m
}

func (m *metrics) query(kind string, d time.Duration, s store.Stats, err error) {
	m.queries.WithLabelValues(kind, outcome(err)).Inc()
	m.querySecs.WithLabelValues(kind).Observe(d.Seconds())
	m.readRows.Add(float64(s.Rows))
}

func (m *metrics) insert(d time.Duration, size int, err error) {
	m.inserts.WithLabelValues(outcome(err)).Inc()
	m.insertSecs.Observe(d.Seconds())
	if err == nil {
		m.insertSize.Add(float64(size))
	}
}

func outcome(err error) string {
	if err != nil {
		return "error"
	}
	return "ok"
}
