package wire

import (
	"time"

	"github.com/spate-io/spate/internal/config"
)

// Config bounds how a shipper sends.
type Config struct {
	Window           int             `yaml:"window"`            // batches in flight
	WindowBytes      config.Size     `yaml:"window_bytes"`      // bytes in flight
	DialTimeout      config.Duration `yaml:"dial_timeout"`      // until a connection stands, TLS included
	HandshakeTimeout config.Duration `yaml:"handshake_timeout"` // until the gateway has said welcome
	PingInterval     config.Duration `yaml:"ping_interval"`
	IdleTimeout      config.Duration `yaml:"idle_timeout"` // nothing heard for so long: the connection is dead
	BackoffMin       config.Duration `yaml:"backoff_min"`
	BackoffMax       config.Duration `yaml:"backoff_max"`
	ReturnAfter      config.Duration `yaml:"return_after"` // how often a shipper on another than the first address tries those before it
}

// DefaultConfig fits an edge and a gateway in different cities.
func DefaultConfig() Config {
	return Config{
		Window: 64, WindowBytes: 32 << 20,
		DialTimeout: config.Duration(5 * time.Second), HandshakeTimeout: config.Duration(5 * time.Second),
		PingInterval: config.Duration(5 * time.Second), IdleTimeout: config.Duration(20 * time.Second),
		BackoffMin: config.Duration(100 * time.Millisecond), BackoffMax: config.Duration(30 * time.Second),
		ReturnAfter: config.Duration(time.Minute),
	}
}

// Validate reports every value that cannot work.
func (c *Config) Validate(p *config.Problems) {
	p.Check(c.Window >= 1 && c.Window <= 4096, "window", c.Window, "must be between 1 and 4096")
	p.Check(c.WindowBytes > 0, "window_bytes", c.WindowBytes, "must be positive")
	for _, d := range []struct {
		name string
		v    config.Duration
	}{
		{"dial_timeout", c.DialTimeout}, {"handshake_timeout", c.HandshakeTimeout}, {"ping_interval", c.PingInterval},
		{"backoff_min", c.BackoffMin}, {"return_after", c.ReturnAfter},
	} {
		p.Check(d.v > 0, d.name, d.v, "must be positive")
	}
	p.Check(c.IdleTimeout >= 2*c.PingInterval, "idle_timeout", c.IdleTimeout, "must be at least twice ping_interval")
	p.Check(c.BackoffMax >= c.BackoffMin, "backoff_max", c.BackoffMax, "must not be below backoff_min")
}
