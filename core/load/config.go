package load

import (
	"time"

	"github.com/spate-io/spate/internal/config"
)

// Guarantees that Config.Guarantee chooses from.
const (
	// ExactlyOnce commits the range of an insert before the insert and repeats it with the same token after a crash.
	ExactlyOnce = "exactly_once"
	// AtLeastOnce only commits after the insert: one commit less a block, and after a crash a block may be stored twice.
	AtLeastOnce = "at_least_once"
)

// Config is how records become blocks.
type Config struct {
	// Group is the consumer group. All loaders of one store share it.
	Group string `yaml:"group"`
	// Guarantee is exactly_once or at_least_once.
	Guarantee string `yaml:"guarantee"`
	// Parallel is how many partitions may be decoded, enriched and inserted at the same time; 0 means one per CPU. Each
	// takes the memory of one block.
	Parallel int         `yaml:"parallel"`
	Block    BlockConfig `yaml:"block"`
	Window   Window      `yaml:"window"`
	Retry    Retry       `yaml:"retry"`
	// QueueBytes bounds the fetched records that wait, per partition; above it the partition is not fetched.
	QueueBytes config.Size `yaml:"queue_bytes"`
	// LateAfter is the age at which an event counts as late when it is stored.
	LateAfter config.Duration `yaml:"late_after"`
	// Stall is how long a partition with work may stand still before Live fails.
	Stall config.Duration `yaml:"stall"`
	// Drain is how long a block that is being stored may take when its partition is taken away or the loader stops.
	Drain config.Duration `yaml:"drain"`
	// SessionTimeout is how long a loader may be silent before its partitions go to others.
	SessionTimeout config.Duration `yaml:"session_timeout"`
}

// BlockConfig says when a block is full. Whatever comes first counts. Large blocks are much cheaper: what an insert costs
// apart from its rows, and how often rows are merged, goes down with them.
type BlockConfig struct {
	MaxEvents int         `yaml:"max_events"`
	MaxBytes  config.Size `yaml:"max_bytes"` // of unpacked events
	// MaxDelay is how long the first record waits.
	MaxDelay config.Duration `yaml:"max_delay"`
	// BusyDelay is how long it waits instead when after MaxDelay a twentieth of MaxEvents is there, as long as no MaxDelay passes
	// without a record: most of what a block costs is by zone and not by event, so under load larger blocks are what keeps up.
	BusyDelay config.Duration `yaml:"busy_delay"`
}

// Window bounds the batch names that are remembered per partition to drop what was sent twice.
type Window struct {
	Batches int             `yaml:"batches"`  // in all
	PerEdge int             `yaml:"per_edge"` // of one edge; more than an edge has on its way
	Time    config.Duration `yaml:"time"`
	// ReadBack bounds the bytes that are read from the bus, per partition, to remember names after a restart. Windows
	// are written to the bus so often that less than that has to be read.
	ReadBack config.Size `yaml:"read_back"`
	// SaveEvery is how often a window that has changed is written to the bus.
	SaveEvery config.Duration `yaml:"save_every"`
}

// Retry is how a failed insert is repeated: with the same block and token, until it succeeds.
type Retry struct {
	Min config.Duration `yaml:"min"`
	Max config.Duration `yaml:"max"`
	// Timeout bounds one attempt.
	Timeout config.Duration `yaml:"timeout"`
	// MaxRefused is how many batches in a row may be set aside because the store calls them malformed. After that many
	// without one success the fault is taken to be the store's, and inserts are retried instead.
	MaxRefused int `yaml:"max_refused"`
}

// DefaultConfig returns the configuration of a single machine.
func DefaultConfig() Config {
	return Config{
		Group:          "spate-load",
		Guarantee:      ExactlyOnce,
		Block:          BlockConfig{MaxEvents: 100_000, MaxBytes: 64 * config.MiB, MaxDelay: config.Duration(500 * time.Millisecond), BusyDelay: config.Duration(3 * time.Second)},
		Window:         Window{Batches: 200_000, PerEdge: 1000, Time: config.Duration(7 * 24 * time.Hour), ReadBack: 256 * config.MiB, SaveEvery: config.Duration(time.Minute)},
		Retry:          Retry{Min: config.Duration(100 * time.Millisecond), Max: config.Duration(15 * time.Second), Timeout: config.Duration(2 * time.Minute), MaxRefused: 100},
		QueueBytes:     8 * config.MiB,
		LateAfter:      config.Duration(time.Minute),
		Stall:          config.Duration(time.Minute),
		Drain:          config.Duration(10 * time.Second),
		SessionTimeout: config.Duration(20 * time.Second),
	}
}

// Validate adds what is wrong with c to p.
func (c *Config) Validate(p *config.Problems) {
	p.Check(c.Group != "", "group", c.Group, "must not be empty")
	p.Check(c.Guarantee == ExactlyOnce || c.Guarantee == AtLeastOnce, "guarantee", c.Guarantee, "must be exactly_once or at_least_once")
	p.Check(c.Parallel >= 0 && c.Parallel <= 1024, "parallel", c.Parallel, "must be from 0 to 1024")
	p.Check(c.Block.MaxEvents >= 1 && c.Block.MaxEvents <= 10_000_000, "block.max_events", c.Block.MaxEvents, "must be from 1 to 10000000")
	p.Check(c.Block.MaxBytes >= 1 && c.Block.MaxBytes <= config.GiB, "block.max_bytes", c.Block.MaxBytes, "must be from 1 to 1GiB")
	p.Check(c.Block.MaxDelay > 0 && c.Block.MaxDelay.D() <= time.Minute, "block.max_delay", c.Block.MaxDelay, "must be more than 0 and at most 1m")
	p.Check(c.Block.BusyDelay >= c.Block.MaxDelay && c.Block.BusyDelay.D() <= time.Minute, "block.busy_delay", c.Block.BusyDelay, "must be at least max_delay and at most 1m")
	p.Check(c.Window.Batches >= 0, "window.batches", c.Window.Batches, "must not be negative")
	p.Check(c.Window.PerEdge >= 0, "window.per_edge", c.Window.PerEdge, "must not be negative")
	p.Check(c.Window.SaveEvery > 0, "window.save_every", c.Window.SaveEvery, "must be positive")
	p.Check(c.Window.Time >= 0, "window.time", c.Window.Time, "must not be negative")
	p.Check(c.Window.ReadBack >= 0, "window.read_back", c.Window.ReadBack, "must not be negative")
	p.Check(c.Retry.Min > 0 && c.Retry.Min <= c.Retry.Max, "retry.min", c.Retry.Min, "must be more than 0 and at most retry.max")
	p.Check(c.Retry.Timeout > 0, "retry.timeout", c.Retry.Timeout, "must be positive")
	p.Check(c.Retry.MaxRefused >= 1, "retry.max_refused", c.Retry.MaxRefused, "must be at least 1")
	p.Check(c.QueueBytes > 0, "queue_bytes", c.QueueBytes, "must be positive")
	p.Check(c.LateAfter > 0, "late_after", c.LateAfter, "must be positive")
	p.Check(c.Stall > 0, "stall", c.Stall, "must be positive")
	p.Check(c.Drain > 0, "drain", c.Drain, "must be positive")
	p.Check(c.SessionTimeout.D() >= 6*time.Second, "session_timeout", c.SessionTimeout, "must be at least 6s")
}
