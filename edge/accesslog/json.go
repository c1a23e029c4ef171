package accesslog

import (
	"bytes"

	"github.com/spate-io/spate/event"
)

// jsonTable says which keys of a JSON log hold what: "request>uri" is key uri in the object under request. "status" after '!'
// marks keys without which a line is not of this format.
type jsonTable struct {
	keys map[string]field
	need []string
}

// jsonKey is a key that is known at some place of the object.
type jsonKey struct {
	name  string
	field field
	bit   uint32 // of jsonParser.need
	child *jsonObject
}

// jsonObject is what is known of the keys of one object. Lines of one writer have their keys in one order, so the entry that
// was at the same place in the line before is tried first.
type jsonObject struct {
	keys  map[string]*jsonKey
	order []jsonSlot
}

type jsonSlot struct {
	text []byte
	key  *jsonKey // nil: not known
}

// maxSlots bounds what a hostile object can make the parser remember.
const maxSlots = 256

// jsonParser reads JSON lines by a table, in one pass, without building anything.
type jsonParser struct {
	record
	root    *jsonObject
	need    uint32
	got     uint32
	names   []string
	maxLine int
}

func (t *jsonTable) parser(o Options) Parser {
	p := &jsonParser{root: newJSONObject(), maxLine: o.MaxLine, names: t.need}
	p.clock.zone = o.Zone
	for path, f := range t.keys {
		p.add(path).field = f
	}
	for i, path := range t.need {
		p.add(path).bit = 1 << i
		p.need |= 1 << i
	}
	return p
}

func newJSONObject() *jsonObject { return &jsonObject{keys: map[string]*jsonKey{}} }

// add finds or makes the key at a path.
func (p *jsonParser) add(path string) *jsonKey {
	obj := p.root
	for {
		name, rest, more := cutPath(path)
		k := obj.keys[name]
		if k == nil {
			k = &jsonKey{name: name}
			obj.keys[name] = k
		}
		if !more {
			return k
		}
		if k.child == nil {
			k.child = newJSONObject()
		}
		obj, path = k.child, rest
	}
}

func cutPath(path string) (name, rest string, more bool) {
	for i := range len(path) {
		if path[i] == '>' {
			return path[:i], path[i+1:], true
		}
	}
	return path, "", false
}

// Parse implements [Parser].
func (p *jsonParser) Parse(line []byte, e *event.HTTP) error {
	p.begin(e)
	p.got = 0
	line = trim(line)
	if len(line) > p.maxLine {
		return p.fail(fIgnore, 0, reasonTooLong)
	}
	p.plain = bytes.IndexByte(line, '\\') < 0
	i := skipSpace(line, 0)
	if i == len(line) || line[i] != '{' {
		return p.refuse(line, "line", i, "not a JSON object")
	}
	end, err := p.object(line, i, p.root, 0)
	if err != nil {
		return err
	}
	if end = skipSpace(line, end); end != len(line) {
		return p.refuse(line, "line", end, "text after the object")
	}
	if missing := p.need &^ p.got; missing != 0 {
		for i, name := range p.names {
			if missing&(1<<i) != 0 {
				return p.refuse(line, name, 0, "key is missing")
			}
		}
	}
	if f, reason := p.finish(); reason != "" {
		return p.fail(f, 0, reason)
	}
	return nil
}

// maxDepth bounds recursion into objects; tables know three levels.
const maxDepth = 8

// object reads the object at b[i] and gives the position behind it.
func (p *jsonParser) object(b []byte, i int, obj *jsonObject, depth int) (int, error) {
	i = skipSpace(b, i+1)
	if i < len(b) && b[i] == '}' {
		return i + 1, nil
	}
	for n := 0; ; n++ {
		if i >= len(b) || b[i] != '"' {
			return 0, p.refuse(b, "line", i, "no key where one should be")
		}
		from := i + 1
		key, end := obj.guess(b, from, n)
		if end == 0 {
			if end = stringEnd(b, from); end < 0 {
				return 0, p.refuse(b, "line", i, "string is not closed")
			}
			key = obj.find(b[from:end], n)
		}
		i = end + 1
		if i >= len(b) || b[i] != ':' {
			if i = skipSpace(b, i); i >= len(b) || b[i] != ':' {
				return 0, p.refuse(b, "line", i, "no colon after a key")
			}
		}
		i++
		if i < len(b) && b[i] <= ' ' {
			i = skipSpace(b, i)
		}
		var err error
		if i, err = p.value(b, i, key, depth); err != nil {
			return 0, err
		}
		if i < len(b) && b[i] <= ' ' {
			i = skipSpace(b, i)
		}
		if i >= len(b) {
			return 0, p.refuse(b, "line", i, "object is not closed")
		}
		switch b[i] {
		case '}':
			return i + 1, nil
		case ',':
			i++
			if i < len(b) && b[i] <= ' ' {
				i = skipSpace(b, i)
			}
		default:
			return 0, p.refuse(b, "line", i, "neither comma nor brace after a value")
		}
	}
}

