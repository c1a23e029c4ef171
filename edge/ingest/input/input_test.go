package input

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spate-io/spate/edge/forward/forwardtest"
	"github.com/spate-io/spate/event"
	"github.com/spate-io/spate/internal/config"
)

// fast makes followed files be looked at often.
const fast = config.Duration(2 * time.Millisecond)

// start runs inputs; stop ends them and checks that they end well.
func start(t *testing.T, sink *forwardtest.Sink, cfg ...Config) (in *Inputs, stop func()) {
	t.Helper()
	in, err := New(cfg, Deps{Sink: sink, EdgeName: "edge1"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- in.Run(ctx) }()
	wait(t, "inputs are ready", func() bool { return in.Ready() == nil })
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			select {
			case err := <-done:
				if err != nil {
					t.Errorf("inputs ended with %v", err)
				}
			case <-time.After(20 * time.Second):
				t.Error("inputs do not end")
			}
		})
	}
	t.Cleanup(stop)
	return in, stop
}

// wait waits until something is so.
func wait(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !is() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
		<-tick.C
	}
}

// paths gives how often each path is in the sink.
func paths(t *testing.T, sink *forwardtest.Sink) map[string]int {
	t.Helper()
	out := map[string]int{}
	chunks, _ := sink.Chunks()
	for _, c := range chunks {
		if _, err := event.Walk(c.Events, func(v event.View) error {
			out[string(v.ClientRequestPath())]++
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// wantOnce waits for n different paths and checks that each is there once.
func wantOnce(t *testing.T, sink *forwardtest.Sink, n int) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Log("missing:", missing(paths(t, sink), n))
		}
	}()
	wait(t, fmt.Sprintf("%d events are there", n), func() bool { return len(paths(t, sink)) >= n })
	got := paths(t, sink)
	if len(got) != n {
		t.Errorf("%d different events, want %d", len(got), n)
	}
	for p, k := range got {
		if k != 1 {
			t.Errorf("%s is there %d times", p, k)
		}
	}
}

// missing gives the spans of numbers that are not there.
func missing(got map[string]int, n int) (out []string) {
	for i := 0; i < n; i++ {
		from := i
		for i < n && got[fmt.Sprintf("/n/%d", i)] == 0 {
			i++
		}
		if i > from {
			out = append(out, fmt.Sprintf("%d-%d", from, i-1))
		}
	}
	return out
}

func line(i int) string {
	return fmt.Sprintf("192.0.2.1 - - [%s] \"GET /n/%d HTTP/1.1\" 200 17 \"-\" \"curl/8\"\n",
		time.Unix(1700000000+int64(i), 0).UTC().Format("02/Jan/2006:15:04:05 -0700"), i)
}

func linesOf(from, to int) string {
	var b strings.Builder
	for i := from; i < to; i++ {
		b.WriteString(line(i))
	}
	return b.String()
}

// appendTo writes to a file as a server does.
func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

func newSink() *forwardtest.Sink {
	s := forwardtest.New()
	s.Auto = true
	return s
}

func TestFollow_Rotations(t *testing.T) {
	for _, c := range []struct {
		name string
		n    int
		do   func(t *testing.T, path string, sink *forwardtest.Sink, restart func(while func()))
	}{
		{"grows", 20, func(t *testing.T, path string, sink *forwardtest.Sink, _ func(func())) {
			appendTo(t, path, linesOf(0, 10))
			wantOnce(t, sink, 10)
			appendTo(t, path, linesOf(10, 20))
		}},
		{"partial_last_line", 3, func(t *testing.T, path string, sink *forwardtest.Sink, _ func(func())) {
			l := line(1)
			appendTo(t, path, line(0)+l[:30])
			wantOnce(t, sink, 1)
			appendTo(t, path, l[30:]+line(2))
		}},
		{"partial_first_line", 2, func(t *testing.T, path string, sink *forwardtest.Sink, _ func(func())) {
			l := line(0)
			appendTo(t, path, l[:30])
			appendTo(t, path, l[30:]+line(1))
		}},
		{"rename", 30, func(t *testing.T, path string, sink *forwardtest.Sink, _ func(func())) {
			appendTo(t, path, linesOf(0, 10))
			wantOnce(t, sink, 10)
			must(t, os.Rename(path, path+".1"))
			appendTo(t, path+".1", linesOf(10, 20)) // the server has it open still
			appendTo(t, path, linesOf(20, 30))
		}},
		{"rename_between_two_looks", 40, func(t *testing.T, path string, sink *forwardtest.Sink, _ func(func())) {
			appendTo(t, path, linesOf(0, 10))
			wantOnce(t, sink, 10)
			for k := range 3 { // several rotations, faster than anyone looks
				must(t, os.Rename(path, fmt.Sprintf("%s.%d", path, 9-k)))
				appendTo(t, path, linesOf(10+10*k, 20+10*k))
			}
		}},
		{"copytruncate", 30, func(t *testing.T, path string, sink *forwardtest.Sink, _ func(func())) {
			appendTo(t, path, linesOf(0, 10))
			wantOnce(t, sink, 10)
			content, err := os.ReadFile(path)
			must(t, err)
			must(t, os.WriteFile(path+".1", append(content, linesOf(10, 20)...), 0o644)) // lines that only the copy has
			must(t, os.Truncate(path, 0))
			appendTo(t, path, linesOf(20, 30))
		}},
		{"replaced", 20, func(t *testing.T, path string, sink *forwardtest.Sink, _ func(func())) {
			appendTo(t, path, linesOf(0, 10))
			wantOnce(t, sink, 10)
			must(t, os.WriteFile(path+".new", []byte(linesOf(10, 20)), 0o644))
			must(t, os.Rename(path+".new", path))
		}},
		{"rewritten_in_place_with_the_same_size", 20, func(t *testing.T, path string, sink *forwardtest.Sink, _ func(func())) {
			appendTo(t, path, linesOf(10, 20))
			wantOnce(t, sink, 10)
			must(t, os.WriteFile(path, []byte(linesOf(20, 30)), 0o644))
		}},
		{"missing_then_there", 10, func(t *testing.T, path string, sink *forwardtest.Sink, _ func(func())) {
			appendTo(t, path, linesOf(0, 5))
			wantOnce(t, sink, 5)
			must(t, os.Remove(path))
			appendTo(t, path, linesOf(5, 10))
		}},
		{"restart", 20, func(t *testing.T, path string, sink *forwardtest.Sink, restart func(func())) {
			appendTo(t, path, linesOf(0, 10))
			wantOnce(t, sink, 10)
			restart(func() { appendTo(t, path, linesOf(10, 20)) })
		}},
		{"several_rotations_while_away", 60, func(t *testing.T, path string, sink *forwardtest.Sink, restart func(func())) {
			appendTo(t, path, linesOf(0, 10))
			wantOnce(t, sink, 10)
			restart(func() {
				appendTo(t, path, linesOf(10, 20))
				for k := range 4 {
					must(t, os.Rename(path, fmt.Sprintf("%s.%d", path, 4-k)))
					if k == 1 { // one of them is packed already
						packed(t, fmt.Sprintf("%s.%d", path, 4-k))
					}
					mtime(t, path, 4-k)
					appendTo(t, path, linesOf(20+10*k, 30+10*k))
				}
			})
		}},
		{"old_rotated_files_are_not_read", 10, func(t *testing.T, path string, sink *forwardtest.Sink, restart func(func())) {
			restart(func() {
				appendTo(t, path+".1", linesOf(100, 110))
				appendTo(t, path, linesOf(0, 10))
			})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "access.log")
			sink := newSink()
			_, stop := start(t, sink, Config{Path: path, Poll: fast})
			c.do(t, path, sink, func(while func()) {
				stop()
				while()
				_, stop = start(t, sink, Config{Path: path, Poll: fast})
			})
			wantOnce(t, sink, c.n)
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// packed replaces a file by its gzipped form.
func packed(t *testing.T, path string) {
	t.Helper()
	content, err := os.ReadFile(path)
	must(t, err)
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	_, _ = z.Write(content)
	must(t, z.Close())
	must(t, os.WriteFile(path+".gz", buf.Bytes(), 0o644))
	must(t, os.Remove(path))
}

// mtime makes rotated file k older than those with smaller numbers.
func mtime(t *testing.T, path string, k int) {
	t.Helper()
	for _, p := range []string{fmt.Sprintf("%s.%d", path, k), fmt.Sprintf("%s.%d.gz", path, k)} {
		if _, err := os.Stat(p); err == nil {
			at := time.Now().Add(-time.Duration(k) * time.Minute)
			must(t, os.Chtimes(p, at, at))
		}
	}
}

// TestFollow_ServerThatRotates writes from one goroutine that keeps its file open and rotates at random, as a server with
// logrotate does, while the follower is restarted now and then.
func TestFollow_ServerThatRotates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	sink := newSink()
	const n = 5000
	_, stop := start(t, sink, Config{Path: path, Poll: fast})
	appendTo(t, path, line(0))
	wantOnce(t, sink, 1) // it is known; what is rotated before anyone looked at it would not be
	written := make(chan int, 1)
	errs := make(chan error, 1)
	go func() { errs <- writeAndRotate(path, n, written) }()
	for i := range written {
		if i%1000 == 0 {
			stop()
			_, stop = start(t, sink, Config{Path: path, Poll: fast})
		}
	}
	must(t, <-errs)
	wantOnce(t, sink, n)
}

// TestFollow_RotatedTwiceBetweenPolls has a log come and go between two looks, with and without a look at the gap before it.
func TestFollow_RotatedTwiceBetweenPolls(t *testing.T) {
	for _, look := range []bool{false, true} {
		t.Run(fmt.Sprintf("look_%v", look), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "access.log")
			sink := newSink()
			in, err := New([]Config{{Path: path}}, Deps{Sink: sink, EdgeName: "edge1"})
			must(t, err)
			f := in.runners[0].(*follower)
			defer f.closeAll()
			poll := func() { must(t, f.poll(t.Context())) }
			rotate := func(n int) { must(t, os.Rename(path, fmt.Sprintf("%s.%d", path, n))) }

			appendTo(t, path, linesOf(0, 10))
			poll()
			appendTo(t, path, linesOf(10, 20))
			rotate(1)
			if look {
				poll()
			}
			for i := range 3 {
				appendTo(t, path, linesOf(20+10*i, 30+10*i))
				rotate(2 + i)
			}
			appendTo(t, path, linesOf(50, 60))
			poll()
			poll()
			wantOnce(t, sink, 60)
		})
	}
}

func writeAndRotate(path string, n int, written chan<- int) error {
	defer close(written)
	r := rand.New(rand.NewPCG(1, 2))
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	rotated := 0
	for i := 1; i < n; i++ {
		l := line(i)
		cut := r.IntN(len(l)) // a line comes in two writes
		for _, part := range []string{l[:cut], l[cut:]} {
			if _, err := f.WriteString(part); err != nil {
				return err
			}
		}
		if i%100 == 99 {
			written <- i + 1
		}
		if r.IntN(200) == 0 {
			rotated++
			if err := os.Rename(path, fmt.Sprintf("%s.%04d", path, rotated)); err != nil {
				return err
			}
			f.Close()
			if f, err = os.Create(path); err != nil {
				return err
			}
		}
	}
	return f.Close()
}

func TestFollow_PatternAndFromEnd(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.log"), filepath.Join(dir, "b.log")
	appendTo(t, a, linesOf(0, 10))
	sink := newSink()
	start(t, sink, Config{Path: filepath.Join(dir, "*.log"), Poll: fast, From: "end", Host: "example.com"})
	appendTo(t, a, linesOf(10, 12))
	wantOnce(t, sink, 2)
	appendTo(t, b, linesOf(20, 22))
	wait(t, "the new file is found", func() bool { return len(paths(t, sink)) >= 2 })
	appendTo(t, b, linesOf(22, 23))
	wait(t, "the new file is read", func() bool { return paths(t, sink)["/n/22"] == 1 })
}

func TestSyslog_Transports(t *testing.T) {
	dir := t.TempDir()
	nginx := func(i int) string {
		return "<190>Nov 21 10:00:00 web1 nginx: " + strings.TrimSuffix(line(i), "\n")
	}
	for _, c := range []struct{ name, listen, framing string }{
		{"udp", "udp://127.0.0.1:0", ""},
		{"unix", "unix://" + filepath.Join(dir, "log"), ""},
		{"tcp_lines", "tcp://127.0.0.1:0", "lines"},
		{"tcp_counted", "tcp://127.0.0.1:0", "counted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			sink := newSink()
			in, stop := start(t, sink, Config{Type: TypeSyslog, Listen: c.listen, Flush: fast})
			network, _, _ := splitListen(c.listen)
			conn, err := net.Dial(network, in.Addr(0))
			must(t, err)
			defer conn.Close()
			for i := range 200 {
				msg := nginx(i)
				switch c.framing {
				case "lines":
					msg += "\n"
				case "counted":
					msg = fmt.Sprintf("%d %s", len(msg), msg)
				}
				_, err := io.WriteString(conn, msg)
				must(t, err)
			}
			wantOnce(t, sink, 200)
			stop()
		})
	}
}

