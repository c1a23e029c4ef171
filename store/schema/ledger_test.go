package schema_test

import (
	"context"
	"testing"
	"time"

	"github.com/spate-io/spate/store/schema"
)

func TestRecordLedger_AddsUpAndCountsATokenOnce(t *testing.T) {
	db := openSchema(t)
	at := time.Date(2026, 2, 28, 23, 59, 59, 0, time.UTC)
	for _, token := range []string{"a", "a", "b"} {
		err := schema.RecordLedger(context.Background(), db, token, []schema.LedgerRow{
			{Edge: "e1", Minute: at, Batches: 1, Events: 10, Bytes: 100, Dropped: 2, Duplicates: 3, Refused: 4, Late: 5, Accepted: 6, Shipped: 7, Oldest: 8 * time.Second},
			{Edge: "e2", Minute: at.Add(time.Second), Events: 1},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	got := rows(t, db, "SELECT edge, minute, sum(batches), sum(events), sum(bytes), sum(dropped), sum(duplicates), sum(refused), sum(late), sum(accepted), sum(shipped), max(oldest_ms) FROM ledger GROUP BY edge, minute ORDER BY edge")
	if want := "e1\t2026-02-28 23:59:00\t2\t20\t200\t4\t6\t8\t10\t12\t14\t8000\ne2\t2026-03-01 00:00:00\t0\t2\t0\t0\t0\t0\t0\t0\t0\t0"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if err := schema.RecordLedger(context.Background(), db, "c", nil); err != nil {
		t.Error(err)
	}
}
