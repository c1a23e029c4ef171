package clickhouse_test

import (
	"context"
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
