package schema

import (
	"context"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spate-io/spate/store/chdb/chdbtest"
)

var update = flag.Bool("update", false, "rewrite generated files")

// All migrations together must come to the tables that this version wants.
func TestMigrations_ComeToWhatTheTablesSay(t *testing.T) {
	made := func(list []Migration) (tables []string) {
		t.Run("", func(t *testing.T) { // a process opens one store at a time
			db := chdbtest.Open(t)
			if err := migrate(context.Background(), db, list); err != nil {
				t.Fatal(err)
			}
			for _, line := range strings.Split(layout(t, db), "\n") {
				if strings.HasPrefix(line, "http_") {
					tables = append(tables, line)
				}
			}
		})
		return tables
	}
	list, err := migrations()
	if err != nil {
		t.Fatal(err)
	}
	all := Migration{Version: 1, Name: "all", Statements: httpTables()}
	if diff := cmp.Diff(made([]Migration{all}), made(list)); diff != "" {
		t.Errorf("(-tables +migrated)\n%s", diff)
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
