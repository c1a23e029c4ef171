package schema

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/spate-io/spate/store"
)

// BatchBlock is how many sequence numbers a row of [LedgerBatches] stands for: row n has those from n times this on. It is
// part of what is stored.
const BatchBlock = 4096

// BatchMark is the length of the spans in which [LedgerBatches] remembers how far an epoch had come when.
const BatchMark = 20 * time.Second

// BatchRow names stored batches of one epoch of an edge. Rows add up; a batch that comes again changes nothing but the
// events.
type BatchRow struct {
	Edge   string
	Epoch  uint64
	Minute time.Time // any time within the minute that the batches' events belong to
	Stored time.Time // when they were stored
	// Sequences are the batches, in any order.
	Sequences []uint64
	// Events are those of all Sequences.
	Events uint64
}

// smallSet is how many numbers the engine's bitmap keeps as a plain list. Rows that have no more can be written without
// knowing the form of larger bitmaps; the engine combines them.
const smallSet = 32

// RecordBatches adds rows to the names of stored batches. A call that is repeated with the same token counts once.
func RecordBatches(ctx context.Context, db store.DB, token string, rows []BatchRow) error {
	b := newBatchColumns()
	for i := range rows {
		b.add(&rows[i])
	}
	if b.rows == 0 {
		return nil
	}
	err := db.Insert(ctx, store.Insert{Table: LedgerBatches, Columns: b.names(), Block: b.block(), Token: token})
	if err != nil {
		return fmt.Errorf("record names of batches: %w", err)
	}
	return nil
}

// batchColumns is a block of [LedgerBatches] under construction.
type batchColumns struct {
	rows                               int
	edge                               dict
	epoch, blocks, low, high, events   word
	sequences, firstMinute, lastMinute word
	markCounts                         uint64
	markEnds                           word // of the map: where each row's entries end
	markKeys, markValues               []byte
}

func newBatchColumns() *batchColumns {
	simple := func(name, fn, typ string) word {
		return word{header: header{name, "SimpleAggregateFunction(" + fn + ", " + typ + ")"}}
	}
	return &batchColumns{
		edge:        newDict("edge"),
		epoch:       word{header: header{"epoch", "UInt64"}},
		blocks:      word{header: header{"block", "UInt64"}},
		sequences:   word{header: header{"sequences", "AggregateFunction(groupBitmap, UInt64)"}},
		low:         simple("first_sequence", "min", "UInt64"),
		high:        simple("last_sequence", "max", "UInt64"),
		markEnds:    simple("marks", "maxMap", "Map(UInt32, UInt64)"),
		events:      simple("events", "sum", "UInt64"),
		firstMinute: simple("first_minute", "min", "DateTime('UTC')"),
		lastMinute:  simple("last_minute", "max", "DateTime('UTC')"),
	}
}

// add splits a row into pieces that each lie in one block and in a small set.
func (c *batchColumns) add(r *BatchRow) {
	left := r.Events
	for rest := r.Sequences; len(rest) > 0; {
		n := 1
		for n < len(rest) && n < smallSet && rest[n]/BatchBlock == rest[0]/BatchBlock {
			n++
		}
		c.piece(r, rest[:n], left)
		left = 0 // counted with the first piece
		rest = rest[n:]
	}
}

func (c *batchColumns) piece(r *BatchRow, sequences []uint64, events uint64) {
	low, high := sequences[0], sequences[0]
	// The state of groupBitmap: 0 for a small set, its size, its members.
	c.sequences.data = append(c.sequences.data, 0)
	c.sequences.data = binary.AppendUvarint(c.sequences.data, uint64(distinct(sequences)))
	for i, s := range sequences {
		low, high = min(low, s), max(high, s)
		if !slices.Contains(sequences[:i], s) {
			c.sequences.u64(s)
		}
	}
	minute := uint32(min(max(r.Minute.Unix(), 0), lastTime/1_000_000)) / 60 * 60
	c.edge.string(r.Edge)
	c.epoch.u64(r.Epoch)
	c.blocks.u64(low / BatchBlock)
	c.low.u64(low)
	c.high.u64(high)
	c.events.u64(events)
	c.firstMinute.u32(minute)
	c.lastMinute.u32(minute)
	c.markCounts++
	c.markEnds.u64(c.markCounts)
	c.markKeys = binary.LittleEndian.AppendUint32(c.markKeys, uint32(r.Stored.Unix()/int64(BatchMark.Seconds())))
	c.markValues = binary.LittleEndian.AppendUint64(c.markValues, high)
	c.rows++
}

func distinct(list []uint64) int {
	n := 0
	for i, s := range list {
		if !slices.Contains(list[:i], s) {
			n++
		}
	}
	return n
}

func (c *batchColumns) columns() []*word {
	return []*word{&c.epoch, &c.blocks, &c.sequences, &c.low, &c.high, &c.events, &c.firstMinute, &c.lastMinute, &c.markEnds}
}

func (c *batchColumns) names() []string {
	list := []string{c.edge.name}
	for _, w := range c.columns() {
		list = append(list, w.name)
	}
	return list
}

// block gives the Native block; the map comes last: ends of rows, keys, values.
func (c *batchColumns) block() []byte {
	var buf proto.Buffer
	buf.PutInt(len(c.columns()) + 1)
	buf.PutInt(c.rows)
	c.edge.encode(&buf)
	for _, w := range c.columns() {
		w.encode(&buf)
	}
	buf.Buf = append(buf.Buf, c.markKeys...)
	buf.Buf = append(buf.Buf, c.markValues...)
	return buf.Buf
}
