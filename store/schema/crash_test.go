package schema_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spate-io/spate/store/chdb"
	"github.com/spate-io/spate/store/chdb/chdbtest"
	"github.com/spate-io/spate/store/schema"
)

const (
	crashDir   = "SPATE_TEST_CRASH_DIR"
	crashBlock = 300
)

// TestCrashChild is the process that TestInsert_ExactlyOnceThroughKills kills. It inserts the block after the last one
// that is noted as done, with its token, and goes on; it prints a line before each step.
func TestCrashChild(t *testing.T) {
	dir := os.Getenv(crashDir)
	if dir == "" {
		t.Skip("runs as a child")
	}
	cfg := chdb.DefaultConfig()
	cfg.Path = filepath.Join(dir, "store")
	db, err := chdb.Open(context.Background(), cfg, chdb.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Migrate(context.Background(), db); err != nil {
		t.Fatal(err)
	}
	next := doneBlocks(dir)
	// What the kill left of the unfinished block, table by table.
	var left []string
	for _, table := range append(tables(), schema.HTTPRequests) {
		left = append(left, table+"="+rows(t, db, "SELECT "+countOf(table)+" FROM "+table))
	}
	fmt.Println("left", next, strings.Join(left, " "))
	done, err := os.OpenFile(filepath.Join(dir, "done"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	b := schema.NewHTTPBlock(nil)
	for ; ; next++ {
		in := blockOf(t, b, madeEvents(next*crashBlock, crashBlock), fmt.Sprintf("http_requests/0/%d-%d", next, next), enrichMade)
		insert(t, db, in)
		if _, err := done.WriteString("x"); err != nil {
			t.Fatal(err)
		}
	}
}

func tables() []string {
	var list []string
	for _, tr := range truncations {
		list = append(list, tr.table, tr.colos)
	}
	return list
}

func countOf(table string) string {
	if table == schema.HTTPRequests {
		return "count()"
	}
	return "sum(requests)"
}

func doneBlocks(dir string) uint64 {
	st, err := os.Stat(filepath.Join(dir, "done"))
	if err != nil {
		return 0
	}
	return uint64(st.Size())
}

// TestInsert_ExactlyOnceThroughKills kills a process that inserts, at random moments, many times over, and each time has
// the unfinished block inserted again with the same token. SPATE_TEST_KILLS sets how often.
func TestInsert_ExactlyOnceThroughKills(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	if _, err := chdb.FindLibrary(); err != nil {
		t.Skip(err)
	}
	kills := 6
	if n, err := strconv.Atoi(os.Getenv("SPATE_TEST_KILLS")); err == nil {
		kills = n
	}
	dir := t.TempDir()
	seen := map[string]int{}
	for range kills {
		seen[crash(t, dir)]++
	}
	t.Logf("after %d kills the unfinished block was: %v", kills, seen)

	db := chdbtest.OpenAt(t, filepath.Join(dir, "store"))
	n := doneBlocks(dir)
	b := schema.NewHTTPBlock(nil)
	for range 2 {
		in := blockOf(t, b, madeEvents(n*crashBlock, crashBlock), fmt.Sprintf("http_requests/0/%d-%d", n, n), enrichMade)
		insert(t, db, in)
	}
	total := strconv.FormatUint((n+1)*crashBlock, 10)
	if got := rows(t, db, "SELECT count(), uniqExact(ConnectionID), max(ConnectionID) + 1 FROM http_requests"); got != total+"\t"+total+"\t"+total {
		t.Errorf("raw has %s, want %s", got, total)
	}
	for _, table := range tables() {
		if got := rows(t, db, "SELECT sum(requests) FROM "+table); got != total {
			t.Errorf("%s has %s requests, want %s", table, got, total)
		}
	}
	checkRollups(t, db)
}

// crash runs the child until it has inserted something and a random time more, kills it, and says what the kill before
// had left of the block that was under way.
func crash(t *testing.T, dir string) string {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestCrashChild$", "-test.v")
	cmd.Env = append(os.Environ(), crashDir+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := bufio.NewScanner(out)
	var left, all string
	for s.Scan() {
		all += s.Text() + "\n"
		if strings.HasPrefix(s.Text(), "left ") {
			left = s.Text()
			break
		}
	}
	if left == "" {
		t.Fatalf("child: %v\n%s", cmd.Wait(), all)
	}
	time.AfterFunc(time.Duration(rand.IntN(120))*time.Millisecond, func() { _ = cmd.Process.Kill() })
	for s.Scan() {
		all += s.Text() + "\n"
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("child ended by itself: %v\n%s", err, all)
	}
	return classify(left)
}

// classify says in which tables the unfinished block was.
func classify(left string) string {
	f := strings.Fields(left)
	next, _ := strconv.ParseUint(f[1], 10, 64)
	var with, without int
	raw := false
	for _, kv := range f[2:] {
		table, count, _ := strings.Cut(kv, "=")
		n, _ := strconv.ParseUint(count, 10, 64)
		if n > next*crashBlock {
			with++
			raw = raw || table == schema.HTTPRequests
		} else {
			without++
		}
	}
	switch {
	case without == 0:
		return "everywhere"
	case with == 0:
		return "nowhere"
	case raw:
		return "in raw, not in all rollups"
	}
	return "in rollups, not in raw"
}
