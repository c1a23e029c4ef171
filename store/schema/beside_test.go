package schema_test

import (
	"context"
	"fmt"
	"io"
	"sync"
	"testing"

	"github.com/spate-io/spate/store"
)

// BenchmarkInsertBesideQueries inserts prepared blocks beside queries that take all the processor time they get, of each priority.
func BenchmarkInsertBesideQueries(b *testing.B) {
	const (
		rows     = 50_000
		askers   = 6
		numbers  = "SELECT sum(sipHash64(number)) FROM numbers_mt(1000000000000)"
		requests = `SELECT ClientIP, uniqExact(ClientRequestPath), uniq(ClientRequestUserAgent), quantile(0.9)(EdgeResponseBytes)
FROM http_requests ARRAY JOIN range(100) AS n GROUP BY ClientIP, n % 3 ORDER BY 2 DESC LIMIT 10`
	)
	for _, c := range []struct {
		name, sql string
		priority  store.Priority
	}{
		{"alone", "", 0},
		{"background/numbers", numbers, store.Background},
		{"background/requests", requests, store.Background},
		{"scan/requests", requests, store.Scan},
		{"interactive/numbers", numbers, store.Interactive},
		{"interactive/requests", requests, store.Interactive},
	} {
		b.Run(c.name, func(b *testing.B) {
			db := openSchema(b)
			blocks := realBlocks(b, rows, 4)
			put := func(i int) {
				for _, in := range blocks[i%len(blocks)] {
					in.Token = fmt.Sprint(i)
					if err := db.Insert(context.Background(), in); err != nil {
						b.Fatal(err)
					}
				}
			}
			put(0)
			ctx, cancel := context.WithCancel(context.Background())
			var asking sync.WaitGroup
			for range askers {
				asking.Go(func() {
					for ctx.Err() == nil && c.sql != "" {
						// One that was ended for an insert is asked again at once.
						_, err := db.Stream(ctx, store.Query{SQL: c.sql, Priority: c.priority}, io.Discard)
						if err != nil && ctx.Err() == nil && !store.IsCode(err, store.CodeMemoryLimit) {
							b.Error(err)
							return
						}
					}
				})
			}
			i := 1
			for b.Loop() {
				put(i)
				i++
			}
			b.ReportMetric(float64(i-1)*rows/b.Elapsed().Seconds(), "rows/s")
			b.ReportMetric(0, "ns/op")
			cancel()
			asking.Wait()
		})
	}
}
