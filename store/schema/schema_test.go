package schema_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spate-io/spate/event"
	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/chdb/chdbtest"
	"github.com/spate-io/spate/store/schema"
)

func openSchema(t testing.TB) store.DB {
	t.Helper()
	db := chdbtest.Open(t)
	if err := schema.Migrate(context.Background(), db); err != nil {
		t.Fatal(err)
	}
	return db
}

func TestHTTPBlock_HasEveryStoredColumn(t *testing.T) {
	have := schema.NewHTTPBlock(nil).Columns()
	var want []string
	for _, c := range schema.HTTPColumns() {
		if c.Alias == "" && c.Default == "" {
			want = append(want, c.Name)
		}
	}
	slices.Sort(have)
	slices.Sort(want)
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("(-table +block)\n%s", diff)
	}
	names := map[string]bool{}
	for _, c := range schema.HTTPColumns() {
		names[c.Name] = true
	}
	for _, f := range event.HTTPFields() {
		if !names[f.Name] {
			t.Errorf("field %s has no column", f.Name)
		}
	}
}

func TestRollups_EqualRaw(t *testing.T) {
	db := openSchema(t)
	b := schema.NewHTTPBlock(nil)
	const size = 700
	for i := range uint64(8) {
		in := blockOf(t, b, madeEvents(i*size, size), fmt.Sprint("t/0/", i), enrichMade)
		for range 2 { // the second is a no-op
			insert(t, db, in)
		}
	}
	if got := rows(t, db, "SELECT count(), uniqExact(ConnectionID) FROM http_requests"); got != "5600\t5600" {
		t.Error(got)
	}
	checkRollups(t, db)
	for _, tr := range truncations {
		execSQL(t, db, "OPTIMIZE TABLE "+tr.table+" FINAL")
	}
	checkRollups(t, db)
	if got := rows(t, db, "SELECT min(EdgeEndTimestamp = toDateTime64(0, 6, 'UTC')), countIf(RequestDurationUs > 0) > 0, countIf(EdgeDurationUs < 0) = countIf(EdgeEndTimestamp = toDateTime64(0, 6, 'UTC')) FROM http_requests"); got != "0\t1\t1" {
		t.Error(got)
	}
}

func TestMigrate_RefusesNewer(t *testing.T) {
	db := openSchema(t)
	if err := schema.Migrate(context.Background(), db); err != nil {
		t.Errorf("second time: %v", err)
	}
	execSQL(t, db, "INSERT INTO schema_migrations (version, name) VALUES (9999, 'from the future')")
	if err := schema.Migrate(context.Background(), db); !errors.Is(err, schema.ErrNewer) {
		t.Errorf("got %v", err)
	}
}

func TestRetention_Apply(t *testing.T) {
	db := openSchema(t)
	for _, r := range []schema.Retention{{Raw: 1, Minute: 2, Hour: 3, Day: 4, Month: 5}, {}, schema.DefaultRetention()} {
		if err := r.Apply(context.Background(), db); err != nil {
			t.Fatal(err)
		}
	}
	if got := rows(t, db, "SELECT count() FROM system.tables WHERE database = currentDatabase() AND name LIKE 'http%' AND create_table_query LIKE '%TTL%toIntervalDay%'"); got != "7" {
		t.Errorf("%s tables of requests have a rule, want 7: raw, minutes and hours by zone and by colo, and two of top lists", got)
	}
}

// A small log of years may come in one block.
func TestInsert_YearsInOneBlock(t *testing.T) {
	db := openSchema(t)
	b := schema.NewHTTPBlock(nil)
	var events []byte
	const n = 260 // weeks
	months := map[string]bool{}
	for i := range n {
		months[time.Unix(1_451_606_400+int64(i)*7*86_400, 0).UTC().Format("2006-01 ")+fmt.Sprint(i%4)] = true
		e := event.HTTP{EdgeStartTimestamp: 1_451_606_400_000_000_000 + int64(i)*7*86_400_000_000_000, ConnectionID: uint64(i), EdgeResponseStatus: 200}
		events = e.Append(events)
	}
	in := blockOf(t, b, events, "years", enrichMade)
	for range 2 {
		insert(t, db, in)
	}
	for table, want := range map[string]int{schema.HTTPMinute: n, schema.HTTPHour: n, schema.HTTPDay: n, schema.HTTPMonth: len(months)} {
		if got := rows(t, db, "SELECT sum(requests), uniqExact(zone_id, time) FROM "+table); got != fmt.Sprintf("%d\t%d", n, want) {
			t.Errorf("%s: got %s, want %d in %d rows", table, got, n, want)
		}
	}
}
