package tops

import (
	"time"

	"github.com/spate-io/spate/internal/config"
)

// Config is the section "tops".
type Config struct {
	// Every is how often hours and days are looked for whose lists are missing or too old; 0 makes no lists.
	Every config.Duration `yaml:"every"`
	// Settle is how long after its end an hour or day is left alone, so that most late events are there.
	Settle config.Duration `yaml:"settle"`
	// Values is how many values a list has by requests, and how many by bytes.
	Values int `yaml:"values"`
	// HourRequests is how many requests an hour of a zone must have to be given lists of its own; the days of a zone have
	// theirs in any case. Sixteen lists of an hour take more room than a hundred requests.
	HourRequests uint64 `yaml:"hour_requests"`
	// Memory bounds what one statement may use. What does not fit is grouped on disk.
	Memory config.Size `yaml:"memory"`
	// Requests bounds how many requests one statement is about; an hour of one zone is never divided.
	Requests uint64 `yaml:"requests"`
}

// DefaultConfig has values for an embedded store on a small machine.
func DefaultConfig() Config {
	return Config{
		Every: config.Duration(5 * time.Minute), Settle: config.Duration(2 * time.Minute), Values: 250, HourRequests: 100,
		Memory: 256 * config.MiB, Requests: 4_000_000,
	}
}

// Validate adds what is wrong to p.
func (c *Config) Validate(p *config.Problems) {
	p.Check(c.Every == 0 || c.Every.D() >= time.Second && c.Every.D() <= 24*time.Hour, "every", c.Every, "must be 0s (off), or 1s to 24h")
	p.Check(c.Settle.D() >= 0 && c.Settle.D() <= 24*time.Hour, "settle", c.Settle, "must be 0s to 24h")
	p.Check(c.Values >= 10 && c.Values <= 10_000, "values", c.Values, "must be 10 to 10000")
	p.Check(c.HourRequests >= 1, "hour_requests", c.HourRequests, "must be at least 1")
	p.Check(c.Memory >= 32*config.MiB, "memory", c.Memory, "must be at least 32MiB")
	p.Check(c.Requests >= 1000, "requests", c.Requests, "must be at least 1000")
}
