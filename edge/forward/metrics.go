package forward

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spate-io/spate/event/batch"
)

// metrics are the forwarder's figures; those of the spool and of the shippers are theirs.
type metrics struct {
	reg     prometheus.Registerer
	all     []prometheus.Collector
	closers []func()

	events, batches, rawBytes, packedBytes          prometheus.Counter
	dropped, malformed, duplicates, duplicateChunks prometheus.Counter
	full                                            prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	if reg == nil {
		reg = prometheus.NewRegistry()
	}
	m := &metrics{reg: reg}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "spate_forward_" + name, Help: help})
		m.all = append(m.all, c)
		return c
	}
	m.events = counter("events_total", "Events written to the spool.")
	m.batches = counter("batches_total", "Batches written to the spool.")
	m.rawBytes = counter("raw_bytes_total", "Bytes of events before compression.")
	m.packedBytes = counter("packed_bytes_total", "Bytes of batches after compression.")
	m.dropped = counter("dropped_events_total", "Events that sources say they lost, malformed ones included.")
	m.malformed = counter("malformed_events_total", "Events that were not well formed, with those behind them in their chunk.")
	m.duplicates = counter("duplicate_events_total", "Events in chunks that had been accepted before.")
	m.duplicateChunks = counter("duplicate_chunks_total", "Chunks that had been accepted before.")
	m.full = prometheus.NewGauge(prometheus.GaugeOpts{Name: "spate_forward_blocked", Help: "1 while the spool takes no batches."})
	m.all = append(m.all, m.full)
	for _, c := range m.all {
		_ = reg.Register(c) // a second forwarder on one registry goes uncounted
	}
	return m
}

func (m *metrics) close() {
	for _, c := range m.closers {
		c()
	}
	for _, c := range m.all {
		m.reg.Unregister(c)
	}
}

func (m *metrics) blocked(on bool) {
	if on {
		m.full.Set(1)
	} else {
		m.full.Set(0)
	}
}

// appended counts a batch that is in the spool, and books it.
func (m *metrics) appended(b *sealed) {
	if b.name.Sequence == 0 {
		return
	}
	if b.typ == batch.HTTPRequests {
		m.events.Add(float64(b.events))
	}
	m.batches.Inc()
	m.rawBytes.Add(float64(len(b.raw)))
	m.packedBytes.Add(float64(len(b.data)))
	m.dropped.Add(float64(b.dropped))
	row := b.book.minute(time.Now().Unix() / 60)
	row.Batches++
	row.Bytes += uint64(len(b.data))
	row.Dropped += uint64(b.dropped)
}
