package move

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spate-io/spate/store"
)

const (
	// partsPerPartition is how many parts a partition of the target may have before more is attached, mergesWait how long
	// its merges are waited for.
	partsPerPartition = 200
	mergesWait        = 10 * time.Minute
)

// copy makes pieces of the target what they are in the source.
func (m *mover) copy(ctx context.Context, t *table, work []diff) error {
	total := len(work)
	for len(work) > 0 {
		n := batchOf(work, m.o.BatchRows)
		m.say("copying %s: %s, piece %d of %d, %d rows so far", t.name, t.label(work[0].piece), total-len(work)+1, total, m.results[t.name].Copied)
		err := m.again(ctx, "copy "+t.name, func() error { return m.batch(ctx, t, work[:n]) })
		if err != nil {
			return fmt.Errorf("%s to %s: %w", t.label(work[0].piece), t.label(work[n-1].piece), err)
		}
		work = work[n:]
	}
	return nil
}

// keep makes the target keep rows as long as it is to, once it knows the zones that have rules of their own.
func (m *mover) keep(ctx context.Context) error {
	if m.kept {
		return nil
	}
	m.kept = true
	if err := m.o.Retention.Apply(ctx, m.all); err != nil {
		return fmt.Errorf("set retention of the target: %w", err)
	}
	return m.sameTables(ctx, true)
}

// batchOf gives how many of the pieces, of one partition, are copied together.
func batchOf(work []diff, rows uint64) int {
	var sum uint64
	for i, d := range work {
		if i > 0 && (d.partition != work[0].partition || sum+d.src.rows > rows) {
			return i
		}
		sum += d.src.rows
	}
	return len(work)
}

// batch copies pieces of one partition: into a table of their own, and from there, as parts, to where they belong. Cut off
// anywhere, it leaves pieces that are not equal and are claimed.
func (m *mover) batch(ctx context.Context, t *table, pieces []diff) error {
	partition := pieces[0].partition
	staged, err := m.stage(ctx, t, pieces)
	if err != nil {
		return err
	}
	replaced, err := m.clear(ctx, t, pieces)
	if err != nil {
		return err
	}
	if err := m.claim(ctx, t, partition, staged, pieces); err != nil {
		return err
	}
	if len(staged) > 0 {
		if err := m.merged(ctx, t, partition); err != nil {
			return err
		}
		sql := "ALTER TABLE " + store.Ident(t.to.onServer()) + " ATTACH PARTITION ID " + store.Quote(partition) + " FROM " + store.Ident(t.staging())
		if err := m.dst.Exec(ctx, store.Query{SQL: sql, Priority: store.Background}); err != nil { // not again: it may have been done
			return fmt.Errorf("attach: %w", err)
		}
	}
	r := m.results[t.name]
	r.Replaced += replaced
	for _, s := range staged {
		r.Copied += s.rows
	}
	return nil
}

// stage copies pieces into a table of their own and gives what it has of each.
func (m *mover) stage(ctx context.Context, t *table, pieces []diff) (map[int64]sum, error) {
	if !m.staged[t.name] {
		if err := m.tell(ctx, t.to.createStaging(), nil); err != nil {
			return nil, fmt.Errorf("make a table beside it: %w", err)
		}
		m.staged[t.name] = true
	} else if err := m.tell(ctx, "TRUNCATE TABLE "+store.Ident(t.staging())+" SYNC", nil); err != nil {
		return nil, fmt.Errorf("empty the table beside it: %w", err)
	}
	list := make([]int64, len(pieces))
	var expected uint64
	for i, d := range pieces {
		list[i] = d.piece
		expected += d.src.rows
	}
	if expected == 0 {
		return nil, nil
	}
	sent, err := m.stream(ctx, t, pieces[0].partition, list)
	if err != nil {
		return nil, err
	}
	rows, err := m.ask(ctx, m.dst, "SELECT "+t.piece()+" AS piece_of_move, count(), sum("+t.weight()+"), toUInt64(0) FROM "+t.from(t.staging())+" GROUP BY piece_of_move")
	if err != nil {
		return nil, err
	}
	staged, err := readSums(rows)
	if err != nil {
		return nil, err
	}
	var got uint64
	for _, s := range staged {
		got += s.rows
	}
	if got != sent {
		return nil, incomplete{fmt.Sprintf("of %d rows that were sent, %d arrived", sent, got)}
	}
	return staged, nil
}

// incomplete is an error after which the same is tried again.
type incomplete struct{ text string }

// Error implements error.
func (e incomplete) Error() string { return e.text }

// Timeout and Temporary make it a net.Error, which store.Retriable takes for one that passes.
func (incomplete) Timeout() bool   { return false }
func (incomplete) Temporary() bool { return true }

// stream sends the rows of pieces to the table beside t, in chunks, and gives their number.
func (m *mover) stream(ctx context.Context, t *table, partition string, pieces []int64) (uint64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, w := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		q := store.Query{
			SQL:    "SELECT " + t.selected() + " FROM " + t.from(t.onServer()) + " WHERE " + m.belongs(t, partition, pieces),
			Format: "Native", Priority: store.Background, Settings: readSettings(),
		}
		var err error
		for _, s := range m.readers(t) {
			if _, err = s.Stream(ctx, q, w); err != nil {
				err = fmt.Errorf("read the source: %w", err)
				break
			}
		}
		_ = w.CloseWithError(err) // nil ends the stream
	}()
	sent, err := m.send(ctx, t, newBlocks(r))
	_ = r.CloseWithError(errors.New("nobody reads on"))
	<-done
	return sent, err
}

