package nginx_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/spate-io/spate/edge/forward"
	"github.com/spate-io/spate/edge/nginx"
)

// counter is a sink that checks nothing, keeps nothing, and has everything on disk at once.
type counter struct {
	events, dropped atomic.Int64
	reached         atomic.Pointer[func(uint64)]
	position        atomic.Uint64
}

func (c *counter) Put(_ context.Context, chunk forward.Chunk) error {
	c.events.Add(int64(chunk.Count))
	c.dropped.Add(int64(chunk.Dropped))
	c.position.Store(chunk.Origin.Position)
	if f := c.reached.Load(); f != nil {
		(*f)(chunk.Origin.Position)
	}
	return nil
}

func (c *counter) Position([16]byte) (uint64, bool) { p := c.position.Load(); return p, p > 0 }

func (c *counter) OnDurable(_ [16]byte, f func(uint64)) (cancel func()) {
	c.reached.Store(&f)
	return func() {}
}

var (
	requestsPerSecond = regexp.MustCompile(`Requests/sec:\s+([\d.]+)`)
	requestsInAll     = regexp.MustCompile(`(\d+) requests in`)
	requestsFailed    = regexp.MustCompile(`(?i)socket errors|non-2xx`)
)

// load runs wrk for a second and gives requests per second and the processor time of the worker per request, in ns.
func load(b *testing.B, s *server, addr string) (rate, cpu float64) {
	b.Helper()
	before := s.cpu(b)
	out, err := exec.Command("wrk", "-t1", "-c32", "-d1s", "http://"+addr+"/index.html").CombinedOutput()
	if err != nil || requestsFailed.Match(out) {
		b.Fatalf("wrk: %v: %s", err, out)
	}
	number := func(r *regexp.Regexp) float64 {
		m := r.FindSubmatch(out)
		if m == nil {
			b.Fatalf("wrk says %s", out)
		}
		n, err := strconv.ParseFloat(string(m[1]), 64)
		if err != nil {
			b.Fatal(err)
		}
		return n
	}
	return number(requestsPerSecond), (s.cpu(b) - before) / number(requestsInAll)
}

// cpu is the time that the worker has run, in ns.
func (s *server) cpu(b *testing.B) float64 {
	b.Helper()
	total := 0.0
	for _, pid := range s.workers(b) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
		if err != nil {
			b.Fatal(err)
		}
		n, err := strconv.ParseFloat(strings.Fields(string(text))[0], 64)
		if err != nil {
			b.Fatal(err)
		}
		total += n
	}
	return total
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// BenchmarkNginx serves a small static file by turns from a server block without and one with the module, each for a
// second, in pairs in one nginx with one worker, and reports the median of the pairs' ratios: of requests per second, and
// of the worker's processor time per request. SPATE_BENCH_PAIRS is the number of pairs, 9 by default.
func BenchmarkNginx(b *testing.B) {
	if _, err := exec.LookPath("wrk"); err != nil {
		b.Skip("wrk is not installed: apt-get install wrk")
	}
	pairs := 9
	if v := os.Getenv("SPATE_BENCH_PAIRS"); v != "" {
		var err error
		if pairs, err = strconv.Atoi(v); err != nil || pairs < 1 {
			b.Fatalf("SPATE_BENCH_PAIRS=%q is not a positive number", v)
		}
	}
	p := ports(b, 2)
	without, with := fmt.Sprintf("127.0.0.1:%d", p[0]), fmt.Sprintf("127.0.0.1:%d", p[1])
	s := start(b, "worker_processes 1;\nevents { worker_connections 1024; }", fmt.Sprintf(`
access_log off; sendfile on; tcp_nopush on; keepalive_requests 100000000;
server { listen %s; root html; }
server { listen %s; root html; include {{dir}}/spate/conf/spate_log.conf; }`, without, with), nginx.Options{Buffer: "32m"})
	sink := &counter{}
	s.listen(b, sink)
	s.run(b, with)
	load(b, s, with) // LuaJIT compiles; files come into the cache
	load(b, s, without)
	for b.Loop() {
		var rates, cpus [2][]float64
		var rate, cpu []float64
		for range pairs {
			for i, addr := range []string{without, with} {
				r, c := load(b, s, addr)
				rates[i], cpus[i] = append(rates[i], r), append(cpus[i], c)
			}
			n := len(rates[0]) - 1
			rate = append(rate, rates[1][n]/rates[0][n])
			cpu = append(cpu, cpus[0][n]/cpus[1][n])
		}
		b.ReportMetric(median(rate), "rate-ratio")
		b.ReportMetric(median(cpu), "cpu-ratio")
		b.ReportMetric(median(rates[0]), "req/s-without")
		b.ReportMetric(median(rates[1]), "req/s-with")
		b.ReportMetric(median(cpus[0]), "cpu-ns/req-without")
		b.ReportMetric(median(cpus[1]), "cpu-ns/req-with")
	}
	if d := sink.dropped.Load(); d > 0 {
		b.Logf("%d events of %d dropped", d, d+sink.events.Load())
	}
}
