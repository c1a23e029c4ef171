package ingest

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/spate-io/spate/edge/forward"
	"github.com/spate-io/spate/edge/forward/forwardtest"
	"github.com/spate-io/spate/event"
	"github.com/spate-io/spate/internal/testdata"
)

// bench is what an import needs in a test: a folder, a sink that stays while importers come and go, and a ledger file.
type bench struct {
	t    *testing.T
	dir  string
	sink *forwardtest.Sink
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, dir: t.TempDir(), sink: forwardtest.New()}
	b.sink.Auto = true
	return b
}

func (b *bench) write(name string, content []byte) string {
	b.t.Helper()
	path := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		b.t.Fatal(err)
	}
	return path
}

// run imports with a ledger that is opened and closed, as a process does.
func (b *bench) run(o Options, sink forward.Sink) (*Summary, error) {
	b.t.Helper()
	ledger, err := OpenLedger(filepath.Join(b.dir, "ledger", "imports"))
	if err != nil {
		b.t.Fatal(err)
	}
	defer ledger.Close()
	if o.Workers == 0 {
		o.Workers = 2
	}
	timeout := time.Minute
	if !b.sink.Auto { // nothing gets durable, so the import would wait for it
		timeout = 300 * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return Import(ctx, o, Deps{Sink: sink, Ledger: ledger})
}

func (b *bench) importOK(paths ...string) *Summary {
	b.t.Helper()
	s, err := b.run(Options{Paths: paths}, b.sink)
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// paths gives how often each path is among the events in the sink.
func (b *bench) paths() map[string]int {
	b.t.Helper()
	out := map[string]int{}
	chunks, _ := b.sink.Chunks()
	for _, c := range chunks {
		n, err := event.Walk(c.Events, func(v event.View) error {
			out[string(v.ClientRequestPath())]++
			return nil
		})
		if err != nil || n != int(c.Count) {
			b.t.Fatalf("chunk of %d events has %d: %v", c.Count, n, err)
		}
	}
	return out
}

// wantOnce checks that the events are those of lines 0 to n-1, each once.
func (b *bench) wantOnce(n int) {
	b.t.Helper()
	got := b.paths()
	if len(got) != n {
		b.t.Errorf("%d different events, want %d", len(got), n)
	}
	for p, k := range got {
		if k != 1 {
			b.t.Fatalf("%s is there %d times", p, k)
		}
	}
}

// logLines gives lines from to to-1 of a log, each with a path of its own.
func logLines(from, to int) []byte {
	var buf bytes.Buffer
	at := time.Date(2024, 3, 1, 0, 0, 0, 0, time.UTC)
	for i := from; i < to; i++ {
		fmt.Fprintf(&buf, "192.0.2.%d - - [%s] \"GET /n/%d HTTP/1.1\" %d %d \"-\" \"agent %s\"\n", i%250, at.Add(time.Duration(i)*time.Second).Format("02/Jan/2006:15:04:05 -0700"),
			i, 200+i%3*100, i, strings.Repeat("x", i%60))
	}
	return buf.Bytes()
}

func gz(b []byte) []byte {
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	_, _ = z.Write(b)
	_ = z.Close()
	return buf.Bytes()
}

func TestImport_EachLineOnce(t *testing.T) {
	const n = 30000 // about 4 MB
	all := logLines(0, n)
	cut := bytes.LastIndexByte(all[:len(all)*6/10], '\n') + 1
	for _, c := range []struct {
		name string
		do   func(b *bench)
	}{
		{"again", func(b *bench) {
			f := b.write("access.log", all)
			b.importOK(f)
			s := b.importOK(f)
			if s.Lines != 0 || !s.Files[0].Known {
				b.t.Errorf("second import: %+v", s.Files)
			}
		}},
		{"twice_in_one_run", func(b *bench) {
			b.importOK(b.write("a.log", all), b.write("b.log", all), b.write("c.gz", gz(all)))
		}},
		{"renamed_and_gzipped", func(b *bench) {
			b.importOK(b.write("access.log", all))
			s := b.importOK(b.write("access.log.1.gz", gz(all)))
			if s.Lines != 0 {
				b.t.Errorf("%d lines are new", s.Lines)
			}
		}},
		{"grown", func(b *bench) {
			b.importOK(b.write("access.log", all[:cut]))
			b.importOK(b.write("access.log", all))
		}},
		{"grown_then_gzipped", func(b *bench) {
			b.importOK(b.write("access.log", all[:cut]))
			b.importOK(b.write("access.log.2.gz", gz(all)))
		}},
		{"grown_from_one_line", func(b *bench) {
			one := bytes.IndexByte(all, '\n') + 1
			b.importOK(b.write("access.log", all[:one]))
			b.importOK(b.write("access.log", all))
		}},
		{"cut_in_a_line_that_is_bad", func(b *bench) {
			s := b.importOK(b.write("access.log", all[:cut+30]))
			if s.Bad != 1 {
				b.t.Errorf("%d bad lines, want the cut one", s.Bad)
			}
			b.importOK(b.write("access.log", all))
		}},
		{"cut_in_a_line_that_still_parses", func(b *bench) {
			next := cut + bytes.IndexByte(all[cut:], '\n')
			b.importOK(b.write("access.log", all[:next-3]))
			b.importOK(b.write("access.log", all))
		}},
		{"without_last_newline", func(b *bench) {
			b.importOK(b.write("access.log", all[:len(all)-1]))
			b.importOK(b.write("access.log", all))
		}},
		{"shorter_copy_afterwards", func(b *bench) {
			b.importOK(b.write("access.log", all))
			b.importOK(b.write("copy.log", all[:cut]))
		}},
		{"rotated_parts", func(b *bench) {
			b.importOK(b.write("access.log", all[:cut]))
			b.importOK(b.write("access.log.1", all[:cut]), b.write("access.log", all[cut:]))
		}},
		{"gzip_members", func(b *bench) {
			b.importOK(b.write("access.log.gz", append(gz(all[:cut]), gz(all[cut:])...)))
			b.importOK(b.write("access.log", all))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			c.do(b)
			b.wantOnce(n)
		})
	}
}

// TestImport_LogsThatBeginAlike takes logs apart that have the same first lines.
func TestImport_LogsThatBeginAlike(t *testing.T) {
	b := newBench(t)
	head := logLines(0, 1)
	b.importOK(b.write("a.log", append(bytes.Clone(head), logLines(100, 110)...)))
	b.importOK(b.write("b.log", append(bytes.Clone(head), logLines(200, 210)...)))
	b.importOK(b.write("b.log", append(bytes.Clone(head), logLines(200, 220)...)))
	got := b.paths()
	if got["/n/0"] != 2 || got["/n/105"] != 1 || got["/n/205"] != 1 || got["/n/219"] != 1 || len(got) != 31 {
		t.Errorf("events: %v", got)
	}
}

// crashSink forwards to a sink and fails for ever after some chunks, as a killed process does.
type crashSink struct {
	forward.Sink
	left int
}

var errCrash = errors.New("crash")

func (c *crashSink) Put(ctx context.Context, ch forward.Chunk) error {
	if c.left == 0 {
		return errCrash
	}
	c.left--
	return c.Sink.Put(ctx, ch)
}

// TestImport_CompletesAfterCrash kills imports after random chunks, with the file growing in between, and the ledger behind the
// forwarder because nothing was told to be durable before the crash.
func TestImport_CompletesAfterCrash(t *testing.T) {
	const n = 60000
	all := logLines(0, n)
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed_", seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 1))
			b := newBench(t)
			size := 0
			for size < len(all) {
				size = min(len(all), size+r.IntN(len(all)/2))
				end := size
				if end < len(all) && r.IntN(2) == 0 {
					end = bytes.LastIndexByte(all[:end], '\n') + 1 // else in a line
				}
				name := "access.log"
				content := all[:end]
				if r.IntN(3) == 0 {
					name, content = "access.log.1.gz", gz(content)
				}
				f := b.write(name, content)
				b.sink.Auto = r.IntN(2) == 0
				_, err := b.run(Options{Paths: []string{f}}, &crashSink{b.sink, r.IntN(6)})
				if err != nil && !errors.Is(err, errCrash) && !errors.Is(err, context.DeadlineExceeded) {
					t.Fatal(err)
				}
				b.sink.Sync()
			}
			b.sink.Auto = true
			b.importOK(b.write("access.log", all))
			s := b.importOK(b.write("access.log.gz", gz(all)))
			if s.Lines != 0 {
				t.Errorf("%d lines are new after all", s.Lines)
			}
			b.wantOnce(n)
		})
	}
}

