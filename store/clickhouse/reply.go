package clickhouse

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/ClickHouse/ch-go/compress"

	"github.com/spate-io/spate/store"
)

// maxException is the most that a server writes of an exception behind an answer that has begun, with room to spare.
const maxException = 40 << 10

// reply is an answer on its way in, uncompressed. It remembers its end, where an exception is that came after the answer
// had begun.
type reply struct {
	resp  *http.Response
	plain io.Reader
	tag   string
	tail  []byte // the last bytes, twice maxException at most
	read  int64
	err   error // of the transport, other than the end
	over  bool  // the end was seen, good or bad
	limit time.Duration
	timer *time.Timer
}

// newReply takes an answer whose pieces may each take that long; 0 means no bound. cancel ends the request.
func newReply(resp *http.Response, limit time.Duration, cancel func()) *reply {
	r := &reply{resp: resp, tag: resp.Header.Get("X-ClickHouse-Exception-Tag"), limit: limit}
	if limit > 0 {
		r.timer = time.AfterFunc(limit, cancel) // the read that waits ends with an error
	}
	return r
}

// open looks at the first bytes: an answer, or an exception in its place, may be compressed or not.
func (r *reply) open() {
	src := bufio.NewReaderSize(r.resp.Body, 64<<10)
	r.plain = src
	if !r.resp.Request.URL.Query().Has("compress") {
		return
	}
	if head, _ := src.Peek(17); len(head) == 17 && isBlock(head[16]) { // its error comes again with the first read
		r.plain = &blocks{src: src, r: compress.NewReader(src)}
	}
}

func (r *reply) stop() {
	if r.timer != nil {
		r.timer.Stop()
	}
}

// isBlock says that a byte names a method of ClickHouse's compression. An exception in plain text has a letter there.
func isBlock(method byte) bool { return method == 0x82 || method == 0x90 || method == 0x02 }

// Read implements [io.Reader].
func (r *reply) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	if r.timer != nil {
		r.timer.Reset(r.limit) // what the caller does between two reads does not count
	}
	if r.plain == nil {
		r.open()
	}
	n, err := r.plain.Read(p)
	if r.timer != nil && !r.timer.Stop() && n == 0 && err != nil {
		err = errTimeout{text: fmt.Sprintf("no data for %s", r.limit)}
	}
	r.read += int64(n)
	r.keep(p[:n])
	if err != nil {
		r.over = true
		r.err = err
		if err != io.EOF { //nolint:errorlint // only the plain value is the end
			if e := r.exception(); e != nil {
				r.err = e
			}
		}
	}
	return n, r.err
}

// keep remembers the last bytes.
func (r *reply) keep(p []byte) {
	if len(p) > maxException {
		p = p[len(p)-maxException:]
	}
	if len(r.tail)+len(p) > 2*maxException {
		r.tail = append(r.tail[:0], r.tail[len(r.tail)-maxException:]...)
	}
	r.tail = append(r.tail, p...)
}

// end reads what is left and gives the exception at the end, if there is one.
func (r *reply) end() error {
	if r.err == nil {
		if _, err := io.Copy(io.Discard, r); err != nil {
			return err
		}
	}
	if e := r.exception(); e != nil {
		return e
	}
	if errors.Is(r.err, io.EOF) && !errors.Is(r.err, io.ErrUnexpectedEOF) {
		return nil
	}
	return r.err
}

var (
	lateException = regexp.MustCompile(`(?s)\r\n__exception__\r\n(\S+)\r\n(Code: .*)\n\d+ (\S+)\r\n__exception__\r\n$`)
	oldException  = regexp.MustCompile(`(?s)(?:__exception__\r\n)?(Code: \d+\. DB::[A-Za-z]*Exception: .*\(version [^)]*(?:\([^)]*\))?\))\s*$`)
)

// exception finds an exception behind the data. A server that gives each answer a tag marks it with that; of an older one,
// text that looks like an exception counts only when the answer was cut off.
func (r *reply) exception() error {
	tail := r.tail
	if r.tag != "" {
		i := bytes.LastIndex(tail, []byte("\r\n__exception__\r\n"+r.tag+"\r\n"))
		if i < 0 {
			return nil
		}
		if m := lateException.FindSubmatch(tail[i:]); m != nil && string(m[1]) == r.tag && string(m[3]) == r.tag {
			return store.ParseError(string(m[2]))
		}
		return nil
	}
	if r.err == nil || errors.Is(r.err, io.EOF) && !errors.Is(r.err, io.ErrUnexpectedEOF) {
		return nil
	}
	if m := oldException.FindSubmatch(tail); m != nil {
		return store.ParseError(string(m[1]))
	}
	return nil
}

// failure is the error of an answer that is not 200.
func (r *reply) failure() error {
	text, err := io.ReadAll(io.LimitReader(r, 1<<20))
	r.over = true
	if err != nil && len(text) == 0 {
		return fmt.Errorf("read error of status %d: %w", r.resp.StatusCode, err)
	}
	e := store.ParseError(string(text))
	if e.Code == 0 {
		e.Code, _ = strconv.Atoi(r.resp.Header.Get("X-ClickHouse-Exception-Code")) // not a number: no code
	}
	if e.Code == 0 {
		e.Message = fmt.Sprintf("status %d: %.300s", r.resp.StatusCode, e.Message)
	}
	return e
}

// errTimeout is a bound of this package that was passed. It is retriable, as a [net.Error]; the library's own errors of
// that kind say that they are [context.DeadlineExceeded], which is the caller's.
type errTimeout struct {
	text string
	dial bool // the server was not reached
}

// Error implements error.
func (e errTimeout) Error() string { return e.text }

// Timeout implements [net.Error].
func (errTimeout) Timeout() bool { return true }

// Temporary implements [net.Error].
func (errTimeout) Temporary() bool { return true }

// blocks undoes ClickHouse's own compression and tells a clean end from a cut.
type blocks struct {
	src *bufio.Reader
	r   *compress.Reader
	err error // stays: ch-go's reader would give its last block again
}

// Read implements [io.Reader].
func (b *blocks) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.r.Read(p)
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, io.ErrUnexpectedEOF):
		b.err = io.ErrUnexpectedEOF
	case errors.Is(err, io.EOF):
		b.err = io.EOF
	default:
		b.err = err
	}
	return n, b.err
}
