package nginx

import (
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	"github.com/spate-io/spate/internal/config"
)

// Config is of the demo site.
type Config struct {
	// Binary is nginx, as a path or a name.
	Binary string `yaml:"binary"`
	// Dir is where the configuration, the site, the logs and the temporary files go.
	Dir string `yaml:"dir"`
	// Listen is the loopback address and port of the site.
	Listen string `yaml:"listen"`
	// Socket is where the producer listens.
	Socket string `yaml:"socket"`
	// Edge and Colo name this edge in events.
	Edge string `yaml:"edge"`
	Colo string `yaml:"colo"`
	// Workers is the number of nginx processes; 0: one for each processor.
	Workers int `yaml:"workers"`
	// StopTimeout is how long nginx may take to finish its requests and hand over its events.
	StopTimeout config.Duration `yaml:"stop_timeout"`
}

// DefaultConfig has no Dir and no Socket: these depend on where the data lies.
func DefaultConfig() Config {
	return Config{
		Binary:      "nginx",
		Listen:      "127.0.0.1:8088",
		Edge:        "demo",
		Colo:        "DEV",
		Workers:     1,
		StopTimeout: config.Duration(10 * time.Second),
	}
}

// Validate reports every value that cannot work.
func (c *Config) Validate(p *config.Problems) {
	p.Check(c.Binary != "", "binary", c.Binary, "must not be empty")
	p.Check(quotable(c.Dir), "dir", c.Dir, "must be a path without quotes, dollars, braces, semicolons")
	p.Check(quotable(c.Socket), "socket", c.Socket, "must be a path without quotes, dollars, braces, semicolons")
	a, err := netip.ParseAddrPort(c.Listen)
	p.Check(err == nil && a.Addr().IsLoopback() && a.Port() > 0, "listen", c.Listen, "must be a loopback address with a port")
	p.Check(c.Edge != "" && quotable(c.Edge), "edge", c.Edge, "must not be empty")
	p.Check(c.Colo == "" || quotable(c.Colo), "colo", c.Colo, "must be a plain word")
	p.Check(c.Workers >= 0, "workers", c.Workers, "must not be negative")
	p.Check(c.StopTimeout > 0, "stop_timeout", c.StopTimeout, "must be positive")
}

// check is Validate with absolute paths filled in.
func (c *Config) check() error {
	var p config.Problems
	c.Validate(&p)
	if err := p.Err(); err != nil {
		return err
	}
	var err error
	if c.Dir, err = filepath.Abs(c.Dir); err != nil {
		return err
	}
	c.Socket, err = filepath.Abs(c.Socket)
	return err
}

func quotable(s string) bool { return s != "" && !strings.ContainsAny(s, "\"'\\\n\r;{}$") }
