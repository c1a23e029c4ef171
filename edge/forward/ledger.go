package forward

import (
	"slices"
	"sync"
	"time"
)

// LedgerRow is a part of what an edge has accepted of a minute; the rows of a minute add up. Accepted counts the events
// of a batch in the minute of its first one, as the loader does; the rest is counted in the minute when it happened.
type LedgerRow struct {
	Edge       string
	Minute     int64 // Unix time / 60
	Accepted   uint64
	Batches    uint64
	Bytes      uint64 // of the batches, compressed
	Duplicates uint64 // events in chunks that were there already
	Dropped    uint64 // events that sources lost
}

// rows are ledger rows, at most one a minute, few.
type rows []LedgerRow

func (r *rows) minute(m int64) *LedgerRow {
	for i := len(*r) - 1; i >= 0; i-- {
		if (*r)[i].Minute == m {
			return &(*r)[i]
		}
	}
	*r = append(*r, LedgerRow{Minute: m})
	return &(*r)[len(*r)-1]
}

// accepted counts n events of a time in ns.
func (r *rows) accepted(ns int64, n uint64) {
	const perMinute = 60 * int64(time.Second)
	m := ns / perMinute
	if ns < 0 && ns%perMinute != 0 {
		m--
	}
	r.minute(m).Accepted += n
}

func (r *rows) merge(other rows) {
	for _, o := range other {
		v := r.minute(o.Minute)
		v.Accepted += o.Accepted
		v.Batches += o.Batches
		v.Bytes += o.Bytes
		v.Duplicates += o.Duplicates
		v.Dropped += o.Dropped
	}
}

// ledger gathers rows until they are emitted.
type ledger struct {
	mu   sync.Mutex
	open rows
}

func (l *ledger) add(r rows) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open.merge(r)
}

// emitLedger hands the rows so far to Deps.Ledger.
func (f *Forwarder) emitLedger() {
	f.book.mu.Lock()
	out := f.book.open
	f.book.open = nil
	f.book.mu.Unlock()
	if f.deps.Ledger == nil || len(out) == 0 {
		return
	}
	for i := range out {
		out[i].Edge = f.cfg.Edge
	}
	slices.SortFunc(out, func(a, b LedgerRow) int { return int(a.Minute - b.Minute) })
	f.deps.Ledger(out)
}
