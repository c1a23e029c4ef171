// Package chdb is the ClickHouse engine inside this process: libchdb, loaded at run time and called without cgo. It is a
// [store.DB]; it is not a server, listens on nothing, and knows no tables.
//
// The engine is one per process and its data path belongs to one process at a time; a lock file says who has it. Inserts,
// queries and background queries have separate, bounded sets of connections, so that none can take all of another's.
package chdb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sys/unix"

	"github.com/spate-io/spate/store"
)

var _ store.DB = (*DB)(nil)

// Deps are what the engine is given.
type Deps struct {
	// Logger may be nil.
	Logger *slog.Logger
	// Registerer may be nil.
	Registerer prometheus.Registerer
}

// DB is the engine with its data path open.
type DB struct {
	cfg     Config
	log     *slog.Logger
	metrics *metrics
	lib     *library
	lock    *os.File

	queries    *pool
	background *pool // of queries that yield to all others
	inserts    *pool
	writes     *semaphore.Weighted

	control   *conn // cancels statements; its being open keeps the engine running
	controlMu sync.Mutex
	tags      tagger
	relieved  sync.Map // tags of queries that were ended for an insert, until they have

	closing context.Context // ends when Close begins
	stop    context.CancelFunc
	once    sync.Once
	closed  error
}

// Open loads libchdb, takes the lock of cfg.Path, mends what a crash left in the de-duplication logs, and starts the
// engine. Only one DB can be open in a process at a time. The caller closes it.
func Open(ctx context.Context, cfg Config, deps Deps) (*DB, error) {
	if cfg.Path == "" {
		return nil, errors.New("open store: path is empty")
	}
	path, err := filepath.Abs(cfg.Path)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	cfg.Path = path
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	db := &DB{cfg: cfg, log: deps.Logger, metrics: newMetrics(deps.Registerer), writes: semaphore.NewWeighted(allWrites)}
	db.closing, db.stop = context.WithCancel(context.WithoutCancel(ctx))
	if err := db.start(ctx); err != nil {
		db.stop()
		if db.lock != nil {
			_ = db.lock.Close()
		}
		return nil, fmt.Errorf("open store %s: %w", path, err)
	}
	return db, nil
}

func (db *DB) start(ctx context.Context) error {
	lib, err := load(db.cfg.Library)
	if err != nil {
		return err
	}
	db.lib = lib
	if err := os.MkdirAll(db.cfg.Path, 0o750); err != nil {
		return err
	}
	if db.lock, err = lockPath(db.cfg.Path); err != nil {
		return err
	}
	data := DataDir(db.cfg.Path)
	mended, err := mendLogs(data)
	if err != nil {
		return fmt.Errorf("mend de-duplication logs: %w", err)
	}
	if mended > 0 {
		db.log.WarnContext(ctx, "forgot insert tokens whose data a crash took", "tokens", mended)
	}
	file, err := db.cfg.writeConfig(db.cfg.Path)
	if err != nil {
		return err
	}
	began := time.Now()
	args := []string{"spate", "--path=" + data, "--config-file=" + file}
	if db.control, err = lib.open(args...); err != nil {
		return err
	}
	resetNice()
	if err := db.control.startPools(); err != nil { // a full disk, which is no reason not to answer questions
		db.log.WarnContext(ctx, "merges may get less of the processors than they should", "error", err)
	}
	session := db.cfg.sessionSettings()
	forInserts, forQueries, forBackground := yielding(mayNice())
	db.queries = newPool(db.cfg.Connections, lib.dialer(args, session, forQueries, forBackground))
	db.background = newPool(max(1, db.cfg.Connections/2), lib.dialer(args, session, forBackground, nil))
	db.inserts = newPool(db.cfg.ParallelInserts(), lib.dialer(args, session, forInserts, nil))
	c, err := db.queries.get(ctx, db.closing)
	if err != nil {
		db.control.close()
		return err
	}
	db.queries.put(c)
	db.log.InfoContext(ctx, "store is open", "path", db.cfg.Path, "engine", lib.version(), "elapsed", time.Since(began))
	return nil
}

