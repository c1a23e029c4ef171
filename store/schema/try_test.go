package schema_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/spate-io/spate/store/chdb/chdbtest"
	"github.com/spate-io/spate/store/schema"
)

func TestTryTimes(t *testing.T) {
	if os.Getenv("TRY") != "times" {
		t.Skip()
	}
	dir := t.TempDir()
	db := chdbtest.OpenAt(t, dir)
	t0 := time.Now()
	if err := schema.Migrate(context.Background(), db); err != nil {
		t.Fatal(err)
	}
	t.Log("migrate", time.Since(t0))
	b := schema.NewHTTPBlock()
	for i := range uint64(4) {
		in := blockOf(t, b, madeEvents(i*700, 700), fmt.Sprint("t/0/", i), enrichMade)
		t0 := time.Now()
		if err := db.Insert(context.Background(), in); err != nil {
			t.Fatal(err)
		}
		t.Log("insert", time.Since(t0))
	}
	t0 = time.Now()
	checkRollups(t, db)
	t.Log("check", time.Since(t0))
	t0 = time.Now()
	for _, tr := range truncations {
		execSQL(t, db, "OPTIMIZE TABLE "+tr.table+" FINAL")
		t.Log("optimize", tr.table, time.Since(t0))
	}
	out, _ := exec.Command("sh", "-c", "cd "+filepath.Join(dir, "data")+"; find . -path '*dedup*' | head -20; for f in $(find . -path '*deduplication_log*.txt' | head -4); do head -c 600 $f | cat -A | head -5; done; du -sh .; ls store/*/*/ | head -60").CombinedOutput()
	t.Log(string(out))
}
