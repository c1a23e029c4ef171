package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/spate-io/spate/event/batch"
)

// step names the points of a range's way at which a crash leaves something different behind.
type step string

const (
	stepGathered step = "gathered"
	stepBuilt    step = "built"
	stepIntent   step = "intent"
	stepPartly   step = "partly inserted"
	stepInserted step = "inserted"
	stepLedger   step = "ledger"
	stepDone     step = "committed"
)

// worker loads one partition for as long as this loader owns it.
type worker struct {
	l         *Loader
	partition int32
	ctx       context.Context // ends when everything must be left where it is
	cancel    context.CancelFunc
	soft      context.Context    // ends, before or with ctx, when nothing new may be begun
	stop      context.CancelFunc // ends soft
	done      chan struct{}

	window   *window
	saved    time.Time // when the window was last written to the bus
	unsaved  int64     // bytes of records since then
	pending  *span     // an intent that was found and must be repeated first
	accounts accounts
	aside    map[int64]bool // offsets of the present range that are in the refused topic already

	// committed is the next offset after what is stored, -1 while nothing was ever committed or it is unknown. read is that of the next record to take.
	committed atomic.Int64
	read      int64

	mu     sync.Mutex
	queue  []*kgo.Record
	bytes  int64
	paused bool
	gone   bool          // the worker has ended and takes no more
	more   chan struct{} // has a value when records were pushed
}

func newWorker(l *Loader, s *session, partition int32) *worker {
	w := &worker{
		l: l, partition: partition, done: make(chan struct{}), more: make(chan struct{}, 1),
		window: newWindow(l.cfg.Window), saved: time.Now(), aside: make(map[int64]bool),
	}
	w.ctx, w.cancel = context.WithCancel(s.ctx)
	w.soft, w.stop = context.WithCancel(w.ctx)
	w.committed.Store(-1)
	return w
}

// errStopping ends a worker that was asked to stop and has nothing half done.
var errStopping = errors.New("stopping")

// run is the worker's goroutine.
func (w *worker) run() {
	defer close(w.done)
	defer w.cancel()
	defer w.discard()
	err := w.start()
	for err == nil {
		var recs []*kgo.Record
		if recs, err = w.gather(); err == nil {
			err = w.handle(recs)
		}
	}
	switch {
	case errors.Is(err, errStopping) && w.ctx.Err() == nil:
		w.saveWindow()
		fallthrough
	case errors.Is(err, errStopping), errors.Is(err, context.Canceled):
		w.l.log.Info("partition left", "partition", w.partition, "committed", w.committed.Load())
	default:
		w.l.log.Warn("partition left", "partition", w.partition, "committed", w.committed.Load(), "err", err)
	}
}

// start reads where the partition stands, and the names of its last batches; it tries until both are known.
func (w *worker) start() error {
	wait := 50 * time.Millisecond
	for {
		err := w.startOnce()
		if err == nil {
			return nil
		}
		if w.soft.Err() != nil {
			return errStopping
		}
		w.l.log.Warn("partition cannot be started, trying again", "partition", w.partition, "err", err)
		if sleep(w.soft, wait) != nil {
			return errStopping
		}
		wait = min(2*wait, 5*time.Second)
	}
}

func (w *worker) startOnce() error {
	ctx := w.soft
	at, metadata, err := w.l.committed(ctx, w.partition)
	if err != nil {
		return err
	}
	s, pending, err := parseIntent(metadata)
	if err != nil {
		w.l.log.Warn("commit of somebody else, ignoring what it says", "partition", w.partition, "err", err)
	}
	_, ends, err := w.l.bounds(ctx)
	if err != nil {
		return err
	}
	end := ends[w.partition]
	if pending && end <= s.last {
		w.l.log.Error("log ends before the announced range, going on without it", "partition", w.partition, "end", end, "first", s.first, "last", s.last)
		pending = false
	}
	if at > end {
		// The brokers lost the log's end, which they only do when told to prefer that. What comes now is new.
		w.l.log.Error("position is past the end of the log, going on from the end", "partition", w.partition, "position", at, "end", end)
		at = end
	}
	w.window = newWindow(w.l.cfg.Window)
	known, err := w.l.restoreWindow(ctx, w.window, w.partition, at)
	if err != nil {
		return err
	}
	if err := w.l.readBack(ctx, w.window, w.partition, known, at); err != nil {
		return err
	}
	w.pending = nil
	if pending {
		w.l.log.Info("repeating an announced range", "partition", w.partition, "first", s.first, "last", s.last)
		w.l.metrics.replays.Inc()
		w.pending = &s
	}
	w.read = at
	w.committed.Store(at)
	return nil
}

// push adds fetched records to the queue and stops fetching when it is long enough.
func (w *worker) push(recs []*kgo.Record) {
	if len(recs) == 0 {
		return
	}
	var n int64
	for _, r := range recs {
		n += int64(len(r.Value))
	}
	w.mu.Lock()
	if w.gone {
		w.mu.Unlock()
		return
	}
	w.queue = append(w.queue, recs...)
	w.bytes += n
	pause := !w.paused && w.bytes > int64(w.l.cfg.QueueBytes)
	w.paused = w.paused || pause
	w.mu.Unlock()
	w.l.metrics.queued.Add(float64(n))
	if pause {
		w.l.state().cl.PauseFetchPartitions(w.here())
	}
	select {
	case w.more <- struct{}{}:
	default:
	}
}

