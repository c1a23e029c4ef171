package analytics_test

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/spate-io/spate/analytics"
	"github.com/spate-io/spate/analytics/analyticstest"
	"github.com/spate-io/spate/internal/config"
	"github.com/spate-io/spate/store/chdb/chdbtest"
	"github.com/spate-io/spate/store/schema"
)

// stretch spreads requests evenly, in their order, over a time from start on.
func stretch(list []analyticstest.Request, start time.Time, over time.Duration) {
	for i := range list {
		list[i].EdgeStartTimestamp = start.Add(over / time.Duration(len(list)) * time.Duration(i)).UnixNano()
		list[i].EdgeEndTimestamp = 0
	}
}

// processorTime is what this process, with the engine in it, has used.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// How far lists of real requests are off, what they take on the disk and what they cost; docs/explanation/top-lists.md has the
// figures, of all requests (SPATE_TEST_TOPS=1). The bound holds, and the first ten are the first ten.
func TestTop_RealLogs(t *testing.T) {
	most, sizes := 12_000, []int{250}
	if os.Getenv("SPATE_TEST_TOPS") != "" {
		most, sizes = 100_000, []int{50, 100, 250, 500}
	}
	start := time.Date(2024, 3, 1, 0, 0, 0, 0, time.UTC)
	now := start.Add(31 * time.Hour)
	for _, file := range []string{"zanbil_nginx_100k_2019-01-26.log.zst", "elastic_apache_10000_2015-05.log.zst"} {
		t.Run(file[:6], func(t *testing.T) {
			all := realRequests(t, realLines(t, file, most), "www.example.org")
			stretch(all, start, 24*time.Hour)
			began := processorTime(t)
			db := analyticstest.Store(t, chdbtest.Open(t), nil)
			analyticstest.Insert(t, db, all)
			exec(t, db, "OPTIMIZE TABLE "+schema.HTTPRequests+" FINAL")
			stored := processorTime(t) - began
			cfg := analytics.DefaultConfig()
			cfg.TopRequests, cfg.ShareFor = 0, config.Duration(0)
			s, err := analytics.New(cfg, analytics.Deps{DB: db, Now: func() time.Time { return now }})
			if err != nil {
				t.Fatal(err)
			}
			for _, values := range sizes {
				exec(t, db, "TRUNCATE TABLE "+schema.TopHour)
				exec(t, db, "TRUNCATE TABLE "+schema.TopDay)
				began, clock := processorTime(t), time.Now()
				makeTops(t, db, values, 1, func() time.Time { return now })
				took, elapsed := processorTime(t)-began, time.Since(clock)
				size := map[string]string{}
				for _, table := range []string{schema.TopHour, schema.TopDay, schema.HTTPRequests} {
					exec(t, db, "OPTIMIZE TABLE "+table+" FINAL")
					size[table] = number(t, db, "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND table = '"+table+"'")
				}
				t.Logf("%d values: bytes of the hours %s, of the day %s, of %d requests %s; lists took %.2f of the processor time that storing took, %v in %v",
					values, size[schema.TopHour], size[schema.TopDay], len(all), size[schema.HTTPRequests], float64(took)/float64(stored), took, elapsed)
				for _, d := range []string{"path", "client_ip", "referer", "user_agent"} {
					checkReal(t, s, all, analytics.Window{Since: start, Until: start.Add(24 * time.Hour), Delta: time.Hour}, d, values)
					checkReal(t, s, all, analytics.Window{Since: start, Until: start.Add(23 * time.Hour), Delta: time.Hour}, d, values)
				}
			}
		})
	}
}

func checkReal(t *testing.T, s *analytics.Service, all []analyticstest.Request, w analytics.Window, dimension string, values int) {
	t.Helper()
	truth := trueTop(all, all[0].ZoneID, w, dimension, "requests", 1<<30)
	r := analytics.Range{Since: w.Since.Format(time.RFC3339), Until: w.Until.Format(time.RFC3339)}
	got, err := s.Top(t.Context(), all[0].ZoneID, r, analytics.TopQuestion{Dimension: dimension, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	place, row := map[string]int{}, map[string]analytics.TopRow{}
	for i, r := range got.Rows {
		place[r.Value], row[r.Value] = i, r
	}
	wrong, off := 0, uint64(0)
	for i, want := range truth.Rows[:min(100, len(truth.Rows))] {
		have, ok := row[want.Value]
		if !ok {
			have.ErrorBound = got.ErrorBound
		}
		if lacks := want.Requests - have.Requests; have.Requests > want.Requests || lacks > have.ErrorBound.Requests {
			t.Errorf("%s %q: %d requests, at most %d more, truth %d", dimension, want.Value, have.Requests, have.ErrorBound.Requests, want.Requests)
		} else {
			off = max(off, lacks)
		}
		if at, ok := place[want.Value]; !ok || at >= 100 {
			wrong++
		}
		if i < 10 && values >= 250 && (!ok || have.Requests*100 < want.Requests*95) {
			t.Errorf("%s %q is number %d with %d requests, shown %d", dimension, want.Value, i+1, want.Requests, have.Requests)
		}
	}
	t.Logf("%d values, %s of %v: %d different, the bound is %d of %d requests; of the first hundred (the last has %d) %d are not among those shown, and none lacks more than %d", values, dimension, w.Until.Sub(w.Since),
		len(truth.Rows), got.ErrorBound.Requests, got.Total.Requests, truth.Rows[min(99, len(truth.Rows)-1)].Requests, wrong, off)
}
