package spool

import (
	"time"

	"github.com/spate-io/spate/internal/config"
)

// How and when records are synced.
const (
	SyncAlways   = "always"   // as soon as the sync before has ended; batches that come meanwhile share one
	SyncInterval = "interval" // at most once in sync_interval, or when sync_bytes wait
)

// What happens when the spool is full.
const (
	FullBlock      = "block"       // appends wait: the inputs feel it
	FullDropOldest = "drop_oldest" // the oldest segment goes, counted for each destination that had not passed it
)

// Config says where a spool lies and how much it may hold.
type Config struct {
	Dir          string          `yaml:"dir"`
	MaxBytes     config.Size     `yaml:"max_bytes"`
	SegmentBytes config.Size     `yaml:"segment_bytes"`
	WhenFull     string          `yaml:"when_full"`
	Sync         string          `yaml:"sync"`
	SyncInterval config.Duration `yaml:"sync_interval"`
	SyncBytes    config.Size     `yaml:"sync_bytes"`
	MaxStreams   int             `yaml:"max_streams"`
	// AsideBytes bounds what lies in quarantine, and what each destination refused, beside MaxBytes. The oldest goes first.
	AsideBytes config.Size `yaml:"aside_bytes"`
}

// DefaultConfig is 8 GiB in segments of 64 MiB that block when full and are synced each second or MiB.
func DefaultConfig() Config {
	return Config{
		Dir:          "var/spool",
		MaxBytes:     8 << 30,
		SegmentBytes: 64 << 20,
		WhenFull:     FullBlock,
		Sync:         SyncInterval,
		SyncInterval: config.Duration(time.Second),
		SyncBytes:    1 << 20,
		MaxStreams:   65536,
		AsideBytes:   1 << 30,
	}
}

// Validate reports every value that cannot work.
func (c *Config) Validate(p *config.Problems) {
	p.Check(c.Dir != "", "dir", c.Dir, "must not be empty")
	p.Check(c.SegmentBytes >= 64<<10 && c.SegmentBytes <= 2<<30, "segment_bytes", c.SegmentBytes, "must be between 64KiB and 2GiB")
	p.Check(c.MaxBytes >= 3*c.SegmentBytes, "max_bytes", c.MaxBytes, "must be at least three times segment_bytes")
	p.Check(c.WhenFull == FullBlock || c.WhenFull == FullDropOldest, "when_full", c.WhenFull, "must be block or drop_oldest")
	p.Check(c.Sync == SyncAlways || c.Sync == SyncInterval, "sync", c.Sync, "must be always or interval")
	p.Check(c.SyncInterval > 0, "sync_interval", c.SyncInterval, "must be positive")
	p.Check(c.SyncBytes > 0, "sync_bytes", c.SyncBytes, "must be positive")
	p.Check(c.AsideBytes >= 0, "aside_bytes", c.AsideBytes, "must not be negative")
	p.Check(c.MaxStreams >= 16, "max_streams", c.MaxStreams, "must be at least 16")
}
