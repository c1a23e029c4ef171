// Package enrich adds to an event what the edge could not know: country and network of the client address, what kind of
// program sent the request, and what kind of answer it got.
//
// An Enricher keeps what it found for addresses and user agents, since few make up nearly all of the traffic: that is what makes
// it cheap. It belongs to one goroutine; Fork makes more that share the tables but not the caches. Whatever clients send,
// the strings of a Result come from closed sets.
package enrich

import (
	"log/slog"
	"math"
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spate-io/spate/event"
	"github.com/spate-io/spate/internal/enrich/useragent"
)

// Deps are what an Enricher gets from outside. All may be nil.
type Deps struct {
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Enricher enriches events. It is not safe for concurrent use: make one for each worker with Fork.
type Enricher struct {
	cfg     Config
	tables  *tables
	agents  agentCache
	places  placeCache
	metrics *metrics
}

// tables are what all forks of an Enricher share; they never change.
type tables struct {
	agents *useragent.Parser
	geo    *geo
}

// maxAgent is how many bytes of a user agent are looked at.
const maxAgent = 1024

// New opens the databases that cfg names and returns an Enricher. There is nothing to close.
func New(cfg Config, deps Deps) (*Enricher, error) {
	agents, err := useragent.New()
	if err != nil {
		return nil, err
	}
	g, err := openGeo(&cfg)
	if err != nil {
		return nil, err
	}
	if deps.Logger != nil {
		deps.Logger.Info("databases of addresses are open", "country", g.countrySource, "asn", g.asnSource)
	}
	e := &Enricher{cfg: cfg, tables: &tables{agents, g}, metrics: newMetrics(deps.Registerer)}
	return e.Fork(), nil
}

// Fork returns an Enricher for another goroutine. It shares the databases with e and has caches of its own. Any goroutine
// may call it.
func (e *Enricher) Fork() *Enricher {
	return &Enricher{
		cfg: e.cfg, tables: e.tables, metrics: e.metrics,
		agents: agentCache{newGenerations[string, *useragent.Agent](int(e.cfg.UserAgentCache))},
		places: placeCache{newGenerations[[16]byte, place](int(e.cfg.AddressCache))},
	}
}

// Enrich fills r with what there is to say about the event v, all fields but those of the zone. The strings in r do not
// refer to the event's memory.
func (e *Enricher) Enrich(v event.View, r *Result) {
	p := e.place(v.ClientIP())
	r.ClientCountry, r.ClientASN = p.country, p.asn

	a := e.agent(v.ClientRequestUserAgent())
	r.ClientDeviceType, r.UserAgentBrowser, r.UserAgentOS, r.BotClass = a.Device, a.Browser, a.OS, a.Bot
	r.ClientIPClass = ipClass(a.Bot)

	status := v.EdgeResponseStatus()
	get := string(v.ClientRequestMethod()) == "GET"
	shown := status >= 200 && status < 300 || status == 304
	r.EdgeResponseContentClass = contentClass(v.EdgeResponseContentType(), v.ClientRequestPath(), get && shown && status != 204)
	r.PageView = get && shown && r.EdgeResponseContentClass == "html"
	r.Cached = cached(v.CacheCacheStatus())
	r.RequestDurationUs = duration(v.EdgeStartTimestamp(), v.EdgeEndTimestamp())
}

// agent returns what the user agent says.
func (e *Enricher) agent(ua []byte) *useragent.Agent {
	if len(ua) > maxAgent {
		ua = ua[:maxAgent]
	}
	if a, ok := e.agents.get(ua); ok {
		return a
	}
	e.metrics.agentMisses.Inc()
	a := e.tables.agents.Parse(ua)
	e.agents.put(string(ua), &a, len(ua)+agentCost)
	return &a
}

// place returns where an address is.
func (e *Enricher) place(a netip.Addr) place {
	if !a.IsValid() {
		return place{country: unknownCountry}
	}
	key := a.As16()
	if p, ok := e.places.get(key); ok {
		return p
	}
	e.metrics.addressMisses.Inc()
	p, err := e.tables.geo.lookup(a.Unmap().WithZone(""))
	if err != nil {
		e.metrics.lookupErrors.Inc()
	}
	e.places.put(key, p, placeCost)
	return p
}

// ipClass returns the class of address that follows from the class of bot.
func ipClass(bot string) string {
	switch bot {
	case useragent.BotSearch:
		return "searchEngine"
	case useragent.BotMonitor:
		return "monitoringService"
	case useragent.BotScanner:
		return "scan"
	}
	return "unknown"
}

// cached reports whether a cache status says that the answer came out of the cache.
func cached(status []byte) bool {
	switch string(status) {
	case "hit", "stale", "updating", "revalidated", "HIT", "STALE", "UPDATING", "REVALIDATED":
		return true
	}
	return false
}

// duration returns the microseconds from start to end, both in ns; 0 when the end is not known.
func duration(start, end int64) uint32 {
	if end <= 0 || end <= start {
		return 0
	}
	return uint32(min(uint64(end-start)/1000, math.MaxUint32))
}