func TestMessageText(t *testing.T) {
	const l = `192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] "GET /a: b HTTP/1.0" 200 1 "-" "-"`
	f := func(in, want string) {
		t.Helper()
		if got := string(messageText([]byte(in))); got != want {
			t.Errorf("%q gives %q, want %q", in, got, want)
		}
	}
	f(l+"\n", l)
	f("<190>Oct 11 22:14:15 web1 nginx: "+l, l)
	f("<190>Oct 11 22:14:15 nginx: "+l, l)
	f("<190>Oct  1 22:14:15 web1 haproxy[123]: "+l, l)
	f("<190>Oct 11 22:14:15 "+l, l)
	f("<190>2003-10-11T22:14:15.003Z web1 nginx: "+l, l)
	f("<165>1 2003-10-11T22:14:15.003Z web1 nginx 123 ID47 - "+l, l)
	f(`<165>1 2003-10-11T22:14:15.003Z web1 nginx - - [a@1 k="v\]\" ]"][b@2 x="y"] `+l, l)
	f("<165>1 - - - - - - \xEF\xBB\xBF"+l, l)
	f("<165>1 broken", "1 broken")
	f("<1", "<1")
	f("", "")
}

func FuzzMessageText(f *testing.F) {
	f.Add([]byte("<190>Oct 11 22:14:15 web1 nginx: x"))
	f.Add([]byte(`<165>1 2003-10-11T22:14:15.003Z web1 nginx - - [a@1 k="v\]\" ]"] x`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if got := messageText(b); len(got) > 0 && !bytes.Contains(b, got) {
			t.Fatalf("%q gives %q", b, got)
		}
	})
}

