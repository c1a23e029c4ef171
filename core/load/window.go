package load

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/spate-io/spate/bus"
	"github.com/spate-io/spate/event/batch"
)

// window remembers the names of a partition's last batches and the offset where each came first. It depends on nothing
// but the records before the one that is asked about, so that it is the same after a restart, as far as it was read back.
type window struct {
	limit int
	span  int64 // milliseconds; 0 means no bound
	first map[batch.Name]int64
	ring  []windowEntry // oldest at head
	head  int
	edges map[string]string // one copy of each edge's name
}

type windowEntry struct {
	name   batch.Name
	offset int64
	at     int64 // the record's timestamp, ms
}

func newWindow(limit int, span time.Duration) *window {
	return &window{limit: limit, span: span.Milliseconds(), first: make(map[batch.Name]int64), edges: make(map[string]string)}
}

// seen says whether name came at an earlier offset, and remembers it if not. Asking again about the same record gives
// the same answer.
func (w *window) seen(name batch.Name, offset, at int64) bool {
	if first, ok := w.first[name]; ok {
		return first < offset
	}
	if w.limit == 0 {
		return false
	}
	for len(w.first) > 0 && (len(w.first) >= w.limit || w.span > 0 && w.ring[w.head].at < at-w.span) {
		w.drop()
	}
	edge, ok := w.edges[name.Edge]
	if !ok {
		edge = name.Edge
		w.edges[edge] = edge
	}
	name.Edge = edge
	w.first[name] = offset
	w.ring = append(w.ring, windowEntry{name: name, offset: offset, at: at})
	return false
}

// drop forgets the oldest name.
func (w *window) drop() {
	delete(w.first, w.ring[w.head].name)
	w.ring[w.head] = windowEntry{}
	w.head++
	if w.head > 1024 && w.head > len(w.ring)/2 {
		n := copy(w.ring, w.ring[w.head:])
		clear(w.ring[n:])
		w.ring, w.head = w.ring[:n], 0
	}
}

func (w *window) len() int { return len(w.first) }

// readBack fills the window from the records before offset. It reads at most cfg.Window.ReadBack bytes: the newest ones.
func (l *Loader) readBack(ctx context.Context, w *window, partition int32, offset int64) error {
	if l.cfg.Window.Batches == 0 || l.cfg.Window.ReadBack == 0 || offset <= 0 {
		return nil
	}
	from, err := l.windowStart(ctx, partition, offset)
	if err != nil {
		return fmt.Errorf("window of partition %d: %w", partition, err)
	}
	if from >= offset {
		return nil
	}
	// A record says how large its neighbours are; the budget then says how far back to go.
	probe := max(from, offset-8)
	bytes, n := int64(0), int64(0)
	if err := l.scan(ctx, partition, probe, offset, func(r *kgo.Record) { bytes += int64(len(r.Value)); n++ }); err != nil {
		return fmt.Errorf("window of partition %d: %w", partition, err)
	}
	if n > 0 && bytes > 0 {
		from = max(from, offset-max(1, int64(l.cfg.Window.ReadBack)*n/bytes))
	}
	err = l.scan(ctx, partition, from, offset, func(r *kgo.Record) {
		h, size, err := batch.ParseHeader(r.Value)
		if err != nil || !payloadIntact(&h, r.Value[size:]) {
			return // it was refused, so a good copy is no duplicate
		}
		w.seen(h.Name, r.Offset, r.Timestamp.UnixMilli())
	})
	if err != nil {
		return fmt.Errorf("window of partition %d: %w", partition, err)
	}
	return nil
}

// windowStart returns the first offset that count and time allow.
func (l *Loader) windowStart(ctx context.Context, partition int32, offset int64) (int64, error) {
	adm := kadm.NewClient(l.state().cl)
	starts, _, err := l.bounds(ctx)
	if err != nil {
		return 0, err
	}
	from := max(starts[partition], offset-int64(l.cfg.Window.Batches))
	if l.cfg.Window.Time > 0 {
		byTime, err := adm.ListOffsetsAfterMilli(ctx, time.Now().Add(-l.cfg.Window.Time.D()).UnixMilli(), l.topic)
		if err != nil {
			return 0, err
		}
		o, ok := byTime.Lookup(l.topic, partition)
		if !ok || o.Err != nil {
			return 0, fmt.Errorf("offset by time: %w", lookupError(ok, o.Err))
		}
		if o.Offset >= 0 {
			from = max(from, o.Offset)
		}
	}
	return from, nil
}

// scan calls f for every record in [from, to) of a partition. The records must be on the bus.
func (l *Loader) scan(ctx context.Context, partition int32, from, to int64, f func(*kgo.Record)) error {
	if from >= to {
		return nil
	}
	cl, err := bus.NewClient(l.deps.Bus, l.deps.BusDeps,
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{l.topic: {partition: kgo.NewOffset().At(from)}}),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxPartitionBytes(8<<20), kgo.FetchMaxBytes(8<<20), kgo.KeepControlRecords())
	if err != nil {
		return err
	}
	defer cl.Close()
	for {
		fetches := cl.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return err
		}
		for it := fetches.RecordIter(); !it.Done(); {
			r := it.Next()
			if r.Offset < to && !r.Attrs.IsControl() {
				f(r)
			}
			if r.Offset >= to-1 {
				return nil
			}
		}
		if errs := fetches.Errors(); len(errs) > 0 {
			l.log.Warn("read back", "partition", partition, "err", errs[0].Err)
		}
	}
}