func (m *mover) send(ctx context.Context, t *table, in *blocks) (uint64, error) {
	var chunk []byte
	var rows, sent uint64
	flush := func() error {
		if rows == 0 {
			return nil
		}
		if err := m.insert(ctx, t, chunk); err != nil {
			return err
		}
		sent += rows
		chunk, rows = chunk[:0], 0
		return nil
	}
	for {
		block, n, err := in.next()
		if err == io.EOF { //nolint:errorlint // only the plain value is the end: what the source's error wraps is not
			return sent, flush()
		}
		if err != nil {
			return sent, err
		}
		if err := m.pace(ctx, len(block)); err != nil {
			return sent, err
		}
		if len(chunk)+len(block) > m.o.ChunkBytes {
			if err := flush(); err != nil {
				return sent, err
			}
		}
		chunk = append(chunk, block...)
		rows += uint64(n)
	}
}

// insert sends a chunk. Its token lets it be sent again when the answer was lost.
func (m *mover) insert(ctx context.Context, t *table, chunk []byte) error {
	m.inserts++
	in := store.Insert{
		Table: t.staging(), Columns: t.names(), Block: chunk, Token: fmt.Sprintf("move/%s/%d", m.run, m.inserts),
		Settings: map[string]string{"min_insert_block_size_rows": "1048576", "min_insert_block_size_bytes": "134217728"}, // small blocks become one part
	}
	if err := m.again(ctx, "insert", func() error { return m.dst.Insert(ctx, in) }); err != nil {
		return err
	}
	m.bytes += uint64(len(chunk))
	return nil
}

// pace waits until n more bytes may be read.
func (m *mover) pace(ctx context.Context, n int) error {
	for m.bucket != nil && n > 0 {
		some := min(n, m.bucket.Burst())
		if err := m.bucket.WaitN(ctx, some); err != nil {
			return err
		}
		n -= some
	}
	return ctx.Err()
}

// clear deletes what the target has of pieces and gives of how many it had something.
func (m *mover) clear(ctx context.Context, t *table, pieces []diff) (int, error) {
	list, err := m.held(ctx, t, pieces)
	if err != nil || len(list) == 0 {
		return 0, err
	}
	sql := "DELETE FROM " + store.Ident(t.to.onServer()) + " IN PARTITION ID " + store.Quote(pieces[0].partition) + " WHERE "
	if within := t.within(list); within != "" {
		sql += within
	} else {
		sql += "1"
	}
	if err := m.tell(ctx, sql, map[string]string{"lightweight_deletes_sync": "1"}); err != nil {
		return 0, fmt.Errorf("delete what is there: %w", err)
	}
	return len(list), nil
}

// held gives the pieces that the target has rows of now, whether they count or not: an attempt before this one may have put
// them there.
func (m *mover) held(ctx context.Context, t *table, pieces []diff) ([]int64, error) {
	list := make([]int64, len(pieces))
	for i, d := range pieces {
		list[i] = d.piece
	}
	slices.Sort(list)
	rows, err := m.ask(ctx, m.dst, "SELECT "+t.piece()+" AS piece_of_move, count(), toUInt64(0), toUInt64(0) FROM "+store.Ident(t.to.onServer())+
		" WHERE "+t.where(pieces[0].partition, list)+" GROUP BY piece_of_move")
	if err != nil {
		return nil, err
	}
	found, err := readSums(rows)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list, func(n int64) bool { return found[n].rows == 0 }), nil
}

// merged waits until a partition of the target has room for more parts.
func (m *mover) merged(ctx context.Context, t *table, partition string) error {
	for deadline := time.Now().Add(mergesWait); ; {
		rows, err := m.ask(ctx, m.dst, "SELECT count() FROM system.parts WHERE database = currentDatabase() AND table = "+store.Quote(t.to.onServer())+
			" AND partition_id = "+store.Quote(partition)+" AND active")
		if err != nil {
			return err
		}
		n, err := numbers(rows[0], 0)
		if err != nil || n[0] < partsPerPartition || time.Now().After(deadline) {
			return err
		}
		m.say("waiting for merges of %s in the target: %d parts", t.name, n[0])
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// dropStaging removes the tables beside the others.
func (m *mover) dropStaging(ctx context.Context) error {
	rows, err := m.ask(ctx, m.dst, "SELECT name FROM system.tables WHERE database = currentDatabase() AND startsWith(name, "+store.Quote(stagingPrefix)+")")
	if err != nil {
		return err
	}
	for _, r := range rows {
		if err := m.tell(ctx, "DROP TABLE IF EXISTS "+store.Ident(r[0])+" SYNC", nil); err != nil {
			return fmt.Errorf("drop %s: %w", r[0], err)
		}
	}
	return nil
}
