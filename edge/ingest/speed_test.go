package ingest

import (
	"context"
	"os"
	"testing"
)

// TestSpeed_DryRun reports lines/s for the file named in SPATE_IMPORT_FILE.
func TestSpeed_DryRun(t *testing.T) {
	file := os.Getenv("SPATE_IMPORT_FILE")
	if file == "" {
		t.Skip("SPATE_IMPORT_FILE names no log")
	}
	for _, workers := range []int{1, 2} {
		s, err := Import(context.Background(), Options{Paths: []string{file}, DryRun: true, Workers: workers}, Deps{})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d workers: %d lines, %d events, %d bad, %d bytes: %.0f lines/s", workers, s.Lines, s.Events, s.Bad, s.Bytes, s.LinesPerS)
	}
}
