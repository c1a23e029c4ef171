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
// but the records before the one that is asked about, so that it is the same after a restart.
//
// What is sent again are the last batches that an edge had on their way when it lost its connection, however long ago that
// was and however much others have sent since. So each edge has a share of its own, which others cannot use up.
type window struct {
	limit   int   // names in all
	perEdge int   // names of one edge
	span    int64 // milliseconds; 0 means no bound
	first   map[batch.Name]int64
	all     fifo // may hold names that are forgotten already
	edges   map[string]*edgeNames
}

type windowEntry struct {
	name   batch.Name
	offset int64
	at     int64 // the record's timestamp, ms
}

// edgeNames are one edge's names, oldest first; forgotten ones may be among the oldest.
type edgeNames struct {
	name  string // one copy for all entries
	order fifo
	known int
}

// fifo is a queue that gives its memory back.
type fifo struct {
	list []windowEntry
	head int
}

func (q *fifo) len() int            { return len(q.list) - q.head }
func (q *fifo) push(e windowEntry)  { q.list = append(q.list, e) }
func (q *fifo) oldest() windowEntry { return q.list[q.head] }

func (q *fifo) pop() windowEntry {
	e := q.list[q.head]
	q.list[q.head] = windowEntry{}
	q.head++
	if q.head > 64 && q.head > len(q.list)/2 {
		n := copy(q.list, q.list[q.head:])
		clear(q.list[n:])
		q.list, q.head = q.list[:n], 0
	}
	return e
}

func newWindow(cfg Window) *window {
	return &window{limit: cfg.Batches, perEdge: cfg.PerEdge, span: cfg.Time.D().Milliseconds(),
		first: make(map[batch.Name]int64), edges: make(map[string]*edgeNames)}
}

// seen says whether name came at an earlier offset, and remembers it if not. Asking again about the same record gives
// the same answer.
func (w *window) seen(name batch.Name, offset, at int64) bool {
	if first, ok := w.first[name]; ok {
		return first < offset
	}
	if w.limit == 0 || w.perEdge == 0 {
		return false
	}
	edge := w.edges[name.Edge]
	if edge == nil {
		edge = &edgeNames{name: name.Edge}
		w.edges[name.Edge] = edge
	}
	name.Edge = edge.name
	e := windowEntry{name: name, offset: offset, at: at}
	w.first[name] = offset
	edge.known++
	edge.order.push(e)
	w.all.push(e)
	for edge.known > w.perEdge {
		w.forget(edge.order.pop())
	}
	for len(w.first) > w.limit || w.span > 0 && w.all.oldest().at < at-w.span {
		w.forget(w.all.pop())
	}
	// What one bound forgets stays in the other's queue until that is cleaned up.
	if w.all.len() > 2*len(w.first)+64 {
		w.compact(&w.all)
	}
	if edge.order.len() > 2*edge.known+64 {
		w.compact(&edge.order)
	}
	return false
}

// forget drops e if it is still known.
func (w *window) forget(e windowEntry) {
	if first, ok := w.first[e.name]; !ok || first != e.offset {
		return
	}
	delete(w.first, e.name)
	edge := w.edges[e.name.Edge]
	if edge.known--; edge.known == 0 {
		delete(w.edges, e.name.Edge)
	}
}

// compact takes forgotten names out of q.
func (w *window) compact(q *fifo) {
	kept := make([]windowEntry, 0, q.len())
	for _, e := range q.list[q.head:] {
		if first, ok := w.first[e.name]; ok && first == e.offset {
			kept = append(kept, e)
		}
	}
	*q = fifo{list: kept}
}

// entries returns what is known, oldest first. It is valid until the next call of seen.
func (w *window) entries() []windowEntry {
	w.compact(&w.all)
	return w.all.list
}

func (w *window) len() int { return len(w.first) }

// readBack fills the window from the records in [known, offset). It reads at most cfg.Window.ReadBack bytes: the newest ones.
func (l *Loader) readBack(ctx context.Context, w *window, partition int32, known, offset int64) error {
	if l.cfg.Window.Batches == 0 || l.cfg.Window.ReadBack == 0 || offset <= 0 {
		return nil
	}
	from, err := l.windowStart(ctx, partition, offset)
	if err != nil {
		return fmt.Errorf("window of partition %d: %w", partition, err)
	}
	from = max(from, known)
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
