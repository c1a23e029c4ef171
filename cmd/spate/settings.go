package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spate-io/spate/api"
	"github.com/spate-io/spate/bus"
	"github.com/spate-io/spate/core/gateway"
	"github.com/spate-io/spate/core/load"
	"github.com/spate-io/spate/core/tops"
	"github.com/spate-io/spate/edge/forward"
	"github.com/spate-io/spate/edge/ingest/input"
	"github.com/spate-io/spate/edge/nginx"
	"github.com/spate-io/spate/edge/producer"
	"github.com/spate-io/spate/event/batch"
	"github.com/spate-io/spate/internal/anonymize"
	"github.com/spate-io/spate/internal/certs"
	"github.com/spate-io/spate/internal/config"
	"github.com/spate-io/spate/internal/enrich"
	"github.com/spate-io/spate/internal/httpd"
	"github.com/spate-io/spate/internal/zone"
	"github.com/spate-io/spate/store/chdb"
	"github.com/spate-io/spate/store/clickhouse"
	"github.com/spate-io/spate/store/cluster"
	"github.com/spate-io/spate/store/schema"
	"github.com/spate-io/spate/store/serve"
)

// Config is the whole configuration: the sum of what the parts need, and the data directory that they share.
type Config struct {
	DataDir  string           `yaml:"data_dir"`  // everything that has to survive lies under it
	CertsDir string           `yaml:"certs_dir"` // private authority and certificates made on the first start
	Log      logConfig        `yaml:"log"`
	HTTP     httpd.Config     `yaml:"http"`
	API      api.Config       `yaml:"api"`
	Zones    zone.Config      `yaml:"zones"`
	Edge     edgeConfig       `yaml:"edge"`
	Gateway  gateway.Config   `yaml:"gateway"`
	Bus      bus.Config       `yaml:"bus"`
	Load     load.Config      `yaml:"load"`
	Tops     tops.Config      `yaml:"tops"`
	Enrich   enrich.Config    `yaml:"enrich"`
	Privacy  anonymize.Config `yaml:"privacy"`
	Store    storeConfig      `yaml:"store"`
	Demo     nginx.Config     `yaml:"demo"`
}

// edgeConfig is the `edge` section: who this edge is and what it listens to, and below it how it ships.
type edgeConfig struct {
	Colo    string          `yaml:"colo"`     // code of this place, for requests that name none
	Socket  producer.Config `yaml:"producer"` // for nginx workers
	Inputs  []input.Config  `yaml:"inputs"`   // logs to follow, syslog, HTTP push
	Forward forward.Config  `yaml:",inline"`
}

// storeConfig is the `store` section.
type storeConfig struct {
	Address   string           `yaml:"address"` // "embedded" or clickhouse://user:password@host:port/database
	Cluster   cluster.Config   `yaml:"cluster"` // of ClickHouse servers that the address leads to
	Embedded  chdb.Config      `yaml:"embedded"`
	Serve     serve.Config     `yaml:"serve"` // the embedded engine behind ClickHouse's HTTP interface
	Retention schema.Retention `yaml:"retention"`
}

// embedded is the address that means the engine inside this process.
const embedded = "embedded"

// validateAddress checks where the store is.
func (c *storeConfig) validateAddress(p *config.Problems) {
	if c.Address == embedded {
		p.Check(c.Cluster.Name == "", "cluster.name", c.Cluster.Name, "needs an address of ClickHouse servers")
		return
	}
	if !clickhouse.IsAddress(c.Address) {
		p.Add("address", c.Address, `must be "embedded" or clickhouse://user:password@host:port/database`)
		return
	}
	_, err := clickhouse.ParseAddress(c.Address)
	p.Check(err == nil, "address", nil, fmt.Sprintf("cannot be read: %v", err)) // the value may hold a password
}

// inProcess is the destination that edges of this process ship to when none is configured.
const inProcess = "local"

// importEdge is the name under which imported logs are sent.
const importEdge = "import"

// DefaultConfig is one machine with everything on it, reachable from that machine only.
func DefaultConfig() Config {
	c := Config{
		DataDir: defaultDataDir(),
		Log:     logConfig{Level: "info", Format: "text"},
		HTTP:    httpd.DefaultConfig(),
		API:     api.DefaultConfig(),
		Zones:   zone.DefaultConfig(),
		Edge:    edgeConfig{Colo: "local", Socket: producer.DefaultConfig(), Forward: forward.DefaultConfig()},
		Gateway: gateway.DefaultConfig(),
		Bus:     bus.DefaultConfig(),
		Load:    load.DefaultConfig(),
		Tops:    tops.DefaultConfig(),
		Enrich:  enrich.DefaultConfig(),
		Privacy: anonymize.DefaultConfig(),
		Demo:    nginx.DefaultConfig(),
		Store:   storeConfig{Address: embedded, Cluster: cluster.DefaultConfig(), Embedded: chdb.DefaultConfig(), Serve: serve.DefaultConfig(), Retention: schema.DefaultRetention()},
	}
	c.Gateway.Listen = "127.0.0.1:7443"
	c.Demo.Listen = "127.0.0.1:8089"
	c.Demo.Edge = ""
	// These follow from data_dir unless they are set.
	c.Edge.Socket.Socket, c.Edge.Forward.Spool.Dir = "", ""
	c.Bus.Embedded.Dir = ""
	c.Edge.Forward.Edge = ""
	return c
}

