// Package bus is the log between gateway and loader: a Kafka protocol client in one place, topics as data, the producer
// of batches, and lag seen from outside. It does not know what a record means; that is event/batch.
//
// The address "embedded" is the broker of bus/embedded, "kafka://..." any Kafka cluster; nothing else differs. The
// invariant: a batch's partition follows from its name and the topic's number of partitions, and Produce reports success
// only after all in-sync replicas (or the embedded broker's disk) have the record.
package bus

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// Deps are what parts of this package need from their surroundings.
type Deps struct {
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	// Embedded gives the address of the embedded broker, or "" while it is not up. It is called only when the
	// configuration's address is "embedded"; when it is nil, Config.Embedded.Listen is used.
	Embedded func() string
}

func (d Deps) logger() *slog.Logger {
	if d.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return d.Logger
}

var errBrokerNotUp = errors.New("embedded broker is not up")

// Group is the consumer group of the loader.
const Group = "spate-load"

// RequestsTopic is the topic of HTTP request batches.
func (c *Config) RequestsTopic() string { return c.TopicPrefix + "http_requests" }

// RefusedTopic is the topic where records of RequestsTopic that cannot be stored are set aside.
func (c *Config) RefusedTopic() string { return c.RequestsTopic() + ".refused" }

// WindowTopic is where loaders keep the names of the batches they have stored last: one record per partition of
// RequestsTopic that counts, the newest of the same partition.
func (c *Config) WindowTopic() string { return c.RequestsTopic() + ".window" }

// NewClient returns a client for the configured bus; it connects when it is first used. The caller closes it. It fails
// when certificates cannot be read, and while the embedded broker is not up.
func NewClient(cfg Config, deps Deps, extra ...kgo.Opt) (*kgo.Client, error) {
	seeds, err := cfg.seeds(deps.Embedded)
	if err != nil {
		return nil, err
	}
	opts := []kgo.Opt{
		kgo.SeedBrokers(seeds...),
		kgo.ClientID(cfg.ClientID),
		kgo.DialTimeout(cfg.DialTimeout.D()),
		kgo.RequestTimeoutOverhead(cfg.RequestTimeout.D()),
		kgo.BrokerMaxReadBytes(1 << 30),
		kgo.DisableClientMetrics(),
		kgo.WithLogger(clientLog{deps.logger()}),
	}
	if cfg.TLS.Enabled {
		t, err := cfg.TLS.load()
		if err != nil {
			return nil, fmt.Errorf("bus tls: %w", err)
		}
		opts = append(opts, kgo.DialTLSConfig(t))
	}
	switch s := cfg.SASL; s.Mechanism {
	case "plain":
		opts = append(opts, kgo.SASL(plain.Auth{User: s.User, Pass: s.Password.Reveal()}.AsMechanism()))
	case "scram-sha-256":
		opts = append(opts, kgo.SASL(scram.Auth{User: s.User, Pass: s.Password.Reveal()}.AsSha256Mechanism()))
	case "scram-sha-512":
		opts = append(opts, kgo.SASL(scram.Auth{User: s.User, Pass: s.Password.Reveal()}.AsSha512Mechanism()))
	}
	cl, err := kgo.NewClient(append(opts, extra...)...)
	if err != nil {
		return nil, fmt.Errorf("bus client: %w", err)
	}
	return cl, nil
}

// load reads the certificates.
func (t *TLS) load() (*tls.Config, error) {
	out := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CA != "" {
		pem, err := os.ReadFile(t.CA)
		if err != nil {
			return nil, err
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: no certificate in it", t.CA)
		}
	}
	if t.Cert != "" {
		c, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		if err != nil {
			return nil, err
		}
		out.Certificates = []tls.Certificate{c}
	}
	return out, nil
}

// clientLog passes the client's warnings and errors to slog.
type clientLog struct{ log *slog.Logger }

// Level implements kgo.Logger.
func (clientLog) Level() kgo.LogLevel { return kgo.LogLevelWarn }

// Log implements kgo.Logger.
func (l clientLog) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	attrs := append([]any{"detail", msg}, keyvals...)
	if level == kgo.LogLevelError {
		l.log.Error("kafka client", attrs...)
		return
	}
	l.log.Warn("kafka client", attrs...)
}