func TestImport_RealLogInEveryCompression(t *testing.T) {
	packed, err := os.ReadFile(filepath.Join(testdata.Dir(t), "logs", "elastic_apache_10000_2015-05.log.zst"))
	if err != nil {
		t.Skip(err)
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
	b := newBench(t)
	plain := b.write("plain", raw)
	files := []string{b.write("a.zst", packed), b.write("b.gz", gz(raw)), plain}
	for _, tool := range []string{"bzip2", "xz"} {
		if out, err := exec.Command(tool, "-kc", plain).Output(); err == nil {
			files = append(files, b.write("c."+tool, out))
		}
	}
	for _, f := range files {
		s, err := b.run(Options{Paths: []string{f}, DryRun: true}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if s.Lines != 10000 || s.Events != 10000 || s.Bytes != 2747282740 || s.ByStatus["200"] != 9126 || s.ByDay["2015-05-18"] != 2893 {
			t.Errorf("%s: %d lines, %d events, %d bytes, %v %v", s.Files[0].Kind, s.Lines, s.Events, s.Bytes, s.ByStatus, s.ByDay)
		}
		t.Logf("%s: %.0f lines/s", s.Files[0].Kind, s.LinesPerS)
	}
	s := b.importOK(files...)
	if s.Events != 10000 {
		t.Errorf("%d events from %d files of one content", s.Events, len(files))
	}
	if chunks, _ := b.sink.Chunks(); len(chunks) != 3 {
		t.Errorf("%d chunks", len(chunks))
	}
}

func TestImport_BadLinesAreKeptAside(t *testing.T) {
	b := newBench(t)
	content := append(logLines(0, 50), "this is no log line\n\n# comment\n"...)
	content = append(content, bytes.Repeat([]byte("y"), 3<<20)...)
	content = append(content, '\n')
	content = append(content, logLines(50, 60)...)
	f := b.write("access.log", content)
	badFile := filepath.Join(b.dir, "bad")
	s, err := b.run(Options{Paths: []string{f}, BadFile: badFile, MaxBad: 2}, b.sink)
	if err != nil {
		t.Fatal(err)
	}
	b.wantOnce(60)
	if s.Bad < 3 || s.Events != 60 {
		t.Errorf("%d bad, %d events", s.Bad, s.Events)
	}
	text, err := os.ReadFile(badFile)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	if !strings.HasPrefix(lines[0], f+":51: ") || !strings.Contains(lines[0], "this is no log line") || len(text) > 10000 || !strings.HasPrefix(lines[2], "... and ") {
		t.Errorf("bad file: %.300s", text)
	}
	if s2 := b.importOK(f); s2.Lines != 0 {
		t.Errorf("again: %d new lines", s2.Lines)
	}
}

// TestImport_W3CColumnsAcrossChunks changes #Fields in the first of several chunks.
func TestImport_W3CColumnsAcrossChunks(t *testing.T) {
	b := newBench(t)
	var buf bytes.Buffer
	buf.WriteString("#Software: test\n#Fields: date time c-ip cs-method cs-uri-stem sc-status\n")
	const n = 60000
	for i := range n {
		if i == 10 {
			buf.WriteString("#Fields: sc-status cs-uri-stem cs-method c-ip time date\n")
		}
		if i < 10 {
			fmt.Fprintf(&buf, "2024-03-01 10:00:00 192.0.2.1 GET /n/%d 200\n", i)
		} else {
			fmt.Fprintf(&buf, "200 /n/%d GET 192.0.2.1 10:00:00 2024-03-01\n", i)
		}
	}
	half := bytes.LastIndexByte(buf.Bytes()[:buf.Len()/2], '\n') + 1
	s := b.importOK(b.write("u_ex.log", buf.Bytes()[:half]))
	s2 := b.importOK(b.write("u_ex.log", buf.Bytes()))
	if s.Bad+s2.Bad != 0 {
		t.Errorf("refused: %v %v", s.Reasons, s2.Reasons)
	}
	b.wantOnce(n)
}

func TestImport_SourcesAndFailures(t *testing.T) {
	b := newBench(t)
	b.write("logs/b/access.log", logLines(0, 10))
	b.write("logs/a.log", logLines(10, 20))
	b.write("logs/.hidden", logLines(20, 30))
	b.write("logs/empty", nil)
	b.write("logs/picture.png", []byte("\x89PNG\r\n\x1a\n\x00\x00"))
	b.write("logs/broken.gz", gz(logLines(30, 2000))[:4000])
	s := b.importOK(filepath.Join(b.dir, "logs"), filepath.Join(b.dir, "logs", "*.log"))
	var names []string
	var failed int
	for _, f := range s.Files {
		names = append(names, strings.TrimPrefix(f.Name, b.dir))
		if f.Error != "" {
			failed++
		}
	}
	if diff := cmp.Diff([]string{"/logs/a.log", "/logs/b/access.log", "/logs/broken.gz", "/logs/empty", "/logs/picture.png"}, names); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if failed != 2 {
		t.Errorf("%d files failed, want the picture and the broken one: %+v", failed, s.Files)
	}
	if s.Events < 100 { // what the broken file has is taken
		t.Errorf("%d events", s.Events)
	}
	b.importOK(b.write("logs/broken.gz", gz(logLines(30, 2000)))) // whole now: only the rest is new
	b.wantOnce(1990)
	if _, err := b.run(Options{Paths: []string{filepath.Join(b.dir, "nothing")}}, b.sink); err == nil {
		t.Error("a file that is not there is no error")
	}
}

func TestImport_StandardInput(t *testing.T) {
	b := newBench(t)
	all := logLines(0, 20000)
	cut := bytes.LastIndexByte(all[:len(all)/2], '\n') + 1
	for _, content := range [][]byte{all[:cut], gz(all), all} {
		ledger, err := OpenLedger(filepath.Join(b.dir, "imports"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Import(context.Background(), Options{Paths: []string{"-"}}, Deps{Sink: b.sink, Ledger: ledger, Stdin: bytes.NewReader(content)}); err != nil {
			t.Fatal(err)
		}
		ledger.Close()
	}
	b.wantOnce(20000)
}

func TestImport_ReportsGapsAndDefaults(t *testing.T) {
	b := newBench(t)
	content := append(logLines(0, 10), logLines(40000, 40010)...) // 11 hours later
	s, err := b.run(Options{Paths: []string{b.write("a.log", content)}, Defaults: Defaults{Host: "example.com", EdgeName: "import"}}, b.sink)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Gaps) != 1 || s.Gaps[0].To.Sub(s.Gaps[0].From) < 10*time.Hour {
		t.Errorf("gaps %v", s.Gaps)
	}
	chunks, _ := b.sink.Chunks()
	_, err = event.Walk(chunks[0].Events, func(v event.View) error {
		if string(v.ClientRequestHost()) != "example.com" || string(v.EdgeName()) != "import" {
			return errors.New("defaults are missing")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	var out bytes.Buffer
	s.Print(&out)
	if !strings.Contains(out.String(), "no data from") || !strings.Contains(out.String(), "20 requests") {
		t.Errorf("summary:\n%s", &out)
	}
}

func TestFileLedger_TornTailAndDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "imports")
	l, err := OpenLedger(path)
	if err != nil {
		t.Fatal(err)
	}
	e := Entry{Stream: Stream{1}, Family: Sum{2}, Position: 5, Marks: []Mark{{5, Sum{3}}}, Names: []string{"a"}}
	for i := range uint64(3) {
		e.Position = 5 + i
		e.Marks = append(e.Marks, Mark{6 + i, Sum{byte(i)}})
		if err := l.Save(context.Background(), e); err != nil {
			t.Fatal(err)
		}
	}
	l.Close()
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(whole) {
		if err := os.WriteFile(path, whole[:cut], 0o644); err != nil {
			t.Fatal(err)
		}
		l, err := OpenLedger(path)
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		got, _ := l.List(context.Background())
		if want := bytes.Count(whole[:cut], []byte("\n")); want > 0 && (len(got) != 1 || len(got[0].Marks) != want+1) {
			t.Fatalf("cut at %d: %+v", cut, got)
		}
		l.Close()
	}
	damaged := bytes.Clone(whole)
	damaged[20] ^= 1
	if err := os.WriteFile(path, damaged, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenLedger(path); err == nil {
		t.Error("damage inside was not noticed")
	}
}

func TestFileLedger_OneWriterManyReaders(t *testing.T) {
	path := filepath.Join(t.TempDir(), "imports")
	if got, err := ReadLedger(path); err != nil || len(got) != 0 {
		t.Errorf("no file: %v, %v", got, err)
	}
	l, err := OpenLedger(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Save(context.Background(), Entry{Stream: Stream{1}, Names: []string{"a"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenLedger(path); !errors.Is(err, ErrLocked) {
		t.Errorf("second writer: %v", err)
	}
	if got, err := ReadLedger(path); err != nil || len(got) != 1 || got[0].Names[0] != "a" {
		t.Errorf("reader: %v, %v", got, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if l, err = OpenLedger(path); err != nil {
		t.Fatalf("after the first is closed: %v", err)
	}
	l.Close()
}
