package zone

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spate-io/spate/internal/config"
)

func registry(t testing.TB, cfg Config, deps Deps) *Registry {
	t.Helper()
	var p config.Problems
	if cfg.Validate(&p); p.Err() != nil {
		t.Fatal(p.Err())
	}
	r, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func configured(entries ...Entry) Config {
	c := DefaultConfig()
	c.List = entries
	return c
}

func TestMatch_ConfiguredHosts(t *testing.T) {
	cfg := configured(
		Entry{Name: "example.com"},
		Entry{Name: "shop", Hosts: []string{"shop.example.com", "Shop.Example.NET"}},
		Entry{Name: "bücher.example", Hosts: []string{"bücher.example", "xn--bcher-kva.example"}},
	)
	cfg.Auto = false
	r := registry(t, cfg, Deps{})
	for host, want := range map[string]string{
		"example.com":               "example.com",
		"EXAMPLE.com.":              "example.com",
		"example.com:8443":          "example.com",
		"a.b.example.com":           "example.com",
		"shop.example.com":          "shop",
		"x.shop.example.com:80":     "shop",
		"shop.example.net.":         "shop",
		"example.net":               UnknownName,
		"notexample.com":            UnknownName,
		"bücher.example":            "bücher.example",
		"www.xn--bcher-kva.example": "bücher.example",
		"com":                       UnknownName,
		"":                          UnknownName,
		"[::1]:80":                  UnknownName,
		"10.0.0.1":                  UnknownName,
		strings.Repeat("a.", 4000):  UnknownName,
	} {
		z, ok := r.Match([]byte(host))
		if z.Name != want || ok != (want != UnknownName) {
			t.Errorf("%.40q is of zone %q, %v; want %q", host, z.Name, ok, want)
		}
	}
}

func TestMatch_Automatic(t *testing.T) {
	r := registry(t, configured(Entry{Name: "fixed.org", Hosts: []string{"www.fixed.org"}}), Deps{})
	for _, c := range []struct{ host, want string }{
		{"www.news.co.uk", "news.co.uk"},
		{"static.News.co.uk:443", "news.co.uk"},
		{"someone.github.io", "someone.github.io"},
		{"localhost:8080", "localhost"},
		{"db.internal", "db.internal"},
		{"a.b.db.internal", "db.internal"},
		{"a.b.www.fixed.org", "fixed.org"},
		{"api.fixed.org", UnknownName}, // its zone is configured with other hosts
		{"co.uk", UnknownName},
		{"github.io", UnknownName},
		{"127.0.0.1:80", UnknownName},
		{"1.2.3", UnknownName},
		{"[2001:db8::1]", UnknownName},
		{"a..b", UnknownName},
		{"a b.com", UnknownName},
		{"<script>.com", UnknownName},
		{".com", UnknownName},
		{"unknown", UnknownName},
		{strings.Repeat("a", 64) + ".com", UnknownName},
		{"caf\xc3\xa9.fr", UnknownName},
		{"x'; drop.com", UnknownName},
	} {
		z, ok := r.Match([]byte(c.host))
		if z.Name != c.want || ok != (c.want != UnknownName) || z.ID != ID(z.Name) {
			t.Errorf("%q is of zone %+v, %v; want %q", c.host, z, ok, c.want)
		}
	}
	var names []string
	for _, z := range r.All() {
		names = append(names, z.Name)
		if got, ok := r.Get(z.ID); !ok || got != z {
			t.Errorf("zone %s is not found by its id", z.Name)
		}
	}
	if d := cmp.Diff([]string{"db.internal", "fixed.org", "localhost", "news.co.uk", "someone.github.io", UnknownName}, names); d != "" {
		t.Error(d)
	}
}

func TestMatch_FloodMakesNoMoreZonesThanAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		cfg.MaxAuto, cfg.AutoPerSecond = 500, 2
		r := registry(t, cfg, Deps{})
		flood := func(from, n int) (made int) {
			for i := range n {
				if _, ok := r.Match(fmt.Appendf(nil, "www.site-%d.com", from+i)); ok {
					made++
				}
			}
			return made
		}
		if n := flood(0, 5000); n != 200 {
			t.Errorf("%d zones in one moment, want the burst of 200", n)
		}
		time.Sleep(10 * time.Second)
		if n := flood(10_000, 5000); n != 20 {
			t.Errorf("%d zones in 10 s, want 20", n)
		}
		time.Sleep(time.Hour)
		flood(20_000, 5000)
		time.Sleep(time.Hour)
		flood(30_000, 5000)
		if n := len(r.All()); n != 501 {
			t.Errorf("%d zones, want 500 and the unknown one", n)
		}
		if z, ok := r.Match([]byte("img.site-7.com")); !ok || z.Name != "site-7.com" {
			t.Error("a zone of before the flood's end is gone")
		}
	})
}

