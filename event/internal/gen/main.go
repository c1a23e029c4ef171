// Command gen writes what is made from the table of fields: event/http_gen.go and the tables in
// docs/format/http_event.md. It runs in the folder event, by go generate.
package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/spate-io/spate/event/internal/layout"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	code, err := layout.Code()
	if err != nil {
		return err
	}
	if err := os.WriteFile("http_gen.go", code, 0o644); err != nil {
		return err
	}
	const page = "../docs/format/http_event.md"
	doc, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	made, err := layout.Document(doc)
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	if bytes.Equal(doc, made) {
		return nil
	}
	return os.WriteFile(page, made, 0o644)
}
