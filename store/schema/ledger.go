package schema

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/spate-io/spate/store"
)

// LedgerRow counts what became of one edge's events of one minute. Rows of the same edge and minute add up.
type LedgerRow struct {
	// Edge is the edge's name.
	Edge string
	// Minute is any time within the minute.
	Minute time.Time
	// Accepted and Shipped are events, counted at the edge: taken in from sources, acknowledged by a gateway.
	Accepted, Shipped uint64
	// Batches, Events and Bytes were stored; Bytes as they lie on the bus.
	Batches, Events, Bytes uint64
	// Dropped events were given up by sources before they were in a batch.
	Dropped uint64
	// Duplicates are batches that had been stored before, Refused those set aside.
	Duplicates, Refused uint64
	// Late events were stored later than the loader's limit.
	Late uint64
	// Oldest is the greatest age of a batch's first event when stored; the largest one is kept.
	Oldest time.Duration
}

// RecordLedger adds rows to the ledger. A call that is repeated with the same token counts once.
func RecordLedger(ctx context.Context, db store.DB, token string, rows []LedgerRow) error {
	if len(rows) == 0 {
		return nil
	}
	edge := newDict("edge")
	minute := word{header: header{"minute", "DateTime('UTC')"}}
	oldest := word{header: header{"oldest_ms", "SimpleAggregateFunction(max, UInt64)"}}
	names := []string{"accepted", "shipped", "batches", "events", "bytes", "dropped", "duplicates", "refused", "late"}
	counts := make([]word, len(names))
	for i, name := range names {
		counts[i].header = header{name, "SimpleAggregateFunction(sum, UInt64)"}
	}
	for _, r := range rows {
		edge.string(r.Edge)
		minute.u32(uint32(min(max(r.Minute.Unix(), 0), lastTime/1_000_000)) / 60 * 60)
		oldest.u64(uint64(max(r.Oldest.Milliseconds(), 0)))
		for i, n := range []uint64{r.Accepted, r.Shipped, r.Batches, r.Events, r.Bytes, r.Dropped, r.Duplicates, r.Refused, r.Late} {
			counts[i].u64(n)
		}
	}
	var buf proto.Buffer
	buf.PutInt(len(names) + 3)
	buf.PutInt(len(rows))
	edge.encode(&buf)
	minute.encode(&buf)
	oldest.encode(&buf)
	for i := range counts {
		counts[i].encode(&buf)
	}
	err := db.Insert(ctx, store.Insert{Table: Ledger, Columns: slices.Concat([]string{"edge", "minute", "oldest_ms"}, names), Block: buf.Buf, Token: token})
	if err != nil {
		return fmt.Errorf("record ledger: %w", err)
	}
	return nil
}
