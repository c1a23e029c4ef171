package gateway_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/spate-io/spate/core/gateway"
	"github.com/spate-io/spate/edge/forward"
	"github.com/spate-io/spate/edge/wire"
	"github.com/spate-io/spate/event"
	"github.com/spate-io/spate/event/batch"
	"github.com/spate-io/spate/internal/certs"
	"github.com/spate-io/spate/internal/config"
)

// bus is a Producer in memory. With faults it is slow, refuses for a while, or takes a record and says that it did not.
type bus struct {
	faults bool
	slow   time.Duration

	mu      sync.Mutex
	rnd     *rand.Rand
	records map[batch.Name][]byte
	again   int // times that a name came that was there already
	differ  []batch.Name
}

func newBus(faults bool) *bus {
	return &bus{faults: faults, rnd: rand.New(rand.NewPCG(1, 2)), records: map[batch.Name][]byte{}}
}

func (b *bus) Produce(ctx context.Context, name batch.Name, value []byte, done func(error)) {
	b.mu.Lock()
	p := 1.0
	delay := b.slow
	if b.faults {
		p = b.rnd.Float64()
		delay = time.Duration(b.rnd.IntN(3000)) * time.Microsecond
	}
	b.mu.Unlock()
	finish := func() {
		if p < 0.02 {
			done(errors.New("no leader"))
			return
		}
		b.mu.Lock()
		if old, ok := b.records[name]; ok {
			b.again++
			if !bytes.Equal(old, value) {
				b.differ = append(b.differ, name)
			}
		} else {
			b.records[name] = bytes.Clone(value)
		}
		b.mu.Unlock()
		if p < 0.04 {
			done(errors.New("timed out after the write"))
			return
		}
		done(nil)
	}
	if delay == 0 {
		finish()
		return
	}
	time.AfterFunc(delay, finish)
}

// ids gives how often each event id is on the bus, each batch name taken once, as the loader does.
func (b *bus) ids(t testing.TB) map[uint64]int {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	out := map[uint64]int{}
	d := batch.NewDecoder(0)
	for n, v := range b.records {
		_, raw, err := d.Decode(v)
		if err != nil {
			t.Fatal(n, err)
		}
		if _, err := event.Walk(raw, func(v event.View) error { out[v.ConnectionID()]++; return nil }); err != nil {
			t.Fatal(n, err)
		}
	}
	return out
}

// size is the number of records.
func (b *bus) size() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.records)
}

// cutter is a Dialer whose connections break after some bytes.
type cutter struct {
	wire.Dialer
	rnd *rand.Rand
	mu  sync.Mutex
	on  bool
}

type cutConn struct {
	net.Conn
	mu   sync.Mutex
	left int
}

func (c *cutter) Dial(ctx context.Context) (net.Conn, error) {
	conn, err := c.Dialer.Dial(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil || !c.on {
		return conn, err
	}
	return &cutConn{Conn: conn, left: c.rnd.IntN(300_000)}, nil
}

func (c *cutConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	cut := len(b) > c.left
	n := len(b)
	if cut {
		n = c.left
	}
	c.left -= n
	c.mu.Unlock()
	m, err := c.Conn.Write(b[:n])
	if cut {
		_ = c.Conn.Close()
		return m, errors.New("cut")
	}
	return m, err
}

// worker is an input: it numbers its events, keeps what is not durable and sends it again to the next forwarder.
type worker struct {
	stream [16]byte
	base   uint64
	chunks []forward.Chunk
	slow   bool
	mu     sync.Mutex
	safe   uint64
}

func newWorker(id int, chunks, events int) *worker {
	w := &worker{base: uint64(id) << 32}
	binary.BigEndian.PutUint64(w.stream[:], uint64(id))
	n := w.base
	for p := 1; p <= chunks; p++ {
		var raw []byte
		for range events {
			raw = sample(n).Append(raw)
			n++
		}
		w.chunks = append(w.chunks, forward.Chunk{Events: raw, Count: uint32(events), Origin: forward.Origin{Stream: w.stream, Position: uint64(p)}})
	}
	return w
}

func sample(n uint64) *event.HTTP {
	return &event.HTTP{
		EdgeStartTimestamp: 1_700_000_000_000_000_000 + int64(n%1000)*1_000_000, EdgeEndTimestamp: 1_700_000_000_001_000_000, ConnectionID: n,
		ClientRequestHost: []byte("www.example.com"), ClientRequestMethod: []byte("GET"), ClientRequestPath: fmt.Appendf(nil, "/articles/%x", sha256.Sum256(binary.LittleEndian.AppendUint64(nil, n/7)))[:40],
		EdgeResponseStatus: 200, EdgeResponseBytes: 1000 + n%50000,
		ClientRequestUserAgent: []byte("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0 Safari/537.36"),
	}
}

func (w *worker) run(ctx context.Context, f *forward.Forwarder) error {
	cancel := f.OnDurable(w.stream, func(p uint64) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.safe = max(w.safe, p)
	})
	defer cancel()
	w.mu.Lock()
	from := w.safe
	w.mu.Unlock()
	for i, c := range w.chunks[from:] {
		if err := f.Put(ctx, c); err != nil {
			return err
		}
		if w.slow && i%2 == 0 {
			<-time.After(time.Millisecond) // so that the restarts fall between its chunks
		}
	}
	for !w.done() && ctx.Err() == nil {
		<-time.After(time.Millisecond)
	}
	return nil
}

