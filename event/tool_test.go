package event

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tool runs the capnp tool with the given standard input.
func tool(t *testing.T, in []byte, args ...string) []byte {
	t.Helper()
	c := exec.Command("capnp", args...)
	c.Stdin = bytes.NewReader(in)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("capnp %v: %v: %s", args, err, stderr.Bytes())
	}
	return out
}

// quoteData returns b as the capnp tool prints Data.
func quoteData(b []byte) string {
	s := `"`
	for _, c := range b {
		i := strings.IndexByte("\a\b\f\n\r\t\v\"\\", c)
		switch {
		case i >= 0:
			s += `\` + `abfnrtv"\`[i:i+1]
		case c < ' ' || c > '~':
			s += fmt.Sprintf(`\%03o`, c)
		default:
			s += string(rune(c))
		}
	}
	return s + `"`
}

// inText returns e in the text form of the capnp tool.
func inText(e *HTTP) string {
	v, _, _ := ReadHTTP(e.Append(nil))
	var parts []string
	for _, f := range HTTPFields() {
		var s string
		switch f.Kind {
		case KindTime:
			s = fmt.Sprint(int64(v.uint64(f.Offset)))
		case KindUint64:
			s = fmt.Sprint(v.uint64(f.Offset))
		case KindUint32:
			s = fmt.Sprint(v.uint32(f.Offset))
		case KindUint16:
			s = fmt.Sprint(v.uint16(f.Offset))
		case KindFloat32:
			s = fmt.Sprint(v.float32(f.Offset))
		case KindBool:
			s = fmt.Sprint(v.bool(f.Offset, f.Bit))
		case KindIP:
			s = quoteData(v.bytes(f.Offset))
		case KindText:
			s = fmt.Sprintf("%q", v.text(f.Offset))
		}
		if f.Kind.Pointer() && len(v.bytes(f.Offset)) == 0 {
			continue
		}
		parts = append(parts, schemaName(f)+" = "+s)
	}
	return "(" + strings.Join(parts, ", ") + ")"
}

func TestTool_DecodesWhatAppendWrites(t *testing.T) {
	needTool(t)
	for name, e := range map[string]*HTTP{"empty": {}, "all_fields": sample(), "typical": typical()} {
		t.Run(name, func(t *testing.T) {
			got := tool(t, e.Append(nil), "decode", "--short", "http.capnp", "HttpRequest")
			if d := cmp.Diff(inText(e)+"\n", string(got)); d != "" {
				t.Fatal(d)
			}
		})
	}
	t.Run("concatenated", func(t *testing.T) {
		got := tool(t, typical().Append(sample().Append(nil)), "decode", "--short", "http.capnp", "HttpRequest")
		if d := cmp.Diff(inText(sample())+"\n"+inText(typical())+"\n", string(got)); d != "" {
			t.Fatal(d)
		}
	})
}

// otherSchema writes the schema with lines taken away or added, as an older or newer version has it, and returns its path.
func otherSchema(t *testing.T, change func(lines []string) []string) string {
	t.Helper()
	b, err := os.ReadFile("http.capnp")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "other.capnp")
	lines := change(strings.Split(strings.TrimRight(string(b), "\n"), "\n"))
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReadHTTP_ReadsWhatTheToolEncodes(t *testing.T) {
	needTool(t)
	newer := otherSchema(t, func(lines []string) []string {
		return append(lines[:len(lines)-1], "later @47 :UInt64 = 7;", "note @48 :Text;", "}")
	})
	for _, c := range []struct {
		name string
		want *HTTP
		args []string
	}{
		{"empty", &HTTP{}, []string{"http.capnp"}},
		{"typical", typical(), []string{"http.capnp"}},
		{"many_segments", sample(), []string{"--segment-size=1", "http.capnp"}},
		{"some_segments", sample(), []string{"--segment-size=60", "http.capnp"}},
		{"newer_schema", sample(), []string{newer}},
		{"newer_schema_many_segments", sample(), []string{"--segment-size=1", newer}},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := inText(c.want)
			if strings.HasPrefix(c.name, "newer") {
				text = strings.Replace(text, "(", `(later = 9, note = "from a newer edge", `, 1)
			}
			b := tool(t, []byte(text), append([]string{"encode"}, append(c.args, "HttpRequest")...)...)
			v, n, err := ReadHTTP(b)
			if err != nil || n != len(b) {
				t.Fatalf("read %d of %d bytes: %v", n, len(b), err)
			}
			var got HTTP
			v.Decode(&got)
			if d := cmp.Diff(c.want, &got, equal); d != "" {
				t.Fatal(d)
			}
			for n := range b {
				if _, _, err := ReadHTTP(b[:n:n]); err == nil {
					t.Fatalf("prefix of %d bytes accepted", n)
				}
			}
		})
	}
}

func TestReadHTTP_ReadsAnOlderSchema(t *testing.T) {
	needTool(t)
	e := sample()
	drop := regexp.MustCompile(`@(1[4-9]|2[01]|3[4-9]|4[0-6]) `) // ports and what follows, content type and what follows
	path := otherSchema(t, func(lines []string) []string {
		var kept []string
		for _, l := range lines {
			if !drop.MatchString(l) {
				kept = append(kept, l)
			}
		}
		text := strings.Join(kept, "\n") // ordinals must have no holes
		for i := 22; i <= 33; i++ {
			text = strings.Replace(text, fmt.Sprintf("@%d ", i), fmt.Sprintf("@%d ", i-8), 1)
		}
		return strings.Split(text, "\n")
	})
	want := HTTP{}
	var parts []string
	for _, p := range strings.Split(strings.Trim(inText(e), "()"), ", ") {
		name, _, _ := strings.Cut(p, " = ")
		for _, f := range HTTPFields() {
			if schemaName(f) == name && !drop.MatchString(fmt.Sprintf("@%d ", f.Ordinal)) {
				parts = append(parts, p)
			}
		}
	}
	want = *e
	want.ClientSrcPort, want.EdgeServerPort, want.EdgeResponseStatus, want.OriginResponseStatus, want.OriginTries = 0, 0, 0, 0, 0
	want.ClientSSLSessionReused, want.EdgeResponseCompleted, want.ClientRequestPipelined = false, false, false
	want.EdgeResponseContentType, want.ClientSSLProtocol, want.ClientSSLCipher, want.ClientSSLServerName = nil, nil, nil, nil
	want.ClientMTLSAuthStatus, want.OriginAddress, want.CacheCacheStatus, want.RayID, want.EdgeServerName = nil, nil, nil, nil, nil
	want.EdgeName, want.EdgeColoCode, want.EdgeLimitReqStatus, want.Threat = nil, nil, nil, nil

	b := tool(t, []byte("("+strings.Join(parts, ", ")+")"), "encode", path, "HttpRequest")
	v, n, err := ReadHTTP(b)
	if err != nil || n != len(b) {
		t.Fatalf("read %d of %d bytes: %v", n, len(b), err)
	}
	var got HTTP
	v.Decode(&got)
	if d := cmp.Diff(want, got, equal); d != "" {
		t.Fatal(d)
	}
}
