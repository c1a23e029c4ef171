package e2e

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// numberedLines gives access log lines whose paths are numbered.
func numberedLines(from, to int) []string {
	var lines []string
	for i := from; i < to; i++ {
		lines = append(lines, fmt.Sprintf(`192.0.2.%d - - [10/Oct/2023:13:%02d:36 +0000] "GET /n/%d HTTP/1.1" 200 23 "-" "curl/8"`, i%200, i/100%60, i))
	}
	return lines
}

// storedOnce waits until the store has n requests in every table, each path once.
func storedOnce(t *testing.T, serve string, n int) {
	t.Helper()
	const sql = "SELECT (SELECT count() FROM http_requests), (SELECT uniqExact(ClientRequestPath) FROM http_requests)," +
		" (SELECT sum(requests) FROM http_requests_1m), (SELECT sum(requests) FROM http_requests_1mo)"
	want := fmt.Sprintf("%d\t%d\t%d\t%d", n, n, n, n)
	waitFor(t, 60*time.Second, fmt.Sprintf("%d requests in the store", n), func() error {
		got, err := text("http://" + serve + "/?query=" + url.QueryEscape(sql))
		if err == nil && got != want {
			err = fmt.Errorf("requests, paths, and requests of minutes and months are %s", got)
		}
		return err
	})
}

// An operator loses the store an hour after its backup: after one command and a start, what came since is there again, once.
func TestStore_RestoreLoadsWhatCameSince(t *testing.T) {
	serve := freePort(t)
	s := newSpate(t, "store:\n  serve:\n    listen: "+serve+"\n")
	backups := filepath.Join(t.TempDir(), "backups")
	s.start()
	must := func(want string, args ...string) {
		t.Helper()
		if out, err := s.run(args...); err != nil || !strings.Contains(out, want) {
			t.Fatalf("%v\n%s\nlacks %q", err, out, want)
		}
	}
	must("", "import", writeLog(t, numberedLines(0, 5000)), "--host", "a.test")
	storedOnce(t, serve, 5000)
	must("5,000", "store", "backup", backups)
	must("", "import", writeLog(t, numberedLines(5000, 8000)), "--host", "a.test")
	storedOnce(t, serve, 8000)
	must("ok ", "store", "check")
	if out, err := s.run("store", "restore", backups); err == nil {
		t.Fatalf("restored over a running store: %s", out)
	}

	s.kill()
	if err := os.RemoveAll(filepath.Join(s.dir, "data", "store")); err != nil {
		t.Fatal(err)
	}
	must("every file has the contents", "store", "restore", backups, "--dry-run")
	must("all counts as in the backup", "store", "restore", backups)
	s.start()
	storedOnce(t, serve, 8000)
	must("", "import", writeLog(t, numberedLines(8000, 9000)), "--host", "a.test")
	storedOnce(t, serve, 9000)
	must("ok ", "store", "check")
}

// One address goes from every table, and the check knows why the raw table has fewer requests than the rollups.
func TestStore_EraseWhileItRuns(t *testing.T) {
	serve := freePort(t)
	s := newSpate(t, "store:\n  serve:\n    listen: "+serve+"\n")
	s.start()
	if out, err := s.run("import", writeLog(t, numberedLines(0, 2000)), "--host", "a.test"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	storedOnce(t, serve, 2000)
	out, err := s.run("store", "erase", "--ip", "192.0.2.7", "--yes")
	if err != nil || !strings.Contains(out, "erased") {
		t.Fatalf("%v\n%s", err, out)
	}
	for sql, want := range map[string]string{
		"SELECT count(), countIf(ClientIP = toIPv6('192.0.2.7')) FROM http_requests": "1990\t0",
		"SELECT uniqMerge(uniques), sum(requests) FROM http_requests_1d":             "199\t2000",
	} {
		if got, err := text("http://" + serve + "/?query=" + url.QueryEscape(sql)); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", sql, got, err, want)
		}
	}
	if out, err := s.run("store", "check"); err != nil {
		t.Errorf("check: %v\n%s", err, out)
	}
}
