package input

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spate-io/spate/edge/forward"
	"github.com/spate-io/spate/edge/ingest/unpack"
)

// Bounds of one request.
const (
	maxBody     = 1 << 30 // unpacked
	pushTimeout = 5 * time.Minute
	durableWait = 30 * time.Second
)

// pushServer takes lines or NDJSON as bodies of POST or PUT requests, plain or compressed. It answers when the events are on
// disk. A request with an Idempotency-Key may be sent again: what is known of it is not taken twice.
type pushServer struct {
	base
	addr atomic.Value

	mu     sync.Mutex // the server's own stream is put to by one request at a time
	stream [16]byte
	at     uint64
}

// pushAnswer is the body of an answer.
type pushAnswer struct {
	Success bool   `json:"success"`
	Format  string `json:"format,omitempty"`
	Lines   uint64 `json:"lines"`
	Events  uint64 `json:"events"`
	Bad     uint64 `json:"bad"`
	Error   string `json:"error,omitempty"`
}

func (s *pushServer) address() string {
	a, _ := s.addr.Load().(string)
	return a
}

func (s *pushServer) run(ctx context.Context, up func()) error {
	_, _ = rand.Read(s.stream[:]) // never fails
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", s.cfg.Listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	s.addr.Store(ln.Addr().String())
	srv := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: pushTimeout, IdleTimeout: time.Minute,
		BaseContext: func(net.Listener) context.Context { return ctx }}
	up()
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }()
	select {
	case err := <-done:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err := srv.Shutdown(stop)
		<-done
		return err
	}
}

// ServeHTTP takes one request.
func (s *pushServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost && r.Method != http.MethodPut {
		s.answer(w, http.StatusMethodNotAllowed, pushAnswer{Error: "send lines with POST or PUT"})
		return
	}
	if !s.allowed(r) {
		s.metrics.refused.WithLabelValues("token").Inc()
		s.answer(w, http.StatusUnauthorized, pushAnswer{Error: "token is missing or wrong"})
		return
	}
	body, err := unpack.NewReader(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		s.answer(w, http.StatusBadRequest, pushAnswer{Error: err.Error()})
		return
	}
	defer body.Close()
	p := &push{s: s, feed: s.newFeed(), stream: s.stream}
	if key := r.Header.Get("Idempotency-Key"); key != "" {
		h := sha256.Sum256([]byte("spate push 1 " + s.cfg.Listen + " " + key))
		p.stream, p.own = [16]byte(h[:16]), true
	} else {
		s.mu.Lock()
		defer s.mu.Unlock()
	}
	ans, err := p.read(r.Context(), io.LimitReader(body, maxBody))
	switch {
	case err == nil:
		ans.Success = true
		s.answer(w, http.StatusOK, ans)
	case errors.Is(err, errBody):
		ans.Error = err.Error()
		s.answer(w, http.StatusBadRequest, ans)
	default:
		ans.Error = err.Error()
		w.Header().Set("Retry-After", "5")
		s.answer(w, http.StatusServiceUnavailable, ans)
	}
}

// allowed compares the token in constant time.
func (s *pushServer) allowed(r *http.Request) bool {
	want := s.cfg.Token.Reveal()
	if want == "" {
		return true
	}
	got := r.URL.Query().Get("token")
	if h := r.Header.Get("Authorization"); h != "" {
		got = strings.TrimPrefix(h, "Bearer ")
	}
	return subtle.ConstantTimeCompare([]byte(got), []byte(want)) == 1
}

func (s *pushServer) answer(w http.ResponseWriter, status int, a pushAnswer) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(a)
}

// errBody is about what the client sent.
var errBody = errors.New("body cannot be read")

// push is one request.
type push struct {
	s      *pushServer
	feed   *feed
	stream [16]byte
	own    bool // the stream belongs to this request: positions are offsets in the body
	offset uint64
	last   uint64
	ans    pushAnswer
}

// read takes the whole body and waits until its events are on disk.
func (p *push) read(ctx context.Context, body io.Reader) (pushAnswer, error) {
	durable := make(chan struct{}, 1)
	var reached atomic.Uint64
	cancel := p.s.deps.Sink.OnDurable(p.stream, func(pos uint64) {
		reached.Store(pos)
		select {
		case durable <- struct{}{}:
		default:
		}
	})
	defer cancel()
	buf := make([]byte, 0, readSize)
	for {
		n, err := io.ReadFull(body, buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		end := len(buf)
		if err == nil {
			if end = lastLine(buf); end == 0 {
				end = len(buf) // no line is that long
			}
		} else if err != io.EOF && err != io.ErrUnexpectedEOF {
			return p.ans, fmt.Errorf("%w: %w", errBody, err)
		}
		if end > 0 {
			if perr := p.chunk(ctx, buf[:end]); perr != nil {
				return p.ans, perr
			}
			buf = buf[:copy(buf, buf[end:])]
		}
		if err != nil {
			break
		}
	}
	p.ans.Format = p.feed.format
	t := time.NewTimer(durableWait)
	defer t.Stop()
	for reached.Load() < p.last {
		select {
		case <-durable:
		case <-ctx.Done():
			return p.ans, ctx.Err()
		case <-t.C:
			return p.ans, errors.New("events are not on disk yet")
		}
	}
	return p.ans, nil
}

// chunk takes whole lines and hands their events over.
func (p *push) chunk(ctx context.Context, text []byte) error {
	if p.feed.parser == nil {
		p.feed.detect(headLines(text[:min(len(text), maxHead)]))
	}
	seen := uint64(0)
	take := func(l []byte) {
		if len(l) > 1 {
			seen++
		}
		p.feed.line(l)
	}
	if rest := eachLine(text, take); len(rest) > 0 {
		take(rest)
	}
	p.offset += uint64(len(text))
	events, count := p.feed.take()
	p.ans.Lines += seen
	p.ans.Events += uint64(count)
	p.ans.Bad = p.ans.Lines - p.ans.Events
	if count == 0 {
		return nil
	}
	p.last = p.offset
	if !p.own {
		p.s.at += uint64(count)
		p.last = p.s.at
	}
	return p.s.deps.Sink.Put(ctx, forward.Chunk{Events: events, Count: count, Origin: forward.Origin{Stream: p.stream, Position: p.last}})
}

func lastLine(b []byte) int {
	for i := len(b); i > 0; i-- {
		if b[i-1] == '\n' {
			return i
		}
	}
	return 0
}
