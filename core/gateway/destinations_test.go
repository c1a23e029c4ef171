package gateway_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spate-io/spate/edge/forward"
	"github.com/spate-io/spate/edge/spool"
	"github.com/spate-io/spate/edge/wire"
	"github.com/spate-io/spate/event/batch"
)

// gate is a Dialer that works while it is open.
type gate struct {
	wire.Dialer
	mu   sync.Mutex
	open bool
}

func (g *gate) Dial(ctx context.Context) (net.Conn, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.open {
		return nil, errors.New("nobody there")
	}
	return g.Dialer.Dial(ctx)
}

func (g *gate) set(open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = open
}

func startForward(t testing.TB, cfg forward.Config, dial map[string]wire.Dialer, reg prometheus.Registerer) *forward.Forwarder {
	t.Helper()
	f, err := forward.New(cfg, forward.Deps{Dial: dial, Registerer: reg})
	if err != nil {
		t.Fatal(err)
	}
	run(t, f, f.Ready)
	return f
}

func gauge(t testing.TB, reg *prometheus.Registry, name string) (sum float64) {
	t.Helper()
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if m.GetName() != name {
			continue
		}
		for _, v := range m.GetMetric() {
			sum += v.GetGauge().GetValue() + v.GetCounter().GetValue()
		}
	}
	return sum
}

func TestPath_ADeadDestinationHoldsNoOtherBack(t *testing.T) {
	one, two := newBus(false), newBus(false)
	g1, g2 := startGateway(t, "", one, nil), startGateway(t, "", two, nil)
	away := &gate{Dialer: g2.Dialer("e1")}
	f := startForward(t, forwardConfig(t.TempDir(), "dc1", "dc2"), map[string]wire.Dialer{"dc1": g1.Dialer("e1"), "dc2": away}, nil)
	w := newWorker(1, 200, 30)
	if err := w.run(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "dc1 to have all", func() bool { return len(one.ids(t)) == 6000 })
	if len(two.ids(t)) != 0 || f.Ready() != nil {
		t.Fatal("dc2 is away, and that is no reason not to be ready:", f.Ready())
	}
	if s := f.Destinations(); !s["dc1"].Connected || s["dc2"].Connected || s["dc2"].Error == "" {
		t.Fatalf("%+v", s)
	}
	away.set(true)
	waitFor(t, "dc2 to have all", func() bool { return len(two.ids(t)) == 6000 })
	checkAll(t, one, []*worker{w})
	checkAll(t, two, []*worker{w})
}

func TestPath_FullSpoolBlocksOrDrops(t *testing.T) {
	for _, policy := range []string{spool.FullBlock, spool.FullDropOldest} {
		t.Run(policy, func(t *testing.T) {
			one, two := newBus(false), newBus(false)
			g1, g2 := startGateway(t, "", one, nil), startGateway(t, "", two, nil)
			away := &gate{Dialer: g2.Dialer("e1")}
			cfg := forwardConfig(t.TempDir(), "dc1", "dc2")
			cfg.Batch.Codec, cfg.Spool.WhenFull = "none", policy
			cfg.Batch.MaxEvents = 30 // a batch for each chunk
			cfg.Spool.SegmentBytes, cfg.Spool.MaxBytes = 128<<10, 1<<20
			reg := prometheus.NewRegistry()
			f := startForward(t, cfg, map[string]wire.Dialer{"dc1": g1.Dialer("e1"), "dc2": away}, reg)
			w := newWorker(1, 300, 30) // about 5 MB
			ended := make(chan error, 1)
			if policy == spool.FullDropOldest { // not faster than dc1, which would lose batches too
				for i, c := range w.chunks {
					if err := f.Put(t.Context(), c); err != nil {
						t.Fatal(err)
					}
					waitFor(t, "dc1 to keep up", func() bool { return one.size() > i-50 })
				}
			}
			go func() { ended <- w.run(t.Context(), f) }()
			if policy == spool.FullBlock {
				waitFor(t, "the spool to be full", func() bool { return gauge(t, reg, "spate_forward_blocked") == 1 && f.Ready() != nil })
				if n := len(one.ids(t)); n == 0 || n == 9000 {
					t.Fatalf("dc1 has %d events while dc2 is away", n)
				}
			} else {
				if err := <-ended; err != nil {
					t.Fatal(err)
				}
				waitFor(t, "dc1 to have all", func() bool { return len(one.ids(t)) == 9000 })
			}
			if b := gauge(t, reg, "spate_spool_bytes"); b > 1<<20 {
				t.Fatalf("%v bytes in a spool of 1 MiB", b)
			}
			away.set(true)
			if policy == spool.FullBlock {
				if err := <-ended; err != nil {
					t.Fatal(err)
				}
				waitFor(t, "dc2 to have all", func() bool { return len(two.ids(t)) == 9000 })
				checkAll(t, one, []*worker{w})
				checkAll(t, two, []*worker{w})
				return
			}
			dropped := int(gauge(t, reg, "spate_spool_dropped_events_total"))
			waitFor(t, "dc2 to have the rest", func() bool { return len(two.ids(t)) == 9000-dropped })
			if dropped == 0 {
				t.Fatal("nothing was dropped: the trial does too little")
			}
		})
	}
}

