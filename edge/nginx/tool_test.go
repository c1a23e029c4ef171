package nginx_test

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spate-io/spate/edge/forward/forwardtest"
	"github.com/spate-io/spate/event"
	"github.com/spate-io/spate/internal/testdata"
)

// decodeWithTool reads what Lua wrote with the capnp tool and compares some fields of every message.
func decodeWithTool(t *testing.T, sink *forwardtest.Sink, events []event.HTTP) {
	t.Helper()
	capnp, err := exec.LookPath("capnp")
	if err != nil {
		t.Log("the capnp tool is not installed: not decoding with it")
		return
	}
	var in, stderr bytes.Buffer
	chunks, _ := sink.Chunks()
	for _, c := range chunks {
		in.Write(c.Events)
	}
	schema := filepath.Join(testdata.Root(t), "event", "http.capnp")
	cmd := exec.Command(capnp, "decode", "--short", schema, "HttpRequest")
	cmd.Stdin, cmd.Stderr = &in, &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("capnp decode: %v: %s", err, stderr.String())
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != len(events) {
		t.Fatalf("capnp reads %d messages, this module %d", len(lines), len(events))
	}
	for i, e := range events {
		for _, want := range []string{`rayID = "` + string(e.RayID) + `"`, `edgeName = "` + string(e.EdgeName) + `"`, `edgeColoCode = "HEL"`} {
			if !strings.Contains(lines[i], want) {
				t.Fatalf("message %d lacks %s: %.300s", i, want, lines[i])
			}
		}
	}
}
