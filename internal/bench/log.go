package bench

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spate-io/spate/edge/accesslog"
	"github.com/spate-io/spate/edge/ingest/unpack"
	"github.com/spate-io/spate/event"
)

// clfTime is how common and combined logs write times.
const clfTime = "02/Jan/2006:15:04:05 -0700"

// LengthenLog writes at least the given number of lines to w: those of a log in common or combined format at path, as
// often as it takes, each time moved to begin where the time before ended. Lines without a time are left out. The log, which
// may be compressed, is held in memory.
func LengthenLog(path string, lines int, w io.Writer) error {
	list, err := readTimes(path)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	first, last := list[0].at, list[0].at
	for _, l := range list {
		if l.at.Before(first) {
			first = l.at
		}
		if l.at.After(last) {
			last = l.at
		}
	}
	span := last.Sub(first) + time.Second
	out := bufio.NewWriterSize(w, 1<<20)
	var buf []byte
	for written, again := 0, 0; written < lines; again++ {
		var known time.Time
		for _, l := range list[:min(len(list), lines-written)] {
			if !l.at.Equal(known) || len(buf) == 0 {
				known = l.at
				buf = l.at.Add(time.Duration(again)*span).AppendFormat(buf[:0], clfTime)
			}
			_, _ = out.Write(l.before)
			_, _ = out.Write(buf)
			if _, err := out.Write(l.after); err != nil {
				return err
			}
		}
		written += len(list)
	}
	return out.Flush()
}

// timed is a line cut at its time.
type timed struct {
	before, after []byte // with the bracket, and the line end
	at            time.Time
}

func readTimes(path string) ([]timed, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in, err := unpack.NewReader(f)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	var list []timed
	for line := range bytes.Lines(text) {
		if line[len(line)-1] != '\n' {
			line = append(bytes.Clone(line), '\n')
		}
		from := bytes.IndexByte(line, '[') + 1
		to := from + len(clfTime)
		if from == 0 || to >= len(line) || line[to] != ']' {
			continue
		}
		at, err := time.Parse(clfTime, string(line[from:to]))
		if err != nil {
			continue
		}
		list = append(list, timed{line[:from], line[to:], at})
	}
	if len(list) == 0 {
		return nil, errors.New("no line of common or combined format")
	}
	return list, nil
}

// LogAsJSON writes each line of a log in any known format to w as one JSON object, for programs that take nothing else:
// the fields that the line has, under the names that nginx has for them, and its time as _time.
func LogAsJSON(path string, w io.Writer) error {
	in, closeIn, err := openLog(path)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	defer closeIn()
	out := bufio.NewWriterSize(w, 1<<20)
	var buf []byte
	if err := in.each(func(e *event.HTTP) error {
		buf = appendJSON(buf[:0], e)
		_, err := out.Write(buf)
		return err
	}); err != nil {
		return err
	}
	return out.Flush()
}

func appendJSON(b []byte, e *event.HTTP) []byte {
	b = append(b, `{"_time":"`...)
	b = time.Unix(0, e.EdgeStartTimestamp).UTC().AppendFormat(b, time.RFC3339Nano)
	b = append(b, '"')
	text := func(name string, v []byte) {
		if len(v) > 0 {
			b = append(append(append(b, `,"`...), name...), `":`...)
			quoted, err := json.Marshal(string(v)) // replaces what is not UTF-8
			if err == nil {
				b = append(b, quoted...)
			}
		}
	}
	path := e.ClientRequestPath
	if len(e.ClientRequestQuery) > 0 {
		path = append(append(bytes.Clone(path), '?'), e.ClientRequestQuery...)
	}
	text("_msg", path)
	text("remote_addr", []byte(e.ClientIP.String()))
	text("host", e.ClientRequestHost)
	text("request_method", e.ClientRequestMethod)
	text("server_protocol", e.ClientRequestProtocol)
	text("http_referer", e.ClientRequestReferer)
	text("http_user_agent", e.ClientRequestUserAgent)
	text("remote_user", e.ClientRequestUser)
	b = fmt.Appendf(b, `,"status":"%d","body_bytes_sent":"%d"}`+"\n", e.EdgeResponseStatus, e.EdgeResponseBodyBytes)
	return b
}

// logReader reads the requests of a log.
type logReader struct {
	lines  *bufio.Reader
	parser accesslog.Parser
}

// openLog opens a log in any known format and compression. The caller calls the function to close it.
func openLog(path string) (*logReader, func(), error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	done := func() { _ = f.Close() } // it was only read
	in, err := unpack.NewReader(f)
	if err != nil {
		done()
		return nil, nil, err
	}
	lines := bufio.NewReaderSize(in, accesslog.DefaultMaxLine)
	head, err := lines.Peek(64 << 10)
	if err != nil && !errors.Is(err, io.EOF) {
		done()
		return nil, nil, err
	}
	format := accesslog.Detect(slices.Collect(bytes.Lines(head[:bytes.LastIndexByte(head, '\n')+1]))).Format
	if !format.Valid() {
		done()
		return nil, nil, errors.New("in no known format")
	}
	return &logReader{lines, format.New(accesslog.Options{})}, done, nil
}

// errEnough ends reading without an error.
var errEnough = errors.New("enough")

// each calls f for each line that can be read; the event is valid until f returns.
func (l *logReader) each(f func(e *event.HTTP) error) error {
	for {
		line, err := l.lines.ReadSlice('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		var e event.HTTP
		if l.parser.Parse(line, &e) != nil {
			continue
		}
		if err := f(&e); err != nil {
			if errors.Is(err, errEnough) {
				return nil
			}
			return err
		}
	}
}
