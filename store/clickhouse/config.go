package clickhouse

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/ClickHouse/ch-go/compress"

	"github.com/spate-io/spate/internal/config"
)

// Config is a server or a list of equal ones.
type Config struct {
	// Addresses are host:port of HTTP interfaces. The first that works is used; the others are for when it does not.
	Addresses []string
	Database  string
	User      string
	Password  config.Secret
	// TLS is nil for plain HTTP.
	TLS *tls.Config
	// Compression of blocks both ways.
	Compression compress.Method
	// MaxConnections bounds the connections to all addresses; statements beyond it wait.
	MaxConnections int
	// DialTimeout is for one connection, ReadTimeout for the time between two pieces of an answer, and to its first: it must
	// be longer than the longest statement. 0 means no bound.
	DialTimeout, ReadTimeout time.Duration
	// Quarantine is how long an address that did not answer is left alone at first; it doubles up to 32 times that.
	Quarantine time.Duration
	// Settings go with every statement.
	Settings map[string]string
	// Replicas says that the addresses are replicas that know each other's tokens of inserts, so that an insert with one may
	// be sent to the next when it is not known what became of it.
	Replicas bool
}

// DefaultConfig has no address.
func DefaultConfig() Config {
	return Config{
		Database: "default", User: "default", Compression: compress.LZ4, MaxConnections: 16,
		DialTimeout: 5 * time.Second, ReadTimeout: 5 * time.Minute, Quarantine: time.Second,
		Settings: map[string]string{"session_timezone": "UTC", "join_use_nulls": "0", "output_format_json_quote_64bit_integers": "0"},
	}
}

// Schemes of addresses.
const (
	Scheme    = "clickhouse"
	SchemeTLS = "clickhouses"
)

// IsAddress says whether a store's address is for this package.
func IsAddress(s string) bool {
	return strings.HasPrefix(s, Scheme+"://") || strings.HasPrefix(s, SchemeTLS+"://")
}

// ParseAddress reads clickhouse://user:password@host:port,host2:port/database?name=value. Names are compression (lz4, zstd,
// none), max_connections, dial_timeout, read_timeout, quarantine, ca, cert, key, server_name (files and name for TLS) and
// set.NAME for settings of every statement; an unknown one is an error. Errors do not quote the password.
func ParseAddress(address string) (Config, error) {
	cfg := DefaultConfig()
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok || (scheme != Scheme && scheme != SchemeTLS) {
		return cfg, errors.New("store address: must begin with clickhouse:// or clickhouses://")
	}
	authority, tail := rest, ""
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority, tail = rest[:i], rest[i:]
	}
	user, hosts := "", authority
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		user, hosts = authority[:i], authority[i+1:]
	}
	if err := cfg.parseUser(user); err != nil {
		return cfg, err
	}
	port := "8123"
	if scheme == SchemeTLS {
		port = "8443"
		cfg.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if err := cfg.parseHosts(hosts, port); err != nil {
		return cfg, err
	}
	path, query, _ := strings.Cut(tail, "?")
	if db, err := url.PathUnescape(strings.TrimPrefix(path, "/")); err != nil || strings.Contains(db, "/") {
		return cfg, fmt.Errorf("store address: database %q", path)
	} else if db != "" {
		cfg.Database = db
	}
	return cfg, cfg.parseOptions(query)
}

func (c *Config) parseUser(s string) error {
	if s == "" {
		return nil
	}
	name, password, _ := strings.Cut(s, ":")
	var err1, err2 error
	c.User, err1 = url.PathUnescape(name)
	p, err2 := url.PathUnescape(password)
	if err1 != nil || err2 != nil {
		return errors.New("store address: user and password must be percent-encoded")
	}
	c.Password = config.Secret(p)
	return nil
}

func (c *Config) parseHosts(hosts, port string) error {
	for _, h := range strings.Split(hosts, ",") {
		h = strings.TrimSpace(h)
		if _, _, err := net.SplitHostPort(h); err != nil && h != "" {
			h = net.JoinHostPort(strings.Trim(h, "[]"), port)
		}
		host, p, err := net.SplitHostPort(h)
		n, perr := strconv.Atoi(p)
		if err != nil || perr != nil || host == "" || n < 1 || n > 65535 {
			return fmt.Errorf("store address: %q is not host:port", h)
		}
		c.Addresses = append(c.Addresses, h)
	}
	return nil
}

func (c *Config) parseOptions(query string) error {
	args, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("store address: what follows ? must be name=value&name=value")
	}
	for name, values := range args {
		v := values[len(values)-1]
		var err error
		switch name {
		case "compression":
			err = c.parseCompression(v)
		case "max_connections":
			c.MaxConnections, err = strconv.Atoi(v)
			if err == nil && c.MaxConnections < 1 {
				err = errors.New("must be at least 1")
			}
		case "dial_timeout":
			err = parseDuration(v, &c.DialTimeout)
		case "read_timeout":
			err = parseDuration(v, &c.ReadTimeout)
		case "quarantine":
			err = parseDuration(v, &c.Quarantine)
		case "ca", "cert", "server_name":
			if c.TLS == nil {
				return fmt.Errorf("store address: %s needs clickhouses://", name)
			}
			err = c.parseTLS(name, v, args.Get("key"))
		case "key":
			if !args.Has("cert") {
				err = errors.New("needs cert")
			}
		default:
			setting, ok := strings.CutPrefix(name, "set.")
			if !ok || setting == "" {
				return fmt.Errorf("store address: %q is not known", name)
			}
			c.Settings[setting] = v
		}
		if err != nil {
			return fmt.Errorf("store address: %s: %w", name, err)
		}
	}
	return nil
}

func (c *Config) parseCompression(v string) error {
	switch v {
	case "lz4":
		c.Compression = compress.LZ4
	case "zstd":
		c.Compression = compress.ZSTD
	case "none":
		c.Compression = compress.None
	default:
		return fmt.Errorf("%q: must be lz4, zstd or none", v)
	}
	return nil
}

func (c *Config) parseTLS(name, v, key string) error {
	switch name {
	case "server_name":
		c.TLS.ServerName = v
	case "ca":
		pem, err := os.ReadFile(v)
		if err != nil {
			return err
		}
		c.TLS.RootCAs = x509.NewCertPool()
		if !c.TLS.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("%s has no certificate", v)
		}
	case "cert":
		pair, err := tls.LoadX509KeyPair(v, key)
		if err != nil {
			return err
		}
		c.TLS.Certificates = []tls.Certificate{pair}
	}
	return nil
}

func parseDuration(s string, to *time.Duration) error {
	d, err := config.ParseDuration(s)
	if err == nil && d < 0 {
		err = errors.New("must not be negative")
	}
	*to = d.D()
	return err
}
