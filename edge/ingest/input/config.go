package input

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/spate-io/spate/edge/accesslog"
	"github.com/spate-io/spate/edge/ingest"
	"github.com/spate-io/spate/internal/config"
)

// Kinds of inputs.
const (
	TypeFile   = "file"
	TypeSyslog = "syslog"
	TypeHTTP   = "http"
)

// Config is one input. Fields that its type does not use stay empty.
type Config struct {
	// Type is "file", "syslog" or "http".
	Type string `yaml:"type"`
	// Path is the log to follow, or a pattern like /var/log/nginx/*access.log for several; their rotated copies are found
	// by name. For type file.
	Path string `yaml:"path,omitempty"`
	// From is where a log that was never seen before begins: "start" or "end". For type file.
	From string `yaml:"from,omitempty"`
	// Poll is how often files are looked at. For type file.
	Poll config.Duration `yaml:"poll,omitempty"`
	// Listen is udp://host:port, tcp://host:port or unix:///path (datagrams) for type syslog; host:port for type http.
	Listen string `yaml:"listen,omitempty"`
	// Token must come as "Authorization: Bearer TOKEN" or as ?token=. For type http.
	Token config.Secret `yaml:"token,omitempty"`
	// Flush is how long lines are gathered at most. For type syslog.
	Flush config.Duration `yaml:"flush,omitempty"`
	// Format is the name of a format, or a format string; empty: it is found from the first lines.
	Format string `yaml:"format,omitempty"`
	// Host is the site of requests whose log does not say it.
	Host string `yaml:"host,omitempty"`
	// Scheme is http or https for requests whose log does not say it.
	Scheme string `yaml:"scheme,omitempty"`
}

// DefaultConfig is what empty fields mean.
func DefaultConfig() Config {
	return Config{Type: TypeFile, From: "start", Poll: config.Duration(250 * time.Millisecond), Flush: config.Duration(500 * time.Millisecond)}
}

// withDefaults fills empty fields.
func (c Config) withDefaults() Config {
	d := DefaultConfig()
	if c.Type == "" {
		c.Type = d.Type
	}
	if c.From == "" {
		c.From = d.From
	}
	if c.Poll == 0 {
		c.Poll = d.Poll
	}
	if c.Flush == 0 {
		c.Flush = d.Flush
	}
	return c
}

// Validate reports every value that cannot work.
func (c *Config) Validate(p *config.Problems) {
	f := c.withDefaults()
	switch f.Type {
	case TypeFile:
		p.Check(f.Path != "", "path", f.Path, "must name a file or a pattern")
		p.Check(f.From == "start" || f.From == "end", "from", f.From, `must be "start" or "end"`)
		p.Check(f.Poll >= config.Duration(time.Millisecond) && f.Poll <= config.Duration(time.Minute), "poll", f.Poll, "must be between 1ms and 1m")
	case TypeSyslog:
		_, _, err := splitListen(f.Listen)
		p.Check(err == nil, "listen", f.Listen, "must be udp://host:port, tcp://host:port or unix:///path")
		p.Check(f.Flush >= config.Duration(time.Millisecond) && f.Flush <= config.Duration(time.Minute), "flush", f.Flush, "must be between 1ms and 1m")
	case TypeHTTP:
		_, _, err := net.SplitHostPort(f.Listen)
		p.Check(err == nil, "listen", f.Listen, "must be host:port")
		p.Check(f.Token != "" || loopback(f.Listen), "token", f.Token, "is required unless the address is a loopback one")
	default:
		p.Add("type", f.Type, `must be "file", "syslog" or "http"`)
	}
	if f.Format != "" {
		if _, err := accesslog.Resolve(f.Format); err != nil {
			p.Add("format", f.Format, err.Error())
		}
	}
	p.Check(f.Scheme == "" || f.Scheme == "http" || f.Scheme == "https", "scheme", f.Scheme, "must be http or https")
}

// splitListen gives network and address.
func splitListen(s string) (network, address string, err error) {
	network, address, ok := strings.Cut(s, "://")
	if !ok || address == "" {
		return "", "", errors.New("no network in the address")
	}
	switch network {
	case "udp", "tcp":
		if _, _, err := net.SplitHostPort(address); err != nil {
			return "", "", fmt.Errorf("address %q: %w", address, err)
		}
		return network, address, nil
	case "unix", "unixgram":
		return "unixgram", address, nil
	}
	return "", "", fmt.Errorf("network %q is not known", network)
}

func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (c *Config) defaults(edge, colo string) *ingest.DefaultTexts {
	return ingest.Defaults{Host: c.Host, Scheme: c.Scheme, EdgeName: edge, ColoCode: colo}.Texts()
}
