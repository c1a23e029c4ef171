package web

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"
)

// contentSecurityPolicy allows the page its own files and its own server, and nothing else. There is no inline script
// and no inline style sheet in the build; element styles set through the DOM are not subject to it.
const contentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
	"font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// file is one file of the build with its precompressed forms; br and gz are nil where the build left none.
type file struct {
	raw, br, gz []byte
	mime        string
	etag        string
	immutable   bool
}

type handler struct {
	files map[string]*file // by URL path without the leading slash
	index *file
}

// newHandler reads every file of root once. Without an index.html the answer is the page of missing.
func newHandler(root fs.FS) http.Handler {
	h := &handler{files: map[string]*file{}}
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() || strings.HasSuffix(name, ".br") || strings.HasSuffix(name, ".gz") || path.Base(name) == ".gitkeep" {
			return nil
		}
		raw, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(raw)
		f := &file{raw: raw, mime: mimeType(name), etag: hex.EncodeToString(sum[:8]), immutable: strings.HasPrefix(name, "assets/")}
		if b, err := fs.ReadFile(root, name+".br"); err == nil {
			f.br = b
		}
		if b, err := fs.ReadFile(root, name+".gz"); err == nil {
			f.gz = b
		}
		h.files[name] = f
		return nil
	})
	h.index = h.files["index.html"]
	if err != nil || h.index == nil {
		return missing()
	}
	return h
}

// ServeHTTP answers with the file, with index.html for an address of the page itself, or with 404 below /assets/.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !allowed(w, r) {
		return
	}
	name := strings.TrimPrefix(path.Clean("/"+r.URL.Path), "/")
	f, ok := h.files[name]
	if !ok {
		if strings.HasPrefix(name, "assets/") {
			// An old page asking for an asset of an older build must not get HTML as a script.
			http.Error(w, "no such asset", http.StatusNotFound)
			return
		}
		f = h.index
	}
	f.serve(w, r)
}

func (f *file) serve(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	body, encoding := f.raw, ""
	if f.br != nil || f.gz != nil {
		head.Set("Vary", "Accept-Encoding")
		body, encoding = f.pick(r.Header.Get("Accept-Encoding"))
	}
	head.Set("Content-Type", f.mime)
	if f.immutable {
		head.Set("Cache-Control", "public, max-age=31536000, immutable")
	} else {
		head.Set("Cache-Control", "no-cache")
	}
	etag := `"` + f.etag + `"`
	if encoding != "" {
		head.Set("Content-Encoding", encoding)
		etag = `"` + f.etag + "-" + encoding + `"`
	}
	head.Set("ETag", etag)
	if encoding == "" {
		// Handles ranges and conditions on the plain bytes.
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
		return
	}
	if strings.Contains(r.Header.Get("If-None-Match"), etag) {
		head.Del("Content-Encoding")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	head.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method == http.MethodHead {
		return
	}
	_, _ = w.Write(body) // the client went away: nothing to do
}

// pick gives the smallest form that the client accepts and the name of its encoding, "" for the plain bytes.
func (f *file) pick(accept string) ([]byte, string) {
	br, gz := accepts(accept)
	switch {
	case br && f.br != nil:
		return f.br, "br"
	case gz && f.gz != nil:
		return f.gz, "gzip"
	}
	return f.raw, ""
}

// accepts reads an Accept-Encoding header: which of brotli and gzip are named with a quality above zero.
func accepts(header string) (br, gz bool) {
	for _, part := range strings.Split(header, ",") {
		name, params, _ := strings.Cut(strings.TrimSpace(part), ";")
		if q, ok := strings.CutPrefix(strings.TrimSpace(params), "q="); ok {
			if v, err := strconv.ParseFloat(strings.TrimSpace(q), 64); err != nil || v <= 0 {
				continue
			}
		}
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "br":
			br = true
		case "gzip":
			gz = true
		}
	}
	return br, gz
}

// allowed sets the headers that every answer carries and refuses methods other than GET and HEAD.
func allowed(w http.ResponseWriter, r *http.Request) bool {
	head := w.Header()
	head.Set("Content-Security-Policy", contentSecurityPolicy)
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("X-Frame-Options", "DENY")
	head.Set("Referrer-Policy", "same-origin")
	head.Set("Cross-Origin-Opener-Policy", "same-origin")
	head.Set("Cross-Origin-Resource-Policy", "same-origin")
	head.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=()")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		head.Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return false
	}
	return true
}

// mimeType names the content type of a build file. It does not ask the system's table, which differs by machine.
func mimeType(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	case ".png":
		return "image/png"
	case ".ico":
		return "image/x-icon"
	case ".woff2":
		return "font/woff2"
	case ".json", ".webmanifest":
		return "application/json"
	case ".txt":
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}

const missingPage = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Spate</title></head>
<body>
<h1>This spate was built without its dashboard</h1>
<p>The API works; only the page is missing from the binary. To build both, in the source tree:</p>
<pre>make build</pre>
<p>or, for the page alone:</p>
<pre>cd web
npm ci
npm run build
cd ..
go build -o bin/spate ./cmd/spate</pre>
<p>The API: <a href="/client/v4/zones">/client/v4/zones</a></p>
</body></html>
`

// missing answers every path with a page that says how to build the dashboard.
func missing() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !allowed(w, r) {
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(http.StatusNotFound)
		if r.Method != http.MethodHead {
			_, _ = w.Write([]byte(missingPage)) // the client went away: nothing to do
		}
	})
}
