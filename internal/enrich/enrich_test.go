package enrich

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/spate-io/spate/event"
	"github.com/spate-io/spate/internal/config"
	"github.com/spate-io/spate/internal/enrich/asndb"
	"github.com/spate-io/spate/internal/enrich/mmdbtest"
)

// enricher returns an Enricher without a database of autonomous systems, unless change names one.
func enricher(t testing.TB, change func(*Config)) *Enricher {
	t.Helper()
	cfg := DefaultConfig()
	cfg.ASNDB = none
	if change != nil {
		change(&cfg)
	}
	e, err := New(cfg, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func view(t testing.TB, e *event.HTTP) event.View {
	t.Helper()
	v, _, err := event.ReadHTTP(e.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// asnFile writes a table of autonomous systems.
func asnFile(t testing.TB) string {
	t.Helper()
	list, err := asndb.ReadCSV(strings.NewReader("8.8.8.0,8.8.8.255,15169,Google\n10.0.0.0,10.255.255.255,64512,private\n2001:4860::,2001:4860:ffff:ffff:ffff:ffff:ffff:ffff,15169,Google\n"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := asndb.Build(list)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "asn.db")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestEnricher_Enrich(t *testing.T) {
	e := enricher(t, func(c *Config) { c.ASNDB = asnFile(t) })
	start := time.Date(2024, 2, 3, 4, 5, 6, 7, time.UTC).UnixNano()
	h := &event.HTTP{
		EdgeStartTimestamp: start, EdgeEndTimestamp: start + 1_234_567, EdgeResponseStatus: 200,
		ClientIP: netip.MustParseAddr("8.8.8.8"), ClientRequestMethod: []byte("GET"), ClientRequestPath: []byte("/"),
		ClientRequestUserAgent:  []byte("Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.0 Mobile/15E148 Safari/604.1"),
		EdgeResponseContentType: []byte("text/html; charset=utf-8"), CacheCacheStatus: []byte("hit"),
	}
	want := Result{
		ClientCountry: "US", ClientASN: 15169, ClientDeviceType: "mobile", UserAgentBrowser: "Safari", UserAgentOS: "iOS", ClientIPClass: "unknown",
		EdgeResponseContentClass: "html", Cached: true, PageView: true, RequestDurationUs: 1234, ZoneID: "z", ZoneName: "n",
	}
	got := Result{ZoneID: "z", ZoneName: "n"}
	for range 2 { // looked up, then out of the cache
		e.Enrich(view(t, h), &got)
		if d := cmp.Diff(want, got); d != "" {
			t.Fatal(d)
		}
	}

	h.ClientRequestUserAgent = []byte("Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)")
	h.CacheCacheStatus, h.EdgeEndTimestamp, h.ClientIP, h.EdgeResponseStatus = nil, 0, netip.Addr{}, 500
	want = Result{
		ClientCountry: "XX", ClientDeviceType: "other", UserAgentBrowser: "Googlebot", BotClass: "search_engine", ClientIPClass: "searchEngine",
		EdgeResponseContentClass: "html", ZoneID: "z", ZoneName: "n",
	}
	e.Enrich(view(t, h), &got)
	if d := cmp.Diff(want, got); d != "" {
		t.Fatal(d)
	}

	e.Enrich(view(t, &event.HTTP{}), &got)
	if d := cmp.Diff(Result{ClientCountry: "XX", ClientDeviceType: "other", ClientIPClass: "unknown", ZoneID: "z", ZoneName: "n"}, got); d != "" {
		t.Fatal(d)
	}
}

func TestEnricher_ResultOutlivesTheEvent(t *testing.T) {
	e := enricher(t, nil)
	h := &event.HTTP{ClientRequestUserAgent: []byte("curl/8.4.0"), EdgeResponseContentType: []byte("image/png"), ClientIP: netip.MustParseAddr("1.1.1.1")}
	b := h.Append(nil)
	v, _, err := event.ReadHTTP(b)
	if err != nil {
		t.Fatal(err)
	}
	var r, again Result
	e.Enrich(v, &r)
	clear(b)
	e.Enrich(view(t, h), &again)
	if r != again || r.UserAgentBrowser != "curl" || r.EdgeResponseContentClass != "png" {
		t.Fatalf("%+v, then %+v", r, again)
	}
}

func TestEnricher_AddressesOfNoCountry(t *testing.T) {
	// Databases give private and documentation ranges to countries; these must not reach any of them.
	wrong := map[string]mmdbtest.Map{"0.0.0.0/1": {"country_code": "AU"}, "128.0.0.0/1": {"country_code": "AU"}, "8000::/1": {"country_code": "AU"}, "2000::/3": {"country_code": "AU"}}
	for name, e := range map[string]*Enricher{
		"built_in": enricher(t, func(c *Config) { c.ASNDB = asnFile(t) }),
		"mmdb":     enricher(t, func(c *Config) { c.CountryDB = mmdbtest.Write(t, "wrong", wrong); c.ASNDB = asnFile(t) }),
	} {
		t.Run(name, func(t *testing.T) {
			for _, a := range []string{
				"0.0.0.0", "10.1.2.3", "100.64.0.1", "127.0.0.1", "169.254.1.1", "172.16.0.1", "172.31.255.255", "192.0.0.8", "192.0.2.7", "192.88.99.1", "192.168.1.1",
				"198.18.0.1", "198.19.255.255", "198.51.100.9", "203.0.113.7", "224.0.0.1", "240.0.0.1", "255.255.255.255",
				"::", "::1", "::ffff:10.0.0.1", "64:ff9b::8.8.8.8", "100::1", "2001::1", "2001:2::1", "2001:10::1", "2001:20::1", "2001:db8::1",
				"2002:0a00:0001::1", "3fff::1", "fc00::1", "fd12::1", "fe80::1", "fe80::1%eth0", "ff02::1",
			} {
				if p := e.place(netip.MustParseAddr(a)); p != (place{country: "XX"}) {
					t.Errorf("%s: %+v", a, p)
				}
			}
			for _, a := range []string{"9.9.9.9", "100.63.0.1", "100.128.0.1", "172.15.0.1", "172.32.0.1", "192.0.1.1", "192.167.1.1", "198.17.0.1", "198.20.0.1", "203.0.112.1", "2001:4860::1", "2a00:1450::1", "2606:4700::1111"} {
				if !public(netip.MustParseAddr(a)) {
					t.Errorf("%s counts as not public", a)
				}
			}
		})
	}
}

func TestEnricher_BuiltInCountries(t *testing.T) {
	e := enricher(t, nil)
	f := func(a, want string) {
		t.Helper()
		for range 2 {
			if got := e.place(netip.MustParseAddr(a)).country; got != want {
				t.Errorf("%s: %s, want %s", a, got, want)
			}
		}
	}
	f("8.8.8.8", "US")
	f("::ffff:8.8.8.8", "US")
	f("193.0.6.139", "NL")          // RIPE NCC
	f("202.12.29.175", "AU")        // APNIC
	f("200.7.84.1", "UY")           // LACNIC
	f("133.11.0.1", "JP")           // University of Tokyo
	f("2001:4860:4860::8888", "US") // Google
	f("2001:67c:2e8::1", "NL")      // RIPE NCC
	f("2001:200::1", "JP")          // WIDE
}

func TestEnricher_Databases(t *testing.T) {
	country := mmdbtest.Write(t, "country", map[string]mmdbtest.Map{
		"8.8.8.0/24": {"country_code": "US"}, "9.0.0.0/8": {"country": mmdbtest.Map{"iso_code": "CA"}},
		"11.0.0.0/8": {"country_code": "ZZ"}, "12.0.0.0/8": {"country_code": "long"}, "2a00::/16": {"country_code": "DE"},
	})
	asn := mmdbtest.Write(t, "asn", map[string]mmdbtest.Map{"8.8.8.0/24": {"autonomous_system_number": uint32(15169)}, "2a00::/16": {"autonomous_system_number": uint32(3320)}})
	e := enricher(t, func(c *Config) { c.CountryDB, c.ASNDB = country, asn })
	for a, want := range map[string]place{
		"8.8.8.8": {"US", 15169}, "9.1.1.1": {"CA", 0}, "11.1.1.1": {"XX", 0}, "12.1.1.1": {"XX", 0}, "13.1.1.1": {"XX", 0}, "2a00::1": {"DE", 3320}, "2b00::1": {"XX", 0},
	} {
		if got := e.place(netip.MustParseAddr(a)); got != want {
			t.Errorf("%s: %+v, want %+v", a, got, want)
		}
	}
}

func TestNew_RefusesBadFiles(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad")
	if err := os.WriteFile(bad, bytes.Repeat([]byte("no"), 500), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, cfg := range []Config{{CountryDB: bad, ASNDB: none}, {ASNDB: bad}, {CountryDB: bad + "x", ASNDB: none}, {ASNDB: bad + "x"}} {
		if _, err := New(cfg, Deps{}); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

func TestConfig_Validate(t *testing.T) {
	var p config.Problems
	c := DefaultConfig()
	c.Validate(&p)
	if err := p.Err(); err != nil {
		t.Fatal(err)
	}
	c = Config{CountryDB: "/no/such/file", ASNDB: "/no/such/file", UserAgentCache: 1}
	c.Validate(&p)
	for _, key := range []string{"country_db", "asn_db", "user_agent_cache", "address_cache"} {
		if err := p.Err(); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s is not named: %v", key, err)
		}
	}
}

func TestEnricher_CachesAreBounded(t *testing.T) {
	r := prometheus.NewRegistry()
	cfg := DefaultConfig()
	cfg.ASNDB, cfg.UserAgentCache, cfg.AddressCache = none, 64<<10, 64<<10
	first, err := New(cfg, Deps{Registerer: r})
	if err != nil {
		t.Fatal(err)
	}
	e := first.Fork()
	for i := range 5000 {
		e.agent(fmt.Appendf(nil, "agent %d", i))
		e.agent([]byte("asked for again and again"))
		e.place(netip.AddrFrom4([4]byte{8, 8, byte(i >> 8), byte(i)}))
		e.place(netip.MustParseAddr("9.9.9.9"))
	}
	e.agent(bytes.Repeat([]byte("long"), 10_000))
	if n := len(e.agents.young) + len(e.agents.old); n > 64<<10/agentCost {
		t.Errorf("%d user agents are kept", n)
	}
	if n := len(e.places.young) + len(e.places.old); n > 64<<10/placeCost {
		t.Errorf("%d addresses are kept", n)
	}
	if n := testutil.ToFloat64(e.metrics.agentMisses); n != 5002 {
		t.Errorf("%v user agents were not in the cache", n)
	}
	if n := testutil.ToFloat64(e.metrics.addressMisses); n != 5001 {
		t.Errorf("%v addresses were not in the cache", n)
	}
	if len(first.agents.young) != 0 {
		t.Error("a fork fills the cache of another")
	}
	if p, err := testutil.GatherAndLint(r); err != nil || len(p) != 0 {
		t.Errorf("metrics: %v, %v", p, err)
	}
}

func TestContentClass(t *testing.T) {
	f := func(contentType, path string, page bool, want string) {
		t.Helper()
		if got := contentClass([]byte(contentType), []byte(path), page); got != want {
			t.Errorf("%q of %q: %q, want %q", contentType, path, got, want)
		}
	}
	f("text/html; charset=utf-8", "/x.png", true, "html")
	f("TEXT/HTML", "/", true, "html")
	f(" text/css ", "/", true, "css")
	f("application/javascript", "/", true, "javascript")
	f("application/problem+json", "/", true, "json")
	f("application/json;charset=utf-8", "/", true, "json")
	f("image/svg+xml", "/", true, "svg")
	f("image/jxl", "/", true, "image")
	f("application/soap+xml", "/", true, "xml")
	f("application/rss+xml", "/", true, "feed")
	f("font/woff2", "/", true, "font")
	f("application/vnd.ms-fontobject", "/", true, "font")
	f("video/mp4", "/", true, "video")
	f("nonsense", "/", true, "other")
	f(strings.Repeat("x", 500)+"/json", "/", true, "other")
	f("", "/a/b.PNG", true, "png")
	f("", "/a/b.min.js", false, "javascript")
	f("", "/index.php", false, "html")
	f("", "/", true, "html")
	f("", "", true, "html")
	f("", "/", false, "")
	f("", "/about-us", true, "html")
	f("", "/v1.2/about", true, "html")
	f("", "/api/users", true, "")
	f("", "/graphql", true, "")
	f("", "/.env", true, "")
	f("", "/a.unknown", true, "")
	f("", "/a.b/", true, "html")
}

func TestEnricher_PageView(t *testing.T) {
	e := enricher(t, nil)
	f := func(method string, status uint16, contentType, path string, want bool) {
		t.Helper()
		var r Result
		e.Enrich(view(t, &event.HTTP{ClientRequestMethod: []byte(method), EdgeResponseStatus: status, EdgeResponseContentType: []byte(contentType), ClientRequestPath: []byte(path)}), &r)
		if r.PageView != want {
			t.Errorf("%s %s, %d %s: %v", method, path, status, contentType, r.PageView)
		}
	}
	f("GET", 200, "text/html", "/", true)
	f("GET", 206, "text/html", "/", true)
	f("GET", 304, "", "/", true)
	f("GET", 304, "", "/logo.png", false)
	f("GET", 200, "application/json", "/", false)
	f("HEAD", 200, "text/html", "/", false)
	f("POST", 200, "text/html", "/", false)
	f("GET", 301, "text/html", "/", false)
	f("GET", 404, "text/html", "/", false)
	f("GET", 204, "", "/", false)
	f("GET", 500, "", "/", false)
}

func TestDuration(t *testing.T) {
	f := func(start, end int64, want uint32) {
		t.Helper()
		if got := duration(start, end); got != want {
			t.Errorf("%d to %d: %d, want %d", start, end, got, want)
		}
	}
	f(1_000_000, 0, 0)
	f(1_000_000, 3_000_999, 2000)
	f(3_000_000, 1_000_000, 0)
	f(-9e18, 9e18, 1<<32-1)
	f(0, 1<<62, 1<<32-1)
}

func TestEnricher_NoAllocationsFromTheCache(t *testing.T) {
	e := enricher(t, nil)
	v := view(t, &event.HTTP{ClientIP: netip.MustParseAddr("8.8.8.8"), ClientRequestUserAgent: []byte("curl/8.4.0"), EdgeResponseContentType: []byte("text/html")})
	var r Result
	if n := testing.AllocsPerRun(100, func() { e.Enrich(v, &r) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
