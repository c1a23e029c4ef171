package accesslog

import (
	"syscall"
	"testing"
	"time"

	"github.com/spate-io/spate/event"
)

// cpuTime is what this process has used; on a busy machine it says more than the clock.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func benchmark(b *testing.B, format string, in [][]byte) {
	f, ok := Lookup(format)
	if !ok {
		b.Fatalf("no format %s", format)
	}
	p := f.New(Options{})
	var e event.HTTP
	size := 0
	for _, l := range in {
		size += len(l) + 1
	}
	b.SetBytes(int64(size / len(in)))
	b.ReportAllocs()
	b.ResetTimer()
	before := cpuTime()
	defer func() { b.ReportMetric(float64(b.N)/(cpuTime()-before).Seconds(), "lines/cpu-s") }()
	for i := 0; i < b.N; i++ {
		if err := p.Parse(in[i%len(in)], &e); err != nil {
			b.Fatalf("line %d: %v", i%len(in)+1, err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lines/s")
}

// BenchmarkCombined parses real lines: 350 bytes from nginx, 237 from Apache.
func BenchmarkCombined(b *testing.B) {
	b.Run("nginx", func(b *testing.B) { benchmark(b, "combined", lines(realLog(b, "zanbil_nginx_100k_2019-01-26.log"))) })
	b.Run("apache", func(b *testing.B) { benchmark(b, "combined", lines(realLog(b, "elastic_apache_10000_2015-05.log"))) })
}

// BenchmarkJSON parses lines of 14 fields, about 457 bytes.
func BenchmarkJSON(b *testing.B) {
	line := []byte(`{"time_iso8601":"2023-10-10T13:55:36+02:00","remote_addr":"192.0.2.101","remote_user":"","request_method":"GET",` +
		`"request_uri":"/image/20116?name=q.jpg&wh=200x200&lang=fa","server_protocol":"HTTP/2.0","status":"200","body_bytes_sent":"30975",` +
		`"request_time":"0.123","http_referer":"https://www.example.com/shop/list/4711","http_user_agent":"Mozilla/5.0 (Windows NT 10.0; Win64; x64) ` +
		`AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36","host":"www.example.com","ssl_protocol":"TLSv1.3","request_id":"752178adb17130b291aefd8c386279e7"}`)
	benchmark(b, "nginx-json", [][]byte{line})
}

// BenchmarkEncoded parses and appends the event as the importer does.
func BenchmarkEncoded(b *testing.B) {
	in := lines(realLog(b, "zanbil_nginx_100k_2019-01-26.log"))
	f, _ := Lookup("combined")
	p := f.New(Options{})
	var e event.HTTP
	buf := make([]byte, 0, 1<<20)
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		if err := p.Parse(in[i%len(in)], &e); err != nil {
			b.Fatal(err)
		}
		if len(buf) > 900<<10 {
			buf = buf[:0]
		}
		buf = e.Append(buf)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lines/s")
}
