package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/spate-io/spate/bus"
	"github.com/spate-io/spate/bus/embedded"
	"github.com/spate-io/spate/core/load"
	"github.com/spate-io/spate/event/batch"
	"github.com/spate-io/spate/internal/config"
	"github.com/spate-io/spate/internal/lifecycle"
	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/schema"
)

// rig is the way from the bus into the open store: broker and loader as a Spate has them.
type rig struct {
	s          *Store
	dir        string
	cl         *kgo.Client
	topic      string
	partitions int32
	stop       context.CancelFunc
	done       chan error
	next       int32

	mu   sync.Mutex
	gate chan struct{} // closed: open
	rows int           // stored in the raw table
	last time.Time     // when an insert ended last
	busy int           // inserts under way
}

// start runs broker and loader. With delay 0 the configured one holds.
func (s *Store) startRig(ctx context.Context, delay time.Duration) (*rig, error) {
	r := &rig{s: s, dir: filepath.Join(s.o.Dir, "bus"), done: make(chan error, 1), gate: make(chan struct{})}
	close(r.gate)
	if err := os.RemoveAll(r.dir); err != nil {
		return nil, err
	}
	cfg := s.o.Bus
	cfg.Address, cfg.Embedded.Dir, cfg.Embedded.Listen = bus.Embedded, r.dir, "127.0.0.1:0"
	broker, err := embedded.New(cfg.Embedded, embedded.Deps{Logger: s.log})
	if err != nil {
		return nil, err
	}
	deps := bus.Deps{Logger: s.log, Embedded: broker.Addr}
	loading := s.o.Load
	if delay > 0 {
		loading.Block.MaxDelay = config.Duration(delay)
	}
	loader, err := load.New(loading, load.Deps{
		Logger: s.log, Bus: cfg, BusDeps: deps, Store: r, Builder: func() (load.Builder, error) { return &gated{s.builder(), r}, nil },
	})
	if err != nil {
		return nil, err
	}
	group := lifecycle.New(s.log, lifecycle.Options{}, lifecycle.Named{Name: "broker", Part: broker}, lifecycle.Named{Name: "load", Part: loader})
	ctx, r.stop = context.WithCancel(ctx)
	ready := make(chan struct{})
	go func() { r.done <- group.Run(ctx, nil, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-r.done:
		return nil, fmt.Errorf("start broker and loader: %w", err)
	}
	if r.cl, err = bus.NewClient(cfg, deps, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(int32(cfg.MaxMessage)+64<<10),
		kgo.ProducerBatchCompression(kgo.NoCompression())); err != nil {
		return nil, errors.Join(err, r.close())
	}
	r.topic, r.partitions = cfg.RequestsTopic(), cfg.TopicPartitions()
	return r, nil
}

// close stops everything and removes the bus's data.
func (r *rig) close() error {
	if r.cl != nil {
		r.cl.Close()
	}
	r.stop()
	return errors.Join(<-r.done, os.RemoveAll(r.dir))
}

// produce puts batches on the bus and returns when they are durable.
func (r *rig) produce(ctx context.Context, values [][]byte) error {
	list := make([]*kgo.Record, len(values))
	for i, v := range values {
		list[i] = &kgo.Record{Topic: r.topic, Partition: r.next % r.partitions, Value: v}
		r.next++
	}
	return r.cl.ProduceSync(ctx, list...).FirstErr()
}

// hold lets no block be built until release, which counts rows from nothing and says when it was.
func (r *rig) hold() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gate = make(chan struct{})
}

func (r *rig) release() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows = 0
	close(r.gate)
	return time.Now()
}

// stored waits until so many rows are stored and gives the time when they were.
func (r *rig) stored(ctx context.Context, rows int) (time.Time, error) {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		r.mu.Lock()
		have, busy, last := r.rows, r.busy, r.last
		r.mu.Unlock()
		if have >= rows && busy == 0 {
			return last, nil
		}
		select {
		case <-tick.C:
		case err := <-r.done:
			r.done <- err
			return last, fmt.Errorf("loader ended: %w", err)
		case <-ctx.Done():
			return last, ctx.Err()
		}
	}
}

// Insert implements load.Store.
func (r *rig) Insert(ctx context.Context, in store.Insert) error {
	r.mu.Lock()
	r.busy++
	r.mu.Unlock()
	err := r.s.db.Insert(ctx, in)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy--
	r.last = time.Now()
	if err == nil && in.Table == schema.HTTPRequests {
		r.rows += blockRows(in.Block)
	}
	return err
}

// blockRows reads how many rows a Native block has.
func blockRows(block []byte) int {
	_, n := binary.Uvarint(block)
	rows, _ := binary.Uvarint(block[max(n, 0):])
	return int(rows)
}

// gated is a builder that waits for the rig's gate.
type gated struct {
	load.Builder
	r *rig
}

// Add implements load.Builder.
func (g *gated) Add(h *batch.Header, raw []byte) error {
	g.r.mu.Lock()
	gate := g.r.gate
	g.r.mu.Unlock()
	<-gate
	return g.Builder.Add(h, raw)
}