// systemDataDir is where the data of a system service lies.
const systemDataDir = "/var/lib/spate"

// defaultDataDir is /var/lib/spate for root, else the user's own data folder.
func defaultDataDir() string {
	home, err := os.UserHomeDir()
	if os.Getuid() == 0 || err != nil {
		return systemDataDir
	}
	return filepath.Join(home, ".local", "share", "spate")
}

// resolve fills in what follows from other values: paths under the data directory, this machine's name, the destination.
func (c *Config) resolve() error {
	dir, err := filepath.Abs(c.DataDir)
	if err != nil {
		return err
	}
	c.DataDir = dir
	under(&c.CertsDir, dir, "certs")
	if dir == systemDataDir { // workers of a packaged nginx cannot reach into the data directory
		under(&c.Edge.Socket.Socket, "/run/spate", "nginx.sock")
	}
	under(&c.Edge.Socket.Socket, dir, "edge.sock")
	under(&c.Edge.Forward.Spool.Dir, dir, "spool")
	under(&c.Bus.Embedded.Dir, dir, "bus")
	under(&c.Store.Embedded.Path, dir, "store")
	under(&c.Privacy.KeyFile, dir, "address.key")
	if c.Edge.Forward.Edge == "" {
		c.Edge.Forward.Edge = hostEdge()
	}
	under(&c.Demo.Dir, dir, "demo")
	if c.Demo.Socket == "" {
		c.Demo.Socket = c.Edge.Socket.Socket
	}
	if c.Demo.Edge == "" {
		c.Demo.Edge = c.Edge.Forward.Edge
	}
	gw := certs.GatewayFiles(c.CertsDir)
	under(&c.Gateway.TLS.CA, "", gw.CA)
	under(&c.Gateway.TLS.Certificate, "", gw.Certificate)
	under(&c.Gateway.TLS.Key, "", gw.Key)
	if len(c.Edge.Forward.Destinations) == 0 {
		c.Edge.Forward.Destinations = []forward.Destination{{Name: inProcess}}
	}
	return nil
}

// under sets an empty path to name below dir.
func under(path *string, dir, name string) {
	if *path == "" {
		*path = filepath.Join(dir, name)
	}
}

// hostEdge makes an edge's name of this machine's.
func hostEdge() string {
	host, err := os.Hostname()
	if err != nil {
		return "edge"
	}
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '.', r == '_', r == '-':
			return r
		}
		return '-'
	}, strings.ToLower(host))
	if !batch.ValidEdge(name) {
		return "edge"
	}
	return name
}

// Validate implements config.Validator. It is called before resolve, so it checks copies in which the derived values are
// filled in.
func (c *Config) Validate(p *config.Problems) {
	p.Check(c.DataDir != "", "data_dir", c.DataDir, "must be a path")
	r := *c
	if err := r.resolve(); err != nil {
		p.Add("data_dir", c.DataDir, "must be a path: "+err.Error())
		return
	}
	p.Under("log", r.Log.Validate)
	p.Under("http", r.HTTP.Validate)
	p.Under("api", func(p *config.Problems) {
		r.API.Validate(p)
		r.API.CheckExposure(p, r.HTTP.Loopback())
	})
	p.Under("zones", r.Zones.Validate)
	p.Under("edge", func(p *config.Problems) {
		r.Edge.Forward.Validate(p)
		p.Under("producer", r.Edge.Socket.Validate)
		for i := range r.Edge.Inputs {
			p.Under(fmt.Sprintf("inputs[%d]", i), r.Edge.Inputs[i].Validate)
		}
	})
	p.Under("gateway", r.Gateway.Validate)
	p.Under("bus", r.Bus.Validate)
	p.Under("load", r.Load.Validate)
	p.Under("tops", r.Tops.Validate)
	p.Under("enrich", r.Enrich.Validate)
	p.Under("privacy", r.Privacy.Validate)
	p.Under("store", func(p *config.Problems) {
		p.Under("", r.Store.validateAddress)
		p.Under("cluster", r.Store.Cluster.Validate)
		p.Under("serve", r.Store.Serve.Validate)
		p.Under("embedded", r.Store.Embedded.Validate)
		p.Under("retention", r.Store.Retention.Validate)
	})
	p.Under("demo", r.Demo.Validate)
}
