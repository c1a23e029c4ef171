package schema_test

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/spate-io/spate/event"
	"github.com/spate-io/spate/internal/enrich"
	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/schema"
)

// madeEvents gives n events with numbers from..from+n-1 in ConnectionID; everything else follows from the number, so that
// the same range always gives the same events. They spread over four zones, three colos and, every fifth block of a
// hundred, over the end of a week, a month and a year.
func madeEvents(from, n uint64) []byte {
	var out []byte
	var e event.HTTP
	base := time.Date(2025, 12, 31, 23, 58, 0, 0, time.UTC)
	for i := from; i < from+n; i++ {
		e.Reset()
		at := base.Add(time.Duration(i*37%400) * time.Second)
		if i/100%5 == 0 {
			at = at.AddDate(0, 0, int(i%3)*9)
		}
		e.EdgeStartTimestamp = at.UnixNano() + int64(i%1000)*1000
		if i%7 != 0 {
			e.EdgeEndTimestamp = e.EdgeStartTimestamp + int64(i*i%9_000_000)*1000
		}
		e.ConnectionID = i
		e.ClientRequestBytes, e.EdgeResponseBytes = i%900, i*31%100_000
		e.EdgeResponseStatus = []uint16{200, 200, 200, 304, 301, 404, 403, 500, 503}[i%9]
		e.ClientIP = netip.AddrFrom4([4]byte{10, byte(i % 3), byte(i % 251), byte(i % 17)})
		e.ClientRequestHost = fmt.Appendf(nil, "www%d.zone%d.example", i%3, i%4)
		e.ClientRequestMethod = []byte([]string{"GET", "POST", "HEAD"}[i%3])
		e.ClientRequestPath = fmt.Appendf(nil, "/p/%d", i%100)
		e.ClientRequestProtocol = []byte("HTTP/2.0")
		e.EdgeColoCode = []byte([]string{"FRA", "AMS", ""}[i%3])
		if i%2 == 0 {
			e.ClientSSLProtocol = []byte("TLSv1.3")
		}
		if i%13 == 0 {
			e.Threat = []byte("user.ban.ip")
		}
		if i%4 == 0 {
			e.OriginTries, e.OriginResponseDurationUs = 1, uint32(i%70_000)
		}
		e.CacheCacheStatus = []byte([]string{"hit", "miss", ""}[i%3])
		out = e.Append(out)
	}
	return out
}

func enrichMade(v event.View, r *enrich.Result) {
	enriched(v, r)
	z := v.ConnectionID() % 4
	r.ZoneID, r.ZoneName = fmt.Sprintf("%032x", z+1), fmt.Sprintf("zone%d.example", z)
}

// insert stores a block as the loader does.
func insert(t testing.TB, db store.DB, inserts []store.Insert) {
	t.Helper()
	for _, in := range inserts {
		if err := db.Insert(context.Background(), in); err != nil {
			t.Fatal(err)
		}
	}
}

// blockOf builds the inserts of some events.
func blockOf(t testing.TB, b *schema.HTTPBlock, events []byte, token string, enrichEvent func(event.View, *enrich.Result)) []store.Insert {
	t.Helper()
	b.Reset()
	var r enrich.Result
	if _, err := event.Walk(events, func(v event.View) error {
		enrichEvent(v, &r)
		b.Append(v, &r)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return b.Inserts(token)
}
