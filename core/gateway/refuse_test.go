package gateway_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spate-io/spate/core/gateway"
	"github.com/spate-io/spate/edge/wire"
	"github.com/spate-io/spate/event/batch"
	"github.com/spate-io/spate/internal/certs"
)

// edge speaks the protocol by hand.
type edge struct {
	t testing.TB
	net.Conn
	r *wire.Reader
	w *wire.Writer
	n uint64
}

func connect(t testing.TB, d wire.Dialer, name string) *edge {
	t.Helper()
	c, err := d.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	e := &edge{t: t, Conn: c, r: wire.NewReader(c, 0), w: wire.NewWriter(c)}
	if err := e.w.Hello(wire.Hello{Min: 1, Max: 1, Edge: name}); err != nil {
		t.Fatal(err)
	}
	return e
}

// hear gives the next frame that is not a ping.
func (e *edge) hear() (wire.Type, []byte, error) {
	for {
		typ, _, err := e.r.Next()
		if err != nil {
			return 0, nil, err
		}
		b, err := e.r.Control()
		if err != nil || typ != wire.TypePing {
			return typ, b, err
		}
	}
}

func (e *edge) welcome() {
	e.t.Helper()
	if typ, b, err := e.hear(); typ != wire.TypeWelcome || err != nil {
		e.t.Fatalf("%s %q %v instead of a welcome", typ, b, err)
	}
}

// send sends a batch and gives the code of its refusal, 0 for an ack.
func (e *edge) send(b []byte) (wire.Code, string) {
	e.t.Helper()
	e.n++
	if err := e.w.Batch(e.n, b); err != nil {
		e.t.Fatal(err)
	}
	typ, body, err := e.hear()
	if err != nil {
		e.t.Fatal(err)
	}
	switch typ {
	case wire.TypeAck:
		if n, _ := wire.ParseNumber(body); n != e.n {
			e.t.Fatalf("ack %d of %d", n, e.n)
		}
		return 0, ""
	case wire.TypeRefuse:
		n, c, text, err := wire.ParseRefuse(body)
		if n != e.n || err != nil {
			e.t.Fatalf("refusal of %d instead of %d: %v", n, e.n, err)
		}
		return c, text
	}
	e.t.Fatalf("%s as the answer to a batch", typ)
	return 0, ""
}

func encode(t testing.TB, h batch.Header, raw []byte) []byte {
	t.Helper()
	enc, err := batch.NewEncoder(batch.Zstd, 0)
	if err != nil {
		t.Fatal(err)
	}
	b, err := enc.Encode(nil, h, raw)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// good gives the header and payload of a batch of two events.
func good(seq uint64) (batch.Header, []byte) {
	a, b := sample(1), sample(2)
	return batch.Header{
		Type: batch.HTTPRequests, Name: batch.Name{Edge: "e1", Epoch: 1, Sequence: seq}, Events: 2,
		First: a.EdgeStartTimestamp, Last: b.EdgeStartTimestamp,
	}, b.Append(a.Append(nil))
}

type permanent struct{ error }

func (permanent) Permanent() bool { return true }

type refusingBus struct{ *bus }

func (b refusingBus) Produce(ctx context.Context, name batch.Name, value []byte, done func(error)) {
	if name.Sequence == 900 {
		done(permanent{errors.New("record too large")})
		return
	}
	b.bus.Produce(ctx, name, value, done)
}

func TestGateway_RefusesWithReasonAndGoesOn(t *testing.T) {
	b := newBus(false)
	g := startGateway(t, "", refusingBus{b}, func(c *gateway.Config) { c.MaxRaw = 64 << 10 })
	e := connect(t, g.Dialer("e1"), "e1")
	e.welcome()
	seq := uint64(0)
	for name, c := range map[string]struct {
		code wire.Code
		make func() []byte
	}{
		"empty":       {wire.RefuseHeader, func() []byte { return nil }},
		"not_a_batch": {wire.RefuseHeader, func() []byte { return bytes.Repeat([]byte("x"), 200) }},
		"header_crc":  {wire.RefuseHeader, func() []byte { h, raw := good(1); b := encode(t, h, raw); b[9] ^= 1; return b }},
		"payload_crc": {wire.RefuseChecksum, func() []byte { h, raw := good(1); b := encode(t, h, raw); b[len(b)-1] ^= 1; return b }},
		"cut_short":   {wire.RefuseHeader, func() []byte { h, raw := good(1); b := encode(t, h, raw); return b[:len(b)-1] }},
		"other_edge":  {wire.RefuseEdge, func() []byte { h, raw := good(1); h.Name.Edge = "e2"; return encode(t, h, raw) }},
		"bad_event": {wire.RefuseEvents, func() []byte {
			h, raw := good(1)
			raw = bytes.Clone(raw)
			raw[4] = 0xff
			raw[5] = 0xff
			return encode(t, h, raw)
		}},
		"half_an_event": {wire.RefuseEvents, func() []byte { h, raw := good(1); return encode(t, h, raw[:len(raw)-8]) }},
		"fewer_events":  {wire.RefuseCount, func() []byte { h, raw := good(1); h.Events = 3; return encode(t, h, raw) }},
		"wrong_first":   {wire.RefuseTimes, func() []byte { h, raw := good(1); h.First--; return encode(t, h, raw) }},
		"wrong_last":    {wire.RefuseTimes, func() []byte { h, raw := good(1); h.Last++; return encode(t, h, raw) }},
		"bomb": {wire.RefuseTooLarge, func() []byte {
			h, _ := good(1)
			return encode(t, h, make([]byte, 32<<20))
		}},
		"bus_says_never": {wire.RefuseBus, func() []byte { h, raw := good(900); return encode(t, h, raw) }},
	} {
		code, text := e.send(c.make())
		if code != c.code || text == "" {
			t.Errorf("%s: code %d %q, want %d", name, code, text, c.code)
		}
		seq++
		h, raw := good(seq)
		if code, text := e.send(encode(t, h, raw)); code != 0 {
			t.Fatalf("a good batch after %s was refused: %d %s", name, code, text)
		}
	}
	if len(b.records) != int(seq) {
		t.Fatalf("%d records, want %d", len(b.records), seq)
	}
}

// lines counts log lines by message.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lines) count(s string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), s)
}

