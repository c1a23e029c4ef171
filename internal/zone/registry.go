package zone

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
)

// Deps are what a Registry works with. Every field may be empty.
type Deps struct {
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	// Load reads all zones from the store; Save writes zones there, replacing those of the same id. Without them zones
	// live as long as the process.
	Load func(context.Context) ([]Zone, error)
	Save func(context.Context, []Zone) error
	// Now is the clock, time.Now when nil.
	Now func() time.Time
}

// Registry knows all zones. Its methods may be called from any goroutine, before, during and after Run.
type Registry struct {
	cfg     Config
	deps    Deps
	log     *slog.Logger
	m       *metrics
	unknown *Zone
	hosts   atomic.Pointer[table]
	sorted  atomic.Pointer[[]*Zone] // by name; nil when zones changed since it was made
	ready   atomic.Bool

	mu         sync.Mutex
	byID       map[string]*Zone
	configured map[string]bool  // ids from the configuration
	auto       int              // zones from traffic or store
	pending    map[string]*Zone // by id, not saved yet
	limit      *rate.Limiter
}

// New gives a registry with the configured zones, which can match at once. cfg must be valid.
func New(cfg Config, deps Deps) (*Registry, error) {
	if deps.Now == nil {
		deps.Now = time.Now
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Registry{
		cfg: cfg, deps: deps, log: deps.Logger, m: newMetrics(deps.Registerer),
		byID: map[string]*Zone{}, configured: map[string]bool{}, pending: map[string]*Zone{},
		limit: rate.NewLimiter(rate.Limit(cfg.AutoPerSecond), 100*cfg.AutoPerSecond),
	}
	now := r.now()
	r.unknown = &Zone{ID: ID(UnknownName), Name: UnknownName, Plan: DefaultPlan, Created: now}
	r.byID[r.unknown.ID] = r.unknown
	r.pending[r.unknown.ID] = r.unknown
	r.configured[r.unknown.ID] = true
	for i := range cfg.List {
		z := cfg.List[i].zone(now)
		if !ValidID(z.ID) || !ValidHost(z.Name) {
			return nil, fmt.Errorf("zone %d: id %q or name %q is not valid", i, z.ID, z.Name)
		}
		r.byID[z.ID] = z
		r.configured[z.ID] = true
		r.pending[z.ID] = z
	}
	r.rebuild()
	return r, nil
}

func (r *Registry) now() time.Time { return r.deps.Now().UTC().Truncate(time.Second) }

// Match gives the zone that a request with this host (as sent: any case, port, final dot) belongs to, and whether it is a
// zone of its own rather than "unknown". The zone is never nil. It takes no lock and does not allocate unless the host
// makes a new zone.
func (r *Registry) Match(host []byte) (z *Zone, ok bool) {
	if len(host) == 0 {
		return r.miss(noHost)
	}
	if len(host) > maxHost+len(".:65535") {
		return r.miss(badHost)
	}
	var buf [maxHost + 8]byte
	host = Normalize(host, buf[:0])
	if z := r.hosts.Load().covering(host); z != nil {
		return z, true
	}
	if !r.cfg.Auto {
		return r.miss(notAuto)
	}
	return r.create(string(host))
}

func (r *Registry) miss(why reason) (*Zone, bool) {
	r.m.unknown[why].Inc()
	return r.unknown, false
}

// create makes the automatic zone for a host that no zone covers.
func (r *Registry) create(host string) (*Zone, bool) {
	name, ok := Registrable(host)
	if !ok || name == UnknownName {
		return r.miss(badHost)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	hosts := r.hosts.Load()
	if z := hosts.covering([]byte(host)); z != nil { // another goroutine was first
		return z, true
	}
	if r.auto >= r.cfg.MaxAuto {
		return r.miss(tooMany)
	}
	if z := r.byID[ID(name)]; z != nil { // its hosts were configured, and not this one
		return r.miss(notAuto)
	}
	if !r.limit.AllowN(r.deps.Now(), 1) {
		return r.miss(tooFast)
	}
	z := &Zone{ID: ID(name), Name: name, Hosts: []string{name}, Plan: DefaultPlan, Created: r.now()}
	r.byID[z.ID] = z
	r.pending[z.ID] = z
	r.auto++
	r.hosts.Store(hosts.put(name, z))
	r.sorted.Store(nil)
	r.m.created.Inc()
	r.m.zones.Set(float64(len(r.byID)))
	return z, true
}

// Get gives a zone by its id.
func (r *Registry) Get(id string) (*Zone, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	z, ok := r.byID[id]
	return z, ok
}

// All gives all zones, "unknown" included, in the order of their names. The slice is shared: do not change it.
func (r *Registry) All() []*Zone {
	if s := r.sorted.Load(); s != nil {
		return *s
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := make([]*Zone, 0, len(r.byID))
	for _, z := range r.byID {
		s = append(s, z)
	}
	slices.SortFunc(s, func(a, b *Zone) int {
		if c := strings.Compare(a.Name, b.Name); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	r.sorted.Store(&s)
	return s
}

// Run exchanges zones with the store until ctx ends, then writes what is new a last time.
func (r *Registry) Run(ctx context.Context) error {
	tick := time.NewTicker(r.cfg.SyncEvery.D())
	defer tick.Stop()
	var read time.Time
	for {
		var err error
		if now := r.deps.Now(); !r.ready.Load() || now.Sub(read) >= r.cfg.ReloadEvery.D() {
			err, read = r.Sync(ctx), now
		} else {
			err = r.Flush(ctx)
		}
		if err != nil && ctx.Err() == nil {
			r.log.Warn("zones not synchronised with the store, trying again", "err", err)
		}
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			return r.Flush(last)
		case <-tick.C:
		}
	}
}

// Ready gives nil after the first exchange with the store.
func (r *Registry) Ready() error {
	if !r.ready.Load() {
		return errors.New("zones not read from the store yet")
	}
	return nil
}

// Sync reads the store's zones and then writes those that it lacks. Run calls it.
func (r *Registry) Sync(ctx context.Context) error {
	if err := r.load(ctx); err != nil {
		r.m.syncs.WithLabelValues("error").Inc()
		return fmt.Errorf("load zones: %w", err)
	}
	if err := r.Flush(ctx); err != nil {
		return err
	}
	r.ready.Store(true)
	return nil
}

// Flush writes the zones that the store lacks. Run calls it; a loader may, to have the zones of its events there at once.
func (r *Registry) Flush(ctx context.Context) error {
	if err := r.save(ctx); err != nil {
		r.m.syncs.WithLabelValues("error").Inc()
		return fmt.Errorf("save zones: %w", err)
	}
	r.m.syncs.WithLabelValues("ok").Inc()
	return nil
}
