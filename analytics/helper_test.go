package analytics_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spate-io/spate/store"
)

// number gives the only value of an answer.
func number(t testing.TB, db store.DB, sql string) string {
	t.Helper()
	var b bytes.Buffer
	if _, err := db.Stream(t.Context(), store.Query{SQL: sql}, &b); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return strings.TrimSpace(b.String())
}
