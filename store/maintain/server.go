package maintain

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/spate-io/spate/store/schema"
)

// socketName is the socket in the directory of a store. Who may open it may do all that this package does: its mode is 0600.
const socketName = "maintain.sock"

// Order is what a command asks of the process that has the store open: one of the options is set.
type Order struct {
	Backup *BackupOptions `json:"backup,omitempty"`
	Check  *CheckOptions  `json:"check,omitempty"`
	Erase  *EraseOptions  `json:"erase,omitempty"`
}

// Answer is the outcome of an order.
type Answer struct {
	Backup *BackupResult `json:"backup,omitempty"`
	Check  *CheckResult  `json:"check,omitempty"`
	Erase  []Erased      `json:"erase,omitempty"`
}

// line is one line of what the server sends: notes, then an answer or an error.
type line struct {
	Note   string  `json:"note,omitempty"`
	Error  string  `json:"error,omitempty"`
	Answer *Answer `json:"answer,omitempty"`
}

// Deps are what carries orders out.
type Deps struct {
	// DB is the store.
	DB Engine
	// Positions says where the loader stands on the bus; nil when that is not known.
	Positions func(context.Context) (*Positions, error)
	// Retention is what the store keeps.
	Retention schema.Retention
	// Logger may be nil.
	Logger *slog.Logger
}

// Server carries out orders, one at a time. Make one with NewServer.
type Server struct {
	deps Deps
	busy sync.Mutex
}

// NewServer returns a server that does not listen yet.
func NewServer(deps Deps) *Server {
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	return &Server{deps: deps}
}

// Run takes orders until ctx is cancelled, which cuts off those under way.
func (s *Server) Run(ctx context.Context) error {
	path := filepath.Join(s.deps.DB.Path(), socketName)
	_ = os.Remove(path) // of a process that died; the store's lock is ours
	dir, name, err := shortName(path)
	if err != nil {
		return fmt.Errorf("maintain store: %w", err)
	}
	defer dir.Close()
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", name)
	if err == nil {
		err = os.Chmod(path, 0o600)
	}
	if err != nil {
		return fmt.Errorf("maintain store: %w", err)
	}
	srv := &http.Server{
		Handler: http.HandlerFunc(s.serve), ReadHeaderTimeout: 10 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-ctx.Done()
		wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		_ = srv.Shutdown(wait) // orders see that ctx has ended
	}()
	err = srv.Serve(l)
	if ctx.Err() != nil {
		<-stopped
		_ = os.Remove(path)
		return nil
	}
	return fmt.Errorf("maintain store: %w", err)
}

// shortName gives another name of a socket in a directory whose path may be longer than sockets' names may be. It is valid
// until dir is closed.
func shortName(path string) (dir *os.File, name string, err error) {
	dir, err = os.Open(filepath.Dir(path))
	if err != nil {
		return nil, "", err
	}
	return dir, "/proc/self/fd/" + strconv.Itoa(int(dir.Fd())) + "/" + filepath.Base(path), nil
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == readPath {
		s.read(w, r)
		return
	}
	var o Order
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&o); err != nil {
		http.Error(w, "cannot read the order: "+err.Error(), http.StatusBadRequest)
		return
	}
	out := json.NewEncoder(w)
	send := func(l line) {
		_ = out.Encode(l) // nobody is left to tell when this does not work; r's context ends then
		_ = http.NewResponseController(w).Flush()
	}
	if !s.busy.TryLock() {
		send(line{Error: "another order is under way: wait until it has ended"})
		return
	}
	defer s.busy.Unlock()
	began := time.Now()
	a, err := s.do(r.Context(), &o, func(format string, args ...any) { send(line{Note: fmt.Sprintf(format, args...)}) })
	s.deps.Logger.Info("store was looked after", "backup", o.Backup != nil, "check", o.Check != nil, "erase", o.Erase != nil, "elapsed", time.Since(began), "err", err)
	if err != nil {
		send(line{Error: err.Error()})
		return
	}
	send(line{Answer: a})
}

func (s *Server) do(ctx context.Context, o *Order, note Note) (*Answer, error) {
	if o.Check != nil {
		o.Check.Retention = s.deps.Retention
	}
	return Do(ctx, s.deps.DB, o, s.deps.Positions, note)
}

// Do carries an order out over an embedded store that this process has open.
func Do(ctx context.Context, db Engine, o *Order, positions func(context.Context) (*Positions, error), note Note) (*Answer, error) {
	var a Answer
	var err error
	switch {
	case o.Backup != nil:
		a.Backup, err = Backup(ctx, db, *o.Backup, positions, note)
	case o.Check != nil:
		a.Check, err = Check(ctx, db, *o.Check, note)
	case o.Erase != nil:
		a.Erase, err = Erase(ctx, db, *o.Erase, note)
	default:
		err = errors.New("the order is empty")
	}
	return &a, err
}

// ErrNotRunning is the error of Call when no process takes orders for the store.
var ErrNotRunning = errors.New("no process has the store open")

// Call has an order carried out by the process that has the store at path open.
func Call(ctx context.Context, path string, o *Order, note Note) (*Answer, error) {
	dir, name, err := shortName(filepath.Join(path, socketName))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotRunning, err)
	}
	defer dir.Close()
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", name)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNotRunning, err)
		}
		return conn, nil
	}}}
	defer client.CloseIdleConnections()
	body, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://store/", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the process that has the store: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	for dec := json.NewDecoder(res.Body); ; {
		var l line
		switch err := dec.Decode(&l); {
		case err != nil:
			return nil, fmt.Errorf("the process that has the store went away: %w", err)
		case l.Error != "":
			return nil, errors.New(l.Error)
		case l.Answer != nil:
			return l.Answer, nil
		}
		note("%s", l.Note)
	}
}
