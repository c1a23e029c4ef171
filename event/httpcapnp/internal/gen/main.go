// Command gen writes event/httpcapnp/http.capnp.go. It runs in the folder event/httpcapnp, by go generate, and writes
// to the folder that its first argument names, or to that one.
package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

const (
	library     = "capnproto.org/go/capnp/v3"
	annotations = `
using Go = import "/go.capnp";
$Go.package("httpcapnp");
$Go.import("github.com/spate-io/spate/event/httpcapnp");
`
)

func main() {
	out := "."
	if len(os.Args) > 1 {
		out = os.Args[1]
	}
	if err := run(out); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(out string) error {
	out, err := filepath.Abs(out)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "httpcapnp")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	schema, err := os.ReadFile("../http.capnp")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "http.capnp"), append(schema, annotations...), 0o600); err != nil {
		return err
	}
	plugin := filepath.Join(dir, "capnpc-go")
	if _, err := command(".", "go", "build", "-o", plugin, library+"/capnpc-go"); err != nil {
		return err
	}
	root, err := command(".", "go", "list", "-m", "-f", "{{.Dir}}", library)
	if err != nil {
		return err
	}
	std := filepath.Join(string(bytes.TrimSpace(root)), "std")
	_, err = command(dir, "capnp", "compile", "-I"+std, "-o"+plugin+":"+out, "http.capnp")
	return err
}

// command runs a program in a folder and returns what it wrote to standard output.
func command(dir, name string, args ...string) ([]byte, error) {
	c := exec.Command(name, args...)
	c.Dir, c.Stderr = dir, os.Stderr
	b, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", name, err)
	}
	return b, nil
}
