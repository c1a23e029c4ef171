package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/spate-io/spate/bus"
	"github.com/spate-io/spate/event"
	"github.com/spate-io/spate/event/batch"
	"github.com/spate-io/spate/internal/config"
	"github.com/spate-io/spate/internal/enrich"
	"github.com/spate-io/spate/internal/zone"
	"github.com/spate-io/spate/store"
)

// traffic is a mixture of requests as a few sites have it.
type traffic struct {
	rnd    *rand.Rand
	agents []string
	hosts  []string
	types  []string
}

func newTraffic() *traffic {
	return &traffic{
		rnd: rand.New(rand.NewPCG(7, 7)),
		agents: []string{
			"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36",
			"Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1",
			"Mozilla/5.0 (X11; Linux x86_64; rv:142.0) Gecko/20100101 Firefox/142.0",
			"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
			"curl/8.5.0", "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.4 Safari/605.1.15",
		},
		hosts: []string{"www.example.com", "shop.example.com", "blog.example.org", "api.example.net"},
		types: []string{"text/html; charset=utf-8", "application/json", "image/png", "text/css", "application/javascript"},
	}
}

func (g *traffic) raw(n int, at time.Time) []byte {
	var out []byte
	pick := func(s []string) []byte { return []byte(s[g.rnd.IntN(len(s))]) }
	for i := range n {
		start := at.UnixNano() + int64(i)*1000
		e := event.HTTP{
			EdgeStartTimestamp: start, EdgeEndTimestamp: start + g.rnd.Int64N(50_000_000),
			ClientIP:          netip.AddrFrom4([4]byte{byte(1 + g.rnd.IntN(200)), byte(g.rnd.IntN(8)), byte(g.rnd.IntN(16)), byte(g.rnd.IntN(256))}),
			ClientRequestHost: pick(g.hosts), ClientRequestMethod: []byte("GET"), ClientRequestScheme: []byte("https"),
			ClientRequestPath: fmt.Appendf(nil, "/catalog/%d/item-%d.html", g.rnd.IntN(30), g.rnd.IntN(5000)), ClientRequestQuery: []byte("utm_source=mail"),
			ClientRequestProtocol: []byte("HTTP/2.0"), ClientRequestReferer: []byte("https://www.example.com/"), ClientRequestUserAgent: pick(g.agents),
			ClientRequestBytes: 420, EdgeResponseBytes: uint64(g.rnd.IntN(100_000)), EdgeResponseBodyBytes: 9000, EdgeResponseStatus: 200,
			EdgeResponseContentType: pick(g.types), ClientSSLProtocol: []byte("TLSv1.3"), ClientSSLCipher: []byte("TLS_AES_256_GCM_SHA384"),
			ClientSSLServerName: []byte("www.example.com"), ConnectionID: uint64(i), ConnectionRequests: 3, ClientTCPRTTUs: 21000, ClientSrcPort: 40000, EdgeServerPort: 443,
			OriginAddress: []byte("10.0.0.7:8080"), OriginResponseStatus: 200, OriginTries: 1, OriginResponseDurationUs: 15000,
			CacheCacheStatus: []byte("miss"), RayID: fmt.Appendf(nil, "%016x%016x", g.rnd.Uint64(), g.rnd.Uint64()), EdgeName: []byte("fra1"), EdgeColoCode: []byte("FRA"), EdgeResponseCompleted: true,
		}
		out = e.Append(out)
	}
	return out
}

// sealed returns batches of n events each.
func (g *traffic) sealed(tb testing.TB, batches, n int) [][]byte {
	tb.Helper()
	enc, err := batch.NewEncoder(batch.Zstd, 1)
	if err != nil {
		tb.Fatal(err)
	}
	var out [][]byte
	for i := range batches {
		now := time.Now()
		h := batch.Header{Type: batch.HTTPRequests, Codec: batch.Zstd, Name: batch.Name{Edge: "fra1", Epoch: 1, Sequence: uint64(i + 1)}, Events: uint32(n), First: now.UnixNano(), Last: now.UnixNano()}
		b, err := enc.Encode(nil, h, g.raw(n, now))
		if err != nil {
			tb.Fatal(err)
		}
		out = append(out, b)
	}
	return out
}

