package enrich

import (
	"compress/gzip"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/spate-io/spate/event"
	"github.com/spate-io/spate/internal/testdata"
)

// realAgents returns user agents of real logs, drawn as often as they were seen there.
func realAgents(b *testing.B, n int) []string {
	b.Helper()
	f, err := os.Open(filepath.Join(testdata.Dir(b), "ua", "unique_user_agents.tsv.gz"))
	if err != nil {
		b.Skip(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		b.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		b.Fatal(err)
	}
	var requests []string
	for line := range strings.Lines(string(text)) {
		count, ua, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		k, err := strconv.Atoi(count)
		if err != nil {
			b.Fatal(err)
		}
		for range k {
			requests = append(requests, ua)
		}
	}
	r := rand.New(rand.NewPCG(3, 4))
	r.Shuffle(len(requests), func(i, j int) { requests[i], requests[j] = requests[j], requests[i] })
	return requests[:n]
}

// cpu returns the time that the process has spent on processors, which a busy machine changes less than it does the clock's.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkEnricher enriches 400,000 requests in a row with caches that are empty at first.
func BenchmarkEnricher(b *testing.B) {
	const requests = 400_000
	r := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(r, 1.5, 8, 1<<20)
	types := []string{"text/html; charset=utf-8", "image/png", "application/javascript", "text/css", "application/json", "image/jpeg"}
	var raw []byte // one after the other in memory, as in a batch
	for _, ua := range realAgents(b, requests) {
		h := event.HTTP{
			EdgeStartTimestamp: 1_700_000_000_000_000_000, EdgeEndTimestamp: 1_700_000_000_003_000_000, EdgeResponseStatus: 200,
			ClientRequestMethod: []byte("GET"), ClientRequestPath: []byte("/articles/why"), ClientRequestUserAgent: []byte(ua),
			EdgeResponseContentType: []byte(types[r.IntN(len(types))]), CacheCacheStatus: []byte("miss"),
		}
		n := zipf.Uint64() * 2654435761
		h.ClientIP = netip.AddrFrom4([4]byte{20 + byte(n>>24)%100, byte(n >> 16), byte(n >> 8), byte(n)})
		raw = h.Append(raw)
	}
	views := make([]event.View, 0, requests)
	if _, err := event.Walk(raw, func(v event.View) error {
		views = append(views, v)
		return nil
	}); err != nil {
		b.Fatal(err)
	}
	first := enricher(b, func(c *Config) { c.ASNDB = asnFile(b) })
	b.ReportAllocs()
	var out Result
	events, before := 0, cpu(b)
	for b.Loop() {
		e := first.Fork()
		for _, v := range views {
			e.Enrich(v, &out)
		}
		events += len(views)
	}
	b.ReportMetric(float64((cpu(b)-before).Nanoseconds())/float64(events), "cpu-ns/event")
	b.ReportMetric(100-100*testutil.ToFloat64(first.metrics.agentMisses)/float64(events), "%agents-cached")
	b.ReportMetric(100-100*testutil.ToFloat64(first.metrics.addressMisses)/float64(events), "%addresses-cached")
}
