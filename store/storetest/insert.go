package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/spate-io/spate/store"
)

const (
	plainColumns = "n UInt64, s String"
	plainTable   = "ENGINE = MergeTree ORDER BY n SETTINGS non_replicated_deduplication_window = 1000"
)

func insert(db store.DB, table string, from, to uint64, t testing.TB, token string) error {
	return db.Insert(context.Background(), store.Insert{Table: table, Columns: []string{"n", "s"}, Block: Block(t, from, to), Token: token})
}

func testInsert(t *testing.T, db store.DB) {
	name := Table(t, db, plainColumns+", d UInt8 DEFAULT 9", plainTable)
	if err := insert(db, name, 0, 200_000, t, "a"); err != nil {
		t.Fatal(err)
	}
	if got := Text(t, db, "SELECT count(), sum(n), countIf(s = "+hardSQL+"), sum(d) FROM "+name); got != "200000\t19999900000\t200000\t1800000" {
		t.Errorf("got %q", got)
	}
	if got := Text(t, db, "SELECT count() FROM system.parts WHERE database = currentDatabase() AND table = '"+name+"' AND active"); got != "1" {
		t.Errorf("one block made %s parts", got)
	}
	if err := insert(db, "no_such_table", 0, 1, t, ""); !store.IsCode(err, store.CodeUnknownTable) {
		t.Errorf("got %v", err)
	}
	if err := db.Insert(context.Background(), store.Insert{Table: name, Columns: []string{"n", "nope"}, Block: Block(t, 0, 1)}); err == nil {
		t.Error("an unknown column passed")
	}
}

