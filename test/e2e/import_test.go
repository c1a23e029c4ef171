package e2e

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spate-io/spate/internal/testdata"
)

// realLog is a log with the figures that GoAccess counted in it.
type realLog struct {
	file        string
	requests    int
	bytes       int
	classes     [6]int // by first digit of the status
	since, till string
}

var realLogs = []realLog{
	{"zanbil_nginx_100k_2019-01-26.log", 100000, 1180926903, [6]int{2: 92979, 4726, 1253, 1042}, "2019-01-25", "2019-01-28"},
	{"elastic_apache_10000_2015-05.log", 10000, 2747282740, [6]int{2: 9171, 609, 217, 3}, "2015-05-16", "2015-05-22"},
	{"tahchag_nginx_1945_2024-02.log", 1945, 29676956, [6]int{2: 1082, 56, 807, 0}, "2024-01-20", "2024-03-10"},
}

func TestImport_RealLogsEqualIndependentCounts(t *testing.T) {
	data := testdata.Dir(t)
	s := newSpate(t, "")
	s.start()
	for i, l := range realLogs {
		t.Run(strings.TrimSuffix(l.file, ".log"), func(t *testing.T) {
			path := unpack(t, filepath.Join(data, "logs", l.file+".zst"))
			host := fmt.Sprintf("log%d.test", i)
			for range 2 { // the second time adds nothing
				if _, err := s.run("import", path, "--host", host); err != nil {
					t.Fatal(err)
				}
			}
			checkImported(t, s, host, l, path)
		})
	}
}

func TestImport_WithoutARunningSpate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	line := `192.0.2.1 - - [10/Oct/2023:13:55:36 +0000] "GET /a HTTP/1.1" 200 2326 "-" "curl/8"` + "\n"
	if err := os.WriteFile(path, []byte(strings.Repeat(line, 500)), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newSpate(t, "")
	if _, err := s.run("import", path, "--host", "alone.test"); err != nil {
		t.Fatal(err)
	}
	s.start()
	checkImported(t, s, "alone.test", realLog{requests: 500, bytes: 500 * 2326, classes: [6]int{2: 500}, since: "2023-10-09", till: "2023-10-12"}, path)
}

func unpack(t *testing.T, packed string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), strings.TrimSuffix(filepath.Base(packed), ".zst"))
	if out, err := exec.Command("zstd", "-dq", packed, "-o", path).CombinedOutput(); err != nil {
		t.Fatalf("zstd: %v: %s", err, out)
	}
	return path
}

func checkImported(t *testing.T, s *spate, host string, l realLog, path string) {
	t.Helper()
	var zones struct{ Result []struct{ ID, Name string } }
	waitFor(t, 10*time.Second, "the zone to be listed", func() error {
		if err := s.get("/client/v4/zones?name="+host, &zones); err != nil {
			return err
		}
		if len(zones.Result) != 1 {
			return fmt.Errorf("zones named %s: %v", host, zones.Result)
		}
		return nil
	})
	// Scanners ask for absolute URIs, which name hosts of other zones: count all zones. The spans of the logs do not meet.
	var got realLog
	perDay := counts{}
	if err := s.get("/client/v4/zones?per_page=50", &zones); err != nil {
		t.Fatal(err)
	}
	for _, z := range zones.Result {
		s.addImported(z.ID, &got, perDay, l)
	}
	got.file, got.since, got.till = l.file, l.since, l.till
	if d := cmp.Diff(l, got, cmp.AllowUnexported(realLog{})); d != "" {
		t.Errorf("independent count (-) and Spate (+) differ:\n%s", d)
	}
	if d := cmp.Diff(awkCounts(t, path), perDay); d != "" {
		t.Errorf("per day and status, awk (-) and Spate (+) differ:\n%s", d)
	}
}

// addImported adds one zone's figures of the span of l.
func (s *spate) addImported(zone string, sum *realLog, perDay counts, l realLog) {
	s.t.Helper()
	type point struct {
		Since    time.Time
		Requests struct {
			All        int
			HTTPStatus map[string]int `json:"http_status"`
		}
		Bandwidth struct{ All int }
	}
	var dash struct {
		Result struct {
			Totals     point
			Timeseries []point
		}
	}
	query := "since=" + url.QueryEscape(l.since+"T00:00:00Z") + "&until=" + url.QueryEscape(l.till+"T00:00:00Z") + "&time_delta=60&continuous=false"
	if err := s.get("/client/v4/zones/"+zone+"/analytics/dashboard?"+query, &dash); err != nil {
		s.t.Fatal(err)
	}
	sum.requests += dash.Result.Totals.Requests.All
	sum.bytes += dash.Result.Totals.Bandwidth.All
	for status, n := range dash.Result.Totals.Requests.HTTPStatus {
		sum.classes[status[0]-'0'] += n
	}
	for _, p := range dash.Result.Timeseries {
		for status, n := range p.Requests.HTTPStatus {
			perDay[p.Since.UTC().Format("2006-01-02")+" "+status] += n
		}
	}
}

// awkCounts counts requests per UTC day and status without any code of ours: awk finds the parts, date arithmetic is
// the standard library's.
func awkCounts(t *testing.T, path string) counts {
	t.Helper()
	const program = `{
		if (match($0, /\[[^\]]+\]/)) when = substr($0, RSTART + 1, RLENGTH - 2);
		rest = substr($0, RSTART + RLENGTH); n = split(rest, q, "\""); split(q[3], f, " ");
		print when "\t" f[1]
	}`
	out, err := exec.Command("awk", program, path).Output()
	if err != nil {
		t.Fatalf("awk: %v", err)
	}
	c := counts{}
	for line := range strings.Lines(string(out)) {
		when, status, _ := strings.Cut(strings.TrimSpace(line), "\t")
		at, err := time.Parse("02/Jan/2006:15:04:05 -0700", when)
		if err != nil {
			t.Fatalf("time in %q: %v", line, err)
		}
		if _, err := strconv.Atoi(status); err != nil {
			t.Fatalf("status in %q: %v", line, err)
		}
		c[at.UTC().Format("2006-01-02")+" "+status]++
	}
	return c
}
