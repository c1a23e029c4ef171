package schema_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/schema"
)

func execSQL(t testing.TB, db store.DB, sql string) {
	t.Helper()
	if err := db.Exec(context.Background(), store.Query{SQL: sql}); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func rows(t testing.TB, db store.DB, sql string) string {
	t.Helper()
	var b bytes.Buffer
	if _, err := db.Stream(context.Background(), store.Query{SQL: sql}, &b); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// truncations are the times of the rollup tables as functions of the event's time.
var truncations = []struct{ table, colos, expr string }{
	{schema.HTTPMinute, schema.ColoMinute, "toStartOfMinute(toDateTime(EdgeStartTimestamp, 'UTC'))"},
	{schema.HTTPHour, schema.ColoHour, "toStartOfHour(toDateTime(EdgeStartTimestamp, 'UTC'))"},
	{schema.HTTPDay, schema.ColoDay, "toStartOfDay(toDateTime(EdgeStartTimestamp, 'UTC'))"},
	{schema.HTTPMonth, schema.ColoMonth, "toDateTime(toStartOfMonth(toDateTime(EdgeStartTimestamp, 'UTC')), 'UTC')"},
}

// checkRollups compares every column of every rollup with what the raw table says.
func checkRollups(t testing.TB, db store.DB) {
	t.Helper()
	for _, tr := range truncations {
		for _, colo := range []bool{false, true} {
			table, rawKeys, keys := tr.table, "ZoneID, "+tr.expr, "zone_id, time"
			if colo {
				table, rawKeys, keys = tr.colos, rawKeys+", EdgeColoCode", keys+", colo"
			}
			var raw, rolled []string
			for _, c := range schema.RollupColumns() {
				if colo && !c.Colo {
					continue
				}
				r, s := c.FromRaw(), c.Combine("f")
				switch c.Merge {
				case schema.MergeMap:
					r, s = "mapSort(CAST("+r+", 'Map("+c.Key+", UInt64)'))", "mapSort("+s+")"
				case schema.MergeUniq:
					r, s = "uniqExact(ClientIP)", schema.UniquesMerge+"(f."+c.Name+")"
				}
				raw, rolled = append(raw, r), append(rolled, s)
			}
			want := rows(t, db, fmt.Sprintf("SELECT %s, %s FROM %s GROUP BY ALL ORDER BY ALL", rawKeys, strings.Join(raw, ", "), schema.HTTPRequests))
			got := rows(t, db, fmt.Sprintf("SELECT %s, %s FROM %s AS f GROUP BY %s ORDER BY ALL", keys, strings.Join(rolled, ", "), table, keys))
			if want == "" {
				t.Errorf("%s: nothing to compare", table)
			}
			if got != want {
				diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n"))
				t.Errorf("%s differs from raw (-raw +%s):\n%.3000s", table, table, diff)
			}
		}
	}
}
