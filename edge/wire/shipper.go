package wire

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/spate-io/spate/edge/spool"
)

// Source is where a shipper takes batches from: a *spool.Cursor.
type Source interface {
	// Next gives the next batch, which may use buf, waiting for one until ctx ends.
	Next(ctx context.Context, buf []byte) (spool.Record, error)
	// Rewind makes Next begin again behind the last commit.
	Rewind()
	// Commit says that all before p are done.
	Commit(p spool.Position) error
	// Refuse sets the batch at a place aside.
	Refuse(at spool.Position, code uint16, reason string)
	// Close lets go of what Next holds open.
	Close()
}

var _ Source = (*spool.Cursor)(nil)

// Options are what a shipper works with.
type Options struct {
	Destination string
	Edge        string
	Software    string
	Dialers     []Dialer // gateways, the preferred one first
	Source      Source
	Logger      *slog.Logger
	Metrics     *Metrics
}

// State is what a shipper is doing.
type State struct {
	Connected bool      `json:"connected"`
	Gateway   string    `json:"gateway,omitempty"`
	Since     time.Time `json:"since"`
	Error     string    `json:"error,omitempty"` // of the last connection that failed
}

// Shipper sends the batches of one destination.
type Shipper struct {
	cfg Config
	o   Options
	log *slog.Logger

	mu    sync.Mutex
	state State

	lastLog time.Time
	muted   int
}

// NewShipper makes a shipper; it does nothing before Run.
func NewShipper(cfg Config, o Options) (*Shipper, error) {
	if len(o.Dialers) == 0 {
		return nil, fmt.Errorf("destination %s: no gateway to connect to", o.Destination)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics(nil)
	}
	return &Shipper{cfg: cfg, o: o, log: o.Logger.With("destination", o.Destination), state: State{Since: time.Now()}}, nil
}

// State says how the shipper stands. Any goroutine may call it.
func (s *Shipper) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

func (s *Shipper) setState(connected bool, gateway string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if connected != s.state.Connected {
		s.state.Since = time.Now()
	}
	s.state.Connected, s.state.Gateway = connected, gateway
	if err != nil {
		s.state.Error = err.Error()
	}
	if connected {
		s.state.Error = ""
		s.o.Metrics.connected.WithLabelValues(s.o.Destination).Set(1)
	} else {
		s.o.Metrics.connected.WithLabelValues(s.o.Destination).Set(0)
	}
}

// link is a connection that a gateway has welcomed.
type link struct {
	conn    net.Conn
	r       *Reader
	w       *Writer
	welcome Welcome
	index   int // of the dialer
}

// Run connects and sends until ctx ends, whatever fails. It gives nil.
func (s *Shipper) Run(ctx context.Context) error {
	defer s.o.Source.Close()
	attempt := 0
	var ready *link
	for ctx.Err() == nil {
		l, err := ready, error(nil)
		if ready = nil; l == nil {
			l, err = s.connectAny(ctx, len(s.o.Dialers))
		}
		progress := false
		if err == nil {
			s.setState(true, s.name(l.index), nil)
			s.log.Info("connected to gateway", "gateway", s.name(l.index), "name", l.welcome.Name)
			s.o.Metrics.connects.WithLabelValues(s.o.Destination).Inc()
			ready, progress, err = s.session(ctx, l)
			s.setState(false, "", err)
		}
		if ctx.Err() != nil || ready != nil {
			continue
		}
		s.failed(err)
		if progress {
			attempt = 0
		}
		s.pause(ctx, attempt)
		attempt++
	}
	if ready != nil {
		_ = ready.conn.Close()
	}
	return nil
}

// pause waits with full jitter below a bound that doubles with each attempt.
func (s *Shipper) pause(ctx context.Context, attempt int) {
	bound := s.cfg.BackoffMax.D()
	if d := s.cfg.BackoffMin.D() << min(attempt, 30); d > 0 && d < bound {
		bound = d
	}
	t := time.NewTimer(rand.N(bound) + 1) //nolint:gosec // jitter
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// failed counts and logs, at most once in ten seconds.
func (s *Shipper) failed(err error) {
	s.o.Metrics.failures.WithLabelValues(s.o.Destination).Inc()
	s.setState(false, "", err)
	if now := time.Now(); now.Sub(s.lastLog) >= 10*time.Second {
		s.log.Warn("no connection to gateway", "err", err, "unlogged", s.muted)
		s.lastLog, s.muted = now, 0
	} else {
		s.muted++
	}
}

func (s *Shipper) name(index int) string {
	if n, ok := s.o.Dialers[index].(fmt.Stringer); ok {
		return n.String()
	}
	return fmt.Sprintf("gateway %d", index)
}

// connectAny tries the first n gateways in order.
func (s *Shipper) connectAny(ctx context.Context, n int) (*link, error) {
	var all error
	for i := range n {
		l, err := s.connect(ctx, i)
		if err == nil {
			return l, nil
		}
		all = errors.Join(all, fmt.Errorf("%s: %w", s.name(i), err))
		if ctx.Err() != nil {
			break
		}
	}
	return nil, all
}

// connect dials a gateway and exchanges hello and welcome.
func (s *Shipper) connect(ctx context.Context, index int) (*link, error) {
	dctx, cancel := context.WithTimeout(ctx, s.cfg.DialTimeout.D())
	defer cancel()
	conn, err := s.o.Dialers[index].Dial(dctx)
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	l, err := s.handshake(ctx, conn)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	l.index = index
	return l, nil
}

func (s *Shipper) handshake(ctx context.Context, conn net.Conn) (*link, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := conn.SetDeadline(time.Now().Add(s.cfg.HandshakeTimeout.D())); err != nil {
		return nil, fmt.Errorf("handshake: %w", err)
	}
	l := &link{conn: conn, r: NewReader(conn, 0), w: NewWriter(conn)}
	if err := l.w.Hello(Hello{Min: Version, Max: Version, Edge: s.o.Edge, Software: s.o.Software}); err != nil {
		return nil, fmt.Errorf("handshake: %w", err)
	}
	t, _, err := l.r.Next()
	if err != nil {
		return nil, fmt.Errorf("handshake: %w", err)
	}
	b, err := l.r.Control()
	if err != nil {
		return nil, fmt.Errorf("handshake: %w", err)
	}
	switch t { //nolint:exhaustive // the rest is wrong here
	case TypeWelcome:
		if l.welcome, err = ParseWelcome(b); err != nil {
			return nil, fmt.Errorf("handshake: %w", err)
		}
	case TypeGoAway:
		g, err := ParseGoAway(b)
		if err != nil {
			return nil, fmt.Errorf("handshake: %w", err)
		}
		return nil, g
	default:
		return nil, fmt.Errorf("handshake: %s instead of welcome: %w", t, ErrFrame)
	}
	if l.welcome.Version != Version {
		return nil, fmt.Errorf("handshake: version %d: %w", l.welcome.Version, ErrVersion)
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return nil, fmt.Errorf("handshake: %w", err)
	}
	return l, nil
}
