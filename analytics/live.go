package analytics

import (
	"cmp"
	"context"
	"math"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/ClickHouse/ch-go/proto"
)

// liveSpan is how far back the live view reaches, liveTail how far it looks again for late events each time, and liveIdle
// how long the view of a zone is kept when nobody looks.
const (
	liveSpan = 120
	liveTail = 15
	liveIdle = 30 * time.Second
)

// liveCache shares one live view per zone among all who look.
type liveCache struct {
	mu     sync.Mutex
	byZone map[string]*liveZone
}

// liveZone is the live view of a zone. mu is held while the store is asked, so that those who come meanwhile wait for the
// same answer.
type liveZone struct {
	mu      sync.Mutex
	asked   time.Time // last time anybody looked; guarded by the cache's lock
	fresh   time.Time // when the store was asked last
	full    time.Time // when all of the span was
	version uint64
	lag     float64
	seconds map[int64]*liveSecond
}

// liveSecond is a second with the version of the view in which it changed last.
type liveSecond struct {
	LivePoint
	version uint64
}

// Live gives the seconds of the last two minutes that changed after version seen (0: all that have requests), and the
// version to pass next time. However many callers look at one zone, the store is asked about once a second. Seconds
// without requests are left out unless they had some before.
func (s *Service) Live(ctx context.Context, zone string, seen uint64) (*Tick, uint64, error) {
	z := s.liveZone(zone)
	if z == nil {
		return nil, seen, ErrBusy
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if now := s.now(); now.Sub(z.fresh) >= s.cfg.LiveEvery.D() {
		if err := s.refresh(ctx, zone, z, now); err != nil {
			return nil, seen, err
		}
	}
	return z.tick(s.now(), seen), z.version, nil
}

// liveZone finds or makes the view of a zone and drops those that nobody looks at; nil when there are too many.
func (s *Service) liveZone(zone string) *liveZone {
	c, now := &s.live, s.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	z := c.byZone[zone]
	if z == nil {
		for id, old := range c.byZone {
			if now.Sub(old.asked) > liveIdle {
				delete(c.byZone, id)
			}
		}
		if len(c.byZone) >= s.cfg.LiveZones {
			return nil
		}
		z = &liveZone{seconds: map[int64]*liveSecond{}}
		c.byZone[zone] = z
	}
	z.asked = now
	return z
}

// liveStatement reads seconds from the raw table: duration quantiles exactly, because a second has few requests.
func liveStatement() statement {
	between := func(low, high string) string {
		return "toUInt64(countIf(EdgeResponseStatus >= " + low + " AND EdgeResponseStatus < " + high + "))"
	}
	return statement{
		from: raw(),
		columns: []string{
			"toUInt32(toDateTime({time}, 'UTC')) AS t",
			"toUInt64(count()) AS requests",
			"toUInt64(sum(EdgeResponseBytes)) AS bytes",
			between("200", "300") + " AS s2xx", between("300", "400") + " AS s3xx",
			between("400", "500") + " AS s4xx", between("500", "600") + " AS s5xx",
			"quantileIf(0.5)(EdgeDurationUs, EdgeDurationUs >= 0) AS p50", "quantileIf(0.99)(EdgeDurationUs, EdgeDurationUs >= 0) AS p99",
		},
		group: "GROUP BY t",
	}
}

// refresh asks the store for the newest seconds, or for all when the last full look is too long ago to trust.
func (s *Service) refresh(ctx context.Context, zone string, z *liveZone, now time.Time) error {
	back := int64(liveTail)
	if z.full.IsZero() || now.Sub(z.full) > liveTail*time.Second {
		back = liveSpan
	}
	end := now.Unix() + 2 // an edge's clock may be a little ahead
	w := Window{Since: time.Unix(now.Unix()-back, 0), Until: time.Unix(end, 0), Delta: time.Second}
	// The question outlives the caller who happened to come first: others wait for it.
	ask, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	var t proto.ColUInt32
	var requests, bytes, s2, s3, s4, s5 proto.ColUInt64
	var p50, p99 proto.ColFloat64
	results := proto.Results{
		{Name: "t", Data: &t}, {Name: "requests", Data: &requests}, {Name: "bytes", Data: &bytes},
		{Name: "s2xx", Data: &s2}, {Name: "s3xx", Data: &s3}, {Name: "s4xx", Data: &s4}, {Name: "s5xx", Data: &s5},
		{Name: "p50", Data: &p50}, {Name: "p99", Data: &p99},
	}
	var got []LivePoint
	err := s.run(ask, "live", liveStatement().query(zone, w), results, func(n int) error {
		for i := range n {
			got = append(got, LivePoint{
				T: int64(t.Row(i)), Requests: requests.Row(i), Bytes: bytes.Row(i), S2xx: s2.Row(i), S3xx: s3.Row(i),
				S4xx: s4.Row(i), S5xx: s5.Row(i), P50Ms: liveMs(p50.Row(i)), P99Ms: liveMs(p99.Row(i)),
			})
		}
		return nil
	})
	if err != nil {
		return err
	}
	z.fresh = now
	if back == liveSpan {
		z.full = now
	}
	z.merge(got, now)
	return nil
}

func liveMs(us float64) *float64 {
	if math.IsNaN(us) {
		return nil
	}
	return ms(us)
}

// merge takes new seconds in and forgets those that are too old.
func (z *liveZone) merge(got []LivePoint, now time.Time) {
	z.version++
	newest := int64(0)
	for _, p := range got {
		old := z.seconds[p.T]
		if old != nil && reflect.DeepEqual(old.LivePoint, p) {
			continue
		}
		z.seconds[p.T] = &liveSecond{p, z.version}
		newest = max(newest, p.T)
	}
	if newest > 0 && (z.version > 1 || now.Unix()-newest < liveTail) {
		z.lag = max(0, math.Round(now.Sub(time.Unix(newest+1, 0)).Seconds()*1000)/1000)
	}
	for t := range z.seconds {
		if t < now.Unix()-liveSpan {
			delete(z.seconds, t)
		}
	}
}

// tick gives what changed after version seen, in the order of time.
func (z *liveZone) tick(now time.Time, seen uint64) *Tick {
	t := &Tick{Now: now.Unix(), LagSeconds: z.lag, Points: []LivePoint{}}
	for _, s := range z.seconds {
		if s.version > seen {
			t.Points = append(t.Points, s.LivePoint)
		}
	}
	slices.SortFunc(t.Points, func(a, b LivePoint) int { return cmp.Compare(a.T, b.T) })
	return t
}
