package spool

import (
	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the spool's figures. The gauges are read from the spool when they are asked for.
type metrics struct {
	reg prometheus.Registerer
	all []prometheus.Collector

	batches, bytes, full, syncErrors, removeErrors, forgotten prometheus.Counter
	damages, damagedBytes, tornBytes                          prometheus.Counter
	sync                                                      prometheus.Histogram
	lostBatches, droppedBatches, droppedEvents                *prometheus.CounterVec
	refusedBatches, refusedEvents                             *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer, s *Spool, destinations []string) *metrics {
	if reg == nil {
		reg = prometheus.NewRegistry()
	}
	m := &metrics{reg: reg}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "spate_spool_" + name, Help: help})
		m.all = append(m.all, c)
		return c
	}
	vec := func(name, help string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "spate_spool_" + name, Help: help}, []string{"destination"})
		m.all = append(m.all, c)
		for _, d := range destinations {
			c.WithLabelValues(d)
		}
		return c
	}
	m.batches = counter("appended_batches_total", "Batches appended.")
	m.bytes = counter("appended_bytes_total", "Bytes of records appended.")
	m.full = counter("full_total", "Appends that found the spool or the disk full.")
	m.syncErrors = counter("sync_errors_total", "Syncs that failed; their records were written again.")
	m.removeErrors = counter("remove_errors_total", "Segments that could not be removed yet.")
	m.forgotten = counter("forgotten_streams_total", "Streams whose position was given up because there were too many.")
	m.damages = counter("damages_total", "Damaged stretches set aside.")
	m.damagedBytes = counter("damaged_bytes_total", "Bytes in damaged stretches set aside.")
	m.tornBytes = counter("torn_bytes_total", "Bytes cut off at the end of the newest segment when it was opened.")
	m.lostBatches = vec("lost_batches_total", "Records that a destination cannot get because of damage.")
	m.droppedBatches = vec("dropped_batches_total", "Batches dropped because the spool was full.")
	m.droppedEvents = vec("dropped_events_total", "Events in the batches dropped because the spool was full.")
	m.refusedBatches = vec("refused_batches_total", "Batches that a destination refused.")
	m.refusedEvents = vec("refused_events_total", "Events in the batches that a destination refused.")
	m.sync = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "spate_spool_sync_seconds", Help: "Time that a sync takes.", Buckets: prometheus.ExponentialBuckets(0.0001, 3, 11),
	})
	m.all = append(m.all, m.sync, newGauges(s))
	for _, c := range m.all {
		if err := reg.Register(c); err != nil {
			s.log.Warn("register spool metrics", "err", err)
		}
	}
	return m
}

func (m *metrics) unregister() {
	for _, c := range m.all {
		m.reg.Unregister(c)
	}
}

func (m *metrics) appended(typ recordType, n int) {
	if typ == typeBatch {
		m.batches.Inc()
	}
	m.bytes.Add(float64(n))
}

func (m *metrics) dropped(destination string, batches, events uint64) {
	m.droppedBatches.WithLabelValues(destination).Add(float64(batches))
	m.droppedEvents.WithLabelValues(destination).Add(float64(events))
}

func (m *metrics) refused(destination string, events uint32) {
	m.refusedBatches.WithLabelValues(destination).Inc()
	m.refusedEvents.WithLabelValues(destination).Add(float64(events))
}

// gauges reads the state of the spool when it is scraped.
type gauges struct {
	s                                          *Spool
	bytes, maxBytes, segments, streams         *prometheus.Desc
	unackedRecords, unackedBytes, oldestSecond *prometheus.Desc
}

func newGauges(s *Spool) *gauges {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("spate_spool_"+name, help, labels, nil)
	}
	return &gauges{
		s:              s,
		bytes:          desc("bytes", "Bytes of all segments."),
		maxBytes:       desc("max_bytes", "Bytes that the spool may hold."),
		segments:       desc("segments", "Number of segments."),
		streams:        desc("streams", "Streams whose position is known."),
		unackedRecords: desc("unacked_batches", "Batches that a destination has not acknowledged.", "destination"),
		unackedBytes:   desc("unacked_bytes", "Bytes that a destination has not acknowledged.", "destination"),
		oldestSecond:   desc("oldest_unacked_seconds", "Age of the oldest batch that a destination has not acknowledged.", "destination"),
	}
}

// Describe sends the descriptions.
func (g *gauges) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{g.bytes, g.maxBytes, g.segments, g.streams, g.unackedRecords, g.unackedBytes, g.oldestSecond} {
		ch <- d
	}
}

// Collect sends the values.
func (g *gauges) Collect(ch chan<- prometheus.Metric) {
	send := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	g.s.mu.Lock()
	bytes, segments, streams, closed := g.s.total(), len(g.s.segs), len(g.s.durable), g.s.closed
	g.s.mu.Unlock()
	if closed {
		return
	}
	send(g.bytes, float64(bytes))
	send(g.maxBytes, float64(g.s.cfg.MaxBytes))
	send(g.segments, float64(segments))
	send(g.streams, float64(streams))
	for _, d := range g.s.Destinations() {
		records, bytes, oldest := g.s.Backlog(d)
		age := 0.0
		if !oldest.IsZero() {
			age = g.s.now().Sub(oldest).Seconds()
		}
		send(g.unackedRecords, float64(records), d)
		send(g.unackedBytes, float64(bytes), d)
		send(g.oldestSecond, age, d)
	}
}
