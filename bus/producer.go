package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/spate-io/spate/event/batch"
	"github.com/spate-io/spate/internal/config"
)

// Producer puts batches on the bus. It satisfies the gateway's Producer and is a part: Run it. Methods may be called
// from any goroutine.
type Producer struct {
	cfg     Config
	deps    Deps
	log     *slog.Logger
	metrics *producerMetrics

	up     chan struct{} // closed when out is set
	closed chan struct{} // closed when Run has begun to end
	once   sync.Once
	out    *outlet

	reason  atomic.Pointer[error] // why not ready
	pending atomic.Int64          // records not acknowledged
	acked   atomic.Int64          // unix nanoseconds of the last acknowledgement, or of the first record after a pause
}

// outlet is the connected client.
type outlet struct {
	cl         *kgo.Client
	topic      string
	partitions int32
}

// stalled is how long a producer may wait for the bus before Ready says so.
const stalled = 30 * time.Second

var (
	// ErrStopped is given to done for records that came after the producer's end.
	ErrStopped = errors.New("bus producer has stopped")
	// ErrTooLarge is given to done for values over Config.MaxMessage. It has a method Permanent that gives true.
	ErrTooLarge error = permanent("batch is larger than bus.max_message")

	errConnecting = errors.New("bus producer is connecting")
)

// permanent is an error that no retry mends.
type permanent string

func (e permanent) Error() string { return string(e) }

// Permanent says that the bus will never take the record.
func (permanent) Permanent() bool { return true }

// NewProducer checks cfg and returns a producer for Config.RequestsTopic that has connected to nothing.
func NewProducer(cfg Config, deps Deps) (*Producer, error) {
	var problems config.Problems
	cfg.Validate(&problems)
	if err := problems.Err(); err != nil {
		return nil, fmt.Errorf("bus: %w", err)
	}
	p := &Producer{
		cfg: cfg, deps: deps, log: deps.logger(), metrics: newProducerMetrics(deps.Registerer),
		up: make(chan struct{}), closed: make(chan struct{}),
	}
	p.reason.Store(&errConnecting)
	return p, nil
}

// Run connects, makes sure that the topics exist, and serves Produce until ctx is cancelled; then it waits up to ten
// seconds for what is on its way.
func (p *Producer) Run(ctx context.Context) error {
	defer p.once.Do(func() { close(p.closed) })
	out, err := p.connect(ctx)
	if err != nil {
		return err
	}
	if out == nil {
		return nil // cancelled before the bus was there
	}
	p.out = out
	close(p.up)
	p.reason.Store(nil)
	<-ctx.Done()
	p.reason.Store(&ErrStopped)
	p.once.Do(func() { close(p.closed) })
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := out.cl.Flush(flush); err != nil {
		p.log.Warn("bus producer stops with records on their way", "records", p.pending.Load(), "err", err)
	}
	out.cl.Close() // fails what is left, so every done is called
	return nil
}

// connect tries until the topics are there or ctx is done.
func (p *Producer) connect(ctx context.Context) (*outlet, error) {
	wait := 100 * time.Millisecond
	for {
		out, err := p.connectOnce(ctx)
		if err == nil {
			return out, nil
		}
		p.reason.Store(&err)
		if !errors.Is(err, errBrokerNotUp) {
			p.log.Warn("bus is not reachable, trying again", "wait", wait, "err", err)
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil, nil //nolint:nilnil // a stop before the start is no failure
		case <-t.C:
		}
		wait = min(2*wait, 5*time.Second)
	}
}

func (p *Producer) connectOnce(ctx context.Context) (*outlet, error) {
	largest := int32(p.cfg.MaxMessage) + batchRoom
	cl, err := NewClient(p.cfg, p.deps,
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerBatchCompression(kgo.NoCompression()), // values are compressed at the edge
		kgo.ProducerBatchMaxBytes(largest),
		kgo.BrokerMaxWriteBytes(max(2*largest, 100<<20)),
		kgo.MaxBufferedBytes(int(p.cfg.MaxBuffered)),
		kgo.MaxBufferedRecords(1<<20),
		kgo.ProducerLinger(2*time.Millisecond),
		kgo.UnknownTopicRetries(-1),
	)
	if err != nil {
		return nil, err
	}
	ask, cancel := context.WithTimeout(ctx, p.cfg.RequestTimeout.D())
	defer cancel()
	parts, err := EnsureTopics(ask, cl, p.cfg.Topics())
	if err != nil {
		cl.Close()
		return nil, err
	}
	topic := p.cfg.RequestsTopic()
	if n := parts[topic].Partitions; p.cfg.Partitions > 0 && n != p.cfg.Partitions {
		p.log.Warn("topic exists with another number of partitions, using that", "topic", topic, "partitions", n, "configured", p.cfg.Partitions)
	}
	return &outlet{cl: cl, topic: topic, partitions: parts[topic].Partitions}, nil
}

// Ready returns nil when the bus is connected and acknowledges what it is given.
func (p *Producer) Ready() error {
	if err := p.reason.Load(); err != nil {
		return *err
	}
	if n := p.pending.Load(); n > 0 {
		if since := time.Since(time.Unix(0, p.acked.Load())); since > stalled {
			return fmt.Errorf("bus has acknowledged nothing for %s, %d records wait", since.Round(time.Second), n)
		}
	}
	return nil
}

// Produce sends value as one record into the partition that name decides. It blocks while more than Config.MaxBuffered
// bytes are on their way, and before the bus is connected. done is called exactly once, from another goroutine or from
// this one, and must not block: with nil when all in-sync replicas have the record, with ctx's error when ctx ended
// before the record was sent, else with the reason why it will never be there. value must stay unchanged until then.
func (p *Producer) Produce(ctx context.Context, name batch.Name, value []byte, done func(error)) {
	select {
	case <-p.up:
	case <-ctx.Done():
		done(ctx.Err())
		return
	case <-p.closed:
		done(ErrStopped)
		return
	}
	select {
	case <-p.closed:
		done(ErrStopped)
		return
	default:
	}
	if int64(len(value)) > int64(p.cfg.MaxMessage) {
		done(fmt.Errorf("%w: %d bytes", ErrTooLarge, len(value)))
		return
	}
	start := time.Now()
	if p.pending.Add(1) == 1 {
		p.acked.Store(start.UnixNano())
	}
	p.metrics.buffered.Add(float64(len(value)))
	rec := &kgo.Record{Topic: p.out.topic, Partition: name.Partition(p.out.partitions), Value: value}
	p.out.cl.Produce(ctx, rec, func(_ *kgo.Record, err error) {
		p.acked.Store(time.Now().UnixNano())
		p.pending.Add(-1)
		p.metrics.buffered.Sub(float64(len(value)))
		if err != nil {
			p.metrics.failures.Inc()
			done(fmt.Errorf("produce %s: %w", name, err))
			return
		}
		p.metrics.records.Inc()
		p.metrics.bytes.Add(float64(len(value)))
		p.metrics.seconds.Observe(time.Since(start).Seconds())
		done(nil)
	})
}
