// Package analyticstest makes requests whose every detail is known and puts them into a store, for tests that compare
// answers with what plain code counts from the same requests.
package analyticstest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/spate-io/spate/event"
	"github.com/spate-io/spate/internal/enrich"
	"github.com/spate-io/spate/internal/zone"
	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/schema"
)

// Request is one request with what enrichment says about it.
type Request struct {
	event.HTTP
	enrich.Result
}

// Zones are the names of the zones that requests are of; ids are zone.ID of them. The first has half of all requests.
func Zones() []string { return []string{"alpha.example", "beta.example", "gamma.example"} }

// Generate makes n requests with times spread over the year before now, more of them the nearer to now, and some exactly
// on and beside the bounds of minutes, hours, days, months and years. The same seed gives the same requests.
func Generate(seed uint64, n int, now time.Time) []Request {
	r := rand.New(rand.NewPCG(seed, 7))
	out := make([]Request, n)
	for i := range out {
		out[i] = request(r, moment(r, now))
	}
	return out
}

// Over makes n requests spread evenly over a span of time before now.
func Over(seed uint64, n int, now time.Time, span time.Duration) []Request {
	r := rand.New(rand.NewPCG(seed, 8))
	out := make([]Request, n)
	for i := range out {
		out[i] = request(r, now.Add(-time.Duration(r.Int64N(int64(span)))))
	}
	return out
}

func moment(r *rand.Rand, now time.Time) time.Time {
	spans := []time.Duration{time.Hour, time.Hour, 15 * time.Hour, 72 * time.Hour, 20 * 24 * time.Hour, 360 * 24 * time.Hour}
	t := now.Add(-time.Duration(r.Int64N(int64(spans[r.IntN(len(spans))]))))
	if r.IntN(5) > 0 {
		return t
	}
	switch r.IntN(5) { // on a bound, or the last moment before it
	case 0:
		t = t.Truncate(time.Minute)
	case 1:
		t = t.Truncate(time.Hour)
	case 2:
		t = t.Truncate(24 * time.Hour)
	case 3:
		t = time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
	case 4:
		t = time.Date(t.Year(), 1, 1, 0, 0, 0, 0, time.UTC)
	}
	return t.Add(-time.Duration(r.IntN(2)) * time.Microsecond)
}

