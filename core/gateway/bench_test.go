package gateway_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spate-io/spate/edge/forward"
	"github.com/spate-io/spate/edge/wire"
	"github.com/spate-io/spate/event/batch"
	"github.com/spate-io/spate/internal/certs"
)

// nullBus takes everything at once.
type nullBus struct{}

func (nullBus) Produce(_ context.Context, _ batch.Name, _ []byte, done func(error)) { done(nil) }

func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
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
			var chunks []forward.Chunk
			for i := range 100 {
				var raw []byte
				for j := range 100 {
					raw = sample(uint64(i*100 + j)).Append(raw)
				}
				chunks = append(chunks, forward.Chunk{Events: raw, Count: 100})
			}
			n, begin := uint64(0), cpu()
			for b.Loop() {
				c := chunks[n%100]
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
			b.ReportMetric(events/b.Elapsed().Seconds(), "events/s")
			b.ReportMetric(float64((cpu()-begin).Nanoseconds())/events, "cpu-ns/event")
			b.ReportMetric(gauge(b, reg, "spate_forward_packed_bytes_total")/events, "wire-B/event")
			b.ReportMetric(gauge(b, reg, "spate_forward_raw_bytes_total")/events, "raw-B/event")
		})
	}
}
