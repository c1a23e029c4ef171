package ledger_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spate-io/spate/core/ledger"
	"github.com/spate-io/spate/core/load"
	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/chdb/chdbtest"
	"github.com/spate-io/spate/store/schema"
)

func open(t *testing.T) store.DB {
	t.Helper()
	db := chdbtest.Open(t)
	if err := schema.Migrate(context.Background(), db); err != nil {
		t.Fatal(err)
	}
	return db
}

func newWriter(t *testing.T, db store.DB) *ledger.Writer {
	t.Helper()
	w, err := ledger.New(ledger.Deps{DB: db, Now: func() time.Time { return time.Unix(1_800_000_000, 0) }})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func ask(t *testing.T, db store.DB, sql string) string {
	t.Helper()
	var b bytes.Buffer
	if _, err := db.Stream(context.Background(), store.Query{SQL: sql}, &b); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func record(t *testing.T, w *ledger.Writer, token string, rows ...load.Account) {
	t.Helper()
	if err := w.Record(context.Background(), token, rows); err != nil {
		t.Fatal(err)
	}
}

// batches is an account of one minute with these batches, ten events in each.
func batches(edge string, minute int64, epoch uint64, sequences ...uint64) load.Account {
	n := uint64(len(sequences))
	return load.Account{
		Edge: edge, Minute: minute, Batches: n, Events: 10 * n, Bytes: 100 * n,
		Stored: []load.Epoch{{Epoch: epoch, Sequences: sequences, Events: 10 * n}},
	}
}

func upTo(from, to uint64) (list []uint64) {
	for s := from; s <= to; s++ {
		list = append(list, s)
	}
	return list
}

const (
	names  = "SELECT edge, epoch, groupBitmapMerge(sequences), min(first_sequence), max(last_sequence), sum(events) FROM ledger_batches GROUP BY edge, epoch ORDER BY ALL"
	counts = "SELECT edge, toUnixTimestamp(minute) / 60, sum(batches), sum(events), sum(bytes), sum(dropped), sum(duplicates), sum(refused), sum(late), max(oldest_ms), sum(accepted) FROM ledger GROUP BY ALL ORDER BY ALL"
)

func TestRecord_RepeatedTokenChangesNothing(t *testing.T) {
	db := open(t)
	w := newWriter(t, db)
	a := batches("fra1", 29_000_000, 7, upTo(1, 100)...)
	a.Dropped, a.Duplicates, a.Refused, a.Late, a.Oldest = 1, 2, 3, 4, 5*time.Second
	record(t, w, "t/0/0-99", a)
	wantNames, wantCounts := "fra1\t7\t100\t1\t100\t1000", "fra1\t29000000\t100\t1000\t10000\t1\t2\t3\t4\t5000\t0"
	for range 3 {
		if got := ask(t, db, names); got != wantNames {
			t.Errorf("names: got %q, want %q", got, wantNames)
		}
		if got := ask(t, db, counts); got != wantCounts {
			t.Errorf("counts: got %q, want %q", got, wantCounts)
		}
		b := a
		b.Late = 99 // a repetition sees another clock, and counts as little
		record(t, newWriter(t, db), "t/0/0-99", b)
	}
}

// Ranges come in any order, from several partitions, with large numbers and across blocks; missing ones stay visible.
func TestRecord_NamesAddUpInAnyOrder(t *testing.T) {
	db := open(t)
	w := newWriter(t, db)
	const far = 1 << 40
	for i, s := range [][]uint64{
		upTo(4000, 4200), upTo(1, 50), upTo(61, 3999), {far, far + 2}, {4201}, upTo(10_000, 10_500), upTo(4202, 9999), {far + 1},
	} {
		record(t, w, fmt.Sprint("range ", i), batches("fra1", 29_000_000+int64(i), 7, s...))
	}
	record(t, w, "other", batches("ams1", 29_000_000, 7, 3), batches("fra1", 29_000_000, 8, 1, 2))
	for range 2 {
		got := ask(t, db, names)
		want := fmt.Sprintf("ams1\t7\t1\t3\t3\t10\nfra1\t7\t%d\t1\t%d\t%d\nfra1\t8\t2\t1\t2\t20", 10_500-10+3, uint64(far+2), (10_500-10+3)*10)
		if got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
		// The blocks say where: 10 of the first are missing, and its number 0, which no batch has.
		if got := ask(t, db, "SELECT block, groupBitmapMerge(sequences) FROM ledger_batches WHERE epoch = 7 AND edge = 'fra1' GROUP BY block ORDER BY block LIMIT 3"); got != "0\t4085\n1\t4096\n2\t2309" {
			t.Errorf("blocks: %s", got)
		}
		if err := db.Exec(context.Background(), store.Query{SQL: "OPTIMIZE TABLE ledger_batches FINAL"}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRecord_WithoutTimeIsOfNow(t *testing.T) {
	db := open(t)
	w := newWriter(t, db)
	record(t, w, "t", load.Account{Refused: 1}, load.Account{Edge: "fra1", Batches: 1, Dropped: 7, Stored: []load.Epoch{{Epoch: 1, Sequences: []uint64{1}}}})
	want := "\t30000000\t0\t0\t0\t0\t0\t1\t0\t0\t0\nfra1\t30000000\t1\t0\t0\t7\t0\t0\t0\t0\t0"
	if got := ask(t, db, counts); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// flaky stores, and every other time says that it has not.
type flaky struct {
	store.DB
	calls int
}

func (f *flaky) Insert(ctx context.Context, in store.Insert) error {
	f.calls++
	if err := f.DB.Insert(ctx, in); err != nil || f.calls%2 == 0 {
		return err
	}
	return context.DeadlineExceeded
}

func TestAccept_IsWrittenOnceThoughTheStoreTimesOut(t *testing.T) {
	db := open(t)
	f := &flaky{DB: db}
	w := newWriter(t, f)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- w.Run(ctx) }()
	for range 10 {
		w.Accept([]ledger.Accepted{{Edge: "fra1", Minute: 29_000_000, Events: 5}, {Edge: "fra1", Minute: 29_000_001, Events: 1}})
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got, want := ask(t, db, "SELECT toUnixTimestamp(minute) / 60, sum(accepted) FROM ledger GROUP BY ALL ORDER BY ALL"), "29000000\t50\n29000001\t10"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if f.calls < 2 {
		t.Errorf("%d inserts: the failed one was not repeated", f.calls)
	}
}

// broken takes nothing.
type broken struct{ store.DB }

func (broken) Insert(context.Context, store.Insert) error { return context.DeadlineExceeded }

func TestAccept_NeverWaits(t *testing.T) {
	w := newWriter(t, broken{})
	for i := range int64(50_000) {
		w.Accept([]ledger.Accepted{{Edge: "fra1", Minute: i, Events: 1}})
	}
	if err := w.Record(context.Background(), "t", []load.Account{{Edge: "fra1", Refused: 1}}); err == nil {
		t.Error("a record that was not stored was reported as stored")
	}
}
