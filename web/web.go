// Package web is the dashboard: a single-page application in TypeScript, built by `npm run build` in this folder
// into dist, embedded in the binary and served from memory.
//
// It is not the API: the page calls /client/v4 of the server it came from. The only thing Go code needs is Handler.
// Invariants: everything under /assets/ has a content hash in its name and may be cached for ever; index.html is
// always revalidated; nothing is compressed while serving, since the build leaves .br and .gz files beside each asset.
package web

import (
	"embed"
	"io/fs"
	"net/http"
)

//go:embed all:dist
var dist embed.FS

// Handler serves the dashboard that was embedded when the binary was built. Every path that is not a file of the
// dashboard gets index.html, so that the page's own addresses (/zones/...) can be opened directly. When the binary was
// built without the dashboard, every path answers with a page that says how to build it. The handler is safe for
// concurrent use and answers GET and HEAD only.
func Handler() http.Handler {
	root, err := fs.Sub(dist, "dist")
	if err != nil { // dist is a constant name that go:embed has checked
		return missing()
	}
	return newHandler(root)
}