func (w *worker) done() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.safe == uint64(len(w.chunks))
}

func waitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("still waiting for %s", what)
		}
		<-time.After(2 * time.Millisecond)
	}
}

// run runs a part until stop is called, which gives its error.
func run(t testing.TB, r interface{ Run(context.Context) error }, ready func() error) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	end := make(chan error, 1)
	go func() { end <- r.Run(ctx) }()
	waitFor(t, "a part to be ready", func() bool {
		select {
		case err := <-end:
			t.Fatalf("part ended: %v", err)
		default:
		}
		return ready() == nil
	})
	var once sync.Once
	var err error
	stop = func() error { once.Do(func() { cancel(); err = <-end }); return err }
	t.Cleanup(func() { _ = stop() })
	return stop
}

func startGateway(t testing.TB, dir string, p gateway.Producer, change func(*gateway.Config)) *gateway.Gateway {
	t.Helper()
	cfg := gateway.DefaultConfig()
	if dir != "" {
		cfg.Listen, cfg.TLS = "127.0.0.1:0", gateway.TLSConfig(certs.GatewayFiles(dir))
	}
	if change != nil {
		change(&cfg)
	}
	var problems config.Problems
	if cfg.Validate(&problems); problems.Err() != nil {
		t.Fatal(problems.Err())
	}
	g, err := gateway.New(cfg, gateway.Deps{Producer: p, Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	run(t, g, g.Ready)
	return g
}

func tlsDialer(g *gateway.Gateway, dir, edge string) wire.Dialer {
	return &wire.TLSDialer{Address: g.Addr().String(), Config: certs.NewClient(certs.EdgeFiles(dir, edge), nil).Config}
}

func forwardConfig(dir string, destinations ...string) forward.Config {
	cfg := forward.DefaultConfig()
	cfg.Edge, cfg.Spool.Dir, cfg.Spool.SyncInterval = "e1", dir, config.Duration(10*time.Millisecond)
	cfg.Spool.SegmentBytes, cfg.Spool.MaxBytes = 256<<10, 16<<20
	cfg.Batch.MaxEvents, cfg.Batch.MaxDelay = 500, config.Duration(5*time.Millisecond)
	cfg.Wire.BackoffMax = config.Duration(20 * time.Millisecond)
	cfg.Wire.BackoffMin = config.Duration(time.Millisecond)
	for _, d := range destinations {
		cfg.Destinations = append(cfg.Destinations, forward.Destination{Name: d})
	}
	return cfg
}

func checkAll(t testing.TB, b *bus, workers []*worker) {
	t.Helper()
	got, want := b.ids(t), 0
	for _, w := range workers {
		for _, c := range w.chunks {
			want += int(c.Count)
		}
		n := w.base
		for _, c := range w.chunks {
			for range c.Count {
				if got[n] != 1 {
					t.Fatalf("event %x is there %d times", n, got[n])
				}
				n++
			}
		}
	}
	if len(got) != want || len(b.differ) != 0 {
		t.Fatalf("%d events, want %d; names with two contents: %v", len(got), want, b.differ)
	}
}

func TestPath_NothingLostThroughCutsAndRestarts(t *testing.T) {
	pki := t.TempDir()
	if err := certs.Ensure(pki, "e1"); err != nil {
		t.Fatal(err)
	}
	b := newBus(true)
	g := startGateway(t, pki, b, nil)
	dial := &cutter{Dialer: tlsDialer(g, pki, "e1"), rnd: rand.New(rand.NewPCG(3, 4)), on: true}
	var workers []*worker
	for id := 1; id <= 4; id++ {
		w := newWorker(id, 300, 40)
		w.slow = true
		workers = append(workers, w)
	}
	cfg := forwardConfig(t.TempDir(), "dc1")
	cfg.DrainTimeout = config.Duration(time.Millisecond)
	rnd := rand.New(rand.NewPCG(5, 6))
	for round := 0; ; round++ {
		if round == 5 {
			dial.mu.Lock()
			dial.on = false
			dial.mu.Unlock()
		}
		f, err := forward.New(cfg, forward.Deps{Dial: map[string]wire.Dialer{"dc1": dial}, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		stop := run(t, f, f.Ready)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for _, w := range workers {
			wg.Go(func() { _ = w.run(ctx, f) })
		}
		if round < 5 {
			<-time.After(time.Duration(20+rnd.IntN(60)) * time.Millisecond)
			cancel()
			wg.Wait()
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			continue
		}
		wg.Wait()
		cancel()
		waitFor(t, "all to be durable", func() bool {
			for _, w := range workers {
				if !w.done() {
					return false
				}
			}
			return true
		})
		total := 4 * 300 * 40
		waitFor(t, "all to arrive", func() bool { return len(b.ids(t)) == total })
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		break
	}
	checkAll(t, b, workers)
	t.Logf("%d batches, %d came again", len(b.records), b.again)
}
