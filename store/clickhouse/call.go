package clickhouse

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/ClickHouse/ch-go/compress"

	"github.com/spate-io/spate/store"
)

// call is one statement on its way.
type call struct {
	kind  string
	id    string
	args  url.Values
	body  []byte
	reads bool // it changes nothing, so another server may be asked when one fails before its answer begins
	stats store.Stats
}

// callerError is an error of the caller's own code, which is given back as it is.
type callerError struct{ error }

// Unwrap gives the caller's error.
func (e callerError) Unwrap() error { return e.error }

// killTimeout bounds the message that cancels a statement.
const killTimeout = 5 * time.Second

// call makes a statement ready to send.
func (db *DB) call(q store.Query, kind string) *call {
	c := &call{kind: kind, id: q.ID, args: url.Values{}, body: []byte(q.SQL)}
	if c.id == "" {
		c.id = "spate-" + rand.Text()
	}
	for name, value := range db.cfg.Settings {
		c.args.Set(name, value)
	}
	for name, value := range q.Settings {
		c.args.Set(name, value)
	}
	for name, value := range q.Params {
		c.args.Set("param_"+name, value)
	}
	c.args.Set("query_id", c.id)
	c.args.Set("database", db.cfg.Database)
	c.args.Set("cancel_http_readonly_queries_on_client_close", "1")
	if db.cfg.Compression != compress.None {
		c.args.Set("compress", "1")
		if db.cfg.Compression == compress.ZSTD {
			c.args.Set("network_compression_method", "ZSTD")
		}
	}
	return c
}

// do sends a call to the first server that answers and gives its answer to fn.
func (db *DB) do(ctx context.Context, c *call, fn func(*reply) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !db.enter() {
		return store.ErrClosed
	}
	defer db.ended.Done()
	began := time.Now()
	err := db.doOnce(ctx, c, fn)
	if ctx.Err() != nil && err != nil {
		err = ctx.Err()
	} else if db.closing.Err() != nil && err != nil {
		err = store.ErrClosed
	}
	var own callerError
	if errors.As(err, &own) {
		err = own.error
	}
	c.stats.Elapsed = time.Since(began)
	db.metrics.call(c, err)
	return err
}

func (db *DB) doOnce(ctx context.Context, c *call, fn func(*reply) error) error {
	select {
	case db.slots <- struct{}{}:
		defer func() { <-db.slots }()
	case <-ctx.Done():
		return ctx.Err()
	case <-db.closing.Done():
		return store.ErrClosed
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(db.closing, cancel)()
	var err error
	for _, addr := range db.hosts.order() {
		var begun bool
		if begun, err = db.send(ctx, addr, c, fn); err == nil || ctx.Err() != nil || !db.elsewhere(c, begun, err) {
			return err
		}
		db.log.WarnContext(ctx, "store server did not answer", "addr", addr, "err", err)
	}
	return err
}

// elsewhere says whether another server may be asked after that error.
func (db *DB) elsewhere(c *call, begun bool, err error) bool {
	var own callerError
	var e *store.Error
	if begun || errors.As(err, &own) || errors.As(err, &e) {
		return false
	}
	return c.reads || notSent(err)
}

// notSent says that the server certainly did not get the statement.
func notSent(err error) bool {
	var op *net.OpError
	var late errTimeout
	return errors.As(err, &op) && op.Op == "dial" || errors.As(err, &late) && late.dial
}

// send sends a call to one server. begun says that fn has seen part of an answer.
func (db *DB) send(ctx context.Context, addr string, c *call, fn func(*reply) error) (begun bool, err error) {
	scheme := "http"
	if db.cfg.TLS != nil {
		scheme = "https"
	}
	u := url.URL{Scheme: scheme, Host: addr, Path: "/", RawQuery: c.args.Encode()}
	one, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(one, http.MethodPost, u.String(), bytes.NewReader(c.body))
	if err != nil {
		return false, err
	}
	req.Header.Set("X-ClickHouse-User", db.cfg.User)
	req.Header.Set("X-ClickHouse-Key", db.cfg.Password.Reveal())
	req.Header.Set("User-Agent", "spate")
	resp, err := db.http.Do(req)
	if err != nil {
		var ue *url.Error
		if errors.As(err, &ue) { // its text has the URL, and with it the statement's parameters
			err = ue.Err
		}
		if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			err = errTimeout{text: err.Error(), dial: notSent(err)}
		}
		if ctx.Err() == nil {
			db.hosts.failed(addr)
		}
		if !notSent(err) {
			db.kill(ctx, addr, c.id)
		}
		return false, fmt.Errorf("ask %s: %w", addr, err)
	}
	defer func() { _ = resp.Body.Close() }() // what matters was read
	db.hosts.worked(addr)
	r := newReply(resp, db.cfg.ReadTimeout, cancel)
	defer r.stop()
	if resp.StatusCode != http.StatusOK {
		return true, r.failure()
	}
	c.summary(resp.Header.Get("X-ClickHouse-Summary"))
	err = fn(r)
	if err == nil {
		err = r.end()
	}
	if err != nil {
		cancel()
		if !r.over {
			db.kill(ctx, addr, c.id)
		}
	}
	return r.read > 0, err
}

// kill ends a statement that nobody waits for any more. It does not wait for the server to have done so.
func (db *DB) kill(ctx context.Context, addr, id string) {
	db.ended.Add(1) // a call is under way, so Close is not past its Wait
	go func() {
		defer db.ended.Done()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTimeout)
		defer cancel()
		scheme := "http"
		if db.cfg.TLS != nil {
			scheme = "https"
		}
		u := url.URL{Scheme: scheme, Host: addr, Path: "/"}
		sql := "KILL QUERY WHERE query_id = " + store.Quote(id) + " ASYNC"
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader([]byte(sql)))
		if err != nil {
			return
		}
		req.Header.Set("X-ClickHouse-User", db.cfg.User)
		req.Header.Set("X-ClickHouse-Key", db.cfg.Password.Reveal())
		resp, err := db.http.Do(req)
		if err != nil {
			db.log.WarnContext(ctx, "cancelled statement may still run", "addr", addr, "query_id", id)
			return
		}
		_, _ = io.Copy(io.Discard, resp.Body) // so that the connection can be used again
		_ = resp.Body.Close()
	}()
}

// summary reads what the server says a statement cost. Of a long answer it is what was known when the answer began.
func (c *call) summary(header string) {
	var s struct {
		ReadRows    string `json:"read_rows"`
		ReadBytes   string `json:"read_bytes"`
		ResultRows  string `json:"result_rows"`
		ResultBytes string `json:"result_bytes"`
	}
	if json.Unmarshal([]byte(header), &s) != nil {
		return
	}
	n := func(v string) uint64 {
		u, _ := strconv.ParseUint(v, 10, 64) // a server that does not count says nothing
		return u
	}
	c.stats = store.Stats{Rows: n(s.ReadRows), Bytes: n(s.ReadBytes), ResultRows: n(s.ResultRows), ResultBytes: n(s.ResultBytes)}
}
