// Package accesslog turns lines of access logs into events. It is pure: bytes in, one [event.HTTP] or one [Error] out; it
// opens no file and starts no goroutine (package ingest does).
//
// A [Format] is what a kind of log is: a name, and the way to make parsers for it. Formats come from the built-in table
// ([Formats], [Lookup]), from a format string as written in the configuration of nginx, Apache or Envoy ([Compile]), or
// are found from the first lines of a file ([Detect]). A [Parser] made by [Format.New] does the work; it has caches and
// scratch memory of its own, so each goroutine makes its own, and parsing a line allocates nothing.
//
// The invariant: a line gives either an event with every value in its own field, or an [Error] that says which field was
// wrong, where, and why; never an event with part of the line, or with values in the wrong columns. What a format does
// not carry stays zero: EdgeEndTimestamp 0 means that the log knows no duration.
package accesslog

import (
	"errors"
	"fmt"
	"time"

	"github.com/spate-io/spate/event"
)

// Parser reads one line after another of one log format. It is not safe for concurrent use.
type Parser interface {
	// Parse fills e from line, which may end in "\n" or "\r\n". Text in e aliases line or memory of the parser: it is valid
	// until the next call of Parse and as long as line is not changed. e is reset first; after an error it is empty.
	//
	// The error is an [*Error] for a line that is not a request of this format, or [ErrNoRequest] for a line that is
	// not meant to be one (blank, or a directive such as W3C's #Fields, which the parser obeys).
	Parse(line []byte, e *event.HTTP) error
}

// ErrNoRequest is returned for lines that carry no request by design: blank lines, comments and directives.
var ErrNoRequest = errors.New("line holds no request")

// Error says why a line was refused.
type Error struct {
	Field  string // what was being read: a field of the event ("ClientIP") or a part of the line ("line")
	Offset int    // byte in the line where that field starts
	Reason string // lower-case, one clause
}

// Error gives all three in one line.
func (e *Error) Error() string { return fmt.Sprintf("%s at byte %d: %s", e.Field, e.Offset, e.Reason) }

// Options change how a parser reads what the lines themselves leave open.
type Options struct {
	// Zone is the time zone of formats that write local time without a zone (HAProxy, W3C date-local). Nil is UTC.
	Zone *time.Location
	// MaxLine is the longest line in bytes that is parsed; longer ones are refused. 0 is [DefaultMaxLine].
	MaxLine int
}

// DefaultMaxLine keeps every event of a line under event.MaxMessage: escapes never make a text longer than it was.
const DefaultMaxLine = 128 << 10

// Format is a kind of log. The zero value is no format.
type Format struct {
	// Name identifies built-in formats ("combined"); compiled ones are called "custom".
	Name string
	// Doc is one line for people.
	Doc string
	// Source is the format string of compiled formats, as it was understood.
	Source string

	rank  int // detection takes the higher rank among formats that read a file equally well
	state bool
	make  func(Options) Parser
}

// New makes a parser. It may be called from any goroutine; the parser belongs to one.
func (f Format) New(o Options) Parser {
	if o.Zone == nil {
		o.Zone = time.UTC
	}
	if o.MaxLine <= 0 {
		o.MaxLine = DefaultMaxLine
	}
	return f.make(o)
}

// Valid tells whether f is a format, not the zero value.
func (f Format) Valid() bool { return f.make != nil }

// HasDirectives tells that lines starting with '#' govern how the lines after them are read (W3C #Fields). Whoever cuts such a
// log into pieces gives each piece's parser the directives in force where the piece starts, through Parse.
func (f Format) HasDirectives() bool { return f.state }

// trim removes the line end and, at the start of a file, the UTF-8 byte order mark.
func trim(line []byte) []byte {
	if n := len(line); n > 0 && line[n-1] == '\n' {
		line = line[:n-1]
	}
	for n := len(line); n > 0 && line[n-1] == '\r'; n = len(line) {
		line = line[:n-1]
	}
	if len(line) >= 3 && line[0] == 0xEF && line[1] == 0xBB && line[2] == 0xBF {
		line = line[3:]
	}
	return line
}

// blank tells whether a line has nothing but white space.
func blank(line []byte) bool {
	for _, c := range line {
		if c != ' ' && c != '\t' && c != '\f' && c != '\v' {
			return false
		}
	}
	return true
}
