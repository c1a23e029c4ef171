package chdb

import (
	"fmt"
	"maps"
	"runtime"
	"strings"
	"unsafe"

	"github.com/spate-io/spate/store"
)

// conn is one connection to the engine. It runs one statement at a time; whoever holds it is the only caller.
type conn struct {
	lib   *library
	outer unsafe.Pointer // what connect gave and close wants: the address of the handle
	inner unsafe.Pointer // the handle
	// session are the settings that the connection began with, applied those that the last statement had on top.
	session, applied map[string]string
	yield            map[string]string // on top of session for a scan
	decoder          decoder
}

// connect opens a connection. The first one of the process boots the engine with args; later ones join it.
func (l *library) open(args ...string) (*conn, error) {
	pins := &runtime.Pinner{}
	defer pins.Unpin()
	argv := make([]unsafe.Pointer, len(args)+1)
	for i, a := range args {
		c := append([]byte(a), 0)
		pins.Pin(&c[0])
		argv[i] = unsafe.Pointer(&c[0])
	}
	pins.Pin(&argv[0])
	restore := keepSignals()
	outer := l.connect(int32(len(args)), unsafe.Pointer(&argv[0]))
	restore()
	if outer == nil {
		return nil, &store.Error{Message: "the engine refused the connection"}
	}
	return &conn{lib: l, outer: outer, inner: *(*unsafe.Pointer)(outer)}, nil
}

// dialer gives a function that opens connections with the settings of session and more, and of yield for scans.
func (l *library) dialer(args []string, session, more, yield map[string]string) func() (*conn, error) {
	session = maps.Clone(session)
	maps.Copy(session, more)
	return func() (*conn, error) {
		c, err := l.openSession(args, session)
		if err == nil {
			c.yield = yield
		}
		return c, err
	}
}

// openSession opens a connection with settings.
func (l *library) openSession(args []string, session map[string]string) (*conn, error) {
	set, err := quoteSettings(session)
	if err != nil {
		return nil, err
	}
	c, err := l.open(args...)
	if err != nil {
		return nil, err
	}
	c.session = session
	if err := c.set("SET " + set); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *conn) close() { c.lib.closeConn(c.outer) }

// settle gives the connection the settings of a statement and takes those of the one before back. Dashboards all ask with the
// same, so that there is mostly nothing to do, and a SET costs a third of a millisecond. After an error the connection is of no use.
func (c *conn) settle(q *store.Query) error {
	want := c.wanted(q)
	var changes []string
	for _, k := range sortedKeys(want) {
		if !isName(k) {
			return fmt.Errorf("setting %q: not a name", k)
		}
		if v, ok := c.applied[k]; !ok || v != want[k] {
			changes = append(changes, k+" = "+store.Quote(want[k]))
		}
	}
	for _, k := range sortedKeys(c.applied) {
		if _, ok := want[k]; ok {
			continue
		}
		if v, ok := c.session[k]; ok {
			changes = append(changes, k+" = "+store.Quote(v))
		} else {
			changes = append(changes, k+" = DEFAULT")
		}
	}
	if len(changes) == 0 {
		return nil
	}
	if err := c.set("SET " + strings.Join(changes, ", ")); err != nil {
		return err
	}
	c.applied = maps.Clone(want)
	return nil
}

// wanted gives the settings of a statement, on top of those of the session.
func (c *conn) wanted(q *store.Query) map[string]string {
	if q.ID == "" && q.Priority != store.Scan {
		return q.Settings
	}
	want := map[string]string{}
	if q.Priority == store.Scan {
		maps.Copy(want, c.yield)
	}
	if q.ID != "" {
		want["log_comment"] = q.ID
	}
	maps.Copy(want, q.Settings)
	return want
}

// clear makes the engine let go of what a statement that failed in the middle of its answer still holds: it does so when the
// connection's next statement begins.
func (c *conn) clear() error { return c.set("SELECT 1") }

// exec runs sql and gives the whole answer, copied out of the engine's memory, appended to dst.
func (c *conn) exec(dst []byte, sql, format string, params map[string]string) ([]byte, store.Stats, error) {
	stats, err := c.whole(sql, format, params, func(b []byte) error {
		dst = append(dst, b...)
		return nil
	})
	return dst, stats, err
}

// whole runs sql and hands the answer to fn as one piece; it is the engine's memory and is gone when fn returns.
func (c *conn) whole(sql, format string, params map[string]string, fn func([]byte) error) (store.Stats, error) {
	p := newParams(params)
	defer p.free()
	r := c.lib.query(c.inner, bytesAt(sql), uintptr(len(sql)), bytesAt(format), uintptr(len(format)),
		p.names, p.nameLens, p.values, p.valueLens, uintptr(len(params)))
	runtime.KeepAlive(sql)
	runtime.KeepAlive(format)
	if r == nil {
		return store.Stats{}, &store.Error{Message: "the engine gave no result"}
	}
	defer c.lib.destroy(r)
	if e := text(c.lib.failure(r)); e != "" {
		return store.Stats{}, store.ParseError(e)
	}
	return c.lib.stats(r), fn(c.lib.bytes(r))
}

// set runs a statement without an answer, such as SET for settings of this connection.
func (c *conn) set(sql string) error {
	_, _, err := c.exec(nil, sql, "Null", nil)
	return err
}

