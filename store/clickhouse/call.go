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
	prio  store.Priority
	reads bool // it changes nothing, so another server may be asked when one fails before its answer begins
	// repeats says that a second time changes nothing, on any of the servers.
	repeats bool
	stats   store.Stats
}

// callerError is an error of the caller's own code, which is given back as it is.
type callerError struct{ error }

// Unwrap gives the caller's error.
func (e callerError) Unwrap() error { return e.error }

// killTimeout bounds the message that cancels a statement.
const killTimeout = 5 * time.Second

// call makes a statement ready to send.
func (db *DB) call(q store.Query, kind string) *call {
	c := &call{kind: kind, id: q.ID, args: url.Values{}, body: []byte(q.SQL), prio: q.Priority}
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
	addrs := db.hosts.order()
	id := c.id
	for i, addr := range addrs {
		if i > 0 { // what was sent before may still be killed by its id
			c.id = id + "-" + strconv.Itoa(i+1)
			c.args.Set("query_id", c.id)
		}
		var begun bool
		begun, err = db.sendWithin(ctx, c.share(ctx, len(addrs)-i), addr, c, fn)
		if err == nil || ctx.Err() != nil || !db.elsewhere(c, begun, err) {
			return err
		}
		db.hosts.failed(addr)
		db.log.WarnContext(ctx, "store server did not do it", "addr", addr, "kind", c.kind, "err", err)
	}
	return err
}

// share gives how long one server may take: what may be repeated leaves time for the servers that are left, so that one
// that stands still does not use all of it up. 0 means no bound.
func (c *call) share(ctx context.Context, left int) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok || !c.repeats || left < 2 {
		return 0
	}
	return max(time.Until(deadline)/time.Duration(left), time.Millisecond)
}

// sendWithin is send with a bound of its own.
func (db *DB) sendWithin(ctx context.Context, d time.Duration, addr string, c *call, fn func(*reply) error) (begun bool, err error) {
	if d == 0 {
		return db.send(ctx, ctx, addr, c, fn)
	}
	one, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return db.send(ctx, one, addr, c, fn)
}

// elsewhere says whether another server may be asked after that error.
func (db *DB) elsewhere(c *call, begun bool, err error) bool {
	var own callerError
	var e *store.Error
	switch {
	case errors.As(err, &own):
		return false
	case c.repeats && errors.As(err, &e):
		return e.Retriable() || e.Code == 0
	case c.repeats:
		return true
	case begun:
		return false
	case errors.As(err, &e):
		return c.reads && (lostPeers[e.Code] || e.Code == 0) // without a number it is not the engine's word
	}
	return c.reads || notSent(err)
}

// lostPeers are the errors of a server that could not reach those it needed for an answer, or is going away itself.
var lostPeers = map[int]bool{
	198: true, // DNS_ERROR
	203: true, // NO_FREE_CONNECTION
	209: true, // SOCKET_TIMEOUT
	210: true, // NETWORK_ERROR
	236: true, // ABORTED
	279: true, // ALL_CONNECTION_TRIES_FAILED
	369: true, // ALL_REPLICAS_ARE_STALE
}

// notSent says that the server certainly did not get the statement.
func notSent(err error) bool {
	var op *net.OpError
	var late errTimeout
	return errors.As(err, &op) && op.Op == "dial" || errors.As(err, &late) && late.dial
}

// send sends a call to one server, within a context made of ctx. begun says that fn has seen part of an answer.
func (db *DB) send(ctx, within context.Context, addr string, c *call, fn func(*reply) error) (begun bool, err error) {
	scheme := "http"
	if db.cfg.TLS != nil {
		scheme = "https"
	}
	u := url.URL{Scheme: scheme, Host: addr, Path: "/", RawQuery: c.args.Encode()}
	one, cancel := context.WithCancel(within)
	defer cancel()
	req, err := http.NewRequestWithContext(one, http.MethodPost, u.String(), bytes.NewReader(c.body))
	if err != nil {
		return false, err
	}
	req.Header.Set("X-ClickHouse-User", db.cfg.User)
	req.Header.Set("X-ClickHouse-Key", db.cfg.Password.Reveal())
	req.Header.Set("User-Agent", "spate")
	req.Header.Set(store.PriorityHeader, c.prio.String())
	resp, err := db.http.Do(req)
	if err != nil {
		var ue *url.Error
		if errors.As(err, &ue) { // its text has the URL, and with it the statement's parameters
			err = ue.Err
		}
		if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			err = errTimeout{text: err.Error(), dial: notSent(err)}
		}
		if !errors.Is(ctx.Err(), context.Canceled) { // one that took all the time there was is asked last next time
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
		return false, r.failure()
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
