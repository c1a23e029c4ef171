package embedded

import (
	"net"
	"time"

	"github.com/spate-io/spate/internal/config"
)

// Config says where the embedded broker keeps its data, where it listens and how long it keeps records.
type Config struct {
	// Dir is the data directory. One process at a time may use it.
	Dir string `yaml:"dir"`
	// Listen is the TCP address for Kafka clients. The broker has no authentication: keep it on loopback.
	Listen string `yaml:"listen"`
	// Sync makes every produced batch durable (fsync) before it is acknowledged. Off is for tests and benchmarks.
	Sync bool `yaml:"sync"`
	// SegmentSize is the size at which a log file is closed and a new one begun; data is deleted by whole segments.
	SegmentSize config.Size `yaml:"segment_size"`
	// Retention and RetentionBytes (per partition) bound topics that say nothing themselves; 0 means no bound.
	Retention      config.Duration `yaml:"retention"`
	RetentionBytes config.Size     `yaml:"retention_bytes"`
	// Hold lists, by topic, the consumer groups that must have committed a record before retention may delete it.
	Hold map[string][]string `yaml:"hold"`
	// MaxBytes is how much all topics together may hold before produce requests are refused with a retriable error, so
	// that edges keep their data instead. 0 means no bound.
	MaxBytes config.Size `yaml:"max_bytes"`
	// MinFree is the free space on the file system below which produce requests are refused in the same way.
	MinFree config.Size `yaml:"min_free"`
	// CheckEvery is how often retention and free space are looked at.
	CheckEvery config.Duration `yaml:"check_every"`
}

// DefaultConfig returns the configuration of a single machine.
func DefaultConfig() Config {
	return Config{
		Dir:            "data/bus",
		Listen:         "127.0.0.1:9092",
		Sync:           true,
		SegmentSize:    64 * config.MiB,
		Retention:      config.Duration(24 * time.Hour),
		RetentionBytes: 1 * config.GiB,
		Hold:           map[string][]string{"http_requests": {"spate-load"}},
		MaxBytes:       16 * config.GiB,
		MinFree:        512 * config.MiB,
		CheckEvery:     config.Duration(5 * time.Second),
	}
}

// Validate adds what is wrong with c to p.
func (c *Config) Validate(p *config.Problems) {
	p.Check(c.Dir != "", "dir", c.Dir, "must name a directory")
	_, _, err := net.SplitHostPort(c.Listen)
	p.Check(err == nil, "listen", c.Listen, "must be host:port")
	p.Check(c.SegmentSize >= 64*config.KiB && c.SegmentSize <= config.GiB, "segment_size", c.SegmentSize, "must be from 64KiB to 1GiB")
	p.Check(c.Retention >= 0, "retention", c.Retention, "must not be negative")
	p.Check(c.RetentionBytes == 0 || c.RetentionBytes >= c.SegmentSize, "retention_bytes", c.RetentionBytes, "must be 0 or at least segment_size")
	p.Check(c.MaxBytes >= 0, "max_bytes", c.MaxBytes, "must not be negative")
	p.Check(c.MinFree >= 0, "min_free", c.MinFree, "must not be negative")
	p.Check(c.CheckEvery > 0, "check_every", c.CheckEvery, "must be positive")
}
