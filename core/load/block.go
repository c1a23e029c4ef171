package load

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/spate-io/spate/event/batch"
	"github.com/spate-io/spate/event/notice"
	"github.com/spate-io/spate/store"
)

// bench is what one range needs while it is worked on. There are Config.Parallel of them.
type bench struct {
	builder Builder
	decoder *batch.Decoder
}

func newBench(mk func() (Builder, error)) (*bench, error) {
	b, err := mk()
	if err != nil {
		return nil, err
	}
	return &bench{builder: b, decoder: batch.NewDecoder(batch.MaxRaw)}, nil
}

// tally is what the metrics learn once a range is committed.
type tally struct {
	events, late, dropped, batches, duplicates uint64
}

// storeRange brings recs into the store under the name s and commits its end.
func (w *worker) storeRange(b *bench, s span, recs []*kgo.Record) error {
	t, err := w.build(b, recs)
	if err != nil {
		return err
	}
	w.at(stepBuilt)
	if w.l.cfg.Guarantee == ExactlyOnce {
		if err := w.l.commit(w.ctx, w.partition, s.first, s.intent()); err != nil {
			return err
		}
	}
	w.at(stepIntent)
	if b.builder.Rows() > 0 {
		err := w.insert(b, s)
		if poison := (*poisonError)(nil); errors.As(err, &poison) {
			return w.split(b, s, recs, poison)
		}
		if err != nil {
			return err
		}
	}
	w.at(stepInserted)
	if err := w.record(s); err != nil {
		return err
	}
	w.at(stepLedger)
	if err := w.l.commit(w.ctx, w.partition, s.last+1, ""); err != nil {
		return err
	}
	w.committed.Store(s.last + 1)
	w.count(t)
	w.at(stepDone)
	return nil
}

// split stores a refused range in two halves, down to the batch that the store will not take.
func (w *worker) split(b *bench, s span, recs []*kgo.Record, poison *poisonError) error {
	if len(recs) > 1 {
		mid := len(recs) / 2
		if err := w.storeRange(b, span{s.first, recs[mid-1].Offset}, recs[:mid]); err != nil {
			return err
		}
		return w.storeRange(b, span{recs[mid].Offset, s.last}, recs[mid:])
	}
	w.l.inRow.Add(1)
	if err := w.setAside(recs[0], reasonStore, poison.err); err != nil {
		return err
	}
	return w.storeRange(b, s, recs) // now without it: nothing is inserted
}

// build decodes recs into the block, drops what was stored before and sets aside what is no batch.
func (w *worker) build(b *bench, recs []*kgo.Record) (*tally, error) {
	start := time.Now()
	t := new(tally)
	b.builder.Reset()
	w.accounts.reset()
	for _, r := range recs {
		if err := w.buildOne(b, r, t, start); err != nil {
			return nil, err
		}
	}
	w.l.metrics.build.Observe(time.Since(start).Seconds())
	return t, nil
}

func (w *worker) buildOne(b *bench, r *kgo.Record, t *tally, now time.Time) error {
	h, raw, err := b.decoder.Decode(r.Value)
	reason := reasonBatch
	if err == nil && h.Type != batch.HTTPRequests && h.Type != batch.Notices {
		reason, err = reasonType, fmt.Errorf("batch type %d is not known here", h.Type)
	}
	if err == nil && w.window.seen(h.Name, r.Offset, r.Timestamp.UnixMilli()) {
		w.accounts.of(&h).Duplicates++
		t.duplicates++
		return nil
	}
	var notices []notice.Notice
	if err == nil && !w.aside[r.Offset] && h.Events > 0 {
		reason = reasonEvents
		if h.Type == batch.Notices {
			notices, err = notice.Parse(raw)
		} else {
			err = b.builder.Add(&h, raw)
		}
	}
	if err != nil {
		if err := w.setAside(r, reason, err); err != nil {
			return err
		}
	}
	if w.aside[r.Offset] {
		if h, _, err := batch.ParseHeader(r.Value); err == nil {
			w.accounts.of(&h).Refused++
		} else {
			w.accounts.of(&batch.Header{}).Refused++
		}
		return nil
	}
	if h.Type == batch.Notices {
		h.Events = 0 // from here on events are counted
	}
	row := w.accounts.of(&h)
	row.Notices = append(row.Notices, notices...)
	row.Batches++
	row.Events += uint64(h.Events)
	row.Dropped += uint64(h.Dropped)
	row.Bytes += uint64(len(r.Value))
	row.stored(h.Name, h.Events)
	t.batches++
	t.events += uint64(h.Events)
	t.dropped += uint64(h.Dropped)
	if h.Events > 0 {
		row.Oldest = max(row.Oldest, now.Sub(time.Unix(0, h.First)))
		if now.Sub(time.Unix(0, h.Last)) > w.l.cfg.LateAfter.D() {
			row.Late += uint64(h.Events)
			t.late += uint64(h.Events)
		}
	}
	return nil
}

