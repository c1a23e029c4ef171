package move

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/chdb/chdbtest"
	"github.com/spate-io/spate/store/clickhouse"
	"github.com/spate-io/spate/store/schema"
	"github.com/spate-io/spate/store/serve/servetest"
)

func TestMain(m *testing.M) { servetest.Main(m) }

func exec(t testing.TB, db store.DB, list ...string) {
	t.Helper()
	for _, sql := range list {
		if err := db.Exec(t.Context(), store.Query{SQL: sql, Settings: map[string]string{"mutations_sync": "2"}}); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

func answer(t testing.TB, db Source, sql string) string {
	t.Helper()
	var b bytes.Buffer
	if _, err := db.Stream(t.Context(), store.Query{SQL: sql, Format: "TabSeparated"}, &b); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return strings.TrimSpace(b.String())
}

// source is an embedded store of this version in this process.
func source(t testing.TB) store.DB {
	t.Helper()
	db := chdbtest.Open(t)
	if err := schema.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	return db
}

// target is an empty server in another process.
func target(t testing.TB) (store.DB, *servetest.Process) {
	t.Helper()
	p := servetest.Start(t, servetest.Options{})
	return dial(t, p), p
}

func dial(t testing.TB, p *servetest.Process) store.DB {
	t.Helper()
	cfg, err := clickhouse.ParseAddress("clickhouse://" + p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	db, err := clickhouse.Open(t.Context(), cfg, clickhouse.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// store n requests in hours before now, of the number from on, as a loader does: requests, and what they add up to.
func ingest(t testing.TB, db store.DB, from, n, hours int) {
	t.Helper()
	events := fmt.Sprintf(`(SELECT number AS i, concat('zone', toString(i %% 7)) AS z, 200 + i %% 5 AS status, concat('/p/', toString(i)) AS path,
toIPv6(concat('2001:db8::', hex(i %% 977))) AS ip, concat('colo', toString(i %% 3)) AS colo,
toDateTime64(toStartOfHour(now()), 6, 'UTC') - toIntervalHour(i %% %d) - toIntervalSecond(i %% 60) AS at FROM numbers(%d, %d))`, hours, from, n)
	exec(t, db,
		"INSERT INTO http_requests (ZoneID, EdgeStartTimestamp, ClientIP, ClientRequestPath, EdgeResponseStatus, EdgeColoCode, ClientCountry, EdgeResponseBytes) SELECT z, at, ip, path, status, colo, 'FI', i FROM "+events,
		`INSERT INTO http_requests_flow (zone_id, colo, time, requests, response_bytes, max_duration_us, requests_by_status, duration_bins, clients)
SELECT z, colo, toDateTime(toStartOfMinute(at), 'UTC'), 1, i, i, map(status, 1, 999, 0), map(toInt16(i % 90), 1), [ip] FROM `+events,
		fmt.Sprintf("INSERT INTO ledger (edge, minute, accepted, events, oldest_ms) SELECT 'e', toStartOfMinute(now()), %d, %d, %d", n, n, from),
		fmt.Sprintf("INSERT INTO ledger_batches (edge, epoch, block, sequences, first_sequence, last_sequence, marks, events) SELECT 'e', 7, intDiv(number, 4096), groupBitmapState(number), min(number), max(number), map(1, max(number)), count() FROM numbers(%d, %d) GROUP BY 3", from, n),
	)
}

// others fills the tables that loaders do not.
func others(t testing.TB, db store.DB) {
	t.Helper()
	exec(t, db,
		"INSERT INTO zones (id, name, hosts, plan, created, version) VALUES ('a', 'a.test', ['a.test', 'www.a.test'], 'free', now64(3), 1), ('b', 'b.test', [], 'pro', now64(3), 1)",
		"INSERT INTO zones (id, name, hosts, plan, created, version) VALUES ('a', 'a.test', ['a.test'], 'pro', now64(3), 2)",
		"INSERT INTO erasures (day, zone_id, requests) VALUES (today(), 'a', 3), (today(), 'b', 4)",
		"INSERT INTO notices (edge, time, kind, count, reason) SELECT 'e', now64(3) - toIntervalDay(number), 'line', number, 'it''s bad' FROM numbers(50)",
		"INSERT INTO http_requests_top_1h (zone_id, dimension, time, requests, bytes, listed, listed_requests) SELECT 'a', 'path', toStartOfHour(now()) - toIntervalHour(number), number, 1, ['/a', '/b'], [number, 1] FROM numbers(100)",
		"INSERT INTO http_requests_top_1d (zone_id, dimension, time, requests, bytes, listed, listed_requests) SELECT 'a', 'path', toStartOfDay(now()) - toIntervalDay(number), number, 1, ['/a', '/b'], [number, 1] FROM numbers(10)",
	)
}

// contents gives all that a store says, by table, in words that no merge changes.
func contents(t testing.TB, db Source) map[string]string {
	t.Helper()
	out := map[string]string{}
	tables, err := describe(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	for _, tb := range tables {
		list := make([]string, len(tb.columns))
		for i, c := range tb.columns {
			list[i] = store.Ident(c.name)
			if strings.HasPrefix(c.typ, "AggregateFunction") {
				list[i] = "finalizeAggregation(" + list[i] + ")"
			}
			if strings.Contains(c.typ, "Map(") {
				list[i] = "mapSort(mapFilter((k, v) -> v != 0, " + list[i] + "))"
			}
		}
		out[tb.name] = answer(t, db, "SELECT "+strings.Join(list, ", ")+" FROM "+tb.from(tb.name)+" ORDER BY ALL")
	}
	return out
}

// alike fails the test unless both stores say the same.
func alike(t testing.TB, src, dst Source) {
	t.Helper()
	a, b := contents(t, src), contents(t, dst)
	for name, want := range a {
		if name != "schema_migrations" && b[name] != want {
			t.Errorf("%s differs:\n%.2000s", name, cmp.Diff(strings.Split(want, "\n"), strings.Split(b[name], "\n")))
		}
	}
}

func options(t testing.TB) Options {
	return Options{Retention: schema.DefaultRetention(), BatchRows: 2000, ChunkBytes: 64 << 10, Note: func(f string, a ...any) { t.Logf(f, a...) }}
}

// moved runs a move that must end well and equal.
func moved(t testing.TB, src Source, dst store.DB, o Options) *Result {
	t.Helper()
	r, err := run(t.Context(), src, dst, o)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Equal {
		t.Fatalf("not equal: %+v", r)
	}
	return r
}

func (r *Result) of(table string) TableResult {
	for _, t := range r.Tables {
		if t.Table == table {
			return t
		}
	}
	return TableResult{}
}

// run moves from one server to another.
func run(ctx context.Context, src Source, dst store.DB, o Options) (*Result, error) {
	return Run(ctx, []Source{src}, Target{DB: dst}, o)
}