// Exec implements [store.DB].
func (db *DB) Exec(ctx context.Context, q store.Query) error {
	return db.run(ctx, &q, "exec", func(c *conn, sql string) (store.Stats, error) {
		_, stats, err := c.exec(nil, sql, "Null", q.Params)
		return stats, err
	})
}

// Stream implements [store.DB]. Formats whose rows stand for themselves, behind a header or not, go out as they come; an
// answer in another format (JSON, Parquet) is held in memory first.
func (db *DB) Stream(ctx context.Context, q store.Query, w io.Writer) (store.Stats, error) {
	var total store.Stats
	began := time.Now()
	format := q.Format
	if format == "" {
		format = "TabSeparated"
	}
	err := db.run(ctx, &q, "stream", func(c *conn, sql string) (store.Stats, error) {
		var err error
		if isPiecewise(format) {
			total, err = c.pieces(sql, format, q.Params, func(b []byte) error {
				_, err := w.Write(b)
				return err
			})
			return total, err
		}
		total, err = c.whole(sql, format, q.Params, func(b []byte) error {
			_, err := w.Write(b)
			return err
		})
		return total, err
	})
	total.Elapsed = time.Since(began)
	return total, err
}

// Select implements [store.DB].
func (db *DB) Select(ctx context.Context, q store.Query, results proto.Results, onBlock func(context.Context, int) error) (store.Stats, error) {
	var total store.Stats
	began := time.Now()
	err := db.run(ctx, &q, "select", func(c *conn, sql string) (store.Stats, error) {
		ask := c.pieces
		if q.Small {
			ask = c.whole
		}
		var err error
		total, err = ask(sql, "Native", q.Params, c.decoder.from(func(r *proto.Reader) error {
			return decodeBlocks(ctx, r, results, onBlock)
		}))
		return total, err
	})
	total.Elapsed = time.Since(began)
	return total, err
}

// decoder reads pieces of answers, with the same buffer for all answers of a connection.
type decoder struct {
	piece *bytes.Reader
	r     *proto.Reader
}

// from gives a function that lets read read a piece. After an error, what is buffered is forgotten.
func (d *decoder) from(read func(r *proto.Reader) error) func(piece []byte) error {
	return func(piece []byte) error {
		if d.r == nil {
			d.piece = bytes.NewReader(nil)
			d.r = proto.NewReader(d.piece)
		}
		d.piece.Reset(piece)
		err := read(d.r)
		if err != nil {
			d.r = nil
		}
		return err
	}
}

// decodeBlocks reads the Native blocks of r up to its end.
func decodeBlocks(ctx context.Context, r *proto.Reader, results proto.Results, onBlock func(context.Context, int) error) error {
	for {
		var b proto.Block
		if err := b.DecodeRawBlock(r, 0, results); err != nil {
			if b.Columns == 0 && errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("decode answer: %w", err)
		}
		if b.Rows == 0 || onBlock == nil {
			continue
		}
		if err := onBlock(ctx, b.Rows); err != nil {
			return err
		}
	}
}

// Insert implements [store.DB].
func (db *DB) Insert(ctx context.Context, in store.Insert) error {
	began := time.Now()
	err := db.insert(ctx, in)
	db.metrics.insert(time.Since(began), len(in.Block), err)
	if err != nil {
		return fmt.Errorf("insert into %s: %w", in.Table, err)
	}
	return nil
}

