package httpcapnp

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestGenerated_UpToDate(t *testing.T) {
	if _, err := exec.LookPath("capnp"); err != nil {
		t.Skip("capnp tool not installed")
	}
	dir := t.TempDir()
	if out, err := exec.Command("go", "run", "./internal/gen", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	const name = "http.capnp.go"
	want, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Fatalf("run go generate ./event/httpcapnp:\n%s", d)
	}
}
