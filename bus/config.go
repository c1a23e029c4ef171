package bus

import (
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/spate-io/spate/bus/embedded"
	"github.com/spate-io/spate/internal/config"
)

// Embedded is the address that means the broker inside this process (or beside it on this machine).
const Embedded = "embedded"

// Config says where the bus is, how to speak to it, and what its topics look like.
type Config struct {
	// Address is "embedded" or "kafka://host:port,host:port".
	Address string `yaml:"address"`
	// ClientID names this process in the broker's logs and metrics.
	ClientID string `yaml:"client_id"`
	// TopicPrefix comes before every topic name, for clusters that several systems share.
	TopicPrefix string `yaml:"topic_prefix"`
	// Partitions, Replication, MinInsync, Retention, RetentionBytes (per partition) and MaxMessage are for topics that do
	// not exist yet. 0 leaves the value to the broker, except for MaxMessage and for Partitions, where it means
	// TopicPartitions.
	Partitions     int32           `yaml:"partitions"`
	Replication    int16           `yaml:"replication"`
	MinInsync      int16           `yaml:"min_insync"`
	Retention      config.Duration `yaml:"retention"`
	RetentionBytes config.Size     `yaml:"retention_bytes"`
	// MaxMessage is the largest batch, in bytes, that is put into one record.
	MaxMessage config.Size `yaml:"max_message"`
	// MaxBuffered bounds the bytes that a producer holds before it blocks its callers.
	MaxBuffered config.Size `yaml:"max_buffered"`
	// DialTimeout and RequestTimeout bound a connection attempt and one request.
	DialTimeout    config.Duration `yaml:"dial_timeout"`
	RequestTimeout config.Duration `yaml:"request_timeout"`
	TLS            TLS             `yaml:"tls"`
	SASL           SASL            `yaml:"sasl"`
	Embedded       embedded.Config `yaml:"embedded"`
}

// TLS is how connections to Kafka are secured.
type TLS struct {
	Enabled    bool   `yaml:"enabled"`
	CA         string `yaml:"ca"`          // PEM file; empty means the system's
	Cert       string `yaml:"cert"`        // PEM file with the client's certificate, if the brokers ask for one
	Key        string `yaml:"key"`         // PEM file with its key
	ServerName string `yaml:"server_name"` // overrides the name that certificates are checked against
}

// SASL is how this client proves who it is.
type SASL struct {
	Mechanism string        `yaml:"mechanism"` // "", plain, scram-sha-256 or scram-sha-512
	User      string        `yaml:"user"`
	Password  config.Secret `yaml:"password"`
}

// DefaultConfig returns the configuration of a single machine.
func DefaultConfig() Config {
	return Config{
		Address:        Embedded,
		ClientID:       "spate",
		MaxMessage:     16 * config.MiB,
		MaxBuffered:    64 * config.MiB,
		DialTimeout:    config.Duration(5 * time.Second),
		RequestTimeout: config.Duration(30 * time.Second),
		Embedded:       embedded.DefaultConfig(),
	}
}

// Validate adds what is wrong with c to p.
func (c *Config) Validate(p *config.Problems) {
	if c.Address != Embedded {
		_, err := c.seeds(nil)
		p.Check(err == nil, "address", c.Address, `must be "embedded" or kafka://host:port,host:port`)
	}
	p.Check(topicName(c.TopicPrefix), "topic_prefix", c.TopicPrefix, "may hold letters, digits, dot, underscore and dash only")
	p.Check(c.Partitions >= 0 && c.Partitions <= 10000, "partitions", c.Partitions, "must be from 0 to 10000")
	p.Check(c.Replication >= 0, "replication", c.Replication, "must not be negative")
	p.Check(c.MinInsync >= 0 && (c.Replication == 0 || c.MinInsync <= c.Replication), "min_insync", c.MinInsync, "must not be more than replication")
	p.Check(c.Retention >= 0, "retention", c.Retention, "must not be negative")
	p.Check(c.RetentionBytes >= 0, "retention_bytes", c.RetentionBytes, "must not be negative")
	p.Check(c.MaxMessage >= 64*config.KiB && c.MaxMessage <= 64*config.MiB, "max_message", c.MaxMessage, "must be from 64KiB to 64MiB")
	p.Check(c.MaxBuffered >= c.MaxMessage, "max_buffered", c.MaxBuffered, "must be at least max_message")
	p.Check(c.DialTimeout > 0, "dial_timeout", c.DialTimeout, "must be positive")
	p.Check(c.RequestTimeout > 0, "request_timeout", c.RequestTimeout, "must be positive")
	p.Check((c.TLS.Cert == "") == (c.TLS.Key == ""), "tls.cert", c.TLS.Cert, "needs tls.key, and the other way round")
	switch c.SASL.Mechanism {
	case "":
	case "plain", "scram-sha-256", "scram-sha-512":
		p.Check(c.SASL.User != "" && c.SASL.Password != "", "sasl.user", c.SASL.User, "needs user and password")
	default:
		p.Add("sasl.mechanism", c.SASL.Mechanism, "must be plain, scram-sha-256 or scram-sha-512")
	}
	if c.Address == Embedded {
		p.Check(c.SASL.Mechanism == "" && !c.TLS.Enabled, "sasl.mechanism", c.SASL.Mechanism, "the embedded broker has neither SASL nor TLS")
		p.Under("embedded", c.Embedded.Validate)
	}
}

// TopicPartitions is how many partitions a new topic of requests gets: Partitions, or by itself one per processor of this
// machine, from 2 to 4, on the embedded broker, and 4 on Kafka. Each partition's requests go to the store in blocks of their
// own, and many small blocks cost it more than few large ones.
func (c *Config) TopicPartitions() int32 {
	switch {
	case c.Partitions > 0:
		return c.Partitions
	case c.Address == Embedded:
		return int32(min(max(runtime.GOMAXPROCS(0), 2), 4))
	}
	return 4
}

func topicName(s string) bool {
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == ""
}

// seeds returns the brokers to ask first. embeddedAddr gives the embedded broker's address; it may be nil.
func (c *Config) seeds(embeddedAddr func() string) ([]string, error) {
	if c.Address == Embedded {
		if embeddedAddr != nil {
			if a := embeddedAddr(); a != "" {
				return []string{a}, nil
			}
			return nil, errBrokerNotUp
		}
		return []string{c.Embedded.Listen}, nil
	}
	rest, ok := strings.CutPrefix(c.Address, "kafka://")
	if !ok || rest == "" {
		return nil, fmt.Errorf("bus address %q: must be %q or kafka://host:port,host:port", c.Address, Embedded)
	}
	hosts := strings.Split(rest, ",")
	for i, h := range hosts {
		hosts[i] = strings.TrimSpace(h)
		if hosts[i] == "" || strings.ContainsAny(hosts[i], "/ ") {
			return nil, fmt.Errorf("bus address %q: %q is no host:port", c.Address, h)
		}
	}
	return hosts, nil
}
