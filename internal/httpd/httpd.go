// Package httpd is the HTTP server of every role: it serves /metrics, /live and /ready, and under / whatever the role
// brings (the API and the dashboard).
//
// /live answers 200 while the process works and 503 when a consumer has stopped making progress; /ready answers 503
// while the process starts, stops or waits for something it needs. Both say why in JSON.
package httpd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/spate-io/spate/internal/config"
)

// Config is the `http` section.
type Config struct {
	Listen        string          `yaml:"listen"`        // host:port; port 0 picks a free one
	ReadTimeout   config.Duration `yaml:"read_timeout"`  // for a request's headers
	DrainTimeout  config.Duration `yaml:"drain_timeout"` // for requests under way when stopping
	Profiling     bool            `yaml:"profiling"`     // serve /debug/pprof
	MaxHeaderSize config.Size     `yaml:"max_header_size"`
}

// DefaultConfig listens on loopback only.
func DefaultConfig() Config {
	return Config{
		Listen: "127.0.0.1:8088", ReadTimeout: config.Duration(10 * time.Second),
		DrainTimeout: config.Duration(5 * time.Second), MaxHeaderSize: 64 * config.KiB,
	}
}

// Validate checks the section.
func (c *Config) Validate(p *config.Problems) {
	_, _, err := net.SplitHostPort(c.Listen)
	p.Check(err == nil, "listen", c.Listen, "must be host:port")
	p.Check(c.ReadTimeout > 0, "read_timeout", c.ReadTimeout, "must be above 0")
	p.Check(c.DrainTimeout >= 0, "drain_timeout", c.DrainTimeout, "must not be negative")
	p.Check(c.MaxHeaderSize >= 4*config.KiB, "max_header_size", c.MaxHeaderSize, "must be at least 4KiB")
}

// Loopback says whether only this machine can reach the listener.
func (c *Config) Loopback() bool {
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}

// Deps is what the server needs.
type Deps struct {
	Logger   *slog.Logger
	Gatherer prometheus.Gatherer
	Handler  http.Handler        // everything but the paths of this package; nil gives 404
	Live     func() error        // nil while the process makes progress
	Ready    func() (any, error) // what /ready shows, and nil when ready
}

// Server is a part.
type Server struct {
	cfg  Config
	deps Deps
	addr atomic.Pointer[net.TCPAddr]
}

// New returns a server that is not listening yet.
func New(cfg Config, deps Deps) *Server { return &Server{cfg: cfg, deps: deps} }

// Ready returns nil once the server listens.
func (s *Server) Ready() error {
	if s.addr.Load() == nil {
		return errors.New("not listening yet")
	}
	return nil
}

// Addr returns host:port as bound; valid once ready.
func (s *Server) Addr() string {
	if a := s.addr.Load(); a != nil {
		return a.String()
	}
	return s.cfg.Listen
}

// Run serves until ctx is cancelled. Requests under way get the drain time; streams see their context end at once.
func (s *Server) Run(ctx context.Context) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.cfg.Listen)
	if err != nil {
		return fmt.Errorf("listen for http: %w", err)
	}
	base, endStreams := context.WithCancel(context.Background())
	defer endStreams()
	srv := &http.Server{
		Handler:           s.routes(),
		ReadHeaderTimeout: s.cfg.ReadTimeout.D(),
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    int(s.cfg.MaxHeaderSize),
		BaseContext:       func(net.Listener) context.Context { return base },
		ErrorLog:          slog.NewLogLogger(s.deps.Logger.Handler(), slog.LevelDebug),
	}
	s.addr.Store(l.Addr().(*net.TCPAddr))
	defer s.addr.Store(nil)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve http: %w", err)
	case <-ctx.Done():
	}
	endStreams()
	drain, cancel := context.WithTimeout(context.Background(), s.cfg.DrainTimeout.D())
	defer cancel()
	if err := srv.Shutdown(drain); err != nil {
		srv.Close()
	}
	<-served
	return nil
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.deps.Gatherer, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /live", func(w http.ResponseWriter, _ *http.Request) {
		err := s.deps.Live()
		answer(w, map[string]any{"live": err == nil, "reason": text(err)}, err)
	})
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		detail, err := s.deps.Ready()
		answer(w, map[string]any{"ready": err == nil, "reason": text(err), "parts": detail}, err)
	})
	if s.cfg.Profiling {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	}
	if s.deps.Handler != nil {
		mux.Handle("/", s.deps.Handler)
	}
	return mux
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func answer(w http.ResponseWriter, body any, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(body) // the client is gone: nobody is left to tell
}
