package cluster

import (
	"strconv"
	"testing"
	"time"

	"github.com/spate-io/spate/analytics/analyticstest"
	"github.com/spate-io/spate/internal/zone"
	"github.com/spate-io/spate/store/maintain"
	"github.com/spate-io/spate/store/schema"
	"github.com/spate-io/spate/store/storetest"
)

var _ maintain.Servers = (*DB)(nil)

// Erasing and checking mean all servers: what is erased is counted over the distributed tables and deleted from the local ones.
func TestMaintain_MeansAllServers(t *testing.T) {
	servers, tg := startShards(t, 1, 1)
	if _, _, err := apply(t, tg, ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	db := openCluster(t, tg)
	requests := analyticstest.Over(5, 500, time.Now(), time.Hour)
	analyticstest.Insert(t, db, requests)
	note := func(string, ...any) {}
	gone := analyticstest.Zones()[0]
	list, err := maintain.Erase(t.Context(), db, maintain.EraseOptions{Zone: zone.ID(gone)}, note)
	if err != nil {
		t.Fatal(err)
	}
	erased := map[string]uint64{}
	for _, e := range list {
		if e.Left != 0 {
			t.Errorf("%+v", e)
		}
		erased[e.Table] = e.Rows
	}
	left := 0
	for _, q := range requests {
		if q.ZoneID != zone.ID(gone) {
			left++
		}
	}
	if erased[schema.HTTPRequests] != uint64(len(requests)-left) || erased[schema.HTTPMonth] == 0 {
		t.Errorf("erased %v", erased)
	}
	one := single(t, *servers[0].addr.Load())
	if got := storetest.Text(t, one, "SELECT count() = "+strconv.Itoa(left)+", uniqExact(ZoneID) FROM http_requests_local"); got != "1\t2" {
		t.Errorf("left: %s", got)
	}
	addr := requests[len(requests)-1].ClientIP.String()
	if _, err := maintain.Erase(t.Context(), db, maintain.EraseOptions{IP: addr}, note); err != nil {
		t.Fatal(err)
	}
	r, err := maintain.Check(t.Context(), db, maintain.CheckOptions{Retention: schema.DefaultRetention()}, note)
	if err != nil || len(r.Findings) > 0 || r.Parts == 0 {
		t.Errorf("%+v, %v", r, err)
	}
}
