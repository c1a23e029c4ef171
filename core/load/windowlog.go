package load

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/spate-io/spate/bus"
	"github.com/spate-io/spate/event/batch"
)

// A saved window is the value of a record in the topic of windows, in the partition that it is of:
//
//	magic "SPW1", id of the requests topic (16 bytes), then unsigned varints: the offset up to which records are in it,
//	the number of edges, and for each edge: length of its name, the name, the number of names, and for each name, as
//	differences to the one before (zigzag): epoch, sequence, offset, time in ms.
//
// It is only a shortcut: what is in it could be read back from the bus, as long as the bus has it.
const windowMagic = "SPW1"

// encodeWindow writes entries, which stand before offset.
func encodeWindow(topicID [16]byte, offset int64, entries []windowEntry) []byte {
	byEdge := make(map[string][]windowEntry)
	var edges []string
	for _, e := range entries {
		if _, ok := byEdge[e.name.Edge]; !ok {
			edges = append(edges, e.name.Edge)
		}
		byEdge[e.name.Edge] = append(byEdge[e.name.Edge], e)
	}
	out := append([]byte(windowMagic), topicID[:]...)
	out = binary.AppendUvarint(out, uint64(offset))
	out = binary.AppendUvarint(out, uint64(len(edges)))
	for _, name := range edges {
		list := byEdge[name]
		out = binary.AppendUvarint(out, uint64(len(name)))
		out = append(out, name...)
		out = binary.AppendUvarint(out, uint64(len(list)))
		var last windowEntry
		for _, e := range list {
			out = binary.AppendVarint(out, int64(e.name.Epoch-last.name.Epoch))
			out = binary.AppendVarint(out, int64(e.name.Sequence-last.name.Sequence))
			out = binary.AppendVarint(out, e.offset-last.offset)
			out = binary.AppendVarint(out, e.at-last.at)
			last = e
		}
	}
	return out
}

var errWindow = errors.New("saved window is damaged")

// decodeWindow reads what encodeWindow wrote; the entries come by rising offset.
func decodeWindow(b []byte) (topicID [16]byte, offset int64, entries []windowEntry, err error) {
	if len(b) < len(windowMagic)+len(topicID) || string(b[:len(windowMagic)]) != windowMagic {
		return topicID, 0, nil, errWindow
	}
	copy(topicID[:], b[len(windowMagic):])
	r := varints{b: b[len(windowMagic)+len(topicID):]}
	offset = int64(r.unsigned())
	for range r.count() {
		name := string(r.bytes(r.count()))
		last := windowEntry{name: batch.Name{Edge: name}}
		for range r.count() {
			last.name.Epoch += uint64(r.signed())
			last.name.Sequence += uint64(r.signed())
			last.offset += r.signed()
			last.at += r.signed()
			entries = append(entries, last)
		}
	}
	if r.bad || len(r.b) > 0 || offset < 0 {
		return topicID, 0, nil, errWindow
	}
	slices.SortStableFunc(entries, func(x, y windowEntry) int { return cmp.Compare(x.offset, y.offset) })
	return topicID, offset, entries, nil
}

// varints reads numbers; after a bad one it gives zeros.
type varints struct {
	b   []byte
	bad bool
}

func (r *varints) unsigned() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.b, r.bad = nil, true
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *varints) signed() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.b, r.bad = nil, true
		return 0
	}
	r.b = r.b[n:]
	return v
}

// count reads a number of things that take at least a byte each.
func (r *varints) count() int {
	v := r.unsigned()
	if v > uint64(len(r.b)) {
		r.b, r.bad = nil, true
		return 0
	}
	return int(v)
}

func (r *varints) bytes(n int) []byte {
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

// saveWindow writes the window as it is at the committed position. It does not matter much if that does not work.
func (w *worker) saveWindow() {
	w.saved, w.unsaved = time.Now(), 0
	at := w.committed.Load()
	if w.window.len() == 0 || at < 0 {
		return
	}
	value := encodeWindow(w.l.topicID, at, w.window.entries())
	if len(value) > int(w.l.deps.Bus.MaxMessage) {
		w.l.log.Warn("window is too large to be saved", "partition", w.partition, "bytes", len(value))
		return
	}
	ctx, cancel := context.WithTimeout(w.ctx, 5*time.Second)
	defer cancel()
	err := w.l.state().cl.ProduceSync(ctx, &kgo.Record{
		Topic: w.l.windows, Partition: w.partition, Key: []byte(strconv.Itoa(int(w.partition))), Value: value,
	}).FirstErr()
	if err != nil && w.ctx.Err() == nil {
		w.l.log.Warn("window is not saved", "partition", w.partition, "err", err)
	}
}

// restoreWindow fills the window from what was saved last, if that stands at or before offset, and returns up to where
// it knows the names; -1 when there is nothing to restore.
func (l *Loader) restoreWindow(ctx context.Context, w *window, partition int32, offset int64) (int64, error) {
	if offset <= 0 || w.limit == 0 {
		return -1, nil
	}
	listed, err := kadm.NewClient(l.state().cl).ListEndOffsets(ctx, l.windows)
	if err != nil {
		return 0, fmt.Errorf("saved window of partition %d: %w", partition, err)
	}
	end, ok := listed.Lookup(l.windows, partition)
	if !ok || end.Err != nil || end.Offset == 0 {
		return -1, end.Err // a topic with fewer partitions has none for this one
	}
	var value []byte
	if err := l.newest(ctx, partition, end.Offset, &value); err != nil {
		return 0, fmt.Errorf("saved window of partition %d: %w", partition, err)
	}
	id, at, entries, err := decodeWindow(value)
	if err != nil || id != l.topicID || at > offset {
		l.log.Warn("saved window is of no use here", "partition", partition, "at", at, "position", offset, "err", err)
		return -1, nil
	}
	for _, e := range entries {
		w.seen(e.name, e.offset, e.at)
	}
	return at, nil
}

// newest reads the last record of a partition of the topic of windows.
func (l *Loader) newest(ctx context.Context, partition int32, end int64, value *[]byte) error {
	cl, err := bus.NewClient(l.deps.Bus, l.deps.BusDeps,
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{l.windows: {partition: kgo.NewOffset().At(end - 1)}}),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.KeepControlRecords())
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
			*value = r.Value
			if r.Offset >= end-1 {
				return nil
			}
		}
	}
}
