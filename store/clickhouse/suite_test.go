package clickhouse_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/clickhouse"
	"github.com/spate-io/spate/store/serve/servetest"
	"github.com/spate-io/spate/store/storetest"
)

func TestMain(m *testing.M) { servetest.Main(m) }

func open(t testing.TB, address string) *clickhouse.DB {
	t.Helper()
	cfg, err := clickhouse.ParseAddress(address)
	if err != nil {
		t.Fatal(err)
	}
	db, err := clickhouse.Open(context.Background(), cfg, clickhouse.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func TestOnServe(t *testing.T) {
	for _, compression := range []string{"lz4", "zstd", "none"} {
		t.Run(compression, func(t *testing.T) {
			p := servetest.Start(t, servetest.Options{})
			storetest.Run(t, storetest.Target{Shared: true, Open: func(t testing.TB) store.DB {
				return open(t, "clickhouse://"+p.Addr+"/?compression="+compression)
			}})
		})
	}
}

func TestOnServer(t *testing.T) {
	address := storetest.Server(t)
	storetest.Run(t, storetest.Target{Shared: true, Open: func(t testing.TB) store.DB { return open(t, address) }})
}

// What another process asks for dashboards comes before what users ask of the same store.
func TestOnServe_KeepsThePriority(t *testing.T) {
	p := servetest.Start(t, servetest.Options{})
	db := open(t, "clickhouse://"+p.Addr+"/")
	defer func() { _ = db.Close() }()
	const sql = "SELECT getSetting('os_threads_nice_value_query'), getSetting('priority')"
	got := map[store.Priority]string{}
	for _, priority := range []store.Priority{store.Interactive, store.Scan, store.Background} {
		var b strings.Builder
		if _, err := db.Stream(t.Context(), store.Query{SQL: sql, Priority: priority}, &b); err != nil {
			t.Fatal(err)
		}
		got[priority] = b.String()
	}
	resp, err := http.Post("http://"+p.Addr+"/", "", strings.NewReader(sql))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	user, err := io.ReadAll(resp.Body)
	if err != nil || got[store.Interactive] == got[store.Background] || got[store.Scan] != got[store.Background] || string(user) != got[store.Background] {
		t.Errorf("nice value and priority by what is asked for: %q, of a user %q, %v", got, user, err)
	}
}
