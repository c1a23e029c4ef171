package bench

import (
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/spate-io/spate/event/batch"
)

// BenchmarkBuild is what the loader does with a batch before the store gets it: unpack, enrich, append, add up, encode. One op
// is one request; blocks are of 100,000. SPATE_BENCH_LOG names a log to make the requests of.
func BenchmarkBuild(b *testing.B) {
	for _, c := range []struct {
		name string
		one  bool
	}{{"10000_zones", false}, {"one_zone", true}} {
		b.Run(c.name, func(b *testing.B) {
			o := smallOptions(b)
			o.Zones, o.Log = 10_000, os.Getenv("SPATE_BENCH_LOG")
			s := &Store{o: o, log: slog.New(slog.DiscardHandler), report: &Report{}}
			if err := s.prepare(); err != nil {
				b.Fatal(err)
			}
			f := &feed{s: s, m: s.traffic.maker(21), one: c.one, at: time.Now().UnixNano(), edge: "bench"}
			var batches [][]byte
			const perBlock = 100_000
			for range perBlock / perBatch {
				_, sealed, err := f.batch(perBatch, time.Second/liveRate)
				if err != nil {
					b.Fatal(err)
				}
				batches = append(batches, append([]byte(nil), sealed...))
			}
			d, build := batch.NewDecoder(batch.MaxRaw), s.builder()
			b.ReportAllocs()
			b.ResetTimer()
			used := cpuTime()
			n := 0
			for n < b.N {
				build.Reset()
				for _, v := range batches {
					h, raw, err := d.Decode(v)
					if err != nil {
						b.Fatal(err)
					}
					if err := build.Add(&h, raw); err != nil {
						b.Fatal(err)
					}
					n += perBatch
				}
				build.Inserts("")
			}
			b.ReportMetric(float64((cpuTime()-used).Nanoseconds())/float64(n), "cpu-ns/request")
		})
	}
}