func TestPush_LinesAndTokens(t *testing.T) {
	sink := newSink()
	in, _ := start(t, sink, Config{Type: TypeHTTP, Listen: "127.0.0.1:0", Token: "secret"})
	post := func(token, key string, body []byte) (int, pushAnswer) {
		t.Helper()
		req, err := http.NewRequest(http.MethodPost, "http://"+in.Addr(0)+"/", bytes.NewReader(body))
		must(t, err)
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		if key != "" {
			req.Header.Set("Idempotency-Key", key)
		}
		res, err := http.DefaultTransport.RoundTrip(req)
		must(t, err)
		defer res.Body.Close()
		var a pushAnswer
		must(t, json.NewDecoder(res.Body).Decode(&a))
		return res.StatusCode, a
	}
	if status, _ := post("", "", []byte(line(0))); status != http.StatusUnauthorized {
		t.Errorf("without token: %d", status)
	}
	if status, _ := post("wrong", "", []byte(line(0))); status != http.StatusUnauthorized {
		t.Errorf("with a wrong token: %d", status)
	}
	status, a := post("secret", "", []byte(linesOf(0, 5000)+"garbage\n"))
	if status != http.StatusOK || a.Lines != 5001 || a.Events != 5000 || a.Bad != 1 || a.Format != "combined" {
		t.Errorf("lines: %d %+v", status, a)
	}
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	_, _ = io.WriteString(z, linesOf(5000, 5010))
	must(t, z.Close())
	for range 3 { // sent again, with a key
		if status, a := post("secret", "k1", buf.Bytes()); status != http.StatusOK || a.Events != 10 {
			t.Errorf("gzip: %d %+v", status, a)
		}
	}
	if status, a := post("secret", "", []byte(`{"content":"tests"}`)); status != http.StatusOK || a.Bad != 1 {
		t.Errorf("test of a log push: %d %+v", status, a)
	}
	wantOnce(t, sink, 5010)
}

func TestNew_RefusesWhatCannotWork(t *testing.T) {
	for _, c := range []Config{
		{Type: "file"}, {Type: "nonsense"}, {Type: TypeSyslog, Listen: "127.0.0.1:1"}, {Type: TypeSyslog, Listen: "ftp://x:1"},
		{Type: TypeHTTP, Listen: "0.0.0.0:8080"}, {Type: TypeHTTP, Listen: "x"}, {Path: "/x", Format: "$nothing"}, {Path: "/x", From: "middle"},
	} {
		if _, err := New([]Config{c}, Deps{Sink: newSink()}); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}
}

func TestClaims_NamesFollowedLogsAndTheirRotatedCopies(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.access.log", "a.access.log.1", "b.access.log", "b.access.log.2.gz", "error.log"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(dir, "a.access.log"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	claimed := Claims([]Config{{Path: filepath.Join(dir, "*.access.log")}, {Type: TypeSyslog, Listen: "udp://127.0.0.1:1"}})
	for name, want := range map[string]string{
		"a.access.log": "follows it", "link": "follows it", "a.access.log.1": "rotated from", "b.access.log.2.gz": "rotated from", "error.log": "", "none": "",
	} {
		if got := claimed(filepath.Join(dir, name)); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