// Calendar makes n requests about the ends of days, months and years that calendars get wrong: leap days, the year 2000
// which has one and 2100 which has none, also where 32 bits with a sign end.
func Calendar(seed uint64, n int) []Request {
	r := rand.New(rand.NewPCG(seed, 9))
	ends := []time.Time{
		time.Date(1972, 2, 29, 0, 0, 0, 0, time.UTC), time.Date(1999, 12, 31, 24, 0, 0, 0, time.UTC), time.Date(2000, 2, 28, 24, 0, 0, 0, time.UTC),
		time.Date(2000, 2, 29, 24, 0, 0, 0, time.UTC), time.Date(2023, 2, 28, 24, 0, 0, 0, time.UTC), time.Date(2023, 12, 31, 24, 0, 0, 0, time.UTC),
		time.Date(2024, 2, 28, 24, 0, 0, 0, time.UTC), time.Date(2024, 2, 29, 24, 0, 0, 0, time.UTC), time.Date(2024, 3, 31, 1, 0, 0, 0, time.UTC),
		time.Date(2024, 4, 30, 24, 0, 0, 0, time.UTC), time.Date(2038, 1, 19, 3, 14, 8, 0, time.UTC), time.Date(2100, 2, 28, 24, 0, 0, 0, time.UTC),
		time.Date(2104, 2, 29, 24, 0, 0, 0, time.UTC),
	}
	near := []time.Duration{-24 * time.Hour, -time.Hour, -time.Minute, -time.Second, -time.Microsecond, 0, time.Microsecond, time.Minute, time.Hour, 23*time.Hour + 59*time.Minute}
	out := make([]Request, n)
	for i := range out {
		out[i] = request(r, pick(r, ends...).Add(pick(r, near...)))
	}
	return out
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func request(r *rand.Rand, at time.Time) Request {
	z := pick(r, Zones()[0], Zones()[0], Zones()[1], Zones()[2])
	q := Request{
		HTTP: event.HTTP{
			EdgeStartTimestamp: at.UnixNano(), ClientRequestBytes: 100 + r.Uint64N(2000), EdgeResponseBytes: uint64(math.Exp(r.NormFloat64()*2 + 8)),
			EdgeResponseStatus: pick[uint16](r, 200, 200, 200, 304, 301, 404, 403, 500, 503), ClientIP: address(r),
			ClientRequestHost: []byte(pick(r, "www.", "", "api.") + z), ClientRequestMethod: []byte(pick(r, "GET", "GET", "POST", "HEAD")),
			ClientRequestPath:     fmt.Appendf(nil, "/p/%d", int(math.Abs(r.NormFloat64())*40)),
			ClientRequestProtocol: []byte(pick(r, "HTTP/1.1", "HTTP/2.0", "HTTP/3.0")), ClientRequestReferer: []byte(pick(r, "", "https://a.example/", "tab\there\\and 'quote")),
			ClientRequestUserAgent: fmt.Appendf(nil, "agent/%d \xff\xfe", r.IntN(20)), ClientSSLProtocol: []byte(pick(r, "", "TLSv1.2", "TLSv1.3", "TLSv1.3")),
			CacheCacheStatus: []byte(pick(r, "", "hit", "miss", "stale")), EdgeColoCode: []byte(pick(r, "FRA", "FRA", "AMS", "")),
			Threat: []byte(pick(r, "", "", "", "", "user.ban.ctry", "hot.ban.unknown")),
		},
		Result: enrich.Result{
			ClientCountry: pick(r, "DE", "US", "IR", "XX"), ClientASN: r.Uint32N(5) * 1000, ClientDeviceType: pick(r, "desktop", "mobile", "tablet", "other"),
			UserAgentBrowser: pick(r, "Chrome", "Firefox", "Googlebot", ""), UserAgentOS: pick(r, "Linux", "Windows", ""),
			BotClass: pick(r, "", "", "search_engine", "monitor"), ClientIPClass: pick(r, "noRecord", "searchEngine", "monitoringService"),
			EdgeResponseContentClass: pick(r, "html", "css", "png", ""), PageView: r.IntN(4) == 0, ZoneID: zone.ID(z), ZoneName: z,
		},
	}
	if r.IntN(3) > 0 {
		q.OriginTries, q.OriginResponseDurationUs = uint16(1+r.IntN(3)), pick(r, 0, 9, r.Uint32N(1000), r.Uint32N(90_000_000))
	}
	if r.IntN(8) == 0 { // on and beside the bounds of bins
		q.EdgeResponseBytes = pick[uint64](r, 0, 1, 9, 10, 11, 99, 100, 101, 109, 110, 999, 1000, 1<<32, 1<<40)
	}
	q.Cached = string(q.CacheCacheStatus) == "hit" || string(q.CacheCacheStatus) == "stale"
	if r.IntN(10) > 0 { // the others have no known duration
		us := int64(math.Exp(r.NormFloat64()*2 + 7))
		if r.IntN(8) == 0 {
			us = pick[int64](r, 0, 1, 9, 10, 99, 100, 101, 999_999, 1_000_000, 3_600_000_000)
		}
		q.EdgeEndTimestamp, q.RequestDurationUs = q.EdgeStartTimestamp+us*1000, uint32(us)
	}
	return q
}

func address(r *rand.Rand) netip.Addr {
	n := r.IntN(900)
	if n%3 == 0 {
		return netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 14: byte(n >> 8), 15: byte(n)})
	}
	return netip.AddrFrom4([4]byte{192, 0, byte(n >> 8), byte(n)})
}

// Insert stores the requests in their order, in blocks of up to 5,000.
func Insert(t testing.TB, db store.DB, requests []Request) {
	t.Helper()
	b := schema.NewHTTPBlock(nil)
	var buf []byte
	for from := 0; from < len(requests); from += 5000 {
		b.Reset()
		buf = buf[:0]
		for i := from; i < min(len(requests), from+5000); i++ {
			buf = requests[i].HTTP.Append(buf[:0])
			v, _, err := event.ReadHTTP(buf)
			if err != nil {
				t.Fatal(err)
			}
			b.Append(v, &requests[i].Result)
		}
		for _, in := range b.Inserts("") {
			if err := db.Insert(context.Background(), in); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Store gives db with Spate's tables and the requests in it.
func Store(t testing.TB, db store.DB, requests []Request) store.DB {
	t.Helper()
	if err := schema.Migrate(context.Background(), db); err != nil {
		t.Fatal(err)
	}
	Insert(t, db, requests)
	return db
}
