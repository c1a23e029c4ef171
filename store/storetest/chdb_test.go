package storetest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/chdb"
	"github.com/spate-io/spate/store/storetest"
)

func TestEmbedded(t *testing.T) {
	cfg := chdb.DefaultConfig()
	cfg.Path = t.TempDir()
	storetest.Run(t, storetest.Target{Open: func(t testing.TB) store.DB {
		db, err := chdb.Open(context.Background(), cfg, chdb.Deps{})
		if errors.Is(err, chdb.ErrNoLibrary) {
			t.Skip("libchdb.so is not installed: ", err)
		}
		if err != nil {
			t.Fatal(err)
		}
		return db
	}})
}
