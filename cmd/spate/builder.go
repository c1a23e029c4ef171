package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spate-io/spate/analytics"
	"github.com/spate-io/spate/api"
	"github.com/spate-io/spate/bus"
	busembedded "github.com/spate-io/spate/bus/embedded"
	"github.com/spate-io/spate/core/gateway"
	"github.com/spate-io/spate/core/ledger"
	"github.com/spate-io/spate/core/load"
	"github.com/spate-io/spate/core/tops"
	"github.com/spate-io/spate/edge/forward"
	"github.com/spate-io/spate/edge/ingest/input"
	"github.com/spate-io/spate/edge/nginx"
	"github.com/spate-io/spate/edge/producer"
	"github.com/spate-io/spate/edge/wire"
	"github.com/spate-io/spate/internal/anonymize"
	"github.com/spate-io/spate/internal/buildinfo"
	"github.com/spate-io/spate/internal/certs"
	"github.com/spate-io/spate/internal/enrich"
	"github.com/spate-io/spate/internal/httpd"
	"github.com/spate-io/spate/internal/lifecycle"
	"github.com/spate-io/spate/internal/zone"
	"github.com/spate-io/spate/store/maintain"
	"github.com/spate-io/spate/store/schema"
	"github.com/spate-io/spate/store/serve"
	"github.com/spate-io/spate/web"
)

// builder makes parts over one configuration and joins them: what one part needs of another it takes from the fields that
// were set before it.
type builder struct {
	cfg   *Config
	log   *slog.Logger
	reg   *prometheus.Registry
	began time.Time

	grp       *lifecycle.Group
	server    *httpd.Server
	api       *api.API
	store     *storePart
	broker    *busembedded.Broker
	zones     *zone.Registry
	producer  *bus.Producer
	ledger    *ledger.Writer
	loader    *load.Loader
	lag       *bus.LagMonitor
	gateway   *gateway.Gateway
	forwarder *forward.Forwarder
	demo      *nginx.Demo
}

func newBuilder(cfg *Config, log *slog.Logger) *builder {
	return &builder{cfg: cfg, log: log, reg: newRegistry(), began: time.Now()}
}

// prepare makes on disk what has to be there before anything starts: certificates, when the gateway or an edge of this
// process uses the private authority.
func (b *builder) prepare() error {
	if b.gateway == nil || b.cfg.Gateway.Listen == "" || b.cfg.Gateway.TLS.CA != certs.CAFile(b.cfg.CertsDir) {
		return nil
	}
	return certs.Ensure(b.cfg.CertsDir, b.cfg.Edge.Forward.Edge, importEdge)
}

// part builds one part. It returns nil for one that this configuration does not need.
func (b *builder) part(name partName) (lifecycle.Part, error) {
	switch name {
	case partHTTP:
		return b.buildHTTP(), nil
	case partStore:
		b.store = newStorePart(b.cfg.Store, b.component(name), b.reg)
		b.store.positions = func(ctx context.Context) (*maintain.Positions, error) {
			return busPositions(ctx, b.cfg, b.busDeps(partStore))
		}
		return b.store, nil
	case partServe:
		if b.cfg.Store.Serve.Listen == "" {
			return nil, nil
		}
		return serve.New(b.cfg.Store.Serve, serve.Deps{DB: b.store, Logger: b.component(name), Registerer: b.reg})
	case partBroker:
		return b.buildBroker()
	case partZones:
		return b.buildZones()
	case partBus:
		var err error
		b.producer, err = bus.NewProducer(b.cfg.Bus, b.busDeps(name))
		return b.producer, err
	case partLoader:
		return b.buildLoader()
	case partLedger:
		mask, err := anonymize.New(b.cfg.Privacy)
		if err != nil {
			return nil, err
		}
		b.ledger, err = ledger.New(ledger.Deps{DB: b.store, Logger: b.component(name), Registerer: b.reg, Mask: mask})
		return b.ledger, err
	case partLag:
		var err error
		b.lag, err = bus.NewLagMonitor(b.cfg.Bus, b.busDeps(name), b.cfg.Load.Group, 5*time.Second, b.cfg.Bus.RequestsTopic())
		return b.lag, err
	case partTops:
		if b.cfg.Tops.Every == 0 {
			return nil, nil
		}
		return tops.New(b.cfg.Tops, tops.Deps{DB: b.store, RawDays: longestRaw(b.cfg.Store.Retention), Logger: b.component(name), Registerer: b.reg})
	case partGateway:
		var err error
		b.gateway, err = gateway.New(b.cfg.Gateway, gateway.Deps{Producer: b.producer, Logger: b.component(name), Registerer: b.reg})
		return b.gateway, err
	case partForwarder:
		return b.buildForwarder()
	case partProducer:
		return producer.New(b.cfg.Edge.Socket, producer.Deps{Sink: b.forwarder, Logger: b.component(name), Registerer: b.reg})
	case partInputs:
		if len(b.cfg.Edge.Inputs) == 0 {
			return nil, nil
		}
		return input.New(b.cfg.Edge.Inputs, input.Deps{
			Sink: b.forwarder, Tell: b.forwarder.Tell, EdgeName: b.cfg.Edge.Forward.Edge, ColoCode: b.cfg.Edge.Colo, Logger: b.component(name), Registerer: b.reg,
		})
	case partDemo:
		var err error
		b.demo, err = nginx.NewDemo(b.cfg.Demo, nginx.Deps{Logger: b.component(name)})
		return b.demo, err
	}
	return nil, errors.New("no such part")
}

