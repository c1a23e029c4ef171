package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sort"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/spate-io/spate/internal/config"
)

// PartitionLag is how far a group is behind in one partition.
type PartitionLag struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	// Start and End are the partition's first offset and the one after its last record.
	Start int64 `json:"start"`
	End   int64 `json:"end"`
	// Committed is the group's position, or -1 when it has committed nothing.
	Committed int64 `json:"committed"`
	// Messages is how many records there are that the group has not committed.
	Messages int64 `json:"messages"`
	// Lost is how many records the group has not committed and retention has deleted.
	Lost int64 `json:"lost"`
	// Seconds is the age of the oldest record that is there and not committed; 0 when there is none.
	Seconds float64 `json:"seconds"`
}

// ReadLag returns how far group is behind in each partition of topics, by topic and partition. It needs nothing of the
// consumer: with a dead one, messages and seconds go on rising.
func ReadLag(ctx context.Context, cfg Config, deps Deps, group string, topics ...string) ([]PartitionLag, error) {
	cl, err := NewClient(cfg, deps)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	return readLag(ctx, cl, cfg, deps, group, topics)
}

func readLag(ctx context.Context, cl *kgo.Client, cfg Config, deps Deps, group string, topics []string) ([]PartitionLag, error) {
	adm := kadm.NewClient(cl)
	starts, err := adm.ListStartOffsets(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("read start offsets: %w", err)
	}
	ends, err := adm.ListEndOffsets(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("read end offsets: %w", err)
	}
	committed, err := adm.FetchOffsets(ctx, group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return nil, fmt.Errorf("read offsets of group %s: %w", group, err)
	}
	var out []PartitionLag
	var failure error
	ends.Each(func(o kadm.ListedOffset) {
		s, ok := starts.Lookup(o.Topic, o.Partition)
		if !ok || o.Err != nil || s.Err != nil {
			failure = errors.Join(o.Err, s.Err, fmt.Errorf("offsets of %s/%d are not known", o.Topic, o.Partition))
			return
		}
		l := PartitionLag{Topic: o.Topic, Partition: o.Partition, Start: s.Offset, End: o.Offset, Committed: -1}
		if c, ok := committed.Lookup(o.Topic, o.Partition); ok && c.Err == nil {
			l.Committed = c.At
		}
		l.Messages = max(l.End-max(l.Committed, l.Start), 0)
		if l.Committed >= 0 {
			l.Lost = max(l.Start-l.Committed, 0)
		}
		out = append(out, l)
	})
	if failure != nil {
		return nil, failure
	}
	sort.Slice(out, func(i, j int) bool {
		if out[i].Topic != out[j].Topic {
			return out[i].Topic < out[j].Topic
		}
		return out[i].Partition < out[j].Partition
	})
	if err := addAges(ctx, cfg, deps, out, time.Now()); err != nil {
		return nil, err
	}
	return out, nil
}

// addAges reads, of each partition that is behind, the first record that is not committed.
func addAges(ctx context.Context, cfg Config, deps Deps, lags []PartitionLag, now time.Time) error {
	type key struct {
		topic     string
		partition int32
	}
	waiting := make(map[key]*PartitionLag)
	from := make(map[string]map[int32]kgo.Offset)
	for i := range lags {
		l := &lags[i]
		if l.Messages == 0 {
			continue
		}
		waiting[key{l.Topic, l.Partition}] = l
		if from[l.Topic] == nil {
			from[l.Topic] = make(map[int32]kgo.Offset)
		}
		from[l.Topic][l.Partition] = kgo.NewOffset().At(max(l.Committed, l.Start))
	}
	if len(waiting) == 0 {
		return nil
	}
	cl, err := NewClient(cfg, deps, kgo.ConsumePartitions(from), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.KeepControlRecords(), kgo.FetchMaxPartitionBytes(1), kgo.FetchMaxWait(250*time.Millisecond))
	if err != nil {
		return err
	}
	defer cl.Close()
	for len(waiting) > 0 {
		fetches := cl.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("read the oldest records: %w", err)
		}
		for it := fetches.RecordIter(); !it.Done(); {
			r := it.Next()
			k := key{r.Topic, r.Partition}
			if l := waiting[k]; l != nil {
				l.Seconds = max(now.Sub(r.Timestamp).Seconds(), 0)
				delete(waiting, k)
			}
		}
	}
	return nil
}

// LagMonitor publishes the lag of one group as metrics, from outside the group. It is a part.
type LagMonitor struct {
	cfg     Config
	deps    Deps
	group   string
	topics  []string
	every   time.Duration
	log     *slog.Logger
	metrics *lagMetrics
	reason  atomic.Pointer[error]
	last    atomic.Pointer[[]PartitionLag]
}

var errNoReading = errors.New("lag has not been read yet")

// NewLagMonitor returns a monitor that has connected to nothing; it reads every so often.
func NewLagMonitor(cfg Config, deps Deps, group string, every time.Duration, topics ...string) (*LagMonitor, error) {
	var p config.Problems
	cfg.Validate(&p)
	if err := p.Err(); err != nil {
		return nil, fmt.Errorf("bus: %w", err)
	}
	if every <= 0 || group == "" || len(topics) == 0 {
		return nil, errors.New("lag monitor needs a group, topics and an interval")
	}
	m := &LagMonitor{cfg: cfg, deps: deps, group: group, topics: topics, every: every, log: deps.logger(), metrics: newLagMetrics(deps.Registerer)}
	m.reason.Store(&errNoReading)
	return m, nil
}

// Run reads and publishes until ctx is cancelled.
func (m *LagMonitor) Run(ctx context.Context) error {
	tick := time.NewTicker(m.every)
	defer tick.Stop()
	for {
		m.readOnce(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (m *LagMonitor) readOnce(ctx context.Context) {
	ask, cancel := context.WithTimeout(ctx, max(m.every, 10*time.Second))
	defer cancel()
	lags, err := ReadLag(ask, m.cfg, m.deps, m.group, m.topics...)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		m.metrics.failures.Inc()
		if old := m.reason.Swap(&err); old == nil {
			m.log.Warn("lag cannot be read", "group", m.group, "err", err)
		}
		return
	}
	m.reason.Store(nil)
	m.last.Store(&lags)
	for _, l := range lags {
		p := strconv.Itoa(int(l.Partition))
		m.metrics.messages.WithLabelValues(m.group, l.Topic, p).Set(float64(l.Messages))
		m.metrics.seconds.WithLabelValues(m.group, l.Topic, p).Set(l.Seconds)
	}
}

// Ready returns nil when the last reading succeeded.
func (m *LagMonitor) Ready() error {
	if err := m.reason.Load(); err != nil {
		return *err
	}
	return nil
}

// Last returns the last reading that succeeded; nil before the first. It must not be changed.
func (m *LagMonitor) Last() []PartitionLag {
	if p := m.last.Load(); p != nil {
		return *p
	}
	return nil
}
