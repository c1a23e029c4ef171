// Package testdata finds the real logs and captures that some tests read. A user's clone has none; those tests skip.
package testdata

import (
	"os"
	"path/filepath"
	"testing"
)

// Dir returns the folder with the shared test data: SPATE_TEST_DATA, or ../shared/data beside the repository. It skips
// the test, saying so, where there is none.
func Dir(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("SPATE_TEST_DATA")
	if dir == "" {
		dir = filepath.Join(Root(t), "..", "shared", "data")
	}
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no shared test data at %s: set SPATE_TEST_DATA to run this test", dir)
	}
	return dir
}

// Root returns the repository's root: the nearest folder upward that holds go.mod.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatalf("working directory: %v", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod in any folder above the working directory")
		}
		dir = parent
	}
}