// stream runs sql and hands every chunk of the answer to fn; the chunk is the engine's memory and is gone when fn
// returns. Every chunk is a complete document of its format.
func (c *conn) stream(sql, format string, params map[string]string, fn func([]byte) error) (store.Stats, error) {
	var total store.Stats
	p := newParams(params)
	defer p.free()
	s := c.lib.stream(c.inner, bytesAt(sql), uintptr(len(sql)), bytesAt(format), uintptr(len(format)),
		p.names, p.nameLens, p.values, p.valueLens, uintptr(len(params)))
	runtime.KeepAlive(sql)
	runtime.KeepAlive(format)
	if s == nil {
		return total, &store.Error{Message: "the engine gave no result"}
	}
	defer c.lib.destroy(s)
	if e := text(c.lib.failure(s)); e != "" {
		return total, store.ParseError(e)
	}
	for {
		more, err := c.fetch(s, &total, fn)
		if err != nil {
			c.lib.cancel(c.inner, s)
			return total, err
		}
		if !more {
			return total, nil
		}
	}
}

// fetch takes the next chunk of a stream; false means the end.
func (c *conn) fetch(s unsafe.Pointer, total *store.Stats, fn func([]byte) error) (bool, error) {
	r := c.lib.fetch(c.inner, s)
	if r == nil {
		return false, nil
	}
	defer c.lib.destroy(r)
	if e := text(c.lib.failure(r)); e != "" {
		return false, store.ParseError(e)
	}
	st := c.lib.stats(r)
	total.Rows, total.Bytes = max(total.Rows, st.Rows), max(total.Bytes, st.Bytes)
	total.ResultRows += st.ResultRows
	b := c.lib.bytes(r)
	if len(b) == 0 {
		return false, nil
	}
	total.ResultBytes += uint64(len(b))
	return true, fn(b)
}

// insert sends one block of data into the INSERT statement sql, which names no format.
func (c *conn) insert(sql, format string, data []byte) error {
	s := c.lib.insert(c.inner, bytesAt(sql), uintptr(len(sql)), bytesAt(format), uintptr(len(format)))
	runtime.KeepAlive(sql)
	runtime.KeepAlive(format)
	if s == nil {
		return &store.Error{Message: "the engine gave no insert stream"}
	}
	defer c.lib.insertDestroy(s)
	if e := text(c.lib.insertFailure(s)); e != "" {
		return store.ParseError(e)
	}
	if len(data) > 0 && c.lib.insertAppend(s, unsafe.Pointer(unsafe.SliceData(data)), uintptr(len(data))) != 0 {
		e := text(c.lib.insertFailure(s))
		c.lib.insertCancel(s)
		if e == "" {
			return &store.Error{Message: "the engine took no data"}
		}
		return store.ParseError(e)
	}
	runtime.KeepAlive(data)
	r := c.lib.insertDone(s)
	if r == nil {
		return &store.Error{Message: "the engine gave no result"}
	}
	defer c.lib.destroy(r)
	if e := text(c.lib.failure(r)); e != "" {
		return store.ParseError(e)
	}
	return nil
}

func (l *library) bytes(r unsafe.Pointer) []byte {
	p, n := l.buffer(r), l.length(r)
	if p == nil || n == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(p), n)
}

func (l *library) stats(r unsafe.Pointer) store.Stats {
	n := l.length(r)
	return store.Stats{
		Rows: l.storedRows(r), Bytes: l.storedSize(r),
		ResultRows: l.rowsRead(r), ResultBytes: uint64(n),
	}
}

// params are query parameters in the form the C interface takes: four arrays, pinned for the call.
type params struct {
	names, nameLens, values, valueLens unsafe.Pointer
	pins                               runtime.Pinner
}

func newParams(m map[string]string) *params {
	p := &params{}
	n := len(m)
	if n == 0 {
		return p
	}
	ptrs, lens := make([]unsafe.Pointer, 2*n), make([]uintptr, 2*n)
	i := 0
	for k, v := range m {
		ptrs[i], lens[i] = p.pin(k), uintptr(len(k))
		ptrs[n+i], lens[n+i] = p.pin(v), uintptr(len(v))
		i++
	}
	p.pins.Pin(&ptrs[0])
	p.pins.Pin(&lens[0])
	p.names, p.nameLens = unsafe.Pointer(&ptrs[0]), unsafe.Pointer(&lens[0])
	p.values, p.valueLens = unsafe.Pointer(&ptrs[n]), unsafe.Pointer(&lens[n])
	return p
}

// pin copies s to memory that stays where it is; empty text has an address too.
func (p *params) pin(s string) unsafe.Pointer {
	b := append([]byte(s), 0)
	p.pins.Pin(&b[0])
	return unsafe.Pointer(&b[0])
}

func (p *params) free() { p.pins.Unpin() }

func quoteSettings(m map[string]string) (string, error) {
	s := ""
	for _, k := range sortedKeys(m) {
		if !isName(k) {
			return "", fmt.Errorf("setting %q: not a name", k)
		}
		if s != "" {
			s += ", "
		}
		s += k + " = " + store.Quote(m[k])
	}
	return s, nil
}
