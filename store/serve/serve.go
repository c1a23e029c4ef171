// Package serve puts a store behind ClickHouse's own HTTP interface, so that roles in other processes, BI tools and every
// ClickHouse client can use the engine that lives in this one. It is not the API of Spate and knows nothing of its tables.
//
// The engine inside a process has no users. What a request may do is decided here, on the tokens of its statement, before
// the engine sees it: that is the invariant, and [guard] is where it lives.
package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/spate-io/spate/store"
)

// RawInserter is what an engine has beside [store.DB] so that clients can insert data in any format. q.SQL is an INSERT
// without FORMAT and without data, q.Format names the format of what r gives; an error of r ends the insert with nothing
// of the unfinished block stored.
type RawInserter interface {
	InsertRaw(ctx context.Context, q store.Query, r io.Reader) (store.Stats, error)
}

// Deps is what the server needs.
type Deps struct {
	// DB is the engine. Inserts need it to be a [RawInserter] too; without, they are answered with NOT_IMPLEMENTED.
	DB store.DB
	// Logger may be nil.
	Logger *slog.Logger
	// Registerer may be nil.
	Registerer prometheus.Registerer
}

// Server is a part. Make one with New; it listens while Run runs.
type Server struct {
	cfg      Config
	db       store.DB
	raw      RawInserter // nil when the engine has none
	log      *slog.Logger
	metrics  *metrics
	accounts *accounts
	guard    *guard
	sessions *sessions
	running  *running
	addr     atomic.Pointer[net.TCPAddr]

	infoMu sync.Mutex
	info   *engineInfo
}

// engineInfo is what the headers of every answer say.
type engineInfo struct{ version, timezone, name string }

// New returns a server that does not listen yet.
func New(cfg Config, deps Deps) (*Server, error) {
	if deps.DB == nil {
		return nil, errors.New("serve store: no store")
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{
		cfg: cfg, db: deps.DB, log: deps.Logger, metrics: newMetrics(deps.Registerer), accounts: newAccounts(&cfg), guard: newGuard(),
		sessions: newSessions(cfg.MaxSessions, cfg.SessionTimeout.D()), running: newRunning(cfg.MaxQueries),
	}
	s.raw, _ = deps.DB.(RawInserter)
	return s, nil
}

// Ready returns nil once the server listens, or when it is off.
func (s *Server) Ready() error {
	if s.cfg.Listen != "" && s.addr.Load() == nil {
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

// Run serves until ctx is cancelled; then statements under way have the drain time to end. With no listen address it does
// nothing but wait.
func (s *Server) Run(ctx context.Context) error {
	if s.cfg.Listen == "" {
		<-ctx.Done()
		return nil
	}
	if _, err := s.engine(ctx); err != nil {
		return fmt.Errorf("serve store: %w", err)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.cfg.Listen)
	if err != nil {
		return fmt.Errorf("serve store: %w", err)
	}
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	srv := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: s.cfg.ReadTimeout.D(),
		IdleTimeout:       s.cfg.IdleTimeout.D(),
		MaxHeaderBytes:    1 << 20, // statements may be in the URL
		BaseContext:       func(net.Listener) context.Context { return base },
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	s.addr.Store(l.Addr().(*net.TCPAddr))
	defer s.addr.Store(nil)
	s.log.InfoContext(ctx, "store is served", "addr", s.Addr(), "users", len(s.cfg.Users))
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve store: %w", err)
	case <-ctx.Done():
	}
	drain, stop := context.WithTimeout(base, s.cfg.DrainTimeout.D())
	defer stop()
	if srv.Shutdown(drain) != nil {
		cancel()
		s.running.cancelAll()
		_ = srv.Close() // its error is of connections that are being cut
	}
	<-served
	s.running.wait()
	return nil
}

// Handler is the interface without a listener.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/ping", ok)
	mux.HandleFunc("/replicas_status", ok)
	mux.HandleFunc("/{$}", s.serve)
	mux.HandleFunc("/query", s.serve)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, fmt.Sprintf("There is no handle %s\n\nUse / or /ping for health checks.\nSend queries from your program with POST method or GET /?query=...\n", r.URL.Path), http.StatusNotFound)
	})
	return mux
}

func ok(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=UTF-8")
	_, _ = io.WriteString(w, "Ok.\n") // the client is gone: nobody is left to tell
}

// engine gives what the headers say, asked of the engine once.
func (s *Server) engine(ctx context.Context) (*engineInfo, error) {
	s.infoMu.Lock()
	defer s.infoMu.Unlock()
	if s.info != nil {
		return s.info, nil
	}
	var version, zone, name proto.ColStr
	info := &engineInfo{}
	_, err := s.db.Select(ctx, store.Query{SQL: "SELECT version() AS version, timezone() AS zone, displayName() AS name"},
		proto.Results{{Name: "version", Data: &version}, {Name: "zone", Data: &zone}, {Name: "name", Data: &name}},
		func(context.Context, int) error {
			*info = engineInfo{version.Row(0), zone.Row(0), name.Row(0)}
			return nil
		})
	if err != nil {
		return nil, err
	}
	s.info = info
	return info, nil
}

// serve answers a query.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	args := r.URL.Query()
	if r.Method == http.MethodGet && !args.Has("query") && len(args) == 0 {
		ok(w, r)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodPost {
		http.Error(w, "Method not allowed", http.StatusMethodNotAllowed)
		return
	}
	began := time.Now()
	a := &answer{w: w, began: began, tag: newTag(), hold: int(s.cfg.BufferSize), maxSpill: int64(s.cfg.MaxSpill)}
	a.top, a.plain = sink{a}, sink{a}
	q, err := s.handle(r, args, a)
	s.metrics.request(q, time.Since(began), err)
	if err == nil {
		return
	}
	e := asEngineError(err)
	s.log.DebugContext(r.Context(), "statement ended with an error", "code", e.Code, "err", err)
	if a.fail(e) {
		panic(http.ErrAbortHandler) // net/http's way to cut a connection in the middle of an answer
	}
}

// handle does everything up to the end of a good answer.
func (s *Server) handle(r *http.Request, args map[string][]string, a *answer) (*request, error) {
	info, err := s.engine(r.Context())
	if err != nil {
		return nil, err
	}
	a.version = info.version
	h := a.w.Header()
	h.Set("X-ClickHouse-Timezone", info.timezone)
	h.Set("X-ClickHouse-Server-Display-Name", info.name)
	h.Set("Keep-Alive", fmt.Sprintf("timeout=%d", int(s.cfg.IdleTimeout.D().Seconds())))
	user, err := s.accounts.authenticate(r, args)
	if err != nil {
		return nil, err
	}
	q, err := s.read(r, args)
	defer q.done()
	q.user = user
	if err != nil {
		return nil, err
	}
	sess, err := s.sessions.of(q)
	if err != nil {
		return q, err
	}
	if err := q.authorise(s.guard, sess); err != nil {
		return q, err
	}
	return q, s.execute(q, sess, a)
}
