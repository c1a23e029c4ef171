package chdb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"time"
	"unsafe"

	"github.com/spate-io/spate/store"
)

// rawPiece is how much of the data of a raw insert the engine gets at a time.
const rawPiece = 256 << 10

// InsertRaw stores what r gives, in q.Format, by the INSERT q.SQL, which has neither FORMAT nor data. Unlike [DB.Insert]
// it takes any amount, which the engine cuts into blocks by its own settings: what is stored when it fails are whole
// blocks. An error of r ends it and is returned. It runs on a connection of the queries, so that it cannot take those of
// the inserts; with a token, which is how loaders in other processes insert, on one of the inserts, so that queries cannot keep it
// waiting. The engine does not tell how many rows
// were stored: of the answer, only Elapsed is set.
func (db *DB) InsertRaw(ctx context.Context, q store.Query, r io.Reader) (store.Stats, error) {
	if q.Format == "" {
		return store.Stats{}, errors.New("raw insert: no format")
	}
	if err := db.writes.Acquire(ctx, 1); err != nil {
		return store.Stats{}, err
	}
	defer db.writes.Release(1)
	settings := maps.Clone(q.Settings)
	if settings == nil {
		settings = map[string]string{}
	}
	settings["async_insert"] = "0" // the answer must say what became of the data
	q.Settings = settings
	var stats store.Stats
	began := time.Now()
	pool := db.poolFor(q.Priority)
	if settings["insert_deduplication_token"] != "" {
		pool = db.inserts
	}
	err := db.runOn(ctx, pool, &q, "insert", func(c *conn, sql string) (store.Stats, error) {
		var err error
		stats, err = c.insertFrom(ctx, sql, q.Format, r)
		return stats, err
	})
	stats.Elapsed = time.Since(began)
	if store.IsCode(err, store.CodeMemoryLimit) { // the data is gone: the caller has it, and finds room when it comes again
		db.relieve(ctx)
	}
	return stats, err
}

// insertFrom is insert with data that comes piece by piece.
func (c *conn) insertFrom(ctx context.Context, sql, format string, r io.Reader) (store.Stats, error) {
	var stats store.Stats
	s := c.lib.insert(c.inner, bytesAt(sql), uintptr(len(sql)), bytesAt(format), uintptr(len(format)))
	runtime.KeepAlive(sql)
	runtime.KeepAlive(format)
	if s == nil {
		return stats, &store.Error{Message: "the engine gave no insert stream"}
	}
	defer c.lib.insertDestroy(s)
	if e := text(c.lib.insertFailure(s)); e != "" {
		return stats, store.ParseError(e)
	}
	if err := c.append(ctx, s, r); err != nil {
		c.lib.insertCancel(s)
		return stats, err
	}
	res := c.lib.insertDone(s)
	if res == nil {
		return stats, &store.Error{Message: "the engine gave no result"}
	}
	defer c.lib.destroy(res)
	if e := text(c.lib.failure(res)); e != "" {
		return stats, store.ParseError(e)
	}
	return stats, nil
}

// append gives all of r to an insert.
func (c *conn) append(ctx context.Context, s unsafe.Pointer, r io.Reader) error {
	buf := make([]byte, rawPiece)
	for {
		n, err := fill(r, buf)
		if n > 0 && c.lib.insertAppend(s, unsafe.Pointer(unsafe.SliceData(buf)), uintptr(n)) != 0 {
			if e := text(c.lib.insertFailure(s)); e != "" {
				return store.ParseError(e)
			}
			return &store.Error{Message: "the engine took no data"}
		}
		switch {
		case err == io.EOF: //nolint:errorlint // only the plain value means the end; wrapped or unexpected, it is a failure
			return nil
		case err != nil:
			return fmt.Errorf("read data of insert: %w", err)
		case ctx.Err() != nil:
			return ctx.Err()
		}
	}
}

// fill reads until buf is full or r ends, and gives r's own error: a reader that was cut off must not look like one that
// has ended.
func fill(r io.Reader, buf []byte) (n int, err error) {
	for n < len(buf) && err == nil {
		var m int
		m, err = r.Read(buf[n:])
		n += m
	}
	return n, err
}
