package load

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/spate-io/spate/event/batch"
	"github.com/spate-io/spate/event/notice"
)

// Account is what became of one edge's batches of one minute within one stored range. The minute of a batch is that of
// its first event, on the edge and here, so that both sides count in the same place.
type Account struct {
	Edge   string
	Minute int64 // minutes since 1970, UTC; 0 for batches without events

	Batches    uint64 // stored, duplicates not counted
	Events     uint64 // stored
	Bytes      uint64 // of stored batches as they lie on the bus
	Dropped    uint64 // events that the edge's sources report to have dropped before they were in a batch
	Duplicates uint64 // batches that had been stored before
	Refused    uint64 // batches set aside
	Late       uint64 // events in batches whose last event was older than Config.LateAfter when stored
	// Oldest is the greatest age of a batch's first event when stored.
	Oldest time.Duration
	// Stored names the stored batches, by epoch; whoever adds them up finds the sequence numbers that never came.
	Stored []Epoch
	// Notices are what the edge had to tell.
	Notices []notice.Notice
}

// Epoch names the batches of one epoch of an edge.
type Epoch struct {
	Epoch     uint64
	Sequences []uint64 // in the order of the bus, each once
	Events    uint64   // in these batches
}

// stored adds a batch.
func (a *Account) stored(name batch.Name, events uint32) {
	i := len(a.Stored) - 1
	for i >= 0 && a.Stored[i].Epoch != name.Epoch {
		i--
	}
	if i < 0 {
		i = len(a.Stored)
		a.Stored = append(a.Stored, Epoch{Epoch: name.Epoch})
	}
	a.Stored[i].Sequences = append(a.Stored[i].Sequences, name.Sequence)
	a.Stored[i].Events += uint64(events)
}

// Ledger is told what became of each range of offsets.
type Ledger interface {
	// Record is called after the range's block is stored and before its offset is committed, with the block's token; a
	// range that is repeated after a crash comes again with the same token, and must then count once. An error is
	// retried until it passes. rows is only valid during the call.
	Record(ctx context.Context, token string, rows []Account) error
}

type accountKey struct {
	edge   string
	minute int64
}

// accounts collects the rows of one range.
type accounts struct {
	byKey map[accountKey]*Account
}

func (a *accounts) reset() { clear(a.byKey) }

// of returns the row that h belongs to.
func (a *accounts) of(h *batch.Header) *Account {
	k := accountKey{edge: h.Name.Edge}
	if h.Events > 0 {
		k.minute = floorDiv(h.First, int64(time.Minute))
	}
	if a.byKey == nil {
		a.byKey = make(map[accountKey]*Account)
	}
	row := a.byKey[k]
	if row == nil {
		row = &Account{Edge: k.edge, Minute: k.minute}
		a.byKey[k] = row
	}
	return row
}

// rows returns all rows in a fixed order.
func (a *accounts) rows() []Account {
	out := make([]Account, 0, len(a.byKey))
	for _, r := range a.byKey {
		out = append(out, *r)
	}
	slices.SortFunc(out, func(x, y Account) int {
		return cmp.Or(cmp.Compare(x.Edge, y.Edge), cmp.Compare(x.Minute, y.Minute))
	})
	return out
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
