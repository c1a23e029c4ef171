package schema

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spate-io/spate/event"
	"github.com/spate-io/spate/internal/enrich"
	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/chdb/chdbtest"
)

// nextMigration is one that a later version might have: a new column of the event that is counted in a rollup.
func nextMigration(version int) Migration {
	minute := rollups()[0].view()
	minute = strings.Replace(minute[strings.Index(minute, "SELECT"):], "    stored_on", "    extras,\n    stored_on", 1)
	return Migration{Version: uint32(version), Name: "extra", Statements: []string{
		"ALTER TABLE http_requests ADD COLUMN IF NOT EXISTS Extra LowCardinality(String)",
		"ALTER TABLE http_requests_1m ADD COLUMN IF NOT EXISTS extras SimpleAggregateFunction(sum, UInt64)",
		"ALTER TABLE http_requests_flow ADD COLUMN IF NOT EXISTS extras UInt64",
		"ALTER TABLE http_requests_1m_mv MODIFY QUERY " + minute,
	}}
}

// layout describes all tables and views of a store.
func layout(t *testing.T, db store.DB) string {
	t.Helper()
	return answer(t, db, `SELECT table, name, type, default_kind, default_expression, compression_codec FROM system.columns WHERE database = currentDatabase() ORDER BY table, name`) + "\n" +
		answer(t, db, `SELECT name, engine_full, as_select FROM system.tables WHERE database = currentDatabase() ORDER BY name`)
}

func answer(t *testing.T, db store.DB, sql string) string {
	t.Helper()
	var b bytes.Buffer
	if _, err := db.Stream(context.Background(), store.Query{SQL: sql}, &b); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func oneEvent() *HTTPBlock {
	b := NewHTTPBlock(nil)
	e := event.HTTP{EdgeStartTimestamp: 1_767_225_600_000_000_000, ClientRequestMethod: []byte("GET"), EdgeResponseStatus: 200}
	v, _, err := event.ReadHTTP(e.Append(nil))
	if err != nil {
		panic(err)
	}
	b.Append(v, &enrich.Result{ZoneID: "z"})
	return b
}

func insertEvent(db store.DB, token string) error {
	b := oneEvent()
	for _, in := range b.Inserts(token) {
		if err := db.Insert(context.Background(), in); err != nil {
			return err
		}
	}
	return nil
}

// insertEventV2 stores an event as programs up to version 2 did: a view on the raw table fed the rollups.
func insertEventV2(db store.DB, token string) error {
	return db.Insert(context.Background(), oneEvent().Inserts(token)[0])
}

// Every earlier state, with data in it, comes to the same tables as a new store, and keeps its data.
func TestMigrate_FromEveryEarlierState(t *testing.T) {
	list, err := migrations()
	if err != nil {
		t.Fatal(err)
	}
	list = append(list, nextMigration(len(list)+1))
	want := ""
	for from := range len(list) + 1 {
		t.Run(fmt.Sprint("from_", from), func(t *testing.T) {
			db := chdbtest.Open(t)
			if err := migrate(context.Background(), db, list[:from]); err != nil {
				t.Fatal(err)
			}
			inserted := 0
			if from > 0 {
				insert := insertEvent
				if from < 3 {
					insert = insertEventV2
				}
				if err := insert(db, "before"); err != nil {
					t.Fatal(err)
				}
				inserted++
			}
			// A crash in the middle of a migration leaves some of its statements done.
			if from < len(list) {
				half := list[from].Statements[:len(list[from].Statements)/2]
				for _, s := range half {
					if err := db.Exec(context.Background(), store.Query{SQL: s}); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := migrate(context.Background(), db, list); err != nil {
				t.Fatal(err)
			}
			if err := insertEvent(db, "after"); err != nil {
				t.Fatal(err)
			}
			inserted++
			for _, table := range []string{HTTPMinute, HTTPHour, HTTPDay, HTTPMonth, ColoMonth} {
				if got := answer(t, db, "SELECT sum(requests) FROM "+table); got != fmt.Sprint(inserted) {
					t.Errorf("%s has %s requests, want %d", table, got, inserted)
				}
			}
			got := layout(t, db)
			if want == "" {
				want = got
			}
			if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")); diff != "" {
				t.Errorf("(-new +migrated)\n%s", diff)
			}
		})
	}
}

// A column is added while inserts go on, none of which fails.
func TestMigrate_WhileInserting(t *testing.T) {
	list, err := migrations()
	if err != nil {
		t.Fatal(err)
	}
	db := chdbtest.Open(t)
	if err := migrate(context.Background(), db, list); err != nil {
		t.Fatal(err)
	}
	stop, done := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		defer func() { done <- n }()
		for {
			if err := insertEvent(db, fmt.Sprint(n)); err != nil {
				t.Error(err)
			}
			n++
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	err = migrate(context.Background(), db, append(list, nextMigration(len(list)+1)))
	close(stop)
	n := <-done
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{HTTPMinute, HTTPHour, HTTPDay, HTTPMonth, ColoMonth} {
		if got := answer(t, db, "SELECT sum(requests) FROM "+table); got != fmt.Sprint(n) {
			t.Errorf("%s has %s requests, want %d", table, got, n)
		}
	}
}
