package event

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// needTool skips the test when the capnp tool is not installed.
func needTool(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("capnp"); err != nil {
		t.Skip("capnp tool not installed")
	}
}

// schemaName returns the name that a field has in http.capnp.
func schemaName(f Field) string { return strings.ToLower(f.Name[:1]) + f.Name[1:] }

func TestFields_AsTheToolLaysThemOut(t *testing.T) {
	needTool(t)
	out, err := exec.Command("capnp", "compile", "-ocapnp", "http.capnp").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	sizes := fmt.Sprintf("# %d bytes, %d ptrs", HTTPDataSize, HTTPPointers)
	if !strings.Contains(string(out), sizes) {
		t.Errorf("struct is not %q", sizes)
	}
	lines := regexp.MustCompile(`(?m)^  \w+ @\d+ :.*$`).FindAllString(string(out), -1)
	fields := HTTPFields()
	if len(lines) != len(fields) {
		t.Fatalf("schema has %d fields, table has %d", len(lines), len(fields))
	}
	for i, f := range fields {
		place := fmt.Sprintf("ptr[%d]", f.Offset)
		if !f.Kind.Pointer() {
			from, size := f.Offset*8+f.Bit, max(f.Kind.Size()*8, 1)
			place = fmt.Sprintf("bits[%d, %d)", from, from+size)
		}
		want := fmt.Sprintf("  %s @%d :%s;  # %s", schemaName(f), f.Ordinal, f.Kind, place)
		if lines[i] != want {
			t.Errorf("schema has %q, table has %q", lines[i], want)
		}
	}
}

func TestFields_DocsAsInSchema(t *testing.T) {
	schema, err := os.ReadFile("http.capnp")
	if err != nil {
		t.Fatal(err)
	}
	docs := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^  (\w+) @\d+ :\w+;[ ]*(?:# (.*))?$`).FindAllStringSubmatch(string(schema), -1) {
		docs[m[1]] = m[2]
	}
	for _, f := range HTTPFields() {
		if got, ok := docs[schemaName(f)]; !ok || got != f.Doc {
			t.Errorf("%s: schema says %q, table says %q", f.Name, got, f.Doc)
		}
		if strings.HasSuffix(f.Name, "Us") != (f.Unit == "us") {
			t.Errorf("%s has the unit %q", f.Name, f.Unit)
		}
	}
}
