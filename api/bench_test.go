package api

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spate-io/spate/analytics/analyticstest"
	"github.com/spate-io/spate/internal/zone"
	"github.com/spate-io/spate/store/chdb/chdbtest"
)

// BenchmarkDashboard asks for dashboards of one zone over HTTP from four clients at once and reports the answers a second
// and the 99th percentile. The store has 50,000 requests of three days.
func BenchmarkDashboard(b *testing.B) {
	now := time.Now()
	db := analyticstest.Store(b, chdbtest.Open(b), analyticstest.Over(1, 50_000, now, 3*24*time.Hour))
	cfg := DefaultConfig()
	cfg.Analytics.ShareFor = 0 // every answer is computed
	a, err := New(cfg, Deps{DB: db, Zones: zones(b, analyticstest.Zones()...)})
	if err != nil {
		b.Fatal(err)
	}
	id := zone.ID(analyticstest.Zones()[0])
	for _, what := range []string{"dashboard?since=-59", "dashboard?since=-1440", "dashboard?since=-4320", "dashboard?since=-10080", "latency?since=-1440", "top?dimension=path&since=-1440"} {
		b.Run(what, func(b *testing.B) {
			var mu sync.Mutex
			var times []time.Duration
			var left atomic.Int64
			left.Store(int64(b.N))
			began := time.Now()
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						r := httptest.NewRequest(http.MethodGet, "http://localhost/client/v4/zones/"+id+"/analytics/"+what, nil)
						w := httptest.NewRecorder()
						start := time.Now()
						a.Handler().ServeHTTP(w, r)
						took := time.Since(start)
						if w.Code != 200 {
							b.Error(w.Body.String())
							return
						}
						mu.Lock()
						times = append(times, took)
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			slices.Sort(times)
			b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "answers/s")
			b.ReportMetric(float64(times[len(times)*99/100])/1e6, "p99-ms")
			b.ReportMetric(float64(times[len(times)/2])/1e6, "p50-ms")
		})
	}
}
