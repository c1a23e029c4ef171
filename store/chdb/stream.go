package chdb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"

	"github.com/spate-io/spate/store"
)

// codeNotStreamed is part of what the engine says of statements such as DESCRIBE, SHOW and EXISTS, which it answers only
// as a whole.
const codeNotStreamed = 36

// pieces runs sql and hands the answer to fn piece by piece, so that the pieces together are one document of the format:
// the header that the engine writes on each of them stays on the first alone. What the engine does not stream comes as
// one piece.
func (c *conn) pieces(sql, format string, params map[string]string, fn func([]byte) error) (store.Stats, error) {
	header := headerOf(format)
	first := true
	stats, err := c.stream(sql, format, params, func(b []byte) error {
		if !first && header.lines+header.lists > 0 {
			b = b[header.length(b):]
		}
		first = false
		return fn(b)
	})
	if !first || !isNotStreamed(err) {
		return stats, err
	}
	answer, stats, err := c.exec(nil, sql, format, params)
	if err != nil || len(answer) == 0 {
		return stats, err
	}
	return stats, fn(answer)
}

func isNotStreamed(err error) bool {
	var e *store.Error
	return errors.As(err, &e) && e.Code == codeNotStreamed && strings.Contains(e.Message, "Streaming query is not supported")
}

// isPiecewise says that [conn.pieces] can put together an answer in that format.
func isPiecewise(format string) bool {
	h := headerOf(format)
	return h.lines+h.lists > 0 || isRowFormat(format)
}

// header is what a format writes before its rows: lines, or lists of strings with their count before them.
type header struct {
	lines, lists int
	csv          bool // a line end may stand in quotes
}

func headerOf(format string) header {
	base, n := format, 0
	if b, ok := strings.CutSuffix(format, "WithNamesAndTypes"); ok {
		base, n = b, 2
	} else if b, ok := strings.CutSuffix(format, "WithNames"); ok {
		base, n = b, 1
	}
	switch base {
	case "TabSeparated", "TSV", "JSONCompactEachRow", "JSONCompactStringsEachRow":
		return header{lines: n}
	case "CSV":
		return header{lines: n, csv: true}
	case "RowBinary":
		if n == 2 {
			return header{lists: 2}
		}
		return header{lists: n}
	}
	return header{}
}

// length gives how long the header at the start of b is; of one that is not whole, all of b.
func (h header) length(b []byte) int {
	pos := 0
	for range h.lines {
		n := bytes.IndexByte(b[pos:], '\n')
		if h.csv {
			n = csvLine(b[pos:])
		}
		if n < 0 {
			return len(b)
		}
		pos += n + 1
	}
	if h.lists == 0 {
		return pos
	}
	columns, n := binary.Uvarint(b)
	if n <= 0 {
		return len(b)
	}
	pos = n
	for range columns * uint64(h.lists) {
		size, n := binary.Uvarint(b[pos:])
		if n <= 0 || size > uint64(len(b)-pos-n) {
			return len(b)
		}
		pos += n + int(size)
	}
	return pos
}

// csvLine finds the line end that is in no quotes.
func csvLine(b []byte) int {
	inside := false
	for i, c := range b {
		switch {
		case c == '"':
			inside = !inside
		case c == '\n' && !inside:
			return i
		}
	}
	return -1
}
