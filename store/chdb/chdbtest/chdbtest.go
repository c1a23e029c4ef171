// Package chdbtest opens embedded engines for tests.
package chdbtest

import (
	"context"
	"errors"
	"testing"

	"github.com/spate-io/spate/store/chdb"
)

// Open starts an engine on a fresh directory and closes it when the test ends. The test is skipped where libchdb is not
// installed. A process has one engine, so tests that use it must not run in parallel.
func Open(t testing.TB) *chdb.DB {
	t.Helper()
	return OpenAt(t, t.TempDir())
}

// OpenAt is Open on a directory of the caller's choice.
func OpenAt(t testing.TB, dir string) *chdb.DB {
	t.Helper()
	cfg := chdb.DefaultConfig()
	cfg.Path = dir
	return OpenConfig(t, cfg)
}

// OpenConfig is Open with a configuration of the caller's choice.
func OpenConfig(t testing.TB, cfg chdb.Config) *chdb.DB {
	t.Helper()
	db, err := chdb.Open(context.Background(), cfg, chdb.Deps{})
	if errors.Is(err, chdb.ErrNoLibrary) {
		t.Skip("libchdb.so is not installed: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}
