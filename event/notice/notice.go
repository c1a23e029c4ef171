// Package notice is what an edge has to tell besides events: lines that no parser reads, batches that a gateway refused,
// damage in the spool. Notices travel as batches of their own type ([batch.Notices]) through spool, gateway and bus into the
// store, so they come from edges far away, survive crashes, and count once. docs/format/batch.md has the bytes.
package notice

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Kinds of notices.
const (
	// BadLine is a line of a log that was refused. Source is the log, Line its number, Sample its text. Where there are
	// many, one notice without line and text stands for Count of them.
	BadLine = "bad_line"
	// Refused is a batch that a destination, Source, does not take. Count are its events, Sample its name.
	Refused = "refused_batch"
	// Damaged is a part of the spool, Source, that cannot be read.
	Damaged = "damaged_spool"
)

// Notice is one thing that an operator may want to know.
type Notice struct {
	Time   time.Time `json:"time"`
	Kind   string    `json:"kind"`             // of a-z and _
	Source string    `json:"source,omitempty"` // what it is about
	Line   uint64    `json:"line,omitempty"`
	Count  uint64    `json:"count,omitempty"` // how many lines or events it stands for
	Reason string    `json:"reason,omitempty"`
	Sample string    `json:"sample,omitempty"`
}

// Bounds of a notice. Append shortens texts to them; Parse refuses what exceeds them.
const (
	MaxText = 1024     // bytes of each text
	MaxLine = 16 << 10 // bytes of a notice as written
)

// Append appends n as one line of JSON. Texts that are too long are cut, bytes that are no UTF-8 replaced.
func (n Notice) Append(dst []byte) []byte {
	n.Time = n.Time.UTC()
	for _, s := range []*string{&n.Source, &n.Reason, &n.Sample} {
		*s = strings.ToValidUTF8((*s)[:min(len(*s), MaxText)], "\uFFFD")
	}
	b, err := json.Marshal(n)
	if err != nil { // a time outside of what JSON's can be
		n.Time = time.Unix(0, 0).UTC()
		b, _ = json.Marshal(n)
	}
	return append(append(dst, b...), '\n')
}

// ErrNotice is part of every error of Parse.
var ErrNotice = errors.New("not a notice")

// Parse reads all notices of a payload.
func Parse(b []byte) ([]Notice, error) {
	var list []Notice
	for len(b) > 0 {
		line, rest, ended := bytes.Cut(b, []byte{'\n'})
		var n Notice
		switch {
		case !ended || len(line) > MaxLine:
			return nil, fmt.Errorf("notice %d: %w: a line of %d bytes", len(list), ErrNotice, len(line))
		case json.Unmarshal(line, &n) != nil:
			return nil, fmt.Errorf("notice %d: %w: no JSON of its form", len(list), ErrNotice)
		case !validKind(n.Kind):
			return nil, fmt.Errorf("notice %d: %w: kind %.40q", len(list), ErrNotice, n.Kind)
		case n.Time.Year() < 1970 || n.Time.Year() > 2200:
			return nil, fmt.Errorf("notice %d: %w: time %s", len(list), ErrNotice, n.Time)
		}
		list, b = append(list, n), rest
	}
	return list, nil
}

func validKind(s string) bool {
	for _, c := range s {
		if c != '_' && (c < 'a' || c > 'z') {
			return false
		}
	}
	return s != "" && len(s) <= 32
}
