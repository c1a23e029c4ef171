package gateway

import (
	"net"
	"time"

	"github.com/spate-io/spate/event/batch"
	"github.com/spate-io/spate/internal/config"
)

// Config says where a gateway listens and how much it takes.
type Config struct {
	Listen string    `yaml:"listen"` // host:port; empty for in-process edges only
	TLS    TLSConfig `yaml:"tls"`
	Edges  []string  `yaml:"edges"` // names that may send; empty for every name that the authority has signed

	MaxConnections     int         `yaml:"max_connections"`
	MaxEdgeConnections int         `yaml:"max_edge_connections"` // of one edge
	MaxBatch           config.Size `yaml:"max_batch"`            // bytes of a batch, compressed
	MaxRaw             config.Size `yaml:"max_raw"`              // bytes of a batch's events
	Window             int         `yaml:"window"`               // batches in flight on a connection
	InflightBytes      config.Size `yaml:"inflight_bytes"`       // bytes on their way to the bus, of all connections
	ConnInflightBytes  config.Size `yaml:"conn_inflight_bytes"`  // and of one
	Rate               RateConfig  `yaml:"rate"`

	HandshakeTimeout config.Duration `yaml:"handshake_timeout"`
	IdleTimeout      config.Duration `yaml:"idle_timeout"` // an edge that says nothing for so long is gone
	PingInterval     config.Duration `yaml:"ping_interval"`
	WriteTimeout     config.Duration `yaml:"write_timeout"`
	DrainTimeout     config.Duration `yaml:"drain_timeout"` // how long a stop waits for the bus
}

// TLSConfig names the files of the gateway's certificate; they are read again when they change.
type TLSConfig struct {
	CA          string `yaml:"ca"` // authorities of the edges' certificates
	Certificate string `yaml:"certificate"`
	Key         string `yaml:"key"`
}

// RateConfig limits each edge; 0 is no limit. An edge above its limit is read more slowly.
type RateConfig struct {
	Bytes   config.Size `yaml:"bytes"`   // a second
	Batches int         `yaml:"batches"` // a second
}

// DefaultConfig listens nowhere and takes up to 256 MiB at a time.
func DefaultConfig() Config {
	return Config{
		MaxConnections: 1024, MaxEdgeConnections: 16,
		MaxBatch: 32 << 20, MaxRaw: 64 << 20, Window: 64,
		InflightBytes: 256 << 20, ConnInflightBytes: 64 << 20,
		HandshakeTimeout: config.Duration(5 * time.Second), IdleTimeout: config.Duration(20 * time.Second),
		PingInterval: config.Duration(5 * time.Second), WriteTimeout: config.Duration(10 * time.Second),
		DrainTimeout: config.Duration(10 * time.Second),
	}
}

// Validate reports every value that cannot work.
func (c *Config) Validate(p *config.Problems) {
	if c.Listen != "" {
		_, _, err := net.SplitHostPort(c.Listen)
		p.Check(err == nil, "listen", c.Listen, "must be host:port")
		p.Check(c.TLS.CA != "" && c.TLS.Certificate != "" && c.TLS.Key != "", "tls.certificate", c.TLS.Certificate, "must be set together with ca and key when listen is")
	}
	for _, e := range c.Edges {
		p.Check(batch.ValidEdge(e), "edges", e, "must be of a-z, 0-9, '.', '_' and '-'")
	}
	p.Check(c.MaxConnections >= 1, "max_connections", c.MaxConnections, "must be at least 1")
	p.Check(c.MaxEdgeConnections >= 1, "max_edge_connections", c.MaxEdgeConnections, "must be at least 1")
	p.Check(c.MaxBatch >= 64<<10 && c.MaxBatch <= batch.MaxBatch, "max_batch", c.MaxBatch, "must be between 64KiB and the largest batch")
	p.Check(c.MaxRaw >= 64<<10 && c.MaxRaw <= batch.MaxRaw, "max_raw", c.MaxRaw, "must be between 64KiB and 64MiB")
	p.Check(c.Window >= 1 && c.Window <= 4096, "window", c.Window, "must be between 1 and 4096")
	p.Check(c.ConnInflightBytes >= c.MaxBatch, "conn_inflight_bytes", c.ConnInflightBytes, "must not be below max_batch")
	p.Check(c.InflightBytes >= c.ConnInflightBytes, "inflight_bytes", c.InflightBytes, "must not be below conn_inflight_bytes")
	p.Check(c.Rate.Bytes >= 0, "rate.bytes", c.Rate.Bytes, "must not be negative")
	p.Check(c.Rate.Batches >= 0, "rate.batches", c.Rate.Batches, "must not be negative")
	p.Check(c.HandshakeTimeout > 0, "handshake_timeout", c.HandshakeTimeout, "must be positive")
	p.Check(c.PingInterval > 0, "ping_interval", c.PingInterval, "must be positive")
	p.Check(c.IdleTimeout >= 2*c.PingInterval, "idle_timeout", c.IdleTimeout, "must be at least twice ping_interval")
	p.Check(c.WriteTimeout > 0, "write_timeout", c.WriteTimeout, "must be positive")
	p.Check(c.DrainTimeout >= 0, "drain_timeout", c.DrainTimeout, "must not be negative")
}