func newHTTPForTest(tb testing.TB) *HTTP {
	tb.Helper()
	e, err := enrich.New(enrich.DefaultConfig(), enrich.Deps{})
	if err != nil {
		tb.Fatal(err)
	}
	z, err := zone.New(zone.DefaultConfig(), zone.Deps{})
	if err != nil {
		tb.Fatal(err)
	}
	return NewHTTP(e, z, nil)
}

// BenchmarkBlock is what a range costs one core: verify, unpack, read, enrich, match and append; one op is one event.
func BenchmarkBlock(b *testing.B) {
	const perBatch = 2000
	values := newTraffic().sealed(b, 20, perBatch)
	bench, err := newBench(func() (Builder, error) { return newHTTPForTest(b), nil })
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	used := cpu()
	for n := 0; n < b.N; n += perBatch * len(values) {
		bench.builder.Reset()
		for _, v := range values {
			h, raw, err := bench.decoder.Decode(v)
			if err != nil {
				b.Fatal(err)
			}
			if err := bench.builder.Add(&h, raw); err != nil {
				b.Fatal(err)
			}
		}
		bench.builder.Inserts("")
	}
	done := (b.N + perBatch*len(values) - 1) / (perBatch * len(values)) * perBatch * len(values)
	b.ReportMetric(float64(done)/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(done)/(cpu()-used).Seconds(), "events/cpu-s")
}

// cpu returns the processor time that this process has used: on a machine that others use too it says more than the clock.
func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// counting is a store that only counts.
type counting struct{ blocks, bytes atomic.Int64 }

func (c *counting) Insert(_ context.Context, in store.Insert) error {
	c.blocks.Add(1)
	c.bytes.Add(int64(len(in.Block)))
	return nil
}

// BenchmarkLoader is the way from records on the embedded bus to the call of Insert; one op is one event.
func BenchmarkLoader(b *testing.B) {
	for _, guarantee := range []string{ExactlyOnce, AtLeastOnce} {
		b.Run(guarantee, func(b *testing.B) {
			const perBatch, partitions = 2000, 4
			busCfg := startBus(b, partitions)
			e := newEdge(b, busCfg, "fra1")
			values := newTraffic().sealed(b, max(b.N/perBatch, 1), perBatch)
			for i, v := range values {
				e.cl.Produce(context.Background(), &kgo.Record{Topic: busCfg.RequestsTopic(), Partition: int32(i % partitions), Value: v}, nil)
			}
			if err := e.cl.Flush(context.Background()); err != nil {
				b.Fatal(err)
			}
			cfg := DefaultConfig()
			cfg.Guarantee, cfg.Block.MaxDelay = guarantee, config.Duration(100*time.Millisecond)
			db := &counting{}
			l, err := New(cfg, Deps{Logger: testLog(), Bus: busCfg, BusDeps: bus.Deps{}, Store: db, Builder: func() (Builder, error) { return newHTTPForTest(b), nil }})
			if err != nil {
				b.Fatal(err)
			}
			var last atomic.Int64
			l.step = func(_ *worker, s step) {
				if s == stepDone {
					last.Store(time.Now().UnixNano())
				}
			}
			b.ReportAllocs()
			b.ResetTimer()
			used := cpu()
			start := time.Now()
			stop := background(b, l.Run)
			want := int64(len(values))
			waitFor(b, "all committed", func() error {
				l.mu.Lock()
				defer l.mu.Unlock()
				var n int64
				for _, w := range l.workers {
					n += max(w.committed.Load(), 0)
				}
				if n < want {
					return fmt.Errorf("%d of %d", n, want)
				}
				return nil
			})
			took := time.Duration(last.Load() - start.UnixNano())
			b.StopTimer()
			stop()
			b.ReportMetric(float64(len(values)*perBatch)/took.Seconds(), "events/s")
			b.ReportMetric(float64(len(values)*perBatch)/(cpu()-used).Seconds(), "events/cpu-s")
			b.ReportMetric(float64(db.blocks.Load()), "blocks")
		})
	}
}