func TestGateway_StrangersAreRefusedAndOthersGoOn(t *testing.T) {
	pki, other := t.TempDir(), t.TempDir()
	for _, d := range []string{pki, other} {
		if err := certs.Ensure(d, "e1"); err != nil {
			t.Fatal(err)
		}
	}
	a, err := certs.Init(pki)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.At(time.Now().Add(-2 * certs.LeafLife)).Edge("expired"); err != nil {
		t.Fatal(err)
	}
	b, log := newBus(false), &lines{}
	cfg := gateway.DefaultConfig()
	cfg.Listen, cfg.TLS = "127.0.0.1:0", gateway.TLSConfig(certs.GatewayFiles(pki))
	g, err := gateway.New(cfg, gateway.Deps{Producer: b, Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	run(t, g, g.Ready)
	e := connect(t, tlsDialer(g, pki, "e1"), "e1")
	e.welcome()

	dial := func(files certs.Files, change func(*tls.Config)) error {
		d := &wire.TLSDialer{Address: g.Addr().String(), Config: func() (*tls.Config, error) {
			c, err := certs.NewClient(files, nil).Config()
			if err == nil && change != nil {
				change(c)
			}
			return c, err
		}}
		c, err := d.Dial(t.Context())
		if err != nil {
			return err
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		_ = wire.NewWriter(c).Hello(wire.Hello{Min: 1, Max: 1, Edge: "e1"})
		typ, _, err := wire.NewReader(c, 0).Next()
		if err == nil && typ == wire.TypeGoAway {
			return errors.New("go away")
		}
		return err
	}
	mixed := certs.EdgeFiles(other, "e1")
	mixed.CA = certs.CAFile(pki)
	for name, err := range map[string]error{
		"other_authority": dial(mixed, nil),
		"expired":         dial(certs.EdgeFiles(pki, "expired"), nil),
		"no_certificate":  dial(certs.EdgeFiles(pki, "e1"), func(c *tls.Config) { c.Certificates = nil }),
		"server_cert":     dial(certs.GatewayFiles(pki), nil),
	} {
		if err == nil {
			t.Errorf("%s was let in", name)
		}
	}
	for range 20 { // plain TCP, which must not fill the log
		c, err := net.Dial("tcp", g.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
		if b, _ := io.ReadAll(c); bytes.Contains(b, []byte("SPWR")) {
			t.Fatal("a plain client was let in")
		}
		_ = c.Close()
	}
	if n := log.count("connection refused"); n != 1 {
		t.Errorf("%d lines about strangers, want 1", n)
	}
	h, raw := good(1)
	if code, text := e.send(encode(t, h, raw)); code != 0 {
		t.Fatal("the edge that was there was disturbed:", code, text)
	}
}

func TestGateway_EdgeNameComesFromTheCertificate(t *testing.T) {
	g := startGateway(t, "", newBus(false), func(c *gateway.Config) { c.Edges = []string{"e1", "import"} })
	for name, c := range map[string]struct {
		names []string
		say   string
		want  wire.Type
	}{
		"own":             {[]string{"e1"}, "e1", wire.TypeWelcome},
		"second_name":     {[]string{"e1", "import"}, "import", wire.TypeWelcome},
		"anothers":        {[]string{"e1"}, "import", wire.TypeGoAway},
		"signed_not_here": {[]string{"e9"}, "e9", wire.TypeGoAway},
	} {
		e := connect(t, g.Dialer(c.names...), c.say)
		if typ, _, err := e.hear(); typ != c.want || err != nil {
			t.Errorf("%s: %s %v, want %s", name, typ, err, c.want)
		}
	}
}

// stuckBus takes batches and never says that they are done, until told to.
type stuckBus struct {
	mu    sync.Mutex
	bytes int
	dones []func(error)
}

func (b *stuckBus) Produce(_ context.Context, _ batch.Name, value []byte, done func(error)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bytes += len(value)
	b.dones = append(b.dones, done)
}

func (b *stuckBus) state() (n, bytes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.dones), b.bytes
}

func TestGateway_OverloadStopsReading(t *testing.T) {
	b := &stuckBus{}
	g := startGateway(t, "", b, func(c *gateway.Config) {
		c.MaxBatch, c.ConnInflightBytes, c.InflightBytes = 64<<10, 64<<10, 96<<10
		c.PingInterval, c.IdleTimeout = c.PingInterval/100, c.IdleTimeout/100
	})
	// Payloads that do not shrink: batches of about 32 KiB.
	var all [][]byte
	for seq := uint64(1); seq <= 40; seq++ {
		h, raw := good(seq)
		one := len(raw) / 2
		h.Events = 0
		for len(raw) < 40<<10 {
			raw = append(raw, raw[:one]...)
		}
		h.Events = uint32(len(raw) / one)
		enc, _ := batch.NewEncoder(batch.None, 0)
		data, err := enc.Encode(nil, h, raw)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, data)
	}
	var edges []*edge
	for range 3 {
		e := connect(t, g.Dialer("e1"), "e1")
		e.welcome()
		edges = append(edges, e)
		go func() {
			for i, data := range all {
				if e.w.Batch(uint64(i+1), data) != nil {
					return
				}
			}
		}()
	}
	waitFor(t, "the gateway to be full", func() bool { n, _ := b.state(); return n == 2 })
	// Pings go on while nothing is read: that is how an edge tells a loaded gateway from a dead one.
	for _, e := range edges {
		if typ, _, err := e.r.Next(); typ != wire.TypePing || err != nil {
			t.Fatalf("%s %v, want pings", typ, err)
		}
		if _, err := e.r.Control(); err != nil {
			t.Fatal(err)
		}
	}
	if n, bytes := b.state(); n != 2 || bytes > 96<<10 {
		t.Fatalf("%d batches of %d bytes were taken, above the limit", n, bytes)
	}
	for done := 0; done < 120; {
		b.mu.Lock()
		dones := b.dones
		b.dones = nil
		b.mu.Unlock()
		for _, f := range dones {
			f(nil)
			done++
		}
		if len(dones) == 0 {
			<-time.After(time.Millisecond)
		}
	}
	for _, e := range edges {
		for {
			typ, body, err := e.hear()
			if err != nil {
				t.Fatal(err)
			}
			if n, _ := wire.ParseNumber(body); typ == wire.TypeAck && n == 40 {
				break
			}
		}
	}
}

func TestGateway_ProtocolErrorsEndTheConnection(t *testing.T) {
	g := startGateway(t, "", newBus(false), nil)
	for name, send := range map[string]func(e *edge){
		"wrong_number": func(e *edge) { h, raw := good(1); _ = e.w.Batch(7, encode(e.t, h, raw)) },
		"ack":          func(e *edge) { _ = e.w.Ack(1) },
		"second_hello": func(e *edge) { _ = e.w.Hello(wire.Hello{Min: 1, Max: 1, Edge: "e1"}) },
		"garbage":      func(e *edge) { _, _ = e.Write(bytes.Repeat([]byte{0xee}, 64)) },
		"huge":         func(e *edge) { _, _ = e.Write([]byte{0xff, 0xff, 0xff, 0xff, 3, 0, 0, 0}) },
	} {
		e := connect(t, g.Dialer("e1"), "e1")
		e.welcome()
		send(e)
		typ, body, err := e.hear()
		if err != nil || typ != wire.TypeGoAway {
			t.Errorf("%s: %s %v, want goaway", name, typ, err)
			continue
		}
		if away, err := wire.ParseGoAway(body); err != nil || away.Code != wire.GoAwayProtocol {
			t.Errorf("%s: %v %v", name, away, err)
		}
		if _, _, err := e.hear(); err == nil {
			t.Errorf("%s: the connection lives on", name)
		}
	}
}

func TestGateway_SilentEdgeIsDropped(t *testing.T) {
	g := startGateway(t, "", newBus(false), func(c *gateway.Config) {
		c.PingInterval, c.IdleTimeout, c.HandshakeTimeout = c.PingInterval/200, c.IdleTimeout/200, c.HandshakeTimeout/100
	})
	e := connect(t, g.Dialer("e1"), "e1")
	e.welcome()
	if _, _, err := e.hear(); err == nil { // it answers no ping
		t.Fatal("a silent edge was kept")
	}
	c, err := g.Dialer("e1").Dial(t.Context()) // it says no hello
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
}

func TestGateway_RateLimit(t *testing.T) {
	g := startGateway(t, "", newBus(false), func(c *gateway.Config) { c.Rate.Batches = 20 })
	e := connect(t, g.Dialer("e1"), "e1")
	e.welcome()
	begin := time.Now()
	for seq := uint64(1); seq <= 30; seq++ {
		h, raw := good(seq)
		if code, text := e.send(encode(t, h, raw)); code != 0 {
			t.Fatal(code, text)
		}
	}
	if d := time.Since(begin); d < 400*time.Millisecond {
		t.Fatalf("30 batches took %v with 20 a second allowed and a burst of 20", d)
	}
}
