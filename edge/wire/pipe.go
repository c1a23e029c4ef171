package wire

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// Pipe gives the two ends of a connection inside the process. Each direction holds up to size bytes, so that a writer does
// not wait for each read. Deadlines and closing work as on a TCP connection: what was written before a close is still read.
func Pipe(size int) (a, b net.Conn) {
	ab, ba := newHalf(size), newHalf(size)
	return &pipeConn{r: ba, w: ab}, &pipeConn{r: ab, w: ba}
}

// half is one direction: a ring of bytes.
type half struct {
	mu       sync.Mutex
	cond     sync.Cond
	buf      []byte
	from, n  int
	wclosed  bool // no more will be written
	rclosed  bool // no more will be read
	rtimeout deadline
	wtimeout deadline
}

func newHalf(size int) *half {
	h := &half{buf: make([]byte, size)}
	h.cond.L = &h.mu
	return h
}

// deadline wakes the waiters of a half when its time comes.
type deadline struct {
	at    time.Time
	timer *time.Timer
}

// set needs the half's mu.
func (d *deadline) set(h *half, t time.Time) {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.at = t
	if wait := time.Until(t); !t.IsZero() && wait > 0 {
		d.timer = time.AfterFunc(wait, func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.cond.Broadcast()
		})
	}
	h.cond.Broadcast()
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func (h *half) read(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case h.rclosed:
			return 0, net.ErrClosed
		case h.rtimeout.passed():
			return 0, os.ErrDeadlineExceeded
		case len(b) == 0:
			return 0, nil
		case h.n > 0:
			n := copy(b, h.buf[h.from:min(h.from+h.n, len(h.buf))])
			if n < len(b) && n < h.n {
				n += copy(b[n:], h.buf[:h.n-n])
			}
			h.from, h.n = (h.from+n)%len(h.buf), h.n-n
			h.cond.Broadcast()
			return n, nil
		case h.wclosed:
			return 0, io.EOF
		}
		h.cond.Wait()
	}
}

func (h *half) write(b []byte) (done int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case h.wclosed:
			return done, net.ErrClosed
		case h.rclosed:
			return done, io.ErrClosedPipe
		case h.wtimeout.passed():
			return done, os.ErrDeadlineExceeded
		case len(b) == 0:
			return done, nil
		case h.n < len(h.buf):
			at := (h.from + h.n) % len(h.buf)
			n := copy(h.buf[at:min(len(h.buf), at+len(h.buf)-h.n)], b)
			h.n, b, done = h.n+n, b[n:], done+n
			h.cond.Broadcast()
			continue
		}
		h.cond.Wait()
	}
}

type pipeConn struct{ r, w *half }

// Read reads what the other end wrote.
func (c *pipeConn) Read(b []byte) (int, error) { return c.r.read(b) }

// Write blocks while the pipe is full.
func (c *pipeConn) Write(b []byte) (int, error) { return c.w.write(b) }

// Close ends both directions.
func (c *pipeConn) Close() error {
	c.r.mu.Lock()
	c.r.rclosed = true
	c.r.rtimeout.set(c.r, time.Time{})
	c.r.mu.Unlock()
	c.w.mu.Lock()
	c.w.wclosed = true
	c.w.wtimeout.set(c.w, time.Time{})
	c.w.mu.Unlock()
	return nil
}

// SetDeadline sets both deadlines.
func (c *pipeConn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

// SetReadDeadline bounds present and later reads.
func (c *pipeConn) SetReadDeadline(t time.Time) error {
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	c.r.rtimeout.set(c.r, t)
	return nil
}

// SetWriteDeadline bounds present and later writes.
func (c *pipeConn) SetWriteDeadline(t time.Time) error {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	c.w.wtimeout.set(c.w, t)
	return nil
}

type pipeAddr struct{}

// Network is "pipe".
func (pipeAddr) Network() string { return "pipe" }

// String is "in-process".
func (pipeAddr) String() string { return "in-process" }

// LocalAddr is the same for all pipes.
func (c *pipeConn) LocalAddr() net.Addr { return pipeAddr{} }

// RemoteAddr is the same for all pipes.
func (c *pipeConn) RemoteAddr() net.Addr { return pipeAddr{} }