// value reads the value at b[i] and gives the position behind it.
func (p *jsonParser) value(b []byte, i int, key *jsonKey, depth int) (int, error) {
	if i >= len(b) {
		return 0, p.refuse(b, "line", i, "no value after a key")
	}
	switch b[i] {
	case '"':
		end := stringEnd(b, i+1)
		if end < 0 {
			return 0, p.refuse(b, "line", i, "string is not closed")
		}
		if key != nil {
			return end + 1, p.take(b, i+1, end, key, true)
		}
		return end + 1, nil
	case '{':
		if key != nil && key.child != nil && depth < maxDepth {
			p.got |= key.bit
			return p.object(b, i, key.child, depth+1)
		}
		return p.skip(b, i)
	case '[':
		if key != nil && key.field != fIgnore {
			if j := skipSpace(b, i+1); j < len(b) && b[j] == '"' { // headers are lists; the first value counts
				if end := stringEnd(b, j+1); end >= 0 {
					if err := p.take(b, j+1, end, key, true); err != nil {
						return 0, err
					}
				}
			}
		}
		return p.skip(b, i)
	}
	end := i
	for end < len(b) && b[end] != ',' && b[end] != '}' && b[end] != ']' && b[end] > ' ' {
		end++
	}
	if !isScalar(b[i:end]) {
		return 0, p.refuse(b, "line", i, "not a JSON value")
	}
	if key != nil && b[i] != 'n' {
		return end, p.take(b, i, end, key, false)
	}
	return end, nil
}

// take puts the value b[from:to] into the event.
func (p *jsonParser) take(b []byte, from, to int, key *jsonKey, text bool) error {
	p.got |= key.bit
	if key.field == fIgnore {
		return nil
	}
	v := b[from:to]
	if text && !p.plain && bytes.IndexByte(v, '\\') >= 0 {
		var ok bool
		if v, p.scratch, ok = unescapeJSON(v, p.scratch); !ok {
			return p.refuse(b, key.name, from, "broken escape")
		}
	}
	if reason := p.set(key.field, v, false); reason != "" {
		return p.refuse(b, key.name, from, reason)
	}
	return nil
}

// skip passes over a list or an object that nobody wants.
func (p *jsonParser) skip(b []byte, i int) (int, error) {
	depth := 0
	for j := i; j < len(b); j++ {
		switch b[j] {
		case '"':
			end := stringEnd(b, j+1)
			if end < 0 {
				return 0, p.refuse(b, "line", j, "string is not closed")
			}
			j = end
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return j + 1, nil
			}
		}
	}
	return 0, p.refuse(b, "line", i, "list or object is not closed")
}

// guess gives the key at b[from] and its end when it is the one that was n-th in the line before; else the end is 0.
func (o *jsonObject) guess(b []byte, from, n int) (*jsonKey, int) {
	if n >= len(o.order) {
		return nil, 0
	}
	slot := &o.order[n]
	end := from + len(slot.text)
	if end < len(b) && b[end] == '"' && string(b[from:end]) == string(slot.text) {
		return slot.key, end
	}
	return nil, 0
}

// find gives what is known of a key, the n-th of its object.
func (o *jsonObject) find(name []byte, n int) *jsonKey {
	if n < len(o.order) {
		slot := &o.order[n]
		slot.key = o.keys[string(name)]
		slot.text = append(slot.text[:0], name...)
		return slot.key
	}
	key := o.keys[string(name)]
	if n < maxSlots {
		o.order = append(o.order, jsonSlot{append([]byte(nil), name...), key})
	}
	return key
}

// stringEnd gives the position of the quote that ends the string starting at i, or -1.
func stringEnd(b []byte, i int) int {
	for from := i; ; {
		j := bytes.IndexByte(b[i:], '"')
		if j < 0 {
			return -1
		}
		i += j
		if i == from || b[i-1] != '\\' || !escaped(b[from:], i-from) {
			return i
		}
		i++
	}
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// isScalar tells whether v is a number, true, false or null.
func isScalar(v []byte) bool {
	if len(v) == 0 {
		return false
	}
	switch v[0] {
	case 't':
		return string(v) == "true"
	case 'f':
		return string(v) == "false"
	case 'n':
		return string(v) == "null"
	}
	for _, c := range v {
		if (c < '0' || c > '9') && c != '.' && c != '-' && c != '+' && c != 'e' && c != 'E' {
			return false
		}
	}
	return true
}
