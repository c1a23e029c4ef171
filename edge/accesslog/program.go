package accesslog

import (
	"bytes"

	"github.com/spate-io/spate/event"
)

// program is a compiled format: a literal that starts the line, then values, each ended by the literal that follows it.
type program struct {
	prefix string
	steps  []step
	extras bool // more columns may follow the last value
}

// step is one value and the literal behind it.
type step struct {
	field  field
	quoted bool   // stands between double quotes, so it may hold escapes
	delim  string // literal behind the value; empty: the value goes to the end of the line
	skip   int    // how often the first byte of delim occurs in the value itself (a time with a space)
	digit  bool   // behind delim comes a number or '-'; tells a real closing quote from one that a client sent
	path   bool   // the next value starts at the first '/', which belongs to it
}

// textParser runs a program.
type textParser struct {
	record
	program *program
	maxLine int
}

func (p *program) parser(o Options) Parser {
	t := &textParser{program: p, maxLine: o.MaxLine}
	t.clock.zone = o.Zone
	return t
}

// Parse implements [Parser].
func (p *textParser) Parse(line []byte, e *event.HTTP) error {
	p.begin(e)
	line = trim(line)
	if len(line) > p.maxLine {
		return p.fail(fIgnore, 0, reasonTooLong)
	}
	p.plain = bytes.IndexByte(line, '\\') < 0
	pos := 0
	if prefix := p.program.prefix; prefix != "" {
		if len(line) < len(prefix) || string(line[:len(prefix)]) != prefix {
			return p.refuse(line, "line", 0, "does not start as the format does")
		}
		pos = len(prefix)
	}
	steps := p.program.steps
	for i := range steps {
		s := &steps[i]
		rest := line[pos:]
		end, next := 0, 0
		switch {
		case i == len(steps)-1:
			end, next = lastValue(rest, s, p.program.extras)
		case s.quoted && s.delim[0] == '"':
			end, next = quotedValue(rest, s)
		case s.path:
			end = bytes.IndexByte(rest, '/')
			next = end
		case len(s.delim) == 1 && s.skip == 0 && !s.field.list():
			end = bytes.IndexByte(rest, s.delim[0])
			next = end + 1
		default:
			end, next = plainValue(rest, s)
		}
		if end < 0 {
			return p.refuse(line, s.field.String(), pos, "line ends before, or in, this value")
		}
		if s.field != fIgnore {
			if reason := p.set(s.field, rest[:end], true); reason != "" {
				return p.refuse(line, s.field.String(), pos, reason)
			}
		}
		pos += next
	}
	if f, reason := p.finish(); reason != "" {
		return p.fail(f, 0, reason)
	}
	return nil
}

const reasonTooLong = "line is longer than the limit"

// refuse is fail, but for blank lines.
func (r *record) refuse(line []byte, name string, offset int, reason string) error {
	r.e.Reset()
	if blank(line) {
		return ErrNoRequest
	}
	return &Error{Field: name, Offset: offset, Reason: reason}
}

// plainValue finds the end of a value that is not in quotes.
func plainValue(rest []byte, s *step) (end, next int) {
	skip := s.skip
	for i := 0; i < len(rest); {
		j := bytes.IndexByte(rest[i:], s.delim[0])
		if j < 0 {
			return -1, 0
		}
		i += j
		if len(rest)-i < len(s.delim) {
			return -1, 0
		}
		if string(rest[i:i+len(s.delim)]) != s.delim {
			i++
			continue
		}
		if s.field.list() && s.delim[0] == ' ' { // "a, b : c"
			if i > 0 && rest[i-1] == ',' {
				i++
				continue
			}
			if i+2 < len(rest) && rest[i+1] == ':' && rest[i+2] == ' ' {
				i += 3
				continue
			}
		}
		if skip > 0 {
			skip--
			i++
			continue
		}
		return i, i + len(s.delim)
	}
	return -1, 0
}

// quotedValue finds the quote that closes a value. A quote behind a backslash does not; neither does one that is not
// followed by the rest of the literal, because some servers write quotes that clients sent as they are.
func quotedValue(rest []byte, s *step) (end, next int) {
	for i := 0; ; i++ {
		j := bytes.IndexByte(rest[i:], '"')
		if j < 0 {
			return -1, 0
		}
		i += j
		n := i + len(s.delim)
		if i > 0 && rest[i-1] == '\\' && escaped(rest, i) || n > len(rest) {
			continue
		}
		if string(rest[i:n]) != s.delim {
			continue
		}
		if s.digit && !startsNumber(rest[n:]) {
			continue
		}
		return i, n
	}
}

// startsNumber tells whether v starts with a number, or '-', and then a space.
func startsNumber(v []byte) bool {
	i := 0
	for i < len(v) && v[i] >= '0' && v[i] <= '9' {
		i++
	}
	if i == 0 && len(v) > 0 && v[0] == '-' {
		i = 1
	}
	return i > 0 && (i == len(v) || v[i] == ' ')
}

// maxTries bounds how often the rest of a line is looked at, so that a line of nothing but quotes costs no more than others.
const maxTries = 32

// lastValue finds the end of the last value of a line. A closing quote that is not there is forgiven: the line was cut, by a
// limit of the writer or a crash, and the value is all that is left of it, in its own place.
func lastValue(rest []byte, s *step, extras bool) (end, next int) {
	n := len(rest)
	if s.delim == "" {
		if extras {
			if i := bytes.IndexByte(rest, ' '); i >= 0 && !s.quoted {
				if !validExtras(rest[i:]) {
					return -1, 0
				}
				n = i
			}
		}
		return n, n
	}
	if !s.quoted || s.delim[0] != '"' {
		end, next = plainValue(rest, s)
		if end >= 0 && !(extras && validExtras(rest[next:])) && !blank(rest[next:]) {
			return -1, 0
		}
		return end, next
	}
	for i, tries := 0, 0; ; i++ {
		j := bytes.IndexByte(rest[i:], '"')
		if j < 0 {
			return n, n
		}
		i += j
		if i > 0 && rest[i-1] == '\\' && escaped(rest, i) {
			continue
		}
		d := i + len(s.delim)
		if d > n || string(rest[i:d]) != s.delim {
			continue
		}
		if d == n {
			return i, n
		}
		if rest[d] == ' ' && tries < maxTries {
			if tries++; extras && validExtras(rest[d:]) || blank(rest[d:]) {
				return i, n
			}
		}
	}
}

// escaped tells whether the byte at i has an odd number of backslashes before it.
func escaped(v []byte, i int) bool {
	n := 0
	for i > n && v[i-1-n] == '\\' {
		n++
	}
	return n&1 == 1
}

// validExtras tells whether v is a run of columns, each a space and then a quoted text or a bare word.
func validExtras(v []byte) bool {
	for len(v) > 0 {
		if v[0] != ' ' {
			return false
		}
		v = v[1:]
		if len(v) == 0 {
			return true
		}
		if v[0] == '"' {
			i := 1
			for i < len(v) && (v[i] != '"' || escaped(v, i)) {
				i++
			}
			if i == len(v) {
				return false
			}
			v = v[i+1:]
			continue
		}
		i := bytes.IndexByte(v, ' ')
		word := v
		if i >= 0 {
			word = v[:i]
		}
		if bytes.IndexByte(word, '"') >= 0 {
			return false
		}
		v = v[len(word):]
	}
	return true
}
