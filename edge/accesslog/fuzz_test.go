package accesslog

import (
	"bytes"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/spate-io/spate/event"
)

// corpusLines gives all lines of the corpora.
func corpusLines(f *testing.F) []string {
	f.Helper()
	var out []string
	files, _ := filepath.Glob("testdata/*.txt")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, line := range strings.Split(string(text), "\n") {
			if in, ok := strings.CutPrefix(line, "> "); ok {
				out = append(out, in)
			}
		}
	}
	return out
}

// FuzzFormats gives any bytes to every format. A line gives an event or an error with an empty event, never a panic; the same
// line gives the same event whatever came before it; what an event holds can be encoded; and the line is not written to.
func FuzzFormats(f *testing.F) {
	for _, line := range corpusLines(f) {
		f.Add([]byte(line))
	}
	formats := Formats()
	used := make([]Parser, len(formats))
	for i, format := range formats {
		used[i] = format.New(Options{})
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		before := bytes.Clone(line)
		for i, format := range formats {
			var a, b event.HTTP
			errA := used[i].Parse(line, &a)
			if !bytes.Equal(before, line) {
				t.Fatalf("%s wrote to the line", format.Name)
			}
			if errA != nil && !reflect.DeepEqual(a, event.HTTP{}) {
				t.Fatalf("%s: %v, but the event is not empty", format.Name, errA)
			}
			if errA == nil {
				checkEvent(t, format.Name, &a, len(line))
			}
			if format.HasDirectives() {
				continue
			}
			errB := format.New(Options{}).Parse(line, &b)
			if (errA == nil) != (errB == nil) || errA == nil && !reflect.DeepEqual(dump(&a), dump(&b)) {
				t.Fatalf("%s: depends on the lines before: %v, %v", format.Name, errA, errB)
			}
		}
	})
}

// checkEvent holds for every event that a parser gives.
func checkEvent(t *testing.T, name string, e *event.HTTP, size int) {
	t.Helper()
	if e.EdgeEndTimestamp != 0 && e.EdgeEndTimestamp < e.EdgeStartTimestamp {
		t.Fatalf("%s: ends before it starts", name)
	}
	if e.EdgeResponseStatus > 999 {
		t.Fatalf("%s: status %d", name, e.EdgeResponseStatus)
	}
	if n := len(e.ClientRequestPath) + len(e.ClientRequestUserAgent) + len(e.ClientRequestReferer); n > size+64 {
		t.Fatalf("%s: %d bytes of text from a line of %d", name, n, size)
	}
	msg := e.Append(nil)
	v, n, err := event.ReadHTTP(msg)
	if err != nil || n != len(msg) || v.EdgeResponseStatus() != e.EdgeResponseStatus {
		t.Fatalf("%s: event does not survive encoding: %v", name, err)
	}
}

// FuzzCompile gives any string as a format, and lines to what comes out.
func FuzzCompile(f *testing.F) {
	for _, s := range []string{ncsa, ingressNginx, envoyDefault, `log_format a '$host' "$uri";`, `LogFormat "%h %t \"%r\" %>s" x`, `{"a":"$time_local","b":$status}`} {
		f.Add(s, `192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 2326`)
	}
	f.Fuzz(func(t *testing.T, format, line string) {
		c, err := Compile(format)
		if err != nil {
			return
		}
		var e event.HTTP
		if c.New(Options{}).Parse([]byte(line), &e) == nil {
			checkEvent(t, c.Source, &e, len(line))
		}
	})
}

// FuzzIP compares with net/netip. Leading zeros in IPv4, which netip refuses, are refused here as well.
func FuzzIP(f *testing.F) {
	for _, s := range []string{"192.0.2.1", "::", "2001:db8::1", "::ffff:1.2.3.4", "1:2:3:4:5:6:7:8", "1::2::3", "01.2.3.4", "fe80::1%eth0", ":::", "1:2:3:4:5:6:7::"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if strings.ContainsAny(s, "[]%") {
			return
		}
		got, ok := parseIP([]byte(s))
		want, err := netip.ParseAddr(s)
		if ok != (err == nil) || ok && got != want.Unmap() {
			t.Fatalf("%q: %v %v, want %v %v", s, got, ok, want, err)
		}
	})
}
