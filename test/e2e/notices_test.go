package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// told is what the API says that edges had to tell.
type told struct {
	Result struct {
		Complete bool
		Reasons  []string
		Notices  []struct {
			Kind, Source, Reason string
			Count                uint64
			Samples              []struct {
				Line uint64
				Text string
			}
		}
	}
}

const notices = "/client/v4/system/delivery?since=-60"

func writeLog(t *testing.T, lines []string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Lines that are no requests are on the API, with file, number and reason, within half a minute.
func TestNotices_BadLinesOfAnImport(t *testing.T) {
	var lines []string
	for i := range 3000 {
		lines = append(lines, fmt.Sprintf(`192.0.2.%d - - [10/Oct/2023:13:55:36 +0000] "GET /%d HTTP/1.1" 200 23 "-" "curl/8"`, i%200, i))
		if i%100 == 50 {
			lines = append(lines, fmt.Sprintf("segfault at %d", i))
		}
	}
	path := writeLog(t, lines)
	s := newSpate(t, "")
	s.start()
	if out, err := s.run("import", path, "--host", "bad.test"); err != nil || !strings.Contains(out, "30 bad") {
		t.Fatalf("%v\n%s", err, out)
	}
	waitFor(t, 30*time.Second, "bad lines on the API", func() error {
		var d told
		if err := s.get(notices, &d); err != nil {
			return err
		}
		count := uint64(0)
		for _, n := range d.Result.Notices {
			if n.Kind != "bad_line" || n.Source != path {
				return fatal{fmt.Errorf("a notice of %s about %s", n.Kind, n.Source)}
			}
			count += n.Count
			for _, v := range n.Samples {
				if want := lines[v.Line-1]; v.Text != want {
					return fatal{fmt.Errorf("line %d is %q, told was %q", v.Line, want, v.Text)}
				}
			}
			if len(n.Samples) == 0 {
				return fatal{fmt.Errorf("no samples of %s", n.Source)}
			}
		}
		if count != 30 {
			return fmt.Errorf("%d of 30 bad lines", count)
		}
		return nil
	})
	if out, err := s.run("ledger", "--since", "1h", "--wait", "20s"); err != nil {
		t.Errorf("bad lines are no lost requests: %v\n%s", err, out)
	}
}

// A batch that a gateway will not take is set aside at the edge; the API and `spate ledger` say so, and the rest goes on.
func TestNotices_RefusedBatch(t *testing.T) {
	s := newSpate(t, "  max_batch: 64KiB\n")
	s.start()
	var noise []string
	for range 4000 {
		noise = append(noise, fmt.Sprintf(`192.0.2.1 - - [10/Oct/2023:13:55:36 +0000] "GET /%x%x%x HTTP/1.1" 200 23 "-" "curl/8"`, rand.Uint64(), rand.Uint64(), rand.Uint64()))
	}
	if out, err := s.run("import", writeLog(t, noise), "--host", "noise.test"); err != nil {
		t.Logf("import: %v\n%s", err, out)
	}
	waitFor(t, 60*time.Second, "the refusal on the API", func() error {
		var d told
		if err := s.get(notices, &d); err != nil {
			return err
		}
		for _, n := range d.Result.Notices {
			if n.Kind == "refused_batch" && n.Count > 0 && !d.Result.Complete {
				t.Logf("%s: %d events, %s", n.Source, n.Count, n.Reason)
				return nil
			}
		}
		return fmt.Errorf("%d notices, complete %v", len(d.Result.Notices), d.Result.Complete)
	})
	if out, err := s.run("ledger", "--since", "1h"); err == nil || !strings.Contains(out, "refused") {
		t.Errorf("spate ledger: %v\n%s", err, out)
	}
	if _, err := s.run("import", writeLog(t, noise[:50]), "--host", "after.test"); err != nil {
		t.Errorf("an import after it: %v", err)
	}
}