// memory is a store of zones that can be told to fail.
type memory struct {
	mu    sync.Mutex
	zones map[string]Zone
	saves int
	err   error
}

func (m *memory) load(context.Context) ([]Zone, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []Zone
	for _, z := range m.zones {
		out = append(out, z)
	}
	return out, m.err
}

func (m *memory) save(_ context.Context, zs []Zone) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return m.err
	}
	m.saves++
	if m.zones == nil {
		m.zones = map[string]Zone{}
	}
	for _, z := range zs {
		m.zones[z.ID] = z
	}
	return nil
}

func (m *memory) deps() Deps { return Deps{Load: m.load, Save: m.save} }

func TestRegistry_PersistsAndShares(t *testing.T) {
	ctx := t.Context()
	m := &memory{}
	a := registry(t, configured(Entry{Name: "one.com"}), m.deps())
	if a.Ready() == nil {
		t.Error("ready before the store was read")
	}
	if err := a.Sync(ctx); err != nil || a.Ready() != nil {
		t.Fatal(err, a.Ready())
	}
	a.Match([]byte("www.two.com"))
	if err := a.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if len(m.zones) != 3 {
		t.Fatalf("%d zones stored", len(m.zones))
	}
	saves := m.saves
	if err := a.Sync(ctx); err != nil || m.saves != saves {
		t.Errorf("saved again without a change: %v", err)
	}

	b := registry(t, configured(Entry{Name: "one.com", Plan: "pro"}), m.deps())
	if err := b.Sync(ctx); err != nil {
		t.Fatal(err)
	}
	if z, ok := b.Match([]byte("two.com")); !ok || !z.Created.Equal(m.zones[z.ID].Created) {
		t.Errorf("the other process's zone is not known: %+v", z)
	}
	if m.zones[ID("one.com")].Plan != "pro" {
		t.Error("the configuration's change did not reach the store")
	}

	cfg := configured()
	cfg.Auto = false
	c := registry(t, cfg, m.deps())
	if err := c.Sync(ctx); err != nil {
		t.Fatal(err)
	}
	if _, ok := c.Match([]byte("two.com")); ok {
		t.Error("a stored zone takes traffic though automatic zones are off")
	}
	if _, ok := c.Get(ID("two.com")); !ok {
		t.Error("a stored zone cannot be asked for")
	}
}

func TestRegistry_SavesWhenTheStoreIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{err: errors.New("store is away")}
		r := registry(t, DefaultConfig(), m.deps())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		r.Match([]byte("one.com"))
		time.Sleep(time.Minute)
		if r.Ready() == nil {
			t.Error("ready without a store")
		}
		m.mu.Lock()
		m.err = nil
		m.mu.Unlock()
		time.Sleep(5 * time.Second)
		r.Match([]byte("two.com"))
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if r.Ready() != nil || len(m.zones) != 3 {
			t.Errorf("%d zones stored, ready: %v", len(m.zones), r.Ready())
		}
	})
}

func TestMatch_WhileZonesAreMade(t *testing.T) {
	cfg := DefaultConfig()
	cfg.AutoPerSecond = 10_000
	r := registry(t, cfg, Deps{})
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 3000 {
				name := fmt.Sprintf("s%d.com", (i*7+w)%2500)
				if z, ok := r.Match([]byte("www." + name)); !ok || z.Name != name {
					t.Errorf("%s is of zone %s", name, z.Name)
					return
				}
				if i%500 == 0 {
					r.All()
				}
			}
		})
	}
	wg.Wait()
	if n := len(r.All()); n != 2501 {
		t.Errorf("%d zones", n)
	}
}