func (db *DB) insert(ctx context.Context, in store.Insert) error {
	sql, err := insertSQL(in)
	if err != nil {
		return err
	}
	if err := db.writes.Acquire(ctx, 1); err != nil {
		return err
	}
	defer db.writes.Release(1)
	c, err := db.inserts.get(ctx, db.closing)
	if err != nil {
		return err
	}
	if err := c.settle(&store.Query{}); err != nil { // a raw insert leaves its token
		db.inserts.drop(c)
		return err
	}
	defer db.inserts.put(c)
	tag := db.tags.next()
	release := db.killOnDone(ctx, tag)
	defer release()
	insert := func() error { return c.insert(tag+sql, "Native", in.Block) }
	if in.Token != "" {
		err = db.insertAgain(ctx, insert)
	} else if err = insert(); store.IsCode(err, store.CodeMemoryLimit) { // whether to repeat it is the caller's to know
		db.relieve(ctx)
	}
	if err == nil && db.cfg.Sync {
		err = db.sync()
	}
	if ctx.Err() != nil && err != nil {
		return ctx.Err()
	}
	return err
}

// sync writes all that the engine has written to files through to the disk: parts and de-duplication logs of all tables that
// an insert reached, which the engine has no single call for.
func (db *DB) sync() error {
	if err := unix.Syncfs(int(db.lock.Fd())); err != nil {
		return fmt.Errorf("sync store: %w", err)
	}
	return nil
}

// run does a statement on a connection of the pool for its priority, with its settings, cancelled when ctx ends.
func (db *DB) run(ctx context.Context, q *store.Query, kind string, fn func(c *conn, sql string) (store.Stats, error)) error {
	return db.runOn(ctx, db.poolFor(q.Priority), q, kind, fn)
}

func (db *DB) poolFor(p store.Priority) *pool {
	if p == store.Background {
		return db.background
	}
	return db.queries
}

// runOn is run on a connection of a pool.
func (db *DB) runOn(ctx context.Context, from *pool, q *store.Query, kind string, fn func(c *conn, sql string) (store.Stats, error)) error {
	began := time.Now()
	stats, err := db.runOnce(ctx, from, q, fn)
	db.metrics.query(kind, time.Since(began), stats, err)
	return err
}

func (db *DB) runOnce(ctx context.Context, from *pool, q *store.Query, fn func(c *conn, sql string) (store.Stats, error)) (store.Stats, error) {
	if from == db.background || q.Priority == store.Scan {
		runtime.LockOSThread()
		defer unlockNice()
	}
	c, err := from.get(ctx, db.closing)
	if err != nil {
		return store.Stats{}, err
	}
	if err := c.settle(q); err != nil {
		from.drop(c)
		return store.Stats{}, err
	}
	keep := false
	defer func() {
		if keep || c.clear() == nil {
			from.put(c)
		} else {
			from.drop(c)
		}
	}()
	stats, err := db.runTagged(ctx, c, q.SQL, fn)
	keep = err == nil
	return stats, err
}

// runTagged runs a statement so that it can be cancelled, and says why it was.
func (db *DB) runTagged(ctx context.Context, c *conn, sql string, fn func(c *conn, sql string) (store.Stats, error)) (store.Stats, error) {
	tag := db.tags.next()
	release := db.killOnDone(ctx, tag)
	began := time.Now()
	stats, err := fn(c, tag+sql)
	stats.Elapsed = time.Since(began)
	release()
	if _, ended := db.relieved.LoadAndDelete(tag); ended && store.IsCode(err, store.CodeCancelled) && ctx.Err() == nil {
		err = errRelieved()
	}
	if err != nil && ctx.Err() != nil && store.IsCode(err, store.CodeCancelled) {
		err = ctx.Err()
	}
	return stats, err
}

// Version gives the version of the engine.
func (db *DB) Version() string { return db.lib.version() }

// Library gives the path of the libchdb.so that is loaded.
func (db *DB) Library() string { return db.lib.path }

// Close cancels what runs, waits for it, and stops the engine, which writes out what it holds. Calling it again gives the
// same answer.
func (db *DB) Close() error {
	db.once.Do(func() {
		db.stop()
		release := db.killUntil()
		db.queries.close()
		db.background.close()
		db.inserts.close()
		release()
		db.controlMu.Lock()
		db.control.close()
		db.control = nil
		db.controlMu.Unlock()
		db.closed = db.lock.Close()
	})
	return db.closed
}
