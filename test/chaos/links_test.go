package chaos

import (
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// link is a TCP proxy that can be broken.
type link struct {
	listener net.Listener
	to       string

	mu    sync.Mutex
	conns map[net.Conn]bool

	cut   atomic.Bool
	hole  atomic.Bool
	halve atomic.Bool
	delay atomic.Int64 // nanoseconds for each piece
}

func newLink(to string) (*link, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	k := &link{listener: l, to: to, conns: map[net.Conn]bool{}}
	go k.accept()
	return k, nil
}

func (k *link) addr() string { return k.listener.Addr().String() }

func (k *link) accept() {
	for {
		c, err := k.listener.Accept()
		if err != nil {
			return
		}
		go k.serve(c)
	}
}

func (k *link) serve(c net.Conn) {
	defer k.forget(c)
	k.keep(c)
	if k.cut.Load() {
		<-time.After(30 * time.Millisecond)
		return
	}
	d, err := net.DialTimeout("tcp", k.to, 2*time.Second)
	if err != nil {
		return
	}
	defer k.forget(d)
	k.keep(d)
	done := make(chan struct{}, 2)
	pass := func(from, to net.Conn) {
		defer func() { done <- struct{}{} }()
		b := make([]byte, 16<<10)
		for {
			n, err := from.Read(b)
			for k.hole.Load() {
				<-time.After(20 * time.Millisecond)
			}
			if wait := k.delay.Load(); wait > 0 {
				<-time.After(time.Duration(wait))
			}
			if n > 1 && k.halve.Load() {
				_, _ = to.Write(b[:n/2])
				return
			}
			if n > 0 {
				if _, err := to.Write(b[:n]); err != nil {
					return
				}
			}
			if err != nil {
				return
			}
		}
	}
	go pass(c, d)
	go pass(d, c)
	<-done
}

func (k *link) keep(c net.Conn) {
	k.mu.Lock()
	k.conns[c] = true
	k.mu.Unlock()
}

func (k *link) forget(c net.Conn) {
	k.mu.Lock()
	delete(k.conns, c)
	k.mu.Unlock()
	_ = c.Close()
}

// sever closes all connections.
func (k *link) sever() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for c := range k.conns {
		_ = c.Close()
	}
}

func (k *link) close() {
	_ = k.listener.Close()
	k.sever()
}

// storeLink is an HTTP proxy in front of a store that can refuse, be slow, and lose answers to inserts that were done.
type storeLink struct {
	server  *http.Server
	address string
	refuse  atomic.Bool
	slow    atomic.Bool
	swallow atomic.Bool

	refused, slowed, swallowed atomic.Int64
}

func newStoreLink(to string) (*storeLink, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	k := &storeLink{address: l.Addr().String()}
	back := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: to})
	back.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { drop(w) }
	back.ModifyResponse = func(r *http.Response) error {
		if k.swallow.Load() && r.Request.Method == http.MethodPost {
			// All of the answer is there, so the store has done its work; the client never hears of it.
			_, _ = io.Copy(io.Discard, r.Body)
			k.swallowed.Add(1)
			return io.ErrUnexpectedEOF
		}
		return nil
	}
	k.server = &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if k.refuse.Load() {
			k.refused.Add(1)
			http.Error(w, "the store is closed for maintenance", http.StatusServiceUnavailable)
			return
		}
		if k.slow.Load() {
			k.slowed.Add(1)
			<-time.After(2 * time.Second)
		}
		back.ServeHTTP(w, r)
	})}
	go func() { _ = k.server.Serve(l) }()
	return k, nil
}

// drop closes the client's connection without an answer.
func drop(w http.ResponseWriter) {
	if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = c.Close()
	}
}

func (k *storeLink) close() { _ = k.server.Close() }
