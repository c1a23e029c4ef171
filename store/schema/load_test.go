package schema_test

import (
	"bufio"
	"bytes"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/spate-io/spate/edge/accesslog"
	"github.com/spate-io/spate/event"
	"github.com/spate-io/spate/internal/enrich"
	"github.com/spate-io/spate/internal/testdata"
)

// realEvents gives the requests of a real access log as events, at most limit of them.
func realEvents(t testing.TB, file string, limit int) []byte {
	t.Helper()
	f, err := os.Open(filepath.Join(testdata.Dir(t), "logs", file))
	if err != nil {
		t.Skip(err)
	}
	defer func() { _ = f.Close() }()
	z, err := zstd.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	format, _ := accesslog.Lookup("combined")
	p := format.New(accesslog.Options{})
	s := bufio.NewScanner(z)
	s.Buffer(nil, 1<<20)
	var out []byte
	var e event.HTTP
	for n := 0; s.Scan() && n < limit; n++ {
		if p.Parse(s.Bytes(), &e) == nil {
			e.EdgeName, e.ClientRequestHost = []byte("import"), []byte("www.zanbil.ir")
			out = e.Append(out)
		}
	}
	if s.Err() != nil {
		t.Fatal(s.Err())
	}
	return out
}

// enriched is a stand-in for enrichment that depends on the event alone.
func enriched(v event.View, r *enrich.Result) {
	ua := string(v.ClientRequestUserAgent())
	*r = enrich.Result{ZoneID: "0123456789abcdef0123456789abcdef", ZoneName: "zanbil.ir", ClientCountry: country(v.ClientIP()),
		ClientASN: uint32(v.ClientIP().As16()[13]), ClientIPClass: "unknown", ClientDeviceType: "desktop", UserAgentBrowser: "Chrome", UserAgentOS: "Windows"}
	switch {
	case strings.Contains(ua, "bot"):
		r.BotClass, r.UserAgentBrowser, r.ClientDeviceType, r.UserAgentOS = "search_engine", "Googlebot", "other", ""
	case strings.Contains(ua, "Android"):
		r.ClientDeviceType, r.UserAgentOS = "mobile", "Android"
	case strings.Contains(ua, "Firefox"):
		r.UserAgentBrowser = "Firefox"
	}
	path := v.ClientRequestPath()
	r.EdgeResponseContentClass = "html"
	if i := bytes.LastIndexByte(path, '.'); i > 0 && len(path)-i < 6 {
		r.EdgeResponseContentClass = string(path[i+1:])
	}
	r.PageView = v.EdgeResponseStatus() == 200 && r.EdgeResponseContentClass == "html"
	r.Cached = string(v.CacheCacheStatus()) == "hit"
}

func country(a netip.Addr) string {
	b := a.As16()
	n := int(b[12]) % 60
	return string([]byte{'A' + byte(n%26), 'A' + byte(n/26)})
}
