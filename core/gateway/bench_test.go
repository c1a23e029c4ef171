package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/spate-io/spate/edge/accesslog"
	"github.com/spate-io/spate/edge/forward"
	"github.com/spate-io/spate/edge/wire"
	"github.com/spate-io/spate/event"
	"github.com/spate-io/spate/event/batch"
	"github.com/spate-io/spate/internal/certs"
	"github.com/spate-io/spate/internal/testdata"
)

// nullBus takes everything at once.
type nullBus struct{}

func (nullBus) Produce(_ context.Context, _ batch.Name, _ []byte, done func(error)) { done(nil) }

func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// realChunks gives chunks of 100 events from real logs.
func realChunks(b *testing.B) (chunks []forward.Chunk) {
	b.Helper()
	combined, ok := accesslog.Lookup("combined")
	if !ok {
		b.Fatal("no combined format")
	}
	parser := combined.New(accesslog.Options{})
	zr, err := zstd.NewReader(nil)
	if err != nil {
		b.Fatal(err)
	}
	defer zr.Close()
	var e event.HTTP
	var c forward.Chunk
	for _, name := range []string{"elastic_apache_10000_2015-05.log.zst", "tahchag_nginx_1945_2024-02.log.zst"} {
		packed, err := os.ReadFile(filepath.Join(testdata.Dir(b), "logs", name))
		if err != nil {
			b.Skip(err)
		}
		text, err := zr.DecodeAll(packed, nil)
		if err != nil {
			b.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			if parser.Parse(line, &e) != nil {
				continue
			}
			c.Events = e.Append(c.Events)
			if c.Count++; c.Count == 100 {
				chunks, c = append(chunks, c), forward.Chunk{}
			}
		}
	}
	return chunks
}

// BenchmarkPath puts chunks of 100 events until the gateway has acknowledged the last one.
func BenchmarkPath(b *testing.B) {
	pki := b.TempDir()
	if err := certs.Ensure(pki, "e1"); err != nil {
		b.Fatal(err)
	}
	for _, codec := range []string{"none", "snappy", "lz4", "zstd", "gzip"} {
		b.Run(fmt.Sprintf("tls_%s", codec), func(b *testing.B) {
			g := startGateway(b, pki, nullBus{}, nil)
			cfg := forward.DefaultConfig()
			cfg.Edge, cfg.Spool.Dir, cfg.Batch.Codec = "e1", b.TempDir(), codec
			cfg.Destinations = []forward.Destination{{Name: "dc1"}}
			reg := prometheus.NewRegistry()
			f := startForward(b, cfg, map[string]wire.Dialer{"dc1": tlsDialer(g, pki, "e1")}, reg)
			chunks := realChunks(b)
			n, begin, began := uint64(0), cpu(), time.Now()
			for b.Loop() {
				c := chunks[n%uint64(len(chunks))]
				n++
				c.Origin.Position = n
				if err := f.Put(context.Background(), c); err != nil {
					b.Fatal(err)
				}
			}
			waitFor(b, "all to be acknowledged", func() bool {
				p, _ := f.Durable([16]byte{})
				return p == n && gauge(b, reg, "spate_spool_unacked_batches") == 0
			})
			events := float64(n) * 100
			b.ReportMetric(events/time.Since(began).Seconds(), "events/s")
			b.ReportMetric(float64((cpu()-begin).Nanoseconds())/events, "cpu-ns/event")
			b.ReportMetric(gauge(b, reg, "spate_forward_packed_bytes_total")/events, "wire-B/event")
			b.ReportMetric(gauge(b, reg, "spate_forward_raw_bytes_total")/events, "raw-B/event")
		})
	}
}
