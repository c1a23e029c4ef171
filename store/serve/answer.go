package serve

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/spate-io/spate/store"
)

// answer is the body of a response on its way out. The first bytes are held back, so that an error among them still has
// its own status; what comes after goes out as it comes. With wait set all of it is held back, on disk when it is large.
type answer struct {
	w        http.ResponseWriter
	hold     int       // bytes to hold back before the header goes out
	wait     bool      // hold back everything
	maxSpill int64     // bytes of the file
	top      io.Writer // what the engine's bytes are written to; compressors end in the answer itself
	plain    io.Writer // top without the writer that understands the engine's bytes: for text of the server
	encoders []encoder // outermost first
	buf      bytes.Buffer
	spill    *os.File
	spilled  int64
	sent     bool // the header is out
	tag      string
	version  string
	began    time.Time
}

func newTag() string { return rand.Text()[:16] }

// sink is what compressors write to.
type sink struct{ a *answer }

// Write implements [io.Writer].
func (s sink) Write(p []byte) (int, error) { return s.a.raw(p) }

// raw takes bytes as they go over the wire.
func (a *answer) raw(p []byte) (int, error) {
	if a.sent {
		return a.w.Write(p)
	}
	if a.buf.Len()+len(p) <= a.hold || a.wait && a.spill == nil && a.maxSpill == 0 {
		return a.buf.Write(p)
	}
	if a.wait {
		return a.toDisk(p)
	}
	if err := a.release(http.StatusOK); err != nil {
		return 0, err
	}
	return a.w.Write(p)
}

// toDisk holds back what memory is not to hold.
func (a *answer) toDisk(p []byte) (int, error) {
	if a.spill == nil {
		f, err := os.CreateTemp("", "spate-answer-*")
		if err != nil {
			return 0, fmt.Errorf("hold answer back: %w", err)
		}
		_ = os.Remove(f.Name()) // it lives until it is closed
		a.spill = f
	}
	if a.spilled += int64(len(p)); a.spilled > a.maxSpill {
		return 0, &store.Error{Code: codeTooLarge, Name: "TOO_MANY_ROWS_OR_BYTES", Message: fmt.Sprintf("the answer is larger than %d bytes, which is what wait_end_of_query may hold back", a.maxSpill)}
	}
	return a.spill.Write(p)
}

// release sends the header and what was held back.
func (a *answer) release(status int) error {
	a.sent = true
	a.w.WriteHeader(status)
	if _, err := a.w.Write(a.buf.Bytes()); err != nil {
		return err
	}
	a.buf = bytes.Buffer{}
	if a.spill == nil {
		return nil
	}
	if _, err := a.spill.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err := io.Copy(a.w, a.spill)
	return err
}

// Write takes bytes of the answer.
func (a *answer) Write(p []byte) (int, error) { return a.top.Write(p) }

// flush brings everything through the compressors and ends them: also of an answer that is cut, so that its last bytes
// can be uncompressed.
func (a *answer) flush() error {
	for _, e := range a.encoders {
		if err := e.Close(); err != nil {
			return err
		}
	}
	return nil
}

// finish ends a good answer.
func (a *answer) finish(s store.Stats) error {
	defer a.discard()
	if err := a.flush(); err != nil {
		return err
	}
	if a.sent {
		return nil
	}
	a.summarise(s)
	if a.spill == nil {
		a.w.Header().Set("Content-Length", strconv.Itoa(a.buf.Len()))
	}
	return a.release(http.StatusOK)
}

// summarise sets the header with what the statement cost. The engine does not tell what an INSERT wrote.
func (a *answer) summarise(s store.Stats) {
	n := func(v uint64) string { return strconv.FormatUint(v, 10) }
	b, _ := json.Marshal(struct { // strings only: it cannot fail
		ReadRows     string `json:"read_rows"`
		ReadBytes    string `json:"read_bytes"`
		WrittenRows  string `json:"written_rows"`
		WrittenBytes string `json:"written_bytes"`
		TotalRows    string `json:"total_rows_to_read"`
		ResultRows   string `json:"result_rows"`
		ResultBytes  string `json:"result_bytes"`
		ElapsedNs    string `json:"elapsed_ns"`
	}{n(s.Rows), n(s.Bytes), "0", "0", n(s.Rows), n(s.ResultRows), n(s.ResultBytes), strconv.FormatInt(time.Since(a.began).Nanoseconds(), 10)})
	a.w.Header().Set("X-ClickHouse-Summary", string(b))
	if a.w.Header().Get("X-ClickHouse-Progress") != "" {
		a.w.Header().Set("X-ClickHouse-Progress", string(b))
	}
}

// fail ends an answer with an exception: as the whole answer when nothing has gone out, else as a marked block at its
// end, after which the connection is cut so that the answer cannot be taken for whole. It says whether to cut.
func (a *answer) fail(e *store.Error) (cut bool) {
	defer a.discard()
	text := exceptionText(e, a.version)
	if a.sent {
		fmt.Fprintf(a.plain, "\r\n__exception__\r\n%s\r\n%s%d %s\r\n__exception__\r\n", a.tag, text, len(text), a.tag)
		_ = a.flush() // the client may be gone: nobody is left to tell
		_ = http.NewResponseController(a.w).Flush()
		return true
	}
	a.drop()
	h := a.w.Header()
	h.Set("X-ClickHouse-Exception-Code", strconv.Itoa(e.Code))
	h.Set("Content-Type", "text/plain; charset=UTF-8")
	h.Del("X-ClickHouse-Exception-Tag")
	if e.Code == codeNoCredentials {
		h.Set("WWW-Authenticate", `Basic realm="ClickHouse server HTTP API"`)
	}
	if len(a.encoders) > 0 && h.Get("Content-Encoding") != "" {
		h.Del("Content-Encoding")
		a.encoders = nil
	}
	a.summarise(store.Stats{})
	if len(a.encoders) > 0 { // ClickHouse's own compression: the client undoes it whatever the status
		b := newBlockWriter(&a.buf, "LZ4")
		_, _ = b.Write([]byte(text)) // into memory
		_ = b.Flush()
	} else {
		a.buf.WriteString(text)
	}
	_ = a.release(statusOf(e.Code)) // the client may be gone
	return false
}

// drop forgets what was held back.
func (a *answer) drop() {
	a.buf.Reset()
	if a.spill != nil {
		_ = a.spill.Close()
		a.spill = nil
	}
}

// discard closes the file.
func (a *answer) discard() {
	if a.spill != nil {
		_ = a.spill.Close()
		a.spill = nil
	}
}
