package accesslog

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spate-io/spate/event"
)

var update = flag.Bool("update", false, "write what the parsers give into testdata; read the difference before committing it")

// dump writes the fields of an event that are not zero, one a line, in the order of the schema.
func dump(e *event.HTTP) []string {
	var out []string
	v := reflect.ValueOf(*e)
	for i := range v.NumField() {
		f, name := v.Field(i), v.Type().Field(i).Name
		if f.IsZero() || f.Kind() == reflect.Slice && f.Len() == 0 {
			continue
		}
		var s string
		switch x := f.Interface().(type) {
		case []byte:
			if s = string(x); strconv.Quote(s) != `"`+s+`"` {
				s = strconv.Quote(s)
			}
		case int64:
			s = time.Unix(0, x).UTC().Format(time.RFC3339Nano)
		case netip.Addr:
			s = x.String()
		default:
			s = fmt.Sprint(x)
		}
		out = append(out, "  "+name+" "+s)
	}
	return out
}

// outcome is dump, or the reason.
func outcome(p Parser, line []byte) []string {
	var e event.HTTP
	switch err := p.Parse(line, &e); {
	case errors.Is(err, ErrNoRequest):
		return []string{"  (no request)"}
	case err != nil:
		if !reflect.DeepEqual(e, event.HTTP{}) {
			return []string{"  an error, but the event is not empty"}
		}
		return []string{"  ! " + err.Error()}
	}
	return dump(&e)
}

// TestFormats_Golden runs the corpora in testdata. A file has "format NAME" or "format STRING" lines, "> LINE" for input, and
// below each input, indented, the fields of the event or "! reason". Everything else is commentary.
func TestFormats_Golden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no corpora: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			var p Parser
			for _, line := range strings.Split(strings.TrimSuffix(string(want), "\n"), "\n") {
				switch {
				case strings.HasPrefix(line, "  "):
					continue
				case strings.HasPrefix(line, "format "):
					f, err := Resolve(strings.TrimPrefix(line, "format "))
					if err != nil {
						t.Fatal(err)
					}
					p = f.New(Options{})
				}
				got = append(got, line)
				if in, ok := strings.CutPrefix(line, "> "); ok {
					got = append(got, outcome(p, []byte(in))...)
				}
			}
			text := strings.Join(got, "\n") + "\n"
			if *update {
				if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(want), text); diff != "" {
				t.Errorf("outcome changed (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFormats_CompileAll proves that the table of built-in strings has no mistake.
func TestFormats_CompileAll(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range Formats() {
		if seen[f.Name] || f.Name == "" || f.Doc == "" {
			t.Errorf("format %q: name is there twice, or something is missing", f.Name)
		}
		seen[f.Name] = true
		if p, ok := f.New(Options{}).(*textParser); ok && (len(p.program.steps) < 7) {
			t.Errorf("format %q did not compile: %s", f.Name, p.program.prefix)
		}
	}
}

// TestParsers_DoNotAllocate holds for every format with the lines of its corpus that parse.
func TestParsers_DoNotAllocate(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.txt")
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var p Parser
			var e event.HTTP
			for _, line := range bytes.Split(text, []byte("\n")) {
				if s, ok := bytes.CutPrefix(line, []byte("format ")); ok {
					f, err := Resolve(string(s))
					if err != nil {
						t.Fatal(err)
					}
					p = f.New(Options{})
				}
				in, ok := bytes.CutPrefix(line, []byte("> "))
				if !ok || p.Parse(in, &e) != nil {
					continue
				}
				if n := testing.AllocsPerRun(20, func() { _ = p.Parse(in, &e) }); n > 0 {
					t.Errorf("%.0f allocations for %q", n, in)
				}
			}
		})
	}
}

// TestFormats_AreDocumented keeps the page of formats complete.
func TestFormats_AreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/formats.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range Formats() {
		if !bytes.Contains(page, []byte("`"+f.Name+"`")) {
			t.Errorf("format %s is not in docs/reference/formats.md", f.Name)
		}
	}
	for name, f := range nginxFields {
		if f != fIgnore && !bytes.Contains(page, []byte(name)) && !strings.Contains("the_real_ip http_cf_connecting_ip proxy_add_x_forwarded_for document_uri req_id", name) {
			t.Errorf("variable %s is not in docs/reference/formats.md", name)
		}
	}
}