func TestConfig_Validate(t *testing.T) {
	good := DefaultConfig()
	var p config.Problems
	if good.Validate(&p); p.Err() != nil {
		t.Fatal(p.Err())
	}
	bad := configured(
		Entry{Name: "a.com", ID: "XYZ", Plan: "Very Big"},
		Entry{Name: "A.com.", Hosts: []string{"*.a.com", "http://a.com/", "b.com"}},
		Entry{Name: "b.com"},
		Entry{Name: "unknown"},
		Entry{Name: "10.1.1.1"},
	)
	bad.MaxAuto, bad.AutoPerSecond, bad.SyncEvery, bad.ReloadEvery = -1, 0, 0, -5
	bad.Validate(&p)
	text := fmt.Sprint(p.Err())
	for _, want := range []string{
		"max_auto must", "auto_per_second must", "sync_every must", "reload_every must", "list[0].id must", "list[0].plan must",
		"list[1].name occurs in list[0]", "list[1].hosts[0] must not start with *.", "list[1].hosts[1] must be a host name",
		"list[2].name occurs in list[1]", "list[3].name is kept", "list[4].name must be a domain",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
}

func TestID_Stable(t *testing.T) {
	if got := ID("example.com"); got != "2ebc3b25e5b82662f032d2d540301afa" { // stored zones and events carry it: it must never change
		t.Error(got)
	}
	for _, bad := range []string{"", "x", strings.Repeat("A", 32), strings.Repeat("g", 32), strings.Repeat("0", 33)} {
		if ValidID(bad) {
			t.Errorf("%q is valid", bad)
		}
	}
}

func TestMatch_DoesNotAllocate(t *testing.T) {
	r := registry(t, configured(Entry{Name: "example.com"}), Deps{})
	hosts := [][]byte{[]byte("example.com"), []byte("WWW.Example.COM:80"), []byte("a.b.c.example.com"), nil}
	if n := testing.AllocsPerRun(100, func() {
		for _, h := range hosts {
			r.Match(h)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzMatch: any bytes give a zone, the same one the second time, and names that are valid hosts.
func FuzzMatch(f *testing.F) {
	for _, s := range []string{"example.com", "A.b.:80", "[::1]:80", "", ".", "a..b", "\xff\xfe.com", "xn--.com", "1.1.1.1"} {
		f.Add([]byte(s))
	}
	r := registry(f, DefaultConfig(), Deps{})
	f.Fuzz(func(t *testing.T, host []byte) {
		kept := slices.Clone(host)
		z, ok := r.Match(host)
		if string(kept) != string(host) {
			t.Fatal("host changed")
		}
		if ok && (!ValidHost(z.Name) || !ValidID(z.ID)) {
			t.Fatalf("zone %+v", z)
		}
		if again, ok2 := r.Match(host); ok && (!ok2 || again != z) {
			t.Fatalf("zone %v, then %v", z, again)
		}
	})
}

func BenchmarkMatch_MillionZones(b *testing.B) {
	cfg := DefaultConfig()
	for i := range 1_000_000 {
		cfg.List = append(cfg.List, Entry{Name: fmt.Sprintf("site-%d.example-%d.com", i, i%1000)})
	}
	r, err := New(cfg, Deps{})
	if err != nil {
		b.Fatal(err)
	}
	hosts := make([][]byte, 1<<16)
	for i := range hosts {
		j := i * 7919 % 1_000_000
		hosts[i] = fmt.Appendf(nil, "www.site-%d.example-%d.com", j, j%1000)
	}
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := r.Match(hosts[i&(len(hosts)-1)]); !ok {
			b.Fatal("no zone")
		}
		i++
	}
}

func BenchmarkMatch_FewZones(b *testing.B) {
	r := registry(b, configured(Entry{Name: "example.com"}), Deps{})
	host := []byte("www.example.com")
	for b.Loop() {
		r.Match(host)
	}
}
