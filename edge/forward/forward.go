// Package forward makes batches of what inputs hand over, keeps them in the spool, and ships them to every destination.
//
// Put gathers chunks into a batch; a full or old batch is sealed with the next sequence number, compressed by one of a few
// encoders, appended to the spool in order, synced, and only then reported durable to the inputs. A shipper for each
// destination reads the spool at its own pace.
//
// The invariant: a chunk's events and its position are in one record of the spool. A chunk whose position is known is
// dropped, so an input may send again whatever was not reported durable.
package forward

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/spate-io/spate/edge/spool"
	"github.com/spate-io/spate/edge/wire"
	"github.com/spate-io/spate/event/batch"
	"github.com/spate-io/spate/internal/certs"
)

// ErrStopping is what Put gives when the forwarder stops or has stopped.
var ErrStopping = errors.New("forwarder is stopping")

// ErrTooLarge is what Put gives for a chunk that fits in no batch.
var ErrTooLarge = errors.New("chunk is larger than a batch may be")

var _ Sink = (*Forwarder)(nil)

// Deps are what a forwarder needs from its surroundings; all may be left out.
type Deps struct {
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	// Dial has the dialer of a destination that is not reached by its addresses, by name.
	Dial map[string]wire.Dialer
	// Ledger is given what was accepted, as deltas that add up, some time after it became durable.
	Ledger func([]LedgerRow)
	// FS is the spool's file system, for tests.
	FS spool.FS
	// Software is told to the gateways, for their log.
	Software string
}

// Forwarder is the part. Its methods may be called from any goroutine.
type Forwarder struct {
	cfg   Config
	deps  Deps
	log   *slog.Logger
	codec batch.Codec
	met   *metrics
	ship  []*wire.Shipper // set before opened is closed

	opened chan struct{} // closed when the spool is open
	closed chan struct{} // closed when Run has ended
	stop   chan struct{} // closed when Put must end

	sealed chan *sealed // in order, to the writer; its capacity bounds what waits
	work   chan *sealed // to the encoders
	room   chan struct{}
	kick   chan struct{} // an empty batch got its first chunk
	notify chan struct{} // a callback is due

	mu       sync.Mutex
	sp       *spool.Spool
	err      error // why Run ended
	stopping bool
	current  *sealed
	spare    [][]byte
	waiting  int // batches sealed and not yet in the spool
	epoch    uint64
	sequence uint64
	known    map[[16]byte]uint64

	news  news
	watch watchers
	book  ledger
	down  error // why the spool takes nothing at the moment; guarded by mu
}