// poisonError says that the store will never take the block.
type poisonError struct{ err error }

func (e *poisonError) Error() string { return "store refuses the block: " + e.err.Error() }
func (e *poisonError) Unwrap() error { return e.err }

// insert stores the block, with the same bytes and the same tokens until it is there, or until the worker must leave.
func (w *worker) insert(b *bench, s span) error {
	token := ""
	if w.l.cfg.Guarantee == ExactlyOnce {
		token = s.token(w.l.topic, w.l.topicID, w.partition)
	}
	start := time.Now()
	for i, in := range b.builder.Inserts(token) {
		if i > 0 {
			w.at(stepPartly)
		}
		err := w.retry("insert", func(ctx context.Context) error {
			err := w.l.deps.Store.Insert(ctx, in)
			if i == 0 && w.l.poison(err) && w.l.inRow.Load() < int64(w.l.cfg.Retry.MaxRefused) {
				return &poisonError{err}
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	w.l.metrics.insert.Observe(time.Since(start).Seconds())
	w.l.metrics.blocks.Inc()
	w.l.inRow.Store(0)
	return nil
}

// record tells the ledger.
func (w *worker) record(s span) error {
	if w.l.deps.Ledger == nil || len(w.accounts.byKey) == 0 {
		return nil
	}
	rows := w.accounts.rows()
	token := s.token(w.l.topic, w.l.topicID, w.partition)
	return w.retry("ledger", func(ctx context.Context) error { return w.l.deps.Ledger.Record(ctx, token, rows) })
}

// retry calls f until it succeeds, says poison, or the worker must leave. Between attempts a request to stop is obeyed:
// what is announced is repeated by the next owner.
func (w *worker) retry(what string, f func(context.Context) error) error {
	wait := w.l.cfg.Retry.Min.D()
	for attempt := 1; ; attempt++ {
		ctx, cancel := context.WithTimeout(w.ctx, w.l.cfg.Retry.Timeout.D())
		err := f(ctx)
		cancel()
		var poison *poisonError
		if err == nil || errors.As(err, &poison) {
			return err
		}
		if w.ctx.Err() != nil {
			return w.ctx.Err()
		}
		w.l.metrics.retries.Inc()
		if attempt == 1 || attempt%10 == 0 {
			w.l.log.Warn("step has not succeeded, trying again", "step", what, "partition", w.partition, "attempt", attempt, "err", err)
		}
		t := time.NewTimer(wait)
		select {
		case <-w.soft.Done():
			t.Stop()
			return errStopping
		case <-t.C:
		}
		wait = min(2*wait, w.l.cfg.Retry.Max.D())
	}
}

// count tells the metrics about a committed range.
func (w *worker) count(t *tally) {
	m := w.l.metrics
	m.events.Add(float64(t.events))
	m.late.Add(float64(t.late))
	m.dropped.Add(float64(t.dropped))
	m.batches.Add(float64(t.batches))
	m.duplicates.Add(float64(t.duplicates))
}

func (w *worker) label() string { return strconv.Itoa(int(w.partition)) }

func (m *metrics) forget(w *worker) {
	m.window.DeleteLabelValues(w.label())
	m.lag.DeleteLabelValues(w.label())
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// payloadIntact says whether payload is what the header was made for.
func payloadIntact(h *batch.Header, payload []byte) bool {
	return len(payload) == int(h.PackedLen) && crc32.Checksum(payload, castagnoli) == h.PayloadCRC
}

// malformed are ClickHouse's errors that a block brings about by what is in it, so that no retry can help: parsing,
// types, ranges, sizes, constraints.
var malformed = map[int]bool{
	6: true, 25: true, 26: true, 27: true, 33: true, 38: true, 41: true, 53: true, 67: true, 69: true, 70: true, 72: true,
	117: true, 128: true, 131: true, 190: true, 271: true, 321: true, 349: true, 441: true, 469: true, 675: true, 676: true, 691: true,
}

// Malformed says whether err is the engine's word that the block itself is wrong.
func Malformed(err error) bool {
	var e *store.Error
	return errors.As(err, &e) && malformed[e.Code]
}
