package zone

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/spate-io/spate/internal/config"
)

// Config is the section "zones".
type Config struct {
	// Auto lets hosts that no zone covers make one, named by their registrable domain.
	Auto bool `yaml:"auto"`
	// MaxAuto bounds how many zones may come into being that way; further hosts count for the zone "unknown".
	MaxAuto int `yaml:"max_auto"`
	// AutoPerSecond bounds how fast they come into being, with a burst of a hundred seconds' worth.
	AutoPerSecond int `yaml:"auto_per_second"`
	// SyncEvery is how often new zones are written to the store.
	SyncEvery config.Duration `yaml:"sync_every"`
	// ReloadEvery is how often the zones that other processes made are read from the store.
	ReloadEvery config.Duration `yaml:"reload_every"`
	// List are the configured zones.
	List []Entry `yaml:"list"`
}

// Entry is one configured zone.
type Entry struct {
	ID    string   `yaml:"id"`    // 32 hexadecimal digits; derived from the name when empty
	Name  string   `yaml:"name"`  // a domain name
	Hosts []string `yaml:"hosts"` // each covers its subdomains too; the name alone when empty
	Plan  string   `yaml:"plan"`  // "free" when empty
}

// DefaultConfig has automatic zones on.
func DefaultConfig() Config {
	return Config{
		Auto: true, MaxAuto: 100_000, AutoPerSecond: 100,
		SyncEvery: config.Duration(2 * time.Second), ReloadEvery: config.Duration(30 * time.Second),
	}
}

var planName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,31}$`)

// Validate adds what is wrong to p: bad ids, names and hosts, and any that occur twice.
func (c *Config) Validate(p *config.Problems) {
	p.Check(c.MaxAuto >= 0 && c.MaxAuto <= 10_000_000, "max_auto", c.MaxAuto, "must be 0 to 10000000")
	p.Check(c.AutoPerSecond >= 1 && c.AutoPerSecond <= 1_000_000, "auto_per_second", c.AutoPerSecond, "must be 1 to 1000000")
	p.Check(c.SyncEvery.D() >= 100*time.Millisecond, "sync_every", c.SyncEvery, "must be at least 100ms")
	p.Check(c.ReloadEvery.D() >= c.SyncEvery.D(), "reload_every", c.ReloadEvery, "must be at least sync_every")
	ids, names, hosts := map[string]int{}, map[string]int{}, map[string]int{}
	for i := range c.List {
		p.Under(fmt.Sprintf("list[%d]", i), func(p *config.Problems) {
			e := &c.List[i]
			name := clean(e.Name)
			p.Check(ValidHost(name), "name", e.Name, "must be a domain name")
			p.Check(name != UnknownName, "name", e.Name, "is kept for requests that no zone covers")
			p.Check(e.ID == "" || ValidID(e.ID), "id", e.ID, "must be 32 lower-case hexadecimal digits, or empty")
			p.Check(e.Plan == "" || planName.MatchString(e.Plan), "plan", e.Plan, "must be up to 32 of a-z, 0-9, _ and -")
			once(p, ids, i, "id", e.zone(time.Time{}).ID)
			once(p, names, i, "name", name)
			for j, h := range e.Hosts {
				path, host := fmt.Sprintf("hosts[%d]", j), clean(h)
				p.Check(!strings.HasPrefix(h, "*."), path, h, "must not start with *. because every host covers its subdomains")
				p.Check(ValidHost(host) && !strings.ContainsAny(h, ":/") || strings.HasPrefix(h, "*."), path, h, "must be a host name without scheme and path")
				once(p, hosts, i, path, host)
			}
			if len(e.Hosts) == 0 {
				once(p, hosts, i, "name", name)
			}
		})
	}
}

func once(p *config.Problems, seen map[string]int, i int, path, value string) {
	if j, ok := seen[value]; ok {
		p.Add(path, value, fmt.Sprintf("occurs in list[%d] already", j))
		return
	}
	seen[value] = i
}

func clean(host string) string { return string(Normalize([]byte(host), nil)) }

// zone gives the zone of an entry that is valid.
func (e *Entry) zone(created time.Time) *Zone {
	z := &Zone{ID: e.ID, Name: clean(e.Name), Plan: e.Plan, Created: created}
	if z.ID == "" {
		z.ID = ID(z.Name)
	}
	if z.Plan == "" {
		z.Plan = DefaultPlan
	}
	for _, h := range e.Hosts {
		z.Hosts = append(z.Hosts, clean(h))
	}
	if len(z.Hosts) == 0 {
		z.Hosts = []string{z.Name}
	}
	return z
}
