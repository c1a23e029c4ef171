// Package api answers questions about traffic over HTTP: the zone analytics API that Cloudflare published, with latency,
// top lists and a live stream beside it, and the dashboard's pages for everything else.
//
// It does not compute: package analytics does. API is the type; Handler gives what an HTTP server needs. The routes are one
// table (routes.go), from which the OpenAPI document is made too, so the two cannot differ.
//
// The invariant: no answer holds anything of a zone that the caller's token may not see.
package api

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spate-io/spate/analytics"
	"github.com/spate-io/spate/internal/zone"
	"github.com/spate-io/spate/store"
)

// Zones is what the API needs of a registry of zones; *zone.Registry is one.
type Zones interface {
	Get(id string) (*zone.Zone, bool)
	All() []*zone.Zone
}

// Deps are what an API works with.
type Deps struct {
	DB         store.DB
	Zones      Zones
	Logger     *slog.Logger             // nil: nothing is logged
	Registerer prometheus.Registerer    // nil: metrics are counted for nobody
	Dashboard  http.Handler             // pages under /; nil: none
	Status     func() any               // result of system/status; nil: {}
	Backlog    func() analytics.Backlog // what waits on the bus; nil: not known
	Now        func() time.Time         // nil: time.Now
}

// API serves the routes of this package. It starts no goroutine and may serve any number of requests at once. Streams end
// when their request's context does, so give the http.Server a BaseContext that ends on shutdown.
type API struct {
	cfg     Config
	deps    Deps
	log     *slog.Logger
	ask     *analytics.Service
	tokens  *tokens
	metrics *metrics
	slots   *slots
	streams chan struct{}
	handler http.Handler
}

// New checks cfg and deps and gives an API.
func New(cfg Config, deps Deps) (*API, error) {
	if deps.DB == nil || deps.Zones == nil {
		return nil, errors.New("api needs a store and zones")
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	if deps.Registerer == nil {
		deps.Registerer = prometheus.NewRegistry()
	}
	ask, err := analytics.New(cfg.Analytics, analytics.Deps{DB: deps.DB, Registerer: deps.Registerer, Now: deps.Now})
	if err != nil {
		return nil, err
	}
	a := &API{
		cfg: cfg, deps: deps, log: deps.Logger, ask: ask,
		tokens: newTokens(cfg.Tokens), metrics: newMetrics(deps.Registerer),
		slots: newSlots(cfg.MaxConcurrent, cfg.MaxPerToken), streams: make(chan struct{}, cfg.MaxStreams),
	}
	a.handler = a.root()
	return a, nil
}

// Handler gives the handler of everything under /.
func (a *API) Handler() http.Handler { return a.handler }

func (a *API) root() http.Handler {
	mux := http.NewServeMux()
	for _, r := range a.routes() {
		mux.Handle(r.method+" "+r.path, a.serve(r))
	}
	mux.Handle("/client/v4/", a.serve(route{name: "none", free: true, answer: noRoute}))
	mux.HandleFunc("GET /api/openapi.json", a.openAPI)
	if a.deps.Dashboard != nil {
		mux.Handle("/", a.deps.Dashboard)
	}
	return a.guard(mux)
}
