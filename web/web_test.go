package web

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func build() fstest.MapFS {
	return fstest.MapFS{
		"index.html":            {Data: []byte("<!doctype html><title>page</title>")},
		"index.html.gz":         {Data: []byte("gz-page")},
		"assets/app-1234.js":    {Data: []byte("console.log(1)")},
		"assets/app-1234.js.br": {Data: []byte("br-app")},
		"assets/app-1234.js.gz": {Data: []byte("gz-app")},
		"assets/f-1.woff2":      {Data: []byte("font")},
		"theme.js":              {Data: []byte("theme")},
		".gitkeep":              {},
	}
}

func get(t *testing.T, h http.Handler, method, target string, header ...string) (*http.Response, string) {
	t.Helper()
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	body, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Result(), string(body)
}

func TestHandler_Files(t *testing.T) {
	h := newHandler(build())
	for _, c := range []struct {
		name, path, accept                      string
		status                                  int
		body, mime, cache, encoding, etagSuffix string
	}{
		{"index", "/", "", 200, "<!doctype html><title>page</title>", "text/html; charset=utf-8", "no-cache", "", `"`},
		{"index_gzip", "/", "gzip, deflate", 200, "gz-page", "text/html; charset=utf-8", "no-cache", "gzip", `-gzip"`},
		{"page_address", "/zones/0123?range=1h", "", 200, "<!doctype html><title>page</title>", "text/html; charset=utf-8", "no-cache", "", `"`},
		{"asset_brotli", "/assets/app-1234.js", "gzip, br", 200, "br-app", "text/javascript; charset=utf-8", "public, max-age=31536000, immutable", "br", `-br"`},
		{"asset_gzip", "/assets/app-1234.js", "br;q=0, gzip;q=0.5", 200, "gz-app", "text/javascript; charset=utf-8", "public, max-age=31536000, immutable", "gzip", `-gzip"`},
		{"asset_plain", "/assets/app-1234.js", "identity", 200, "console.log(1)", "text/javascript; charset=utf-8", "public, max-age=31536000, immutable", "", `"`},
		{"font", "/assets/f-1.woff2", "br", 200, "font", "font/woff2", "public, max-age=31536000, immutable", "", `"`},
		{"old_asset", "/assets/app-0000.js", "", 404, "no such asset\n", "text/plain; charset=utf-8", "", "", ""},
		{"theme", "/theme.js", "", 200, "theme", "text/javascript; charset=utf-8", "no-cache", "", `"`},
		{"climbing", "/../web.go", "", 200, "<!doctype html><title>page</title>", "text/html; charset=utf-8", "no-cache", "", `"`},
		{"not_a_file", "/.gitkeep", "", 200, "<!doctype html><title>page</title>", "text/html; charset=utf-8", "no-cache", "", `"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			res, body := get(t, h, http.MethodGet, c.path, "Accept-Encoding", c.accept)
			got := []any{res.StatusCode, body, res.Header.Get("Content-Type"), res.Header.Get("Cache-Control"), res.Header.Get("Content-Encoding")}
			want := []any{c.status, c.body, c.mime, c.cache, c.encoding}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("answer (-want +got):\n%s", d)
			}
			if !strings.HasSuffix(res.Header.Get("ETag"), c.etagSuffix) {
				t.Errorf("ETag %q does not end in %q", res.Header.Get("ETag"), c.etagSuffix)
			}
		})
	}
}

func TestHandler_Conditional(t *testing.T) {
	h := newHandler(build())
	for _, accept := range []string{"", "br"} {
		first, _ := get(t, h, http.MethodGet, "/assets/app-1234.js", "Accept-Encoding", accept)
		again, body := get(t, h, http.MethodGet, "/assets/app-1234.js", "Accept-Encoding", accept, "If-None-Match", first.Header.Get("ETag"))
		if again.StatusCode != http.StatusNotModified || body != "" {
			t.Errorf("accept %q: status %d, body %q, want 304 and none", accept, again.StatusCode, body)
		}
	}
}

func TestHandler_Head(t *testing.T) {
	res, body := get(t, newHandler(build()), http.MethodHead, "/assets/app-1234.js", "Accept-Encoding", "br")
	if body != "" || res.Header.Get("Content-Length") != "6" {
		t.Errorf("body %q, length %q, want none and 6", body, res.Header.Get("Content-Length"))
	}
}

func TestHandler_SecurityHeaders(t *testing.T) {
	for name, h := range map[string]http.Handler{"built": newHandler(build()), "missing": missing()} {
		res, _ := get(t, h, http.MethodGet, "/")
		csp := res.Header.Get("Content-Security-Policy")
		if !strings.Contains(csp, "script-src 'self'") || strings.Contains(csp, "unsafe") {
			t.Errorf("%s: policy %q allows too much", name, csp)
		}
		if res.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: no nosniff", name)
		}
	}
}

func TestHandler_RefusesOtherMethods(t *testing.T) {
	res, _ := get(t, newHandler(build()), http.MethodPost, "/")
	if res.StatusCode != http.StatusMethodNotAllowed || res.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("status %d, Allow %q", res.StatusCode, res.Header.Get("Allow"))
	}
}

func TestHandler_NotBuilt(t *testing.T) {
	res, body := get(t, newHandler(fstest.MapFS{".gitkeep": {}}), http.MethodGet, "/zones/1")
	if res.StatusCode != http.StatusNotFound || !strings.Contains(body, "npm run build") {
		t.Errorf("status %d, body %q", res.StatusCode, body)
	}
}

// TestHandler_Embedded checks what this binary carries, when the page was built.
func TestHandler_Embedded(t *testing.T) {
	res, body := get(t, Handler(), http.MethodGet, "/")
	if res.StatusCode == http.StatusNotFound {
		t.Skip("dashboard not built")
	}
	if strings.Contains(body, "<style") || strings.Contains(body, "<script>") {
		t.Error("index.html has inline script or style, which its policy forbids")
	}
}
