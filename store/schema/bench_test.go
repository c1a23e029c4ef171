package schema_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spate-io/spate/event"
	"github.com/spate-io/spate/internal/enrich"
	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/schema"
)

const realLog = "zanbil_nginx_100k_2019-01-26.log.zst"

// BenchmarkHTTPBlock is the way of one event into a block, and the block's way into bytes.
func BenchmarkHTTPBlock(b *testing.B) {
	events := realEvents(b, realLog, 20_000)
	var views []event.View
	var results []enrich.Result
	if _, err := event.Walk(events, func(v event.View) error {
		var r enrich.Result
		enriched(v, &r)
		views, results = append(views, v), append(results, r)
		return nil
	}); err != nil {
		b.Fatal(err)
	}
	block := schema.NewHTTPBlock(nil)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		block.Append(views[n], &results[n])
		if n++; n == len(views) {
			_ = block.Bytes()
			block.Reset()
			n = 0
		}
	}
}

// BenchmarkInsert inserts prepared blocks of real requests into the raw table alone and with all rollups. The blocks
// differ in time, as they would live.
func BenchmarkInsert(b *testing.B) {
	for _, c := range []struct {
		name  string
		views bool
		rows  int
	}{{"raw_100k", false, 100_000}, {"all_100k", true, 100_000}, {"all_10k", true, 10_000}, {"all_1k", true, 1_000}} {
		b.Run(c.name, func(b *testing.B) {
			db := openSchema(b)
			blocks := realBlocks(b, c.rows, 4)
			peak, stop := watchMemory()
			var cpuBefore = cpuTime()
			i := 0
			for b.Loop() {
				block := blocks[i%len(blocks)]
				if !c.views {
					block = block[:1]
				}
				for _, in := range block {
					in.Token = fmt.Sprint(i)
					if err := db.Insert(context.Background(), in); err != nil {
						b.Fatal(err)
					}
				}
				i++
			}
			stop()
			rowsDone := float64(i) * float64(c.rows)
			b.ReportMetric(rowsDone/b.Elapsed().Seconds(), "rows/s")
			b.ReportMetric(float64((cpuTime()-cpuBefore).Nanoseconds())/rowsDone, "cpu-ns/row")
			b.ReportMetric(float64(*peak)/(1<<20), "engine-MiB")
			b.ReportMetric(0, "ns/op")
			if c.views {
				execSQL(b, db, "OPTIMIZE TABLE http_requests FINAL")
				b.Log(strings.ReplaceAll(rows(b, db, "SELECT table, sum(rows), sum(bytes_on_disk), round(sum(bytes_on_disk) / sum(rows), 1) FROM system.parts WHERE active AND table LIKE 'http%' GROUP BY table ORDER BY table"), "\t", " "))
			}
		})
	}
}

// BenchmarkLoad is ingest by two inserters at full speed while dashboards ask.
func BenchmarkLoad(b *testing.B) {
	db := openSchema(b)
	blocks := realBlocks(b, 50_000, 24)
	peak, stop := watchMemory()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var queries, slowest int64
	wg.Go(func() {
		for ctx.Err() == nil {
			began := time.Now()
			var out bytes.Buffer
			_, err := db.Stream(ctx, store.Query{SQL: "SELECT time, sum(requests), sumMap(requests_by_status), sumMap(requests_by_country), sumMap(duration_bins), uniqMerge(uniques) FROM http_requests_1m GROUP BY time"}, &out)
			if err != nil && ctx.Err() == nil {
				b.Error(err)
				return
			}
			queries++
			slowest = max(slowest, int64(time.Since(began)))
		}
	})
	var mu sync.Mutex
	i := 0
	ended := false
	next := func() ([]store.Insert, bool) {
		mu.Lock()
		defer mu.Unlock()
		if ended = ended || !b.Loop(); ended {
			return nil, false
		}
		in := slices.Clone(blocks[i%len(blocks)])
		for j := range in {
			in[j].Token = fmt.Sprint(i)
		}
		i++
		return in, true
	}
	var in sync.WaitGroup
	for range 2 {
		in.Go(func() {
			for {
				block, ok := next()
				if !ok {
					return
				}
				for _, in := range block {
					if err := db.Insert(ctx, in); err != nil {
						b.Error(err)
						return
					}
				}
			}
		})
	}
	in.Wait()
	cancel()
	wg.Wait()
	stop()
	b.ReportMetric(float64(i)*50_000/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(float64(queries)/b.Elapsed().Seconds(), "queries/s")
	b.ReportMetric(float64(slowest)/1e6, "slowest-ms")
	b.ReportMetric(float64(*peak)/(1<<20), "engine-MiB")
	b.ReportMetric(0, "ns/op")
}

// realBlocks gives n blocks of real requests, each an hour later than the one before.
func realBlocks(b testing.TB, size, n int) [][]store.Insert {
	b.Helper()
	events := realEvents(b, realLog, size)
	block := schema.NewHTTPBlock(nil)
	var list [][]store.Insert
	for i := range n {
		var e event.HTTP
		var moved []byte
		if _, err := event.Walk(events, func(v event.View) error {
			v.Decode(&e)
			e.EdgeStartTimestamp += int64(i) * int64(time.Hour)
			e.EdgeEndTimestamp = e.EdgeStartTimestamp + int64(v.EdgeResponseBytes()%700_000)*1000
			moved = e.Append(moved)
			return nil
		}); err != nil {
			b.Fatal(err)
		}
		in := blockOf(b, block, moved, "", enriched)
		for i := range in {
			in[i].Block = bytes.Clone(in[i].Block)
		}
		list = append(list, in)
	}
	return list
}

// watchMemory records the largest resident size of this process, without what Go holds, until stop.
func watchMemory() (peak *int64, stop func()) {
	peak = new(int64)
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			*peak = max(*peak, resident())
			select {
			case <-quit:
				return
			case <-tick.C:
			}
		}
	}()
	return peak, func() { close(quit); <-done }
}

func resident() int64 {
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var total, pages int64
	_, _ = fmt.Sscan(string(data), &total, &pages)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return pages*int64(os.Getpagesize()) - int64(m.Sys-m.HeapReleased)
}