// buildHTTP comes first, so that /live and /ready answer while the rest starts; the API is built when the store is.
func (b *builder) buildHTTP() lifecycle.Part {
	b.server = httpd.New(b.cfg.HTTP, httpd.Deps{
		Logger: b.component(partHTTP), Gatherer: b.reg, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if b.api == nil { // a role without an API
				http.NotFound(w, r)
				return
			}
			b.api.Handler().ServeHTTP(w, r)
		}),
		Live: func() error {
			if b.loader != nil {
				return b.loader.Live()
			}
			return nil
		},
		Ready: func() (any, error) { return b.grp.States(), b.grp.Ready() },
	})
	return b.server
}

func (b *builder) buildBroker() (lifecycle.Part, error) {
	if b.cfg.Bus.Address != bus.Embedded {
		return nil, nil
	}
	var err error
	b.broker, err = busembedded.New(b.cfg.Bus.Embedded, busembedded.Deps{Logger: b.component(partBroker), Registerer: b.reg})
	return b.broker, err
}

// busDeps joins clients to the broker of this process, where there is one.
func (b *builder) busDeps(name partName) bus.Deps {
	d := bus.Deps{Logger: b.component(name), Registerer: b.reg}
	if b.broker != nil {
		d.Embedded = b.broker.Addr
	}
	return d
}

// buildZones makes the registry and, over it and the store, the API: nothing else needs both.
func (b *builder) buildZones() (lifecycle.Part, error) {
	table := zoneTable{b.store}
	var err error
	b.zones, err = zone.New(b.cfg.Zones, zone.Deps{Logger: b.component(partZones), Registerer: b.reg, Load: table.load, Save: table.save})
	if err != nil {
		return nil, err
	}
	b.api, err = api.New(b.cfg.API, api.Deps{
		DB: b.store, Zones: b.zones, Logger: b.component("api"), Registerer: b.reg, Dashboard: web.Handler(), Status: b.status, Backlog: b.backlog,
	})
	return b.zones, err
}

func (b *builder) buildLoader() (lifecycle.Part, error) {
	if b.ledger == nil {
		return nil, errors.New("the ledger comes before the loader in a list of parts")
	}
	shared, err := enrich.New(b.cfg.Enrich, enrich.Deps{Logger: b.component(partLoader), Registerer: b.reg})
	if err != nil {
		return nil, err
	}
	mask, err := anonymize.New(b.cfg.Privacy)
	if err != nil {
		return nil, err
	}
	b.loader, err = load.New(b.cfg.Load, load.Deps{
		Logger: b.component(partLoader), Registerer: b.reg, Bus: b.cfg.Bus, BusDeps: b.busDeps(partLoader), Store: b.store,
		Builder: func() (load.Builder, error) { return load.NewHTTP(shared.Fork(), b.zones, mask.Fork()), nil }, Ledger: b.ledger,
	})
	return b.loader, err
}

func (b *builder) buildForwarder() (lifecycle.Part, error) {
	deps := forward.Deps{
		Logger: b.component(partForwarder), Registerer: b.reg, Software: "spate/" + buildinfo.Version(), Dial: map[string]wire.Dialer{},
	}
	if b.ledger != nil {
		deps.Ledger = b.accept
	}
	for _, d := range b.cfg.Edge.Forward.Destinations {
		if len(d.Addresses) > 0 {
			continue
		}
		if b.gateway == nil {
			return nil, errors.New("edge.destinations: without a gateway in this process every destination needs addresses")
		}
		deps.Dial[d.Name] = wire.InProcess(b.serveInProcess)
	}
	var err error
	b.forwarder, err = forward.New(b.cfg.Edge.Forward, deps)
	return b.forwarder, err
}

// accept passes on what the forwarder of this process has made durable.
func (b *builder) accept(rows []forward.LedgerRow) {
	list := make([]ledger.Accepted, 0, len(rows))
	for _, r := range rows {
		if r.Accepted > 0 {
			list = append(list, ledger.Accepted{Edge: r.Edge, Minute: r.Minute, Events: r.Accepted})
		}
	}
	b.ledger.Accept(list)
}

// backlog is what waits on the bus.
func (b *builder) backlog() analytics.Backlog {
	if b.lag == nil || b.lag.Ready() != nil {
		return analytics.Backlog{}
	}
	sum := analytics.Backlog{Known: true}
	for _, l := range b.lag.Last() {
		sum.Messages += l.Messages
		sum.Lost += l.Lost
		sum.Seconds = max(sum.Seconds, l.Seconds)
	}
	return sum
}

// status is what GET /client/v4/system/status shows.
func (b *builder) status() any {
	return map[string]any{
		"version":        buildinfo.Version(),
		"uptime_seconds": int64(time.Since(b.began).Seconds()),
		"edge":           b.cfg.Edge.Forward.Edge,
		"roles":          b.grp.States(),
	}
}

// longestRaw is how many days single requests of any zone are kept, 0 for ever.
func longestRaw(r schema.Retention) int {
	days := r.Raw
	for i := range r.Rules {
		if days > 0 {
			days = max(days, r.Rules[i].Raw)
		}
	}
	return days
}
