package load

import "github.com/prometheus/client_golang/prometheus"

// metrics are the loader's numbers.
type metrics struct {
	events     prometheus.Counter
	late       prometheus.Counter
	dropped    prometheus.Counter
	batches    prometheus.Counter
	duplicates prometheus.Counter
	refused    *prometheus.CounterVec
	blocks     prometheus.Counter
	replays    prometheus.Counter
	retries    prometheus.Counter
	skipped    prometheus.Counter
	fenced     prometheus.Counter
	build      prometheus.Histogram
	insert     prometheus.Histogram
	commit     prometheus.Histogram
	partitions prometheus.Gauge
	queued     prometheus.Gauge
	lag        *prometheus.GaugeVec
	window     *prometheus.GaugeVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	if reg == nil {
		reg = prometheus.NewRegistry()
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	seconds := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(0.001, 2, 16)})
	}
	m := &metrics{
		events:     counter("spate_load_events_total", "Events stored."),
		late:       counter("spate_load_late_events_total", "Events that were late when stored."),
		dropped:    counter("spate_load_dropped_events_total", "Events that batches report as dropped at the edge."),
		batches:    counter("spate_load_batches_total", "Batches stored."),
		duplicates: counter("spate_load_duplicate_batches_total", "Batches dropped because they had been stored before."),
		refused:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: "spate_load_refused_batches_total", Help: "Batches set aside in the topic of refused records."}, []string{"reason"}),
		blocks:     counter("spate_load_blocks_total", "Blocks inserted."),
		replays:    counter("spate_load_replays_total", "Ranges repeated because a loader stopped between intent and commit."),
		retries:    counter("spate_load_insert_retries_total", "Inserts repeated after an error."),
		skipped:    counter("spate_load_skipped_offsets_total", "Offsets that were no longer on the bus when they should have been read."),
		fenced:     counter("spate_load_fenced_total", "Times a partition was left because another loader has it."),
		build:      seconds("spate_load_build_seconds", "Time to decode, enrich and build one block."),
		insert:     seconds("spate_load_insert_seconds", "Time of one successful insert."),
		commit:     seconds("spate_load_commit_seconds", "Time of one offset commit."),
		partitions: prometheus.NewGauge(prometheus.GaugeOpts{Name: "spate_load_partitions", Help: "Partitions that this loader has."}),
		queued:     prometheus.NewGauge(prometheus.GaugeOpts{Name: "spate_load_queued_bytes", Help: "Bytes of records fetched and not handled yet."}),
		lag:        prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "spate_load_lag_messages", Help: "Records behind the end of the partition."}, []string{"partition"}),
		window:     prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "spate_load_window_names", Help: "Batch names remembered."}, []string{"partition"}),
	}
	reg.MustRegister(m.events, m.late, m.dropped, m.batches, m.duplicates, m.refused, m.blocks, m.replays, m.retries, m.skipped,
		m.fenced, m.build, m.insert, m.commit, m.partitions, m.queued, m.lag, m.window)
	return m
}