func testInsertRefused(t *testing.T, db store.DB) {
	name := Table(t, db, plainColumns, plainTable)
	block := Block(t, 0, 100_000)
	for _, n := range []int{len(block) / 2, len(block) - 1, 10} {
		if err := db.Insert(context.Background(), store.Insert{Table: name, Columns: []string{"n", "s"}, Block: block[:n], Token: fmt.Sprint("cut", n)}); err == nil {
			t.Errorf("a block cut at %d of %d bytes passed", n, len(block))
		}
	}
	if got := Text(t, db, "SELECT count() FROM "+name); got != "0" {
		t.Errorf("%s rows of refused blocks", got)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := db.Insert(ctx, store.Insert{Table: name, Columns: []string{"n", "s"}, Block: block}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// cascade makes raw, a view into minutes and a view from there into hours.
func cascade(t *testing.T, db store.DB) (raw, minutes, hours string) {
	t.Helper()
	raw = Table(t, db, plainColumns, plainTable)
	const sums = "k UInt64, total SimpleAggregateFunction(sum, UInt64), by SimpleAggregateFunction(sumMap, Map(UInt8, UInt64))"
	const engine = "ENGINE = AggregatingMergeTree ORDER BY k SETTINGS non_replicated_deduplication_window = 1000"
	minutes, hours = Table(t, db, sums, engine), Table(t, db, sums, engine)
	for _, v := range [][3]string{
		{minutes, raw, "SELECT intDiv(r.n, 10) AS k, sum(r.n) AS total, sumMap(map(toUInt8(modulo(r.n, 3)), toUInt64(1))) AS by FROM %s AS r GROUP BY k"},
		{hours, minutes, "SELECT intDiv(m.k, 6) AS k, sum(m.total) AS total, sumMap(m.by) AS by FROM %s AS m GROUP BY k"},
	} {
		view := v[0] + "_mv"
		Exec(t, db, "CREATE MATERIALIZED VIEW "+view+" TO "+v[0]+" AS "+fmt.Sprintf(v[2], v[1]))
		t.Cleanup(func() { _ = db.Exec(context.Background(), store.Query{SQL: "DROP VIEW IF EXISTS " + view}) })
	}
	return raw, minutes, hours
}

func totals(t *testing.T, db store.DB, tables ...string) string {
	t.Helper()
	var all []string
	for i, name := range tables {
		column := "total"
		if i == 0 {
			column = "n"
		}
		all = append(all, Text(t, db, "SELECT sum("+column+") FROM "+name))
	}
	return strings.Join(all, " ")
}

func testTokens(t *testing.T, db store.DB) {
	raw, minutes, hours := cascade(t, db)
	for range 3 {
		if err := insert(db, raw, 0, 1000, t, "topic/0/0-999"); err != nil {
			t.Fatal(err)
		}
	}
	if got := totals(t, db, raw, minutes, hours); got != "499500 499500 499500" {
		t.Errorf("the same token three times: %s", got)
	}
	// The same content under another token is new content: two edges may send the same bytes.
	if err := insert(db, raw, 0, 1000, t, "topic/1/0-999"); err != nil {
		t.Fatal(err)
	}
	if got := totals(t, db, raw, minutes, hours); got != "999000 999000 999000" {
		t.Errorf("another token: %s", got)
	}
	if got := Text(t, db, "SELECT sumMap(by) FROM "+hours); got != "{0:668,1:666,2:666}" {
		t.Errorf("maps: %s", got)
	}
}

func testNoToken(t *testing.T, db store.DB) {
	name := Table(t, db, plainColumns, "ENGINE = MergeTree ORDER BY n")
	for range 2 {
		if err := insert(db, name, 0, 10, t, ""); err != nil {
			t.Fatal(err)
		}
	}
	if got := Text(t, db, "SELECT count() FROM "+name); got != "20" {
		t.Errorf("%s rows", got)
	}
}

// A view that fails after the raw block is stored must fail the insert, and the insert that is tried again must fill it.
func testFailingView(t *testing.T, db store.DB) {
	raw, minutes, hours := cascade(t, db)
	Exec(t, db, "ALTER TABLE "+hours+" ADD CONSTRAINT small CHECK total < 100")
	if err := insert(db, raw, 0, 1000, t, "x"); err == nil {
		t.Fatal("a failing view passed")
	}
	Exec(t, db, "ALTER TABLE "+hours+" DROP CONSTRAINT small")
	for range 2 {
		if err := insert(db, raw, 0, 1000, t, "x"); err != nil {
			t.Fatal(err)
		}
	}
	if got := totals(t, db, raw, minutes, hours); got != "499500 499500 499500" {
		t.Errorf("after another try: %s", got)
	}
}

func testConcurrent(t *testing.T, db store.DB) {
	name := Table(t, db, plainColumns, plainTable)
	var wg sync.WaitGroup
	for w := range uint64(12) {
		wg.Go(func() {
			for i := range uint64(10) {
				from := (w*10 + i) * 100
				if err := insert(db, name, from, from+100, t, fmt.Sprint(from)); err != nil {
					t.Error(err)
				}
				q := store.Query{SQL: "SELECT {x:UInt64}, getSetting('max_block_size'), count() >= 100 FROM " + name,
					Params: map[string]string{"x": fmt.Sprint(i)}, Settings: map[string]string{"max_block_size": fmt.Sprint(from + 1)}}
				var b bytes.Buffer
				if _, err := db.Stream(context.Background(), q, &b); err != nil || b.String() != fmt.Sprintf("%d\t%d\t1\n", i, from+1) {
					t.Errorf("%q %v", b.String(), err)
				}
			}
		})
	}
	wg.Wait()
	if got := Text(t, db, "SELECT count(), uniqExact(n) FROM "+name); got != "12000\t12000" {
		t.Errorf("got %q", got)
	}
}

const endless = "SELECT sum(sipHash64(number)) AS s FROM numbers(1000000000000)"

func testCancel(t *testing.T, db store.DB) {
	mark := "/*" + t.Name() + "*/ "
	for name, fn := range map[string]func(context.Context) error{
		"exec": func(ctx context.Context) error { return db.Exec(ctx, store.Query{SQL: mark + endless}) },
		"stream": func(ctx context.Context) error {
			return second(db.Stream(ctx, store.Query{SQL: mark + endless}, &bytes.Buffer{}))
		},
		"select": func(ctx context.Context) error {
			return second(db.Select(ctx, store.Query{SQL: mark + endless}, proto.Results{{Name: "s", Data: new(proto.ColUInt64)}}, nil))
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
			defer cancel()
			began := time.Now()
			if err := fn(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			if d := time.Since(began); d > 5*time.Second {
				t.Errorf("took %s", d)
			}
		})
	}
	count := "SELECT count() FROM system.processes WHERE query LIKE '%" + t.Name() + "%' AND query NOT LIKE '%system.processes%'"
	WaitFor(t, func() bool { return Text(t, db, count) == "0" }, "cancelled statements to end")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := db.Exec(ctx, store.Query{SQL: "SELECT 1"}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// WaitFor waits until cond holds, for at most ten seconds.
func WaitFor(t testing.TB, cond func() bool, what string) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-deadline:
			t.Fatalf("waited too long for %s", what)
		case <-tick.C:
		}
	}
}

func testQueryID(t *testing.T, db store.DB) {
	for range 2 { // an id may be used again once its query has ended
		if got := Stream(t, db, store.Query{SQL: "SELECT 1", ID: "spate-test-" + t.Name()}); got != "1" {
			t.Errorf("got %q", got)
		}
	}
}

func testClose(t *testing.T, db store.DB) {
	started := make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		close(started)
		ended <- db.Exec(context.Background(), store.Query{SQL: "/*closing*/ " + endless})
	}()
	<-started // it may or may not have begun: both must end
	if err := db.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	select {
	case err := <-ended:
		if err == nil {
			t.Error("a statement that Close ended gave no error")
		}
	case <-time.After(10 * time.Second):
		t.Fatal("Close left a statement running")
	}
	for name, err := range map[string]error{
		"exec":   db.Exec(context.Background(), store.Query{SQL: "SELECT 1"}),
		"stream": second(db.Stream(context.Background(), store.Query{SQL: "SELECT 1"}, &bytes.Buffer{})),
		"select": second(db.Select(context.Background(), store.Query{SQL: "SELECT 1"}, nil, nil)),
		"insert": db.Insert(context.Background(), store.Insert{Table: "t", Columns: []string{"n", "s"}, Block: Block(t, 0, 1)}),
	} {
		if !errors.Is(err, store.ErrClosed) {
			t.Errorf("%s after Close: %v", name, err)
		}
	}
	if err := db.Close(); err != nil {
		t.Errorf("close again: %v", err)
	}
}
