package e2e

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/spate-io/spate/internal/testdata"
)

// checkBusRecords reads the bus as any script may: an ordinary Kafka client, the header cut off by the table in
// docs/format/batch.md, an ordinary zstd, and the capnp tool with the public schema.
func checkBusRecords(t *testing.T, s *spate, e *edge) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.bus), kgo.ConsumeTopics("http_requests"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()

	want, _ := e.accessLog(t)
	seen, names, statuses := 0, map[string]bool{}, counts{}
	for seen < want {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("after %d of %d events: %v", seen, want, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			edgeLen := int(r.Value[7])
			name := fmt.Sprintf("%s/%x", r.Value[64:64+edgeLen], r.Value[8:24])
			if names[name] {
				return // sent twice, as a gateway may after a crash; the loader drops it by this name
			}
			names[name] = true
			seen += int(binary.LittleEndian.Uint32(r.Value[24:]))
			for _, status := range decodeStatuses(t, r.Value[64+edgeLen:]) {
				statuses[status]++
			}
		})
	}
	_, logged := e.accessLog(t)
	inLog := counts{}
	for key, n := range logged {
		if _, status, ok := strings.Cut(key, " status "); ok {
			inLog[status] += n
		}
	}
	for _, status := range sortedKeys(inLog) {
		if statuses[status] != inLog[status] {
			t.Errorf("status %s: %d in the records, %d in nginx's log", status, statuses[status], inLog[status])
		}
	}
}

// decodeStatuses returns the edgeResponseStatus of every message in a compressed payload, as the capnp tool prints it.
func decodeStatuses(t *testing.T, payload []byte) []string {
	t.Helper()
	dec, err := zstd.NewReader(bytes.NewReader(payload))
	if err != nil {
		t.Fatal(err)
	}
	defer dec.Close()
	schema := filepath.Join(testdata.Root(t), "event", "http.capnp")
	cmd := exec.Command("capnp", "decode", "--short", schema, "HttpRequest")
	cmd.Stdin, cmd.Stderr = dec, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("capnp decode: %v", err)
	}
	var statuses []string
	for line := range strings.Lines(string(out)) {
		_, rest, ok := strings.Cut(line, "edgeResponseStatus = ")
		if !ok {
			t.Fatalf("no status in %q", line)
		}
		status, _, _ := strings.Cut(rest, ",")
		statuses = append(statuses, status)
	}
	return statuses
}