// New checks its arguments and makes a forwarder that does nothing before Run.
func New(cfg Config, deps Deps) (*Forwarder, error) {
	codec, err := batch.ParseCodec(cfg.Batch.Codec)
	if err != nil {
		return nil, fmt.Errorf("forwarder: %w", err)
	}
	if !batch.ValidEdge(cfg.Edge) {
		return nil, fmt.Errorf("forwarder: edge name %q is not one", cfg.Edge)
	}
	if len(cfg.Destinations) == 0 {
		return nil, errors.New("forwarder: no destinations")
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	pending := cfg.Batch.Encoders + 2
	f := &Forwarder{
		cfg: cfg, deps: deps, log: deps.Logger, codec: codec, met: newMetrics(deps.Registerer),
		opened: make(chan struct{}), closed: make(chan struct{}), stop: make(chan struct{}),
		sealed: make(chan *sealed, pending), work: make(chan *sealed, pending),
		room: make(chan struct{}), kick: make(chan struct{}, 1), notify: make(chan struct{}, 1),
		known: map[[16]byte]uint64{},
	}
	for _, d := range cfg.Destinations {
		if deps.Dial[d.Name] == nil && len(d.Addresses) == 0 {
			return nil, fmt.Errorf("forwarder: destination %s has no address", d.Name)
		}
	}
	return f, nil
}

// Ready is nil while the spool is open and takes batches. That a destination is away does not count: the spool is for that.
func (f *Forwarder) Ready() error {
	select {
	case <-f.closed:
		return ErrStopping
	case <-f.opened:
	default:
		return errors.New("spool is not open yet")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopping {
		return ErrStopping
	}
	return f.down
}

// Run opens the spool and works until ctx ends; then it takes no more, writes what it holds, gives the destinations time to
// take it, and closes. What they do not take stays in the spool. It may be called once.
func (f *Forwarder) Run(ctx context.Context) (err error) {
	defer func() {
		f.mu.Lock()
		f.err = err
		f.mu.Unlock()
		close(f.closed)
	}()
	if err := f.open(); err != nil {
		f.met.close()
		return err
	}
	close(f.opened)
	shipCtx, stopShipping := context.WithCancel(context.WithoutCancel(ctx))
	defer stopShipping()
	var ships, inner errgroup.Group
	for _, s := range f.ship {
		ships.Go(func() error { return s.Run(shipCtx) })
	}
	writeCtx, stopWriting := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWriting()
	var enc errgroup.Group
	for range f.cfg.Batch.Encoders {
		enc.Go(f.encode)
	}
	inner.Go(func() error { return f.write(writeCtx) })
	f.flushLoop(ctx) // until ctx ends

	bound := time.AfterFunc(max(f.cfg.DrainTimeout.D(), time.Second), stopWriting)
	f.drain()
	err = errors.Join(enc.Wait(), inner.Wait())
	bound.Stop()
	f.drainDestinations(stopShipping)
	err = errors.Join(err, ships.Wait())
	f.emitLedger()
	if cerr := f.sp.Close(); cerr != nil {
		err = errors.Join(err, fmt.Errorf("close spool: %w", cerr))
	}
	f.met.close()
	return err
}

// open opens the spool and makes the shippers.
func (f *Forwarder) open() error {
	names := make([]string, 0, len(f.cfg.Destinations))
	for _, d := range f.cfg.Destinations {
		names = append(names, d.Name)
	}
	sp, err := spool.Open(f.cfg.Spool, names, spool.Deps{Logger: f.log, Registerer: f.deps.Registerer, FS: f.deps.FS, Tell: f.Tell})
	if err != nil {
		return fmt.Errorf("forwarder: %w", err)
	}
	wm := wire.NewMetrics(f.deps.Registerer)
	f.met.closers = append(f.met.closers, wm.Close)
	for _, d := range f.cfg.Destinations {
		s, err := wire.NewShipper(f.cfg.Wire, wire.Options{
			Destination: d.Name, Edge: f.cfg.Edge, Software: f.deps.Software, Dialers: f.dialers(d),
			Source: sp.Cursor(d.Name), Logger: f.log, Metrics: wm,
		})
		if err != nil {
			return errors.Join(fmt.Errorf("forwarder: %w", err), sp.Close())
		}
		f.ship = append(f.ship, s)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sp = sp
	f.known = sp.Positions()
	f.epoch = max(uint64(time.Now().UnixNano()), sp.Epoch()+1)
	f.log.Info("forwarder open", "edge", f.cfg.Edge, "epoch", f.epoch, "spool", f.cfg.Spool.Dir, "bytes", sp.Bytes())
	return nil
}

// dialers gives the gateways of a destination.
func (f *Forwarder) dialers(d Destination) []wire.Dialer {
	if dial := f.deps.Dial[d.Name]; dial != nil {
		return []wire.Dialer{dial}
	}
	client := certs.NewClient(certs.Files{CA: d.CA, Certificate: d.Certificate, Key: d.Key}, f.log)
	config := func() (*tls.Config, error) {
		c, err := client.Config()
		if err == nil {
			c.ServerName = d.ServerName
		}
		return c, err
	}
	var all []wire.Dialer
	for _, a := range d.Addresses {
		all = append(all, &wire.TLSDialer{Address: a, Config: config})
	}
	return all
}

// drain ends Put and sends what is there to the writer, which has to be told to give up when it cannot write.
func (f *Forwarder) drain() {
	f.flushNews()
	f.mu.Lock()
	f.stopping = true
	close(f.stop)
	f.mu.Unlock()
	f.flush()
	close(f.work)
	close(f.sealed)
}

// drainDestinations waits until all destinations have all, within the drain timeout, and ends the shippers.
func (f *Forwarder) drainDestinations(stop func()) {
	defer stop()
	deadline := time.NewTimer(f.cfg.DrainTimeout.D())
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		left := f.backlog()
		if left == 0 {
			return
		}
		select {
		case <-deadline.C:
			f.log.Info("stopped with batches in the spool", "batches", left)
			return
		case <-tick.C:
		}
	}
}

// Destinations says how each destination stands. It is empty before the spool is open.
func (f *Forwarder) Destinations() map[string]wire.State {
	out := map[string]wire.State{}
	select {
	case <-f.opened:
	default:
		return out
	}
	for i, d := range f.cfg.Destinations {
		out[d.Name] = f.ship[i].State()
	}
	return out
}
