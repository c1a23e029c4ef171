package forward

import (
	"fmt"
	"time"

	"github.com/spate-io/spate/edge/spool"
	"github.com/spate-io/spate/edge/wire"
	"github.com/spate-io/spate/event/batch"
	"github.com/spate-io/spate/internal/config"
)

// Config says who this edge is, how batches are made, and where they go.
type Config struct {
	Edge         string          `yaml:"edge"` // name of this edge, as in its certificate
	Batch        BatchConfig     `yaml:"batch"`
	Spool        spool.Config    `yaml:"spool"`
	Wire         wire.Config     `yaml:"wire"`
	Destinations []Destination   `yaml:"destinations"`
	DrainTimeout config.Duration `yaml:"drain_timeout"` // how long a stop waits for the destinations to take what is left
}

// BatchConfig says when a batch is full and how it is compressed.
type BatchConfig struct {
	MaxEvents int             `yaml:"max_events"`
	MaxBytes  config.Size     `yaml:"max_bytes"` // before compression
	MaxDelay  config.Duration `yaml:"max_delay"` // from its first event
	Codec     string          `yaml:"codec"`
	Level     int             `yaml:"level"`    // 0 is the codec's default
	Encoders  int             `yaml:"encoders"` // batches compressed at a time
}

// Destination is a data centre that gets every batch.
type Destination struct {
	Name      string   `yaml:"name"`
	Addresses []string `yaml:"addresses"` // of its gateways, host:port, the preferred one first
	// CA, Certificate and Key are files; they are read again when they change.
	CA          string `yaml:"ca"`
	Certificate string `yaml:"certificate"`
	Key         string `yaml:"key"`
	ServerName  string `yaml:"server_name"` // when the gateways' certificate has another name than their address
}

// DefaultConfig makes batches of at most 10,000 events, 4 MiB or 200 ms, in zstd. Edge and destinations are to be filled in.
func DefaultConfig() Config {
	return Config{
		Edge: "edge",
		Batch: BatchConfig{
			MaxEvents: 10_000, MaxBytes: 4 << 20, MaxDelay: config.Duration(200 * time.Millisecond),
			Codec: "zstd", Encoders: 2,
		},
		Spool:        spool.DefaultConfig(),
		Wire:         wire.DefaultConfig(),
		DrainTimeout: config.Duration(5 * time.Second),
	}
}

// Validate reports every value that cannot work. A destination without addresses is for the caller to dial.
func (c *Config) Validate(p *config.Problems) {
	p.Check(batch.ValidEdge(c.Edge), "edge", c.Edge, "must be of a-z, 0-9, '.', '_' and '-'")
	p.Check(c.Batch.MaxEvents >= 1, "batch.max_events", c.Batch.MaxEvents, "must be at least 1")
	p.Check(c.Batch.MaxBytes >= 1<<10 && c.Batch.MaxBytes <= batch.MaxRaw/2, "batch.max_bytes", c.Batch.MaxBytes, "must be between 1KiB and 32MiB")
	p.Check(c.Batch.MaxDelay > 0, "batch.max_delay", c.Batch.MaxDelay, "must be positive")
	p.Check(c.Batch.Encoders >= 1 && c.Batch.Encoders <= 64, "batch.encoders", c.Batch.Encoders, "must be between 1 and 64")
	if codec, err := batch.ParseCodec(c.Batch.Codec); err != nil {
		p.Add("batch.codec", c.Batch.Codec, "must be none, gzip, snappy, lz4 or zstd")
	} else if _, err := batch.NewEncoder(codec, c.Batch.Level); err != nil {
		p.Add("batch.level", c.Batch.Level, "must be a level of "+c.Batch.Codec)
	}
	p.Under("spool", c.Spool.Validate)
	p.Under("wire", c.Wire.Validate)
	p.Check(c.DrainTimeout >= 0, "drain_timeout", c.DrainTimeout, "must not be negative")
	p.Check(len(c.Destinations) > 0, "destinations", nil, "must name at least one")
	seen := map[string]bool{}
	for i, d := range c.Destinations {
		at := fmt.Sprintf("destinations[%d].", i)
		p.Check(batch.ValidEdge(d.Name) && len(d.Name) <= 64, at+"name", d.Name, "must be of a-z, 0-9, '.', '_' and '-'")
		p.Check(!seen[d.Name], at+"name", d.Name, "must not be there twice")
		seen[d.Name] = true
		if len(d.Addresses) > 0 {
			p.Check(d.CA != "" && d.Certificate != "" && d.Key != "", at+"certificate", d.Certificate, "must be set together with ca and key")
		}
	}
}
