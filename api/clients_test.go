package api

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/cloudflare/cloudflare-go"
	"github.com/google/go-cmp/cmp"

	"github.com/spate-io/spate/analytics"
	"github.com/spate-io/spate/analytics/analyticstest"
	"github.com/spate-io/spate/internal/zone"
	"github.com/spate-io/spate/store/chdb/chdbtest"
)

// Programs that others wrote for the original API must get the same numbers out of ours.

var truthNow = time.Date(2024, 3, 1, 10, 7, 40, 0, time.UTC)

// known is an API over a store with known requests, and what it should answer.
func known(t *testing.T) (base string, dashboard *analytics.Dashboard, colos []analytics.Colo) {
	t.Helper()
	all := analyticstest.Over(5, 2000, truthNow, 4*time.Hour)
	db := analyticstest.Store(t, chdbtest.Open(t), all)
	cfg := withTokens()
	now := func() time.Time { return truthNow }
	s := serve(t, cfg, Deps{DB: db, Zones: zones(t, analyticstest.Zones()...), Now: now})
	ask, err := analytics.New(analytics.DefaultConfig(), analytics.Deps{DB: db, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	id := zone.ID(analyticstest.Zones()[0])
	if dashboard, err = ask.Dashboard(t.Context(), id, analytics.Range{Since: "-300", Continuous: true}); err != nil {
		t.Fatal(err)
	}
	if colos, _, err = ask.Colos(t.Context(), id, analytics.Range{Since: "-300", Continuous: true}); err != nil {
		t.Fatal(err)
	}
	if dashboard.Totals.Requests.All < 100 || len(colos) < 2 {
		t.Fatal("too few requests to compare")
	}
	return s.URL + "/client/v4", dashboard, colos
}

// asClient converts one of our values to the client's type as JSON would.
func asClient[T any](t *testing.T, v any) T {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out T
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestClient_CloudflareGo(t *testing.T) {
	base, dashboard, colos := known(t)
	ctx := t.Context()
	c, err := cloudflare.NewWithAPIToken(secretAll, cloudflare.BaseURL(base), cloudflare.UsingRateLimit(1000))
	if err != nil {
		t.Fatal(err)
	}
	id, err := c.ZoneIDByName(analyticstest.Zones()[0])
	if err != nil || id != zone.ID(analyticstest.Zones()[0]) {
		t.Fatalf("zone %q: %v", id, err)
	}
	since := truthNow.Add(-300 * time.Minute)
	options := cloudflare.ZoneAnalyticsOptions{Since: &since}
	got, err := c.ZoneAnalyticsDashboard(ctx, id, options)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(asClient[cloudflare.ZoneAnalyticsData](t, dashboard), got); d != "" {
		t.Errorf("dashboard (-ours +client's):\n%s", d)
	}
	if got.Totals.Requests.All == 0 || got.Totals.Uniques.All == 0 || len(got.Totals.Pageviews.SearchEngines) == 0 {
		t.Errorf("the client does not see everything: %+v", got.Totals)
	}
	byColo, err := c.ZoneAnalyticsByColocation(ctx, id, options)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(asClient[[]cloudflare.ZoneAnalyticsColocation](t, colos), byColo); d != "" {
		t.Errorf("colos (-ours +client's):\n%s", d)
	}
	verified, err := c.VerifyAPIToken(ctx)
	if err != nil || verified.Status != "active" {
		t.Errorf("%+v %v", verified, err)
	}
	if z, err := c.ZoneDetails(ctx, id); err != nil || z.Name != analyticstest.Zones()[0] || z.Status != "active" {
		t.Errorf("%+v %v", z, err)
	}

	t.Run("key_and_email", func(t *testing.T) {
		c, err := cloudflare.New(secretAll, "me@example.com", cloudflare.BaseURL(base))
		if err != nil {
			t.Fatal(err)
		}
		if zs, err := c.ListZones(ctx); err != nil || len(zs) != 4 {
			t.Errorf("%d zones: %v", len(zs), err)
		}
	})
	t.Run("errors", func(t *testing.T) {
		old := truthNow.AddDate(-3, 0, 0)
		_, err := c.ZoneAnalyticsDashboard(ctx, id, cloudflare.ZoneAnalyticsOptions{Since: &old})
		var request *cloudflare.RequestError
		if !errors.As(err, &request) || !cmp.Equal(request.ErrorCodes(), []int{1005}) {
			t.Errorf("too old a range: %v", err)
		}
		wrong, _ := cloudflare.NewWithAPIToken("not-a-token-at-all", cloudflare.BaseURL(base))
		_, err = wrong.ZoneAnalyticsDashboard(ctx, id, options)
		var refused *cloudflare.AuthenticationError
		if !errors.As(err, &refused) || !cmp.Equal(refused.ErrorCodes(), []int{9109}) {
			t.Errorf("wrong token: %v", err)
		}
	})
}

// python asks with the package cloudflare 2.8.15, which knew these calls.
const python = `
import json, sys, CloudFlare
cf = CloudFlare.CloudFlare(base_url=sys.argv[1], token=sys.argv[2])
zone = cf.zones.get(params={'name': sys.argv[3]})[0]['id']
q = {'since': -300, 'continuous': 'true'}
print(json.dumps({'dashboard': cf.zones.analytics.dashboard.get(zone, params=q), 'colos': cf.zones.analytics.colos.get(zone, params=q)}))
`

func TestClient_Python(t *testing.T) {
	py := os.Getenv("SPATE_TEST_PYTHON")
	if py == "" {
		py = "python3"
	}
	probe := exec.CommandContext(t.Context(), py, "-c", "import CloudFlare; v = getattr(CloudFlare, '__version__', ''); assert v.startswith('2.8'), v")
	if out, err := probe.CombinedOutput(); err != nil {
		t.Skipf("python package cloudflare==2.8.15 is not there (set SPATE_TEST_PYTHON to an interpreter that has it): %v %.200s", err, out)
	}
	base, dashboard, colos := known(t)
	script := filepath.Join(t.TempDir(), "ask.py")
	if err := os.WriteFile(script, []byte(python), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), py, script, base, secretAll, analyticstest.Zones()[0])
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	ours, err := json.Marshal(map[string]any{"dashboard": dashboard, "colos": colos})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(decode(t, string(ours)), decode(t, string(out))); d != "" {
		t.Errorf("(-ours +client's):\n%s", d)
	}
}
