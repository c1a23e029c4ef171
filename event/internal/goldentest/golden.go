// Package goldentest compares bytes with golden files: the bytes in testdata/<name>.raw, and beside them a dump in
// testdata/<name>.hex for people and for reviews. With the flag -update it writes both.
package goldentest

import (
	"bytes"
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write golden files instead of comparing with them")

// Check fails t when got differs from the golden file of that name.
func Check(t *testing.T, name string, got []byte) {
	t.Helper()
	if *update {
		Write(t, name, got)
	}
	want := Read(t, name)
	if !bytes.Equal(got, want) {
		t.Fatalf("golden file %s differs; got\n%s", name, hex.Dump(got))
	}
}

// Updating reports whether golden files are being written, for tests that decide what is golden themselves.
func Updating() bool { return *update }

// Read returns the bytes of the golden file of that name, after comparing them with its dump.
func Read(t *testing.T, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name+".raw"))
	if err != nil {
		t.Fatal(err)
	}
	dump, err := os.ReadFile(filepath.Join("testdata", name+".hex"))
	if err != nil {
		t.Fatal(err)
	}
	if hex.Dump(raw) != string(dump) {
		t.Fatalf("golden file %s: the dump does not show the bytes", name)
	}
	return raw
}

// Write makes the golden file of that name.
func Write(t *testing.T, name string, b []byte) {
	t.Helper()
	if err := os.MkdirAll("testdata", 0o755); err != nil {
		t.Fatal(err)
	}
	for suffix, data := range map[string][]byte{".raw": b, ".hex": []byte(hex.Dump(b))} {
		if err := os.WriteFile(filepath.Join("testdata", name+suffix), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
