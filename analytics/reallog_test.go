package analytics_test

import (
	"bufio"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/spate-io/spate/analytics/analyticstest"
	"github.com/spate-io/spate/edge/accesslog"
	"github.com/spate-io/spate/event"
	"github.com/spate-io/spate/internal/enrich"
	"github.com/spate-io/spate/internal/testdata"
	"github.com/spate-io/spate/internal/zone"
	"github.com/spate-io/spate/store/chdb/chdbtest"
)

// realLines gives up to n lines of a real log.
func realLines(t *testing.T, file string, n int) []string {
	t.Helper()
	f, err := os.Open(filepath.Join(testdata.Dir(t), "logs", file))
	if err != nil {
		t.Skip(err)
	}
	defer func() { _ = f.Close() }()
	z, err := zstd.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	s := bufio.NewScanner(z)
	s.Buffer(nil, 1<<20)
	var lines []string
	for s.Scan() && len(lines) < n {
		lines = append(lines, s.Text())
	}
	if s.Err() != nil {
		t.Fatal(s.Err())
	}
	return lines
}

// realRequests parses the lines as an import does, with what the built-in data says of them.
func realRequests(t *testing.T, lines []string, host string) []analyticstest.Request {
	t.Helper()
	format, _ := accesslog.Lookup("combined")
	p := format.New(accesslog.Options{})
	enricher, err := enrich.New(enrich.DefaultConfig(), enrich.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	var list []analyticstest.Request
	var buf []byte
	for _, l := range lines {
		var q analyticstest.Request
		if p.Parse([]byte(l), &q.HTTP) != nil {
			continue
		}
		q.ClientRequestHost = []byte(host)
		buf = q.HTTP.Append(nil) // the parser's fields last until the next line
		v, _, err := event.ReadHTTP(buf)
		if err != nil {
			t.Fatal(err)
		}
		enricher.Enrich(v, &q.Result)
		q.HTTP = copied(v)
		q.ZoneID, q.ZoneName = zone.ID(host), host
		list = append(list, q)
	}
	return list
}

// copied gives the fields of a log that the rollups are made of.
func copied(v event.View) event.HTTP {
	return event.HTTP{
		EdgeStartTimestamp: v.EdgeStartTimestamp(), EdgeEndTimestamp: v.EdgeEndTimestamp(), ClientRequestBytes: v.ClientRequestBytes(), EdgeResponseBytes: v.EdgeResponseBytes(),
		EdgeResponseStatus: v.EdgeResponseStatus(), ClientIP: v.ClientIP(), ClientRequestHost: slices.Clone(v.ClientRequestHost()), ClientRequestMethod: slices.Clone(v.ClientRequestMethod()),
		ClientRequestPath: slices.Clone(v.ClientRequestPath()), ClientRequestProtocol: slices.Clone(v.ClientRequestProtocol()), ClientRequestReferer: slices.Clone(v.ClientRequestReferer()),
		ClientRequestUserAgent: slices.Clone(v.ClientRequestUserAgent()),
	}
}

// combined is the log format, read by nothing of ours.
var combined = regexp.MustCompile(`^(\S+) \S+ .*? \[([^\]]+)\] "(?:[^"\\]|\\.)*" (\d{3}) (\d+|-) `)

// What is stored of real logs is what plain counting says of the parsed requests, number by number; and what a regular
// expression says of the lines, for what that knows.
func TestRollups_RealLogs(t *testing.T) {
	for _, c := range []struct {
		file  string
		lines int
	}{{"zanbil_nginx_100k_2019-01-26.log.zst", 20_000}, {"elastic_apache_10000_2015-05.log.zst", 10_000}, {"tahchag_nginx_1945_2024-02.log.zst", 2000}} {
		t.Run(strings.SplitN(c.file, "_", 2)[0], func(t *testing.T) {
			lines := realLines(t, c.file, c.lines)
			all := realRequests(t, lines, "www.example.org")
			if len(all)*100 < len(lines)*99 {
				t.Fatalf("%d of %d lines are requests", len(all), len(lines))
			}
			db := analyticstest.Store(t, chdbtest.Open(t), all)
			analyticstest.CheckRollups(t, db, all)

			type counts struct{ requests, bytes, errors, addresses uint64 }
			want, seen := map[string]counts{}, map[string]bool{}
			for _, l := range lines {
				m := combined.FindStringSubmatch(l)
				if m == nil {
					t.Logf("no request: %.200s", l)
					continue
				}
				at, err := time.Parse("02/Jan/2006:15:04:05 -0700", m[2])
				ip, errIP := netip.ParseAddr(m[1])
				if err != nil || errIP != nil {
					t.Fatal(err, errIP)
				}
				day := at.UTC().Format(time.DateOnly)
				n := want[day]
				n.requests++
				size, _ := strconv.ParseUint(m[4], 10, 64)
				n.bytes += size
				if m[3] >= "400" {
					n.errors++
				}
				if !seen[day+ip.String()] {
					seen[day+ip.String()] = true
					n.addresses++
				}
				want[day] = n
			}
			got := map[string]counts{}
			for k, r := range analyticstest.ReadRollup(t, db, "http_requests_1d") {
				got[time.Unix(k.Time, 0).UTC().Format(time.DateOnly)] = counts{r.Sums["requests"], r.Sums["response_bytes"], r.Sums["errors_4xx"] + r.Sums["errors_5xx"], r.Uniques}
			}
			if d := gocmp.Diff(fmt.Sprint(want), fmt.Sprint(got)); d != "" {
				t.Errorf("(-lines +store) %s", d)
			}
		})
	}
}
