package chaos

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spate-io/spate/event"
)

// generator numbers its events 1, 2, 3 ... in ConnectionID and hands them to a producer socket as a web server's worker does
// (docs/format/producer.md): it keeps a frame until it is acknowledged, and connects again for as long as it takes. It
// never drops one.
type generator struct {
	socket string
	rate   int // events a second

	sent    atomic.Uint64 // number of the last event made
	acked   atomic.Uint64 // number of the last event acknowledged
	dials   atomic.Int64
	stopped chan struct{}
	done    chan struct{}

	mu     sync.Mutex
	frames []frame // not acknowledged, in order
	known  uint64  // position of the last frame made
	stream [16]byte
	more   chan struct{}
}

type frame struct {
	position, last uint64
	bytes          []byte
}

const perFrame = 20

func newGenerator(socket string, rate int, seed uint64) *generator {
	g := &generator{socket: socket, rate: rate, stopped: make(chan struct{}), done: make(chan struct{}), more: make(chan struct{}, 1)}
	binary.LittleEndian.PutUint64(g.stream[:], seed)
	binary.LittleEndian.PutUint64(g.stream[8:], uint64(time.Now().UnixNano()))
	return g
}

// run makes events until stop, and sends until all are acknowledged.
func (g *generator) run() {
	defer close(g.done)
	go g.make()
	for {
		err := g.talk()
		if err == nil {
			return
		}
		<-time.After(100 * time.Millisecond)
	}
}

// make adds frames at the rate. It holds back while too many wait, as a client of a stuck server would.
func (g *generator) make() {
	tick := time.NewTicker(time.Second * perFrame / time.Duration(g.rate))
	defer tick.Stop()
	for {
		select {
		case <-g.stopped:
			g.wake()
			return
		case <-tick.C:
		}
		g.mu.Lock()
		if len(g.frames) < 20_000 {
			g.known++
			f := g.frame(g.known)
			g.frames = append(g.frames, f)
		}
		g.mu.Unlock()
		g.wake()
	}
}

func (g *generator) wake() {
	select {
	case g.more <- struct{}{}:
	default:
	}
}

// frame makes the next events.
func (g *generator) frame(position uint64) frame {
	var payload []byte
	var e event.HTTP
	now := time.Now().UnixNano()
	n := g.sent.Load()
	for range perFrame {
		n++
		e = event.HTTP{
			EdgeStartTimestamp: now, EdgeEndTimestamp: now + int64(n%5000)*1000, ConnectionID: n,
			ClientIP:          netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}),
			ClientRequestHost: fmt.Appendf(nil, "www.zone%d.example", n%7), ClientRequestMethod: []byte("GET"),
			ClientRequestPath: fmt.Appendf(nil, "/item/%d", n), ClientRequestProtocol: []byte("HTTP/1.1"),
			EdgeResponseStatus: 200, EdgeResponseBytes: n % 10_000, EdgeName: []byte("chaos"), EdgeColoCode: []byte("TST"),
		}
		payload = e.Append(payload)
	}
	g.sent.Store(n)
	b := make([]byte, 0, 24+len(payload))
	b = append(b, "SPFR"...)
	b = binary.LittleEndian.AppendUint32(b, perFrame)
	b = binary.LittleEndian.AppendUint64(b, position)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)))
	return frame{position: position, last: n, bytes: append(b, payload...)}
}

var errEnough = errors.New("enough")

// talk holds one connection; nil when there is nothing left to do.
func (g *generator) talk() error {
	g.dials.Add(1)
	c, err := net.DialTimeout("unix", g.socket, time.Second)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	hello := append([]byte("SPPR"), 1, 1, 5, 0, 1, 0, 0, 0, 1, 0, 0, 0)
	hello = append(append(hello, g.stream[:]...), "chaos"...)
	if _, err := c.Write(hello); err != nil {
		return err
	}
	_ = c.SetReadDeadline(time.Now().Add(30 * time.Second))
	held, err := g.answer(c)
	if err != nil {
		return err
	}
	failed := make(chan error, 2)
	go func() { failed <- g.listen(c) }()
	go func() { failed <- g.send(c, held) }()
	err = <-failed
	_ = c.Close()
	<-failed
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// send writes the frames behind the position that the forwarder holds, and what comes after.
func (g *generator) send(c net.Conn, at uint64) error {
	for {
		g.mu.Lock()
		var next []frame
		for i := range g.frames {
			if g.frames[i].position > at {
				next = g.frames[i:min(len(g.frames), i+64)]
				break
			}
		}
		g.mu.Unlock()
		for _, f := range next {
			_ = c.SetWriteDeadline(time.Now().Add(30 * time.Second))
			if _, err := c.Write(f.bytes); err != nil {
				return err
			}
			at = f.position
		}
		if len(next) > 0 {
			continue
		}
		if g.empty() {
			return errEnough
		}
		select {
		case <-g.more:
		case <-time.After(time.Second):
		}
	}
}

// empty says whether no event will follow and all are acknowledged.
func (g *generator) empty() bool {
	select {
	case <-g.stopped:
	default:
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.frames) == 0
}

// listen takes acknowledgements. A worker may wait for one as long as it likes; we look again after a while, for a forwarder
// that was stopped or is gone behind a half-open socket.
func (g *generator) listen(c net.Conn) error {
	for {
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
		position, err := g.answer(c)
		if err != nil {
			return err
		}
		g.mu.Lock()
		for len(g.frames) > 0 && g.frames[0].position <= position {
			g.acked.Store(g.frames[0].last)
			g.frames = g.frames[1:]
		}
		g.mu.Unlock()
		if g.empty() {
			g.wake()
		}
	}
}

func (g *generator) answer(r io.Reader) (uint64, error) {
	var b [16]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return 0, err
	}
	if b[0] == 3 {
		reason := make([]byte, binary.LittleEndian.Uint16(b[2:]))
		_, _ = io.ReadFull(r, reason)
		return 0, fmt.Errorf("refused: %s", reason)
	}
	return binary.LittleEndian.Uint64(b[8:]), nil
}

// stop ends making events; done is closed when the last is acknowledged.
func (g *generator) stop() { close(g.stopped) }