// pop takes the first record, or returns nil.
func (w *worker) pop() *kgo.Record {
	w.mu.Lock()
	if len(w.queue) == 0 {
		w.mu.Unlock()
		return nil
	}
	r := w.queue[0]
	w.queue[0] = nil
	w.queue = w.queue[1:]
	w.bytes -= int64(len(r.Value))
	resume := w.paused && w.bytes <= int64(w.l.cfg.QueueBytes)/2
	if resume {
		w.paused = false
	}
	w.mu.Unlock()
	w.l.metrics.queued.Sub(float64(len(r.Value)))
	if resume {
		w.l.state().cl.ResumeFetchPartitions(w.here())
	}
	return r
}

// unread puts the record that pop gave last back.
func (w *worker) unread(r *kgo.Record) {
	w.mu.Lock()
	w.queue = append([]*kgo.Record{r}, w.queue...)
	w.bytes += int64(len(r.Value))
	w.mu.Unlock()
	w.l.metrics.queued.Add(float64(len(r.Value)))
}

// discard forgets the queue and lets the partition be fetched again, by whoever has it next in this process.
func (w *worker) discard() {
	w.mu.Lock()
	w.l.metrics.queued.Sub(float64(w.bytes))
	w.queue, w.bytes = nil, 0
	paused := w.paused
	w.gone = true
	w.mu.Unlock()
	if paused {
		w.l.state().cl.ResumeFetchPartitions(w.here())
	}
}

func (w *worker) here() map[string][]int32 { return map[string][]int32{w.l.topic: {w.partition}} }

// next returns the next record in order; nil when deadline fires first.
func (w *worker) next(deadline <-chan time.Time) (*kgo.Record, error) {
	for {
		if w.soft.Err() != nil {
			return nil, errStopping
		}
		if r := w.pop(); r != nil {
			if r.Offset < w.read {
				continue // handled before
			}
			return r, nil
		}
		select {
		case <-w.more:
		case <-deadline:
			return nil, nil //nolint:nilnil // no record is no failure
		case <-w.soft.Done():
			return nil, errStopping
		}
	}
}

// gather collects the records of the next range: those of the intent to be repeated, else until the block is full.
func (w *worker) gather() ([]*kgo.Record, error) {
	if w.pending != nil {
		return w.gatherPending()
	}
	var (
		recs     []*kgo.Record
		deadline <-chan time.Time
		timer    *time.Timer
		events   int
		bytes    int64
		began    time.Time // when the first record was there
		heard    bool      // a record came since the timer was set
	)
	cfg := &w.l.cfg.Block
	for events < cfg.MaxEvents && bytes < int64(cfg.MaxBytes) {
		r, err := w.next(deadline)
		if err != nil {
			return nil, err // what was gathered is read again by the next owner
		}
		if r == nil {
			left := cfg.BusyDelay.D() - time.Since(began)
			if !heard || left <= 0 || events*20 < cfg.MaxEvents {
				break
			}
			heard = false
			timer.Reset(min(left, cfg.MaxDelay.D()))
			continue
		}
		heard = true
		w.advance(r)
		h, _, err := batch.ParseHeader(r.Value)
		if err == nil {
			if len(recs) > 0 && (events+int(h.Events) > cfg.MaxEvents || bytes+int64(h.RawLen) > int64(cfg.MaxBytes)) {
				w.unread(r)
				w.read = r.Offset
				break
			}
			events += int(h.Events)
			bytes += int64(h.RawLen)
		}
		recs = append(recs, r)
		if timer == nil {
			began = time.Now()
			timer = time.NewTimer(cfg.MaxDelay.D())
			defer timer.Stop()
			deadline = timer.C
		}
	}
	w.at(stepGathered)
	return recs, nil
}

// gatherPending collects exactly the records of the announced range that are still there.
func (w *worker) gatherPending() ([]*kgo.Record, error) {
	var recs []*kgo.Record
	for {
		r, err := w.next(nil)
		if err != nil {
			return nil, err
		}
		if r.Offset > w.pending.last {
			w.unread(r)
			break
		}
		w.advance(r)
		recs = append(recs, r)
		if r.Offset == w.pending.last {
			break
		}
	}
	return recs, nil
}

// advance moves the read position past r and notices offsets that are gone.
func (w *worker) advance(r *kgo.Record) {
	if w.read >= 0 && r.Offset > w.read {
		w.l.metrics.skipped.Add(float64(r.Offset - w.read))
		w.l.log.Error("offsets are no longer on the bus", "partition", w.partition, "from", w.read, "to", r.Offset)
	}
	w.read = r.Offset + 1
}

func (w *worker) at(s step) {
	if w.l.step != nil {
		w.l.step(w, s)
	}
}

// handle stores one range, however often that must be tried.
func (w *worker) handle(recs []*kgo.Record) error {
	if len(recs) == 0 {
		w.pending = nil
		return nil
	}
	var b *bench
	select {
	case b = <-w.l.builders:
	case <-w.soft.Done():
		return errStopping
	}
	defer func() {
		b.builder.Reset()
		w.l.builders <- b
	}()
	clear(w.aside)
	whole := span{first: recs[0].Offset, last: recs[len(recs)-1].Offset}
	if w.pending != nil {
		whole = *w.pending
		w.pending = nil
	}
	if err := w.storeRange(b, whole, recs); err != nil {
		return fmt.Errorf("range %d-%d: %w", whole.first, whole.last, err)
	}
	w.l.metrics.window.WithLabelValues(w.label()).Set(float64(w.window.len()))
	for _, r := range recs {
		w.unsaved += int64(len(r.Value))
	}
	if w.unsaved >= int64(w.l.cfg.Window.ReadBack)/4 || time.Since(w.saved) >= w.l.cfg.Window.SaveEvery.D() {
		w.saveWindow()
	}
	return nil
}
