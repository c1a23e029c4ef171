package layout

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCode_UpToDate(t *testing.T) {
	got, err := os.ReadFile("../../http_gen.go")
	if err != nil {
		t.Fatal(err)
	}
	want, err := Code()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Fatalf("run go generate ./event:\n%s", d)
	}
}

func TestDocument_UpToDate(t *testing.T) {
	got, err := os.ReadFile("../../../docs/format/http_event.md")
	if err != nil {
		t.Fatal(err)
	}
	want, err := Document(got)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Fatalf("run go generate ./event:\n%s", d)
	}
}

func TestDocument_NeedsMarkers(t *testing.T) {
	if _, err := Document([]byte("a page\n")); err == nil {
		t.Fatal("a page without markers was accepted")
	}
}
