package schema

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite generated files")

// While only the first migration exists and has not been released, it is generated. From the second one on it is frozen.
func TestMigrations_FirstIsWhatTheTablesSay(t *testing.T) {
	const file = "migrations/0001_first.sql"
	want := strings.Join(append(httpTables(), otherTables()...), ";\n\n") + ";\n"
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(got), want); diff != "" {
		t.Errorf("run go test ./store/schema -update: (-file +tables)\n%s", diff)
	}
}

func TestReference_IsGenerated(t *testing.T) {
	const file = "../../docs/reference/tables.md"
	want := Reference()
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(got), want); diff != "" {
		t.Errorf("run go test ./store/schema -update: (-file +tables)\n%s", diff)
	}
}
