package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// checkEvery is how often the files are looked at, at most.
const checkEvery = 2 * time.Second

// store holds one side's certificate and authorities and reads them again when their files have changed.
type store struct {
	files Files
	log   *slog.Logger
	now   func() time.Time

	mu      sync.Mutex
	checked time.Time
	stamps  [3]stamp
	pair    *tls.Certificate
	pool    *x509.CertPool
}

// stamp tells versions of a file apart.
type stamp struct {
	mod  time.Time
	size int64
}

func newStore(f Files, log *slog.Logger) *store {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &store{files: f, log: log, now: time.Now}
}

// get gives the newest certificate and authorities that could be read. Its error is only for when none ever could.
func (s *store) get() (*tls.Certificate, *x509.CertPool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if s.pair != nil && now.Sub(s.checked) < checkEvery {
		return s.pair, s.pool, nil
	}
	s.checked = now
	stamps, err := s.stat()
	if err == nil && (s.pair == nil || stamps != s.stamps) {
		if err = s.read(); err == nil {
			if s.stamps != ([3]stamp{}) {
				s.log.Info("certificates read again", "certificate", s.files.Certificate, "expires", s.pair.Leaf.NotAfter)
			}
			s.stamps = stamps
		}
	}
	if s.pair == nil {
		return nil, nil, err
	}
	if err != nil {
		s.log.Warn("certificates cannot be read again, using the old ones", "err", err)
	}
	return s.pair, s.pool, nil
}

func (s *store) stat() (v [3]stamp, err error) {
	for i, n := range []string{s.files.CA, s.files.Certificate, s.files.Key} {
		st, err := os.Stat(n)
		if err != nil {
			return v, fmt.Errorf("certificates: %w", err)
		}
		v[i] = stamp{st.ModTime(), st.Size()}
	}
	return v, nil
}

func (s *store) read() error {
	pair, err := tls.LoadX509KeyPair(s.files.Certificate, s.files.Key)
	if err != nil {
		return fmt.Errorf("certificate %s: %w", s.files.Certificate, err)
	}
	ca, err := os.ReadFile(s.files.CA)
	if err != nil {
		return fmt.Errorf("authorities: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return fmt.Errorf("authorities %s: no certificate in it", s.files.CA)
	}
	s.pair, s.pool = &pair, pool
	return nil
}

// Client is an edge's side. It is safe for concurrent use.
type Client struct{ s *store }

// NewClient reads nothing before Config is called. log may be nil.
func NewClient(f Files, log *slog.Logger) *Client { return &Client{newStore(f, log)} }

// Config gives a configuration for a new connection, with the files as they are now. The caller owns it.
func (c *Client) Config() (*tls.Config, error) {
	pair, pool, err := c.s.get()
	if err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool, Certificates: []tls.Certificate{*pair}}, nil
}

// Server gives the configuration of a gateway's listener: TLS 1.3, a client certificate of one of the authorities required,
// no session tickets, so that each connection shows its certificate. Files that change are taken up by the next connection.
// It fails when they cannot be read now. log may be nil.
func Server(f Files, log *slog.Logger) (*tls.Config, error) {
	s := newStore(f, log)
	if _, _, err := s.get(); err != nil {
		return nil, err
	}
	base := &tls.Config{MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAndVerifyClientCert, SessionTicketsDisabled: true}
	outer := base.Clone()
	outer.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		pair, pool, err := s.get()
		if err != nil {
			return nil, err
		}
		c := base.Clone()
		c.ClientCAs, c.Certificates = pool, []tls.Certificate{*pair}
		return c, nil
	}
	outer.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		return nil, errors.New("no configuration for this client")
	}
	return outer, nil
}
