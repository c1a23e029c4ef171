package accesslog

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/spate-io/spate/event"
	"github.com/spate-io/spate/internal/testdata"
)

// realLog unpacks one of the shared logs.
func realLog(t testing.TB, name string) []byte {
	t.Helper()
	packed, err := os.ReadFile(filepath.Join(testdata.Dir(t), "logs", name+".zst"))
	if err != nil {
		t.Skipf("no log %s: %v", name, err)
	}
	dec, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer dec.Close()
	raw, err := dec.DecodeAll(packed, nil)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func lines(raw []byte) [][]byte {
	return bytes.Split(bytes.TrimSuffix(raw, []byte("\n")), []byte("\n"))
}

// totals are what the table of the real logs gives.
type totals struct {
	Requests, Bad int
	Bytes         uint64
	Class         [6]int // by first digit of the status
}

// TestRealLogs_EqualOracle compares counts with those that GoAccess and an independent count gave.
func TestRealLogs_EqualOracle(t *testing.T) {
	for _, c := range []struct {
		file, format string
		want         totals
	}{
		{"zanbil_nginx_100k_2019-01-26.log", "main", totals{100000, 0, 1180926903, [6]int{2: 92979, 3: 4726, 4: 1253, 5: 1042}}},
		{"basjes_hackers_3456_2015-10.log", "combined", totals{3456, 0, 46882196, [6]int{2: 2846, 3: 585, 4: 25}}},
		{"tahchag_nginx_1945_2024-02.log", "combined", totals{1945, 0, 29676956, [6]int{2: 1082, 3: 56, 4: 807}}},
		// Line 8899 has no closing quote after its user agent; it counts, as in GoAccess.
		{"elastic_apache_10000_2015-05.log", "combined", totals{10000, 0, 2747282740, [6]int{2: 9171, 3: 609, 4: 217, 5: 3}}},
		// No oracle but awk for these.
		{"apache_popup_8756_2009.log", "main", totals{Requests: 8756}},
		{"nasa_clf_5000_1995-08.log", "common", totals{Requests: 5000}},
		{"scan_acunetix.txt", "quoted-combined", totals{Requests: 6539}},
	} {
		t.Run(strings.SplitN(c.file, "_", 2)[0], func(t *testing.T) {
			all := lines(realLog(t, c.file))
			d := Detect(all[:DetectLines])
			if d.Format.Name != c.format {
				t.Errorf("detected %s, want %s", d, c.format)
			}
			var got totals
			days := map[string]int{}
			p := d.Format.New(Options{})
			var e event.HTTP
			for i, line := range all {
				if err := p.Parse(line, &e); err != nil {
					got.Bad++
					t.Logf("line %d: %v", i+1, err)
					continue
				}
				got.Requests++
				got.Bytes += e.EdgeResponseBytes
				got.Class[min(e.EdgeResponseStatus/100, 5)]++
				at := bytes.IndexByte(line, '[')
				days[fmt.Sprintf("%s %03d", line[at+1:at+12], e.EdgeResponseStatus)]++
			}
			awk := awkDays(t, all)
			if c.want.Bytes == 0 {
				c.want.Bytes, c.want.Class = uint64(awk["bytes"]), got.Class
			}
			delete(awk, "bytes")
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("totals (-want +got):\n%s", diff)
			}
			if awk != nil {
				if diff := cmp.Diff(awk, days); diff != "" {
					t.Errorf("requests by day and status (-awk +got):\n%s", diff)
				}
			}
		})
	}
}

// awkDays counts requests by day and status with awk; nil where there is none. The status is the first number after the
// quote that closes the request.
func awkDays(t *testing.T, all [][]byte) map[string]int {
	t.Helper()
	awk, err := exec.LookPath("awk")
	if err != nil {
		t.Log("no awk: independent count skipped")
		return nil
	}
	cmd := exec.Command(awk, `{ split($0, b, "["); day = substr(b[2], 1, 11)
		if (match($0, /" [0-9][0-9][0-9] ([0-9]+|-)/)) { n[day " " substr($0, RSTART+2, 3)]++; sum += substr($0, RSTART+6, RLENGTH-6) } }
		END { printf "bytes 0 %.0f\n", sum; for (k in n) print k, n[k] }`)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.Stdin = bytes.NewReader(append(bytes.Join(all, []byte("\n")), '\n'))
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{}
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		var day string
		var status, n int
		if _, err := fmt.Sscan(line, &day, &status, &n); err != nil {
			t.Fatalf("awk wrote %q: %v", line, err)
		}
		if day == "bytes" {
			want[day] = n
			continue
		}
		want[fmt.Sprintf("%s %03d", day, status)] = n
	}
	return want
}

// fixture is a file of lines that other projects test their parsers with.
type fixture struct {
	name  string
	lines [][]byte
}

