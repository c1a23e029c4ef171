package enrich

import (
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/spate-io/spate/event"
)

func TestEnricher_ForksWorkAtOnce(t *testing.T) {
	first := enricher(t, func(c *Config) { c.ASNDB = asnFile(t) })
	v := view(t, &event.HTTP{ClientIP: netip.MustParseAddr("2001:4860:4860::8888"), ClientRequestUserAgent: []byte("AdsBot-Google (+http://www.google.com/adsbot.html)")})
	var want Result
	first.Enrich(v, &want)
	if want.ClientCountry != "US" || want.ClientASN != 15169 || want.BotClass != "other_bot" {
		t.Fatalf("%+v", want)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			e := first.Fork()
			for range 50 {
				var got Result
				if e.Enrich(v, &got); got != want {
					t.Errorf("%+v", got)
				}
			}
		})
	}
	wg.Wait()
}

func TestFindASN(t *testing.T) {
	root := t.TempDir()
	deep := filepath.Join(root, "a", "b")
	if err := os.MkdirAll(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(deep)
	if err := os.MkdirAll(filepath.Join(root, ".cache", "geo", "asn.db"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := findASN(); got == filepath.Join(root, ".cache", "geo", "asn.db") {
		t.Fatal("a folder was taken for the table")
	}
	want := filepath.Join(root, "a", ".cache", "geo", "asn.db")
	if err := os.MkdirAll(filepath.Dir(want), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(want, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := findASN(); got != want {
		t.Fatalf("found %q, want %q", got, want)
	}
	if _, err := New(DefaultConfig(), Deps{}); err == nil {
		t.Fatal("an empty table was accepted")
	}
}
