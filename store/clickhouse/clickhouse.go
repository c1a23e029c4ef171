// Package clickhouse is a [store.DB] on a ClickHouse server, or on several that hold the same data, through the server's
// HTTP interface: blocks in Native format, compressed, both ways.
//
// It keeps no state but connections. A statement that reads is tried on the next address when one does not answer, or lost
// its own peers; what changes data is tried elsewhere only when it has certainly not been received, because whether to
// repeat it is the caller's to know. Of replicas that share the tokens of inserts, an insert with one goes to the next.
package clickhouse

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/ClickHouse/ch-go/compress"
	"github.com/ClickHouse/ch-go/proto"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/spate-io/spate/store"
)

var _ store.DB = (*DB)(nil)

// Deps are what the client is given.
type Deps struct {
	// Logger may be nil.
	Logger *slog.Logger
	// Registerer may be nil.
	Registerer prometheus.Registerer
}

// DB is a client. All its methods may be called from any number of goroutines.
type DB struct {
	cfg     Config
	log     *slog.Logger
	metrics *metrics
	http    *http.Client
	hosts   *hosts
	slots   chan struct{} // bounds statements under way, and with them connections

	closing context.Context // ends when Close begins
	stop    context.CancelFunc
	mu      sync.RWMutex // held for reading by whoever adds to ended
	ended   sync.WaitGroup
	closed  bool
}

// Open makes a client and asks a server for its version, so that a wrong address or password shows at once. The caller
// closes it.
func Open(ctx context.Context, cfg Config, deps Deps) (*DB, error) {
	db, err := New(ctx, cfg, deps)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	var version bytes.Buffer
	if _, err := db.Stream(ctx, store.Query{SQL: "SELECT version()"}, &version); err != nil {
		_ = db.Close() // it has nothing that could fail to close
		return nil, fmt.Errorf("open store: %w", err)
	}
	db.log.InfoContext(ctx, "store is open", "addresses", cfg.Addresses, "database", cfg.Database, "version", strings.TrimSpace(version.String()))
	return db, nil
}

// New makes a client that has asked no server anything; the end of ctx does not close it. The caller closes it.
func New(ctx context.Context, cfg Config, deps Deps) (*DB, error) {
	if len(cfg.Addresses) == 0 {
		return nil, errors.New("no address")
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	db := &DB{
		cfg: cfg, log: deps.Logger, hosts: newHosts(cfg.Addresses, cfg.Quarantine), slots: make(chan struct{}, cfg.MaxConnections),
		http: &http.Client{Transport: &http.Transport{
			DialContext:           (&net.Dialer{Timeout: cfg.DialTimeout}).DialContext,
			TLSClientConfig:       cfg.TLS,
			TLSHandshakeTimeout:   cfg.DialTimeout,
			MaxIdleConnsPerHost:   cfg.MaxConnections,
			IdleConnTimeout:       25 * time.Second, // a server closes idle connections after 30
			ResponseHeaderTimeout: cfg.ReadTimeout,
			DisableCompression:    true,
		}},
	}
	db.metrics = newMetrics(deps.Registerer, db.hosts)
	db.closing, db.stop = context.WithCancel(context.WithoutCancel(ctx))
	return db, nil
}

// Exec implements [store.DB].
func (db *DB) Exec(ctx context.Context, q store.Query) error { return db.ExecTo(ctx, q, io.Discard) }

// ExecTo is Exec for a statement whose answer matters: it is written to w once the statement is through.
func (db *DB) ExecTo(ctx context.Context, q store.Query, w io.Writer) error {
	c := db.call(q, "exec")
	c.args.Set("wait_end_of_query", "1")
	if q.Format != "" {
		c.args.Set("default_format", q.Format)
	}
	return db.do(ctx, c, func(r *reply) error {
		_, err := io.Copy(w, r)
		return err
	})
}

// Stream implements [store.DB].
func (db *DB) Stream(ctx context.Context, q store.Query, w io.Writer) (store.Stats, error) {
	c := db.call(q, "stream")
	c.reads = true
	if q.Format != "" {
		c.args.Set("default_format", q.Format)
	}
	err := db.do(ctx, c, func(r *reply) error {
		buf := make([]byte, 64<<10)
		for {
			n, err := r.Read(buf)
			if n > 0 {
				if _, werr := w.Write(buf[:n]); werr != nil {
					return callerError{werr}
				}
			}
			if err == io.EOF { //nolint:errorlint // only the plain value is the end
				return nil
			}
			if err != nil {
				return err
			}
		}
	})
	return c.stats, err
}

// Select implements [store.DB].
func (db *DB) Select(ctx context.Context, q store.Query, results proto.Results, onBlock func(context.Context, int) error) (store.Stats, error) {
	c := db.call(q, "select")
	c.reads = true
	c.args.Set("default_format", "Native")
	err := db.do(ctx, c, func(r *reply) error { return decode(ctx, r, results, onBlock) })
	return c.stats, err
}

// decode reads Native blocks up to the end of r.
func decode(ctx context.Context, r *reply, results proto.Results, onBlock func(context.Context, int) error) error {
	src := proto.NewReader(r)
	for {
		var b proto.Block
		if err := b.DecodeRawBlock(src, 0, results); err != nil {
			if b.Columns == 0 && errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				return r.end()
			}
			// What looks like a broken block may be the exception behind the last whole one.
			if _, derr := io.Copy(io.Discard, r); derr != nil {
				return derr
			}
			if eerr := r.end(); eerr != nil {
				return eerr
			}
			return fmt.Errorf("decode answer: %w", err)
		}
		if b.Rows == 0 || onBlock == nil {
			continue
		}
		if err := onBlock(ctx, b.Rows); err != nil {
			return callerError{err}
		}
	}
}

// Insert implements [store.DB].
func (db *DB) Insert(ctx context.Context, in store.Insert) error {
	sql, err := insertSQL(in)
	if err != nil {
		return fmt.Errorf("insert into %s: %w", in.Table, err)
	}
	settings := insertSettings(in.Token)
	maps.Copy(settings, in.Settings)
	c := db.call(store.Query{Settings: settings}, "insert")
	c.args.Set("query", sql)
	c.args.Set("wait_end_of_query", "1")
	c.repeats = db.cfg.Replicas && in.Token != ""
	c.body = in.Block
	if db.cfg.Compression != compress.None {
		c.args.Set("decompress", "1")
		if c.body, err = compressBlocks(in.Block, db.cfg.Compression); err != nil {
			return fmt.Errorf("insert into %s: %w", in.Table, err)
		}
	}
	err = db.do(ctx, c, func(r *reply) error {
		_, err := io.Copy(io.Discard, r)
		return err
	})
	if err != nil {
		return fmt.Errorf("insert into %s: %w", in.Table, err)
	}
	db.metrics.insertSize.Add(float64(len(in.Block)))
	return nil
}

// Close cancels what runs, waits for it, and closes the connections. Calling it again does nothing.
func (db *DB) Close() error {
	db.stop()
	db.mu.Lock()
	db.closed = true
	db.mu.Unlock()
	db.ended.Wait()
	db.http.CloseIdleConnections()
	return nil
}

// enter counts a call that Close must wait for.
func (db *DB) enter() bool {
	db.mu.RLock()
	defer db.mu.RUnlock()
	if db.closed || db.closing.Err() != nil {
		return false
	}
	db.ended.Add(1)
	return true
}