func TestPath_ARefusedBatchIsSetAsideAndTheRestGoesOn(t *testing.T) {
	b := newBus(false)
	g := startGateway(t, "", refusingBus{b}, nil)
	cfg := forwardConfig(t.TempDir(), "dc1")
	cfg.Batch.MaxEvents = 1
	f := startForward(t, cfg, map[string]wire.Dialer{"dc1": g.Dialer("e1")}, nil)
	w := newWorker(1, 1000, 1)
	if err := w.run(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "all but one to arrive", func() bool { return len(b.ids(t)) == 999 })
	files, err := filepath.Glob(filepath.Join(cfg.Spool.Dir, "refused", "dc1", "*.batch"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if h, _, err := batch.NewDecoder(0).Decode(data); err != nil || h.Name.Sequence != 900 {
		t.Fatal(h, err)
	}
	l, err := spool.List(cfg.Spool.Dir)
	if err != nil || len(l.Refused) != 1 || l.Refused[0].Code != uint16(wire.RefuseBus) {
		t.Fatalf("%+v %v", l.Refused, err)
	}
}

// fleet is a Dialer that says which of several it is.
type fleet struct {
	wire.Dialer
	mu    sync.Mutex
	dials int
}

func (d *fleet) Dial(ctx context.Context) (net.Conn, error) {
	d.mu.Lock()
	d.dials++
	d.mu.Unlock()
	return d.Dialer.Dial(ctx)
}

func TestShipper_FailsOverAndComesBack(t *testing.T) {
	b := newBus(false)
	g := startGateway(t, "", b, nil)
	first := &gate{Dialer: g.Dialer("e1")}
	second := &fleet{Dialer: g.Dialer("e1")}
	s, err := spool.Open(forwardConfig(t.TempDir()).Spool, []string{"dc1"}, spool.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	cfg := forwardConfig("").Wire
	cfg.ReturnAfter = cfg.ReturnAfter / 2000
	ship, err := wire.NewShipper(cfg, wire.Options{Destination: "dc1", Edge: "e1", Dialers: []wire.Dialer{first, second}, Source: s.Cursor("dc1")})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	end := make(chan error, 1)
	go func() { end <- ship.Run(ctx) }()
	put := func(seq uint64) {
		h, raw := good(seq)
		if _, err := s.Append(nil, encode(t, h, raw)); err != nil {
			t.Fatal(err)
		}
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "a batch to be acknowledged", func() bool { n, _, _ := s.Backlog("dc1"); return n == 0 })
	}
	put(1)
	if st := ship.State(); st.Gateway != "gateway 1" {
		t.Fatalf("%+v", st)
	}
	first.set(true)
	waitFor(t, "the preferred gateway to be used again", func() bool { return ship.State().Gateway == "gateway 0" })
	put(2)
	cancel()
	if err := <-end; err != nil {
		t.Fatal(err)
	}
	if b.again != 0 {
		t.Fatalf("%d batches came twice: going back must not break what is in flight", b.again)
	}
}

func TestShipper_NoticesASilentGateway(t *testing.T) {
	// A gateway that says welcome and then nothing, as behind a cut that no side was told of.
	silent := wire.InProcess(func(c net.Conn) {
		r := wire.NewReader(c, 1<<20)
		if _, _, err := r.Next(); err != nil {
			return
		}
		_, _ = r.Control()
		_ = wire.NewWriter(c).Welcome(wire.Welcome{Version: 1, MaxBatch: 1 << 20, Window: 10})
	})
	b := newBus(false)
	g := startGateway(t, "", b, nil)
	s, err := spool.Open(forwardConfig(t.TempDir()).Spool, []string{"dc1"}, spool.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	h, raw := good(1)
	if _, err := s.Append(nil, encode(t, h, raw)); err != nil {
		t.Fatal(err)
	}
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	cfg := forwardConfig("").Wire
	cfg.PingInterval, cfg.IdleTimeout = cfg.PingInterval/500, cfg.IdleTimeout/500
	n := 0
	turn := inTurn(func() wire.Dialer {
		if n++; n == 1 {
			return silent
		}
		return g.Dialer("e1")
	})
	ship, err := wire.NewShipper(cfg, wire.Options{Destination: "dc1", Edge: "e1", Dialers: []wire.Dialer{turn}, Source: s.Cursor("dc1")})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	end := make(chan error, 1)
	go func() { end <- ship.Run(ctx) }()
	waitFor(t, "the batch to go to the next gateway", func() bool { return len(b.ids(t)) == 2 })
	cancel()
	<-end
}

type inTurn func() wire.Dialer

func (f inTurn) Dial(ctx context.Context) (net.Conn, error) { return f().Dial(ctx) }
