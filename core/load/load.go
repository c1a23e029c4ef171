// Package load takes batches from the bus into the store, each event exactly once. It does not know what an event is:
// a Builder turns unpacked batches into a block; the one for HTTP requests is in http.go.
//
// Loader is the part. It is a member of a consumer group; each partition that it owns has one worker, which gathers
// records into ranges, and for each range: decodes it into a block, commits the range as its intent, inserts the block
// with the range as token, and commits the end of the range. Whoever gets the partition next repeats an intent that it
// finds with the same records and the same token, which the store recognises. Batches that come twice are dropped by
// name, from a window that is read back from the bus when a partition is taken over.
//
// The invariants: a partition's position only moves forward, and only past records that are stored or set aside in the
// topic of refused records; no insert happens without a committed intent for exactly its range.
package load

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/spate-io/spate/bus"
	"github.com/spate-io/spate/event/batch"
	"github.com/spate-io/spate/internal/config"
	"github.com/spate-io/spate/store"
)

// Store is what the loader needs of the database. store.DB satisfies it. Insert must be all or nothing, and a no-op for a
// token it has seen.
type Store interface {
	Insert(ctx context.Context, in store.Insert) error
}

// Builder turns batches into one block of columns. It is used by one goroutine at a time.
type Builder interface {
	// Reset empties the block.
	Reset()
	// Add appends all events of a batch; raw is the unpacked payload and only valid during the call. On error none of
	// the batch's events is in the block.
	Add(h *batch.Header, raw []byte) error
	// Rows returns the number of events in the block.
	Rows() int
	// Inserts returns what must be inserted, in order, for the block to be in the store; tokens are derived from the given
	// one, none when it is empty. It is valid until Reset or Add. Only the first may be refused for what is in it: by
	// then nothing is stored and the block can be split.
	Inserts(token string) []store.Insert
}

// Deps are what the loader needs from its surroundings.
type Deps struct {
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	// Bus and BusDeps say how to reach the bus and which topics to read and set refused records aside in.
	Bus     bus.Config
	BusDeps bus.Deps
	Store   Store
	// Builder makes a builder; it is called Config.Parallel times.
	Builder func() (Builder, error)
	// Ledger is told what became of everything; nil means nobody.
	Ledger Ledger
	// Poison says whether an insert's error means that the block itself can never be stored; nil means Malformed.
	Poison func(error) bool
}

// Loader is the part. Make one with New; Run it once. Ready and Live may be called from any goroutine.
type Loader struct {
	cfg     Config
	deps    Deps
	log     *slog.Logger
	metrics *metrics
	topic   string
	refused string
	windows string // topic where windows are written
	poison  func(error) bool

	hard    context.Context // of the Run that goes on
	topicID [16]byte        // known before the client joins

	builders chan *bench // free ones
	inRow    atomic.Int64
	session  atomic.Pointer[session]
	health   health

	mu      sync.Mutex
	workers map[int32]*worker

	// step is called by tests at each step of a range.
	step func(w *worker, at step)
}

// session is one membership in the group.
type session struct {
	cl      *kgo.Client
	topicID [16]byte
	ctx     context.Context // ends when all work must be left where it is
}

var errNotConnected = errors.New("loader is not connected to the bus")

