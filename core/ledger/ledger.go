// Package ledger writes the book of what became of events into the store: per edge and minute, how many were accepted,
// stored, dropped, refused, late, doubled; and the names of all stored batches, from which missing ones follow.
//
// Writer is the part. The loader calls Record once for each stored range, and waits for it: what it says is as exact as the
// events themselves, since it is inserted under the range's own token. An edge in the same process calls Accept, which
// never waits: counts are gathered in memory and written by Run, so those of the last seconds before a crash are missing.
// The invariant: what is accepted is never more than what an edge has made durable.
package ledger

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spate-io/spate/core/load"
	"github.com/spate-io/spate/internal/anonymize"
	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/schema"
)

// Deps are what a Writer works with.
type Deps struct {
	DB         store.DB
	Logger     *slog.Logger          // nil: nothing is logged
	Registerer prometheus.Registerer // nil: counted for nobody
	Now        func() time.Time      // nil: time.Now
	Mask       *anonymize.Masker     // for addresses in notices; nil keeps them
}

const (
	// flushEvery is how often counts of edges are written.
	flushEvery = 2 * time.Second
	// maxOpen bounds the minutes gathered while the store takes none; further ones are not counted, see metrics.
	maxOpen = 10_000
	// lastFlush is how long the final write may take.
	lastFlush = 10 * time.Second
)

// Accepted counts events that an edge has made durable. Rows of the same edge and minute add up.
type Accepted struct {
	Edge   string
	Minute int64 // minutes since 1970, UTC, of the first event of their batch
	Events uint64
}

type openKey struct {
	edge   string
	minute int64
}

// Writer is the part. Its methods may be called from any goroutine.
type Writer struct {
	db      store.DB
	log     *slog.Logger
	now     func() time.Time
	metrics *metrics
	mask    *anonymize.Masker
	run     string // names this writer in its tokens

	mu      sync.Mutex
	open    map[openKey]uint64
	flushes uint64
}

var _ load.Ledger = (*Writer)(nil)

// New gives a writer that has written nothing.
func New(deps Deps) (*Writer, error) {
	if deps.DB == nil {
		return nil, errors.New("ledger: needs a store")
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	return &Writer{
		db: deps.DB, log: deps.Logger, now: deps.Now, mask: deps.Mask, metrics: newMetrics(deps.Registerer),
		run: rand.Text(), open: make(map[openKey]uint64),
	}, nil
}

// Record writes what became of a range. It implements load.Ledger: a call with a token that was recorded changes nothing,
// whatever the rows say.
func (w *Writer) Record(ctx context.Context, token string, rows []load.Account) error {
	now := w.now()
	counts := make([]schema.LedgerRow, 0, len(rows))
	var names []schema.BatchRow
	var notices []schema.NoticeRow
	mask := w.mask.Fork()
	for i := range rows {
		a := &rows[i]
		minute := time.Unix(a.Minute*60, 0).UTC()
		if a.Minute == 0 {
			minute = now // what has no time of its own is of the time when it came
		}
		counts = append(counts, schema.LedgerRow{
			Edge: a.Edge, Minute: minute, Batches: a.Batches, Events: a.Events, Bytes: a.Bytes, Dropped: a.Dropped,
			Duplicates: a.Duplicates, Refused: a.Refused, Late: a.Late, Oldest: a.Oldest,
		})
		for _, n := range a.Notices {
			n.Sample = string(mask.Text([]byte(n.Sample)))
			notices = append(notices, schema.NoticeRow{Edge: a.Edge, Notice: n})
		}
		for _, e := range a.Stored {
			names = append(names, schema.BatchRow{
				Edge: a.Edge, Epoch: e.Epoch, Minute: minute, Stored: now, Sequences: e.Sequences, Events: e.Events,
			})
		}
	}
	if err := schema.RecordBatches(ctx, w.db, token+"/batches", names); err != nil {
		return err
	}
	if err := schema.RecordNotices(ctx, w.db, token+"/notices", notices); err != nil {
		return err
	}
	return schema.RecordLedger(ctx, w.db, token+"/ledger", counts)
}

// Accept takes counts of an edge; it does not wait for the store. Rows are only read during the call.
func (w *Writer) Accept(rows []Accepted) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range rows {
		k := openKey{r.Edge, r.Minute}
		if _, there := w.open[k]; !there && len(w.open) >= maxOpen {
			w.metrics.overflow.Add(float64(r.Events))
			continue
		}
		w.open[k] += r.Events
	}
	w.metrics.open.Set(float64(len(w.open)))
}

// Run writes the counts of edges until ctx is cancelled, and then those that are left.
func (w *Writer) Run(ctx context.Context) error {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			w.flush(ctx)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastFlush)
			defer cancel()
			w.flush(last)
			return nil
		}
	}
}

// Ready is nil: the loader and edges can do without the counts of edges.
func (w *Writer) Ready() error { return nil }

// flush writes what was gathered. An insert whose end is unknown is repeated with its token and its content until it is
// known or ctx ends, so nothing counts twice.
func (w *Writer) flush(ctx context.Context) {
	rows := w.take()
	if len(rows) == 0 {
		return
	}
	w.flushes++
	token := fmt.Sprintf("accepted:%s/%d", w.run, w.flushes)
	wait := 100 * time.Millisecond
	for attempt := 1; ; attempt++ {
		try, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastFlush)
		err := schema.RecordLedger(try, w.db, token, rows)
		cancel()
		if err == nil {
			return
		}
		w.metrics.failures.Inc()
		if attempt == 1 || attempt%20 == 0 {
			w.log.Warn("counts of edges cannot be written, trying again", "attempt", attempt, "err", err)
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			w.giveUp(rows)
			return
		}
		wait = min(2*wait, 5*time.Second)
	}
}

// giveUp counts what will not be written.
func (w *Writer) giveUp(rows []schema.LedgerRow) {
	var n uint64
	for _, r := range rows {
		n += r.Accepted
	}
	w.metrics.overflow.Add(float64(n))
	w.log.Warn("counts of edges were not written", "events", n)
}

// take empties what was gathered.
func (w *Writer) take() []schema.LedgerRow {
	w.mu.Lock()
	defer w.mu.Unlock()
	rows := make([]schema.LedgerRow, 0, len(w.open))
	for k, n := range w.open {
		rows = append(rows, schema.LedgerRow{Edge: k.edge, Minute: time.Unix(k.minute*60, 0).UTC(), Accepted: n})
	}
	clear(w.open)
	w.metrics.open.Set(0)
	return rows
}
