package bench

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spate-io/spate/api"
	"github.com/spate-io/spate/bus"
	"github.com/spate-io/spate/core/load"
	"github.com/spate-io/spate/internal/enrich"
	"github.com/spate-io/spate/store/chdb"
)

const shortLog = `1.2.3.4 - - [31/Dec/2023:23:59:58 +0000] "GET /a?x=1 HTTP/1.1" 200 5 "-" "one"
no line
::1 - bob [31/Dec/2023:23:59:59 +0000] "POST /b HTTP/2.0" 404 6 "https://r.example/" "two \x22"
`

func writeLog(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(path, []byte(shortLog), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLengthenLog_MovesTimesOn(t *testing.T) {
	var out bytes.Buffer
	if err := LengthenLog(writeLog(t), 5, &out); err != nil {
		t.Fatal(err)
	}
	var times []string
	for line := range strings.Lines(out.String()) {
		_, rest, _ := strings.Cut(line, "[")
		at, _, _ := strings.Cut(rest, "]")
		times = append(times, at)
	}
	want := []string{
		"31/Dec/2023:23:59:58 +0000", "31/Dec/2023:23:59:59 +0000", "01/Jan/2024:00:00:00 +0000", "01/Jan/2024:00:00:01 +0000", "01/Jan/2024:00:00:02 +0000",
	}
	if diff := cmp.Diff(want, times); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestLogAsJSON_KeepsFields(t *testing.T) {
	var out bytes.Buffer
	if err := LogAsJSON(writeLog(t), &out); err != nil {
		t.Fatal(err)
	}
	want := `{"_time":"2023-12-31T23:59:58Z","_msg":"/a?x=1","remote_addr":"1.2.3.4","request_method":"GET","server_protocol":"HTTP/1.1","http_user_agent":"one","status":"200","body_bytes_sent":"5"}
{"_time":"2023-12-31T23:59:59Z","_msg":"/b","remote_addr":"::1","request_method":"POST","server_protocol":"HTTP/2.0","http_referer":"https://r.example/","http_user_agent":"two \"","remote_user":"bob","status":"404","body_bytes_sent":"6"}
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func smallOptions(t testing.TB) StoreOptions {
	t.Helper()
	if _, err := chdb.FindLibrary(); err != nil {
		t.Skip(err)
	}
	o := StoreOptions{
		Events: 30_000, Zones: 40, Days: 3, Ingest: 20_000, Dir: t.TempDir(), Callers: 2, Each: 50 * time.Millisecond,
		StoreConfig: chdb.DefaultConfig(), Bus: bus.DefaultConfig(), Load: load.DefaultConfig(), Enrich: enrich.DefaultConfig(), API: api.DefaultConfig(),
	}
	o.StoreConfig.Sync, o.Bus.Embedded.Sync, o.Bus.Embedded.MinFree = false, false, 0
	return o
}

// A run measures everything, and leaves a history in which every rollup has what the requests add up to.
func TestRunStore_MeasuresAndLeavesATrueHistory(t *testing.T) {
	o := smallOptions(t)
	report, err := RunStore(context.Background(), o, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	parts := map[string]bool{}
	for _, r := range report.Rows {
		parts[r.Part] = true
		if r.Value <= 0 {
			t.Errorf("%s: %s is %v", r.Part, r.What, r.Value)
		}
	}
	for _, p := range []string{"ingest, 40 zones", "ingest, one zone", "size, merged", "size, history", "no ingest, zones by Zipf", "no ingest, busiest zone", "ingest at half, busiest zone", "ingest beside", "memory"} {
		if !parts[p] {
			t.Errorf("nothing about %q", p)
		}
	}
	s := &Store{o: o}
	if err := s.open(context.Background(), "history"); err != nil {
		t.Fatal(err)
	}
	defer s.db.Close()
	before := "time < toDateTime('" + lastEnd(t, o.Dir) + "', 'UTC')"
	sums := "sum(requests), sum(response_bytes), sum(requests_by_status[200])"
	want, err := s.ask(context.Background(), "SELECT count(), sum(EdgeResponseBytes), countIf(EdgeResponseStatus = 200) FROM http_requests WHERE "+strings.Replace(before, "time", "EdgeStartTimestamp", 1))
	if err != nil {
		t.Fatal(err)
	}
	if want[0] != "30000" {
		t.Errorf("%s requests", want[0])
	}
	for _, table := range []string{"http_requests_1m", "http_requests_1h", "http_colos_1h"} {
		columns := sums
		got, err := s.ask(context.Background(), "SELECT "+columns+" FROM "+table+" WHERE "+before)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-raw +rollup)\n%s", table, diff)
		}
	}
	for _, sql := range []string{
		"SELECT (SELECT (count(), uniqMerge(uniques)) FROM (SELECT zone_id, toStartOfHour(time) AS h, uniqMergeState(uniques) AS uniques FROM http_requests_1m GROUP BY 1, 2)) = (SELECT (count(), uniqMerge(uniques)) FROM (SELECT zone_id, time, uniqMergeState(uniques) AS uniques FROM http_requests_1h GROUP BY 1, 2))",
		"SELECT (SELECT sum(requests) FROM http_requests_1h) = (SELECT sum(requests) FROM http_requests_1d) AND (SELECT sum(requests) FROM http_requests_1h) = (SELECT sum(requests) FROM http_requests_1mo)",
		"SELECT (SELECT sum(requests) FROM http_requests_1m) = (SELECT sum(requests) FROM http_requests_1h)", // what came in after join, too
		"SELECT count() = 0 FROM system.tables WHERE name LIKE 'bench%'",
	} {
		if got, err := s.ask(context.Background(), sql); err != nil || got[0] != "1" {
			t.Errorf("%s: %v %v", sql, got, err)
		}
	}
}

func lastEnd(t *testing.T, dir string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, keptFile))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), `"end":"`)
	end, _, _ := strings.Cut(rest, `"`)
	at, err := time.Parse(time.RFC3339, end)
	if err != nil {
		t.Fatal(err)
	}
	return at.Format(time.DateTime)
}

// A second run in the same directory asks the history that is there.
func TestRunStore_UsesAHistoryAgain(t *testing.T) {
	o := smallOptions(t)
	o.Ingest = 0
	for range 2 {
		var said bytes.Buffer
		o.Progress = &said
		report, err := RunStore(context.Background(), o, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		again := strings.Contains(said.String(), "using the history")
		made := false
		for _, r := range report.Rows {
			made = made || r.Part == "history"
		}
		if again == made {
			t.Errorf("used again: %v, made: %v", again, made)
		}
	}
}

func TestNumber_ThreeDigits(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.12345: "0.123", 12.345: "12.3", 999.4: "999", 1000: "1,000", 1234567: "1,234,567", -4321: "-4,321"} {
		if got := number(v); got != want {
			t.Errorf("%v: got %s, want %s", v, got, want)
		}
	}
}

func TestSaid_ReadsWhatACommandPrints(t *testing.T) {
	v := 7.0
	said([]byte("seconds 1.5\nbytes 3\nseconds\nseconds x\n"), "seconds", &v)
	if v != 1.5 {
		t.Errorf("got %v", v)
	}
}