func fixtures(t *testing.T) []fixture {
	t.Helper()
	dir := filepath.Join(testdata.Dir(t), "fixtures")
	var out []fixture
	for _, pattern := range []string{"matomo/*.log", "elastic/*"} {
		files, _ := filepath.Glob(filepath.Join(dir, pattern))
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, fixture{strings.TrimPrefix(file, dir+"/"), lines(raw)})
		}
	}
	for _, name := range []string{"logstash/lines.ndjson", "vrl/lines.ndjson"} { // every line is a file of its own
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for i, l := range lines(raw) {
			var v struct{ Line string }
			if err := json.Unmarshal(l, &v); err != nil {
				t.Fatal(err)
			}
			out = append(out, fixture{fmt.Sprintf("%s:%03d", name, i+1), [][]byte{[]byte(v.Line)}})
		}
	}
	return out
}

// TestFixtures_ParsedOrRefused pins what becomes of each line: a hash of the event, or the reason. Run with -v to read the events.
func TestFixtures_ParsedOrRefused(t *testing.T) {
	var got []string
	for _, f := range fixtures(t) {
		d := Detect(f.lines)
		if !d.Format.Valid() {
			got = append(got, f.name+" refused: no format reads it")
			continue
		}
		p := d.Format.New(Options{})
		for i, line := range f.lines {
			res := outcome(p, line)
			t.Logf("%s:%d %s\n%.300s\n%s", f.name, i+1, d.Format.Name, line, strings.Join(res, "\n"))
			what := strings.TrimSpace(res[0])
			if !strings.HasPrefix(what, "!") && !strings.HasPrefix(what, "(") {
				h := fnv.New32a()
				h.Write([]byte(strings.Join(res, "\n")))
				what = fmt.Sprintf("event %08x with %d fields", h.Sum32(), len(res))
			}
			got = append(got, fmt.Sprintf("%s:%d %s: %s", f.name, i+1, d.Format.Name, what))
		}
	}
	text := strings.Join(got, "\n") + "\n"
	const file = "testdata/fixtures.outcome"
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text); diff != "" {
		t.Errorf("outcome changed (-want +got):\n%s", diff)
	}
}

// TestAttackRequests_SurviveLogging writes the requests of an attack corpus as nginx would log them and reads them back.
func TestAttackRequests_SurviveLogging(t *testing.T) {
	f, err := os.Open(filepath.Join(testdata.Dir(t), "fixtures/crs/requests.ndjson.gz"))
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	format, _ := Lookup("combined")
	p := format.New(Options{})
	n := 0
	s := bufio.NewScanner(z)
	s.Buffer(nil, 8<<20)
	for ; s.Scan(); n++ {
		var v struct {
			Method, URI, Version string
			Headers              map[string]string
		}
		if err := json.Unmarshal(s.Bytes(), &v); err != nil {
			continue
		}
		ua, referer := v.Headers["User-Agent"], v.Headers["Referer"]
		line := fmt.Sprintf(`192.0.2.1 - - [26/Jan/2019:19:45:25 +0330] "%s" 200 17 "%s" "%s"`,
			nginxEscape(v.Method+" "+v.URI+" "+v.Version), nginxEscape(referer), nginxEscape(ua))
		var e event.HTTP
		if err := p.Parse([]byte(line), &e); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if e.EdgeResponseStatus != 200 || e.EdgeResponseBodyBytes != 17 {
			t.Fatalf("%s: columns are shifted", line)
		}
		if want := ua; want != "-" && string(e.ClientRequestUserAgent) != want {
			t.Errorf("user agent %q, want %q", e.ClientRequestUserAgent, want)
		}
		if !strings.HasPrefix(v.URI, "/") || strings.TrimSpace(v.URI) != v.URI || !isMethod([]byte(v.Method)) || !isProtocol([]byte(v.Version)) {
			continue
		}
		uri := string(e.ClientRequestPath)
		if strings.Contains(v.URI, "?") {
			uri += "?" + string(e.ClientRequestQuery)
		}
		if uri != v.URI {
			t.Errorf("target %q, want %q", uri, v.URI)
		}
	}
	if n < 2000 {
		t.Errorf("only %d requests in the corpus", n)
	}
}

// nginxEscape is escape=default.
func nginxEscape(s string) string {
	if s == "" {
		return "-"
	}
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c == '"' || c == '\\' || c < 32 || c > 126 {
			fmt.Fprintf(&b, `\x%02X`, c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// TestDetect_EveryFormatFindsItself takes the lines of the corpora that a format reads, and detects them.
func TestDetect_EveryFormatFindsItself(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.txt")
	found := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range strings.Split(string(text), "\nformat ")[1:] {
			name, rest, _ := strings.Cut(block, "\n")
			f, ok := Lookup(name)
			if !ok {
				continue
			}
			p := f.New(Options{})
			var in [][]byte
			var e event.HTTP
			for _, line := range strings.Split(rest, "\n") {
				if l, ok := strings.CutPrefix(line, "> "); ok {
					if err := p.Parse([]byte(l), &e); err == nil || errors.Is(err, ErrNoRequest) {
						in = append(in, []byte(l))
					}
				}
			}
			d := Detect(in)
			if d.Format.Name != name {
				t.Errorf("lines of %s are taken for %s", name, d)
			}
			found[name] = true
		}
	}
	var missing []string
	for _, f := range Formats() {
		if !found[f.Name] {
			missing = append(missing, f.Name)
		}
	}
	if sort.Strings(missing); len(missing) > 0 {
		t.Errorf("formats without a corpus: %v", missing)
	}
}