// New checks its arguments and returns a loader that has connected to nothing.
func New(cfg Config, deps Deps) (*Loader, error) {
	var p config.Problems
	cfg.Validate(&p)
	p.Under("bus", deps.Bus.Validate)
	if err := p.Err(); err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	if deps.Store == nil || deps.Builder == nil {
		return nil, errors.New("load: needs a store and a builder")
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Parallel == 0 {
		cfg.Parallel = runtime.GOMAXPROCS(0)
	}
	l := &Loader{
		cfg: cfg, deps: deps, log: deps.Logger, metrics: newMetrics(deps.Registerer),
		topic: deps.Bus.RequestsTopic(), refused: deps.Bus.RefusedTopic(), windows: deps.Bus.WindowTopic(), poison: deps.Poison,
		builders: make(chan *bench, cfg.Parallel), workers: make(map[int32]*worker),
	}
	if l.poison == nil {
		l.poison = Malformed
	}
	for range cfg.Parallel {
		b, err := newBench(deps.Builder)
		if err != nil {
			return nil, fmt.Errorf("load: %w", err)
		}
		l.builders <- b
	}
	return l, nil
}

func (l *Loader) state() *session { return l.session.Load() }

// Run joins the group and loads until ctx is cancelled; then blocks that are being stored may finish within
// Config.Drain, and the loader leaves the group.
func (l *Loader) Run(ctx context.Context) error {
	hard, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	l.hard = hard
	s := l.connect(ctx)
	if s == nil {
		return nil // stopped before the bus was there
	}
	var wg sync.WaitGroup
	wg.Go(func() { l.watch(ctx) })
	l.poll(ctx, s)
	wg.Wait()
	l.release(l.owned(), l.cfg.Drain.D())
	cancel()
	s.cl.CloseAllowingRebalance()
	return nil
}

// connect makes the topics and the client, and tries until that works. It returns nil when ctx ends first.
func (l *Loader) connect(ctx context.Context) *session {
	wait := 100 * time.Millisecond
	for {
		cl, err := l.connectOnce(ctx)
		if err == nil {
			return l.join(cl)
		}
		l.health.fail(err)
		if sleep(ctx, wait) != nil {
			return nil
		}
		l.log.Warn("bus is not reachable, trying again", "err", err)
		wait = min(2*wait, 5*time.Second)
	}
}

// join returns the session of cl, whether Run asks first or the client with its first assignment.
func (l *Loader) join(cl *kgo.Client) *session {
	l.session.CompareAndSwap(nil, &session{cl: cl, topicID: l.topicID, ctx: l.hard})
	return l.session.Load()
}

func (l *Loader) connectOnce(ctx context.Context) (*kgo.Client, error) {
	if err := l.ensureTopics(ctx); err != nil {
		return nil, err
	}
	largest := int32(l.deps.Bus.MaxMessage) + 64<<10
	return bus.NewClient(l.deps.Bus, l.deps.BusDeps,
		kgo.ConsumerGroup(l.cfg.Group),
		kgo.ConsumeTopics(l.topic),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.SessionTimeout(l.cfg.SessionTimeout.D()),
		kgo.HeartbeatInterval(min(l.cfg.SessionTimeout.D()/6, 3*time.Second)),
		kgo.RebalanceTimeout(l.cfg.Drain.D()+l.cfg.SessionTimeout.D()),
		kgo.OnPartitionsAssigned(l.assigned),
		kgo.OnPartitionsRevoked(l.revoked),
		kgo.OnPartitionsLost(l.lost),
		kgo.FetchMaxWait(500*time.Millisecond),
		kgo.FetchMaxPartitionBytes(int32(min(l.cfg.QueueBytes, 64<<20))),
		kgo.FetchMaxBytes(int32(min(4*l.cfg.QueueBytes, 256<<20))),
		// Refused records are set aside by the same client.
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchMaxBytes(largest),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.AllowIdempotentProduceCancellation(),
	)
}

// ensureTopics uses a client of its own, so that the one in the group finds its topics at once.
func (l *Loader) ensureTopics(ctx context.Context) error {
	cl, err := bus.NewClient(l.deps.Bus, l.deps.BusDeps)
	if err != nil {
		return err
	}
	defer cl.Close()
	topics := l.deps.Bus.Topics()
	there, err := bus.EnsureTopics(ctx, cl, topics[:1])
	if err != nil {
		return err
	}
	for i := range topics {
		if topics[i].Name == l.windows { // one for each partition that there really is
			topics[i].Partitions = there[l.topic].Partitions
		}
	}
	if there, err = bus.EnsureTopics(ctx, cl, topics); err != nil {
		return err
	}
	l.topicID = there[l.topic].ID
	return nil
}

// poll hands fetched records to the workers until ctx is done.
func (l *Loader) poll(ctx context.Context, s *session) {
	for ctx.Err() == nil {
		fetches := s.cl.PollFetches(ctx)
		if fetches.IsClientClosed() {
			return
		}
		fetches.EachError(func(topic string, partition int32, err error) {
			if ctx.Err() == nil {
				l.log.Warn("fetch", "topic", topic, "partition", partition, "err", err)
			}
		})
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			l.mu.Lock()
			w := l.workers[p.Partition]
			l.mu.Unlock()
			if w != nil && p.Topic == l.topic {
				w.push(p.Records)
			}
		})
		s.cl.AllowRebalance()
	}
}

// assigned starts a worker for each new partition.
func (l *Loader) assigned(_ context.Context, cl *kgo.Client, parts map[string][]int32) {
	s := l.join(cl)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range parts[l.topic] {
		if l.workers[p] != nil {
			continue
		}
		w := newWorker(l, s, p)
		l.workers[p] = w
		l.log.Info("partition taken", "partition", p)
		go w.run()
	}
	l.metrics.partitions.Set(float64(len(l.workers)))
	l.health.joined()
}

// revoked lets blocks that are being stored finish; the group waits for it.
func (l *Loader) revoked(_ context.Context, _ *kgo.Client, parts map[string][]int32) {
	l.release(parts[l.topic], l.cfg.Drain.D())
}

// lost drops everything at once: this member is no longer in the group, and commits would be refused anyway.
func (l *Loader) lost(_ context.Context, _ *kgo.Client, parts map[string][]int32) {
	if len(parts[l.topic]) > 0 {
		l.log.Warn("loader was taken for dead by its group, starting over", "partitions", parts[l.topic])
	}
	l.release(parts[l.topic], 0)
}

// release stops the workers of parts and waits for them: grace for the block they are storing, then no more.
func (l *Loader) release(parts []int32, grace time.Duration) {
	var stopping []*worker
	l.mu.Lock()
	for _, p := range parts {
		if w := l.workers[p]; w != nil {
			stopping = append(stopping, w)
			delete(l.workers, p)
		}
	}
	l.metrics.partitions.Set(float64(len(l.workers)))
	l.mu.Unlock()
	for _, w := range stopping {
		w.stop()
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	for _, w := range stopping {
		select {
		case <-w.done:
		case <-timer.C:
			for _, w := range stopping {
				w.cancel()
			}
			<-w.done
			timer.Reset(0)
		}
		l.metrics.forget(w)
	}
}

func (l *Loader) owned() []int32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]int32, 0, len(l.workers))
	for p := range l.workers {
		out = append(out, p)
	}
	return out
}
