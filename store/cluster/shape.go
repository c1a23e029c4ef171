package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// reader goes through a block. After an error it gives nothing more.
type reader struct {
	b   []byte
	err error
}

var errShort = errors.New("block ends too early")

func (r *reader) take(n int) []byte {
	if r.err == nil && (n < 0 || n > len(r.b)) {
		r.err = errShort
	}
	if r.err != nil {
		return nil
	}
	head := r.b[:n]
	r.b = r.b[n:]
	return head
}

func (r *reader) uvarint() int {
	v, n := binary.Uvarint(r.b)
	if r.err == nil && (n <= 0 || v > 1<<40) {
		r.err = errShort
	}
	if r.err != nil {
		return 0
	}
	r.b = r.b[n:]
	return int(v)
}

func (r *reader) uint64() uint64 {
	if b := r.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (r *reader) text() string { return string(r.take(r.uvarint())) }

// count gives a number of things that need at least a byte each in what is left.
func (r *reader) count(n uint64) int {
	if r.err == nil && n > uint64(len(r.b)) {
		r.err = errShort
	}
	if r.err != nil {
		return 0
	}
	return int(n)
}

// pieces are what a block is cut into, one buffer for each shard.
type pieces [][]byte

func (p pieces) all(b []byte) {
	for i := range p {
		p[i] = append(p[i], b...)
	}
}

// shape knows how the values of a type lie in a Native column.
type shape interface {
	// prefix passes on what stands once before the values.
	prefix(r *reader, out pieces)
	// cut passes each value on to the piece that to names.
	cut(r *reader, to []uint16, out pieces)
}

// fixed are values of so many bytes.
type fixed int

func (fixed) prefix(*reader, pieces) {}

func (w fixed) cut(r *reader, to []uint16, out pieces) {
	data := r.take(len(to) * int(w))
	if r.err != nil {
		return
	}
	at := out.extend(to, int(w))
	switch w {
	case 1:
		for i, t := range to {
			out[t][at[t]] = data[i]
			at[t]++
		}
	case 4:
		for i, t := range to {
			*(*[4]byte)(out[t][at[t]:]) = [4]byte(data[i*4:])
			at[t] += 4
		}
	case 8:
		for i, t := range to {
			*(*[8]byte)(out[t][at[t]:]) = [8]byte(data[i*8:])
			at[t] += 8
		}
	default:
		for i, t := range to {
			copy(out[t][at[t]:], data[i*int(w):(i+1)*int(w)])
			at[t] += int(w)
		}
	}
}

// extend makes room for values of so many bytes and says where in each piece it begins.
func (p pieces) extend(to []uint16, width int) (at []int) {
	at = make([]int, len(p))
	for _, t := range to {
		at[t] += width
	}
	for i, n := range at {
		at[i] = len(p[i])
		p[i] = slices.Grow(p[i], n)[:len(p[i])+n]
	}
	return at
}

// text is String.
type text struct{}

func (text) prefix(*reader, pieces) {}

func (text) cut(r *reader, to []uint16, out pieces) {
	for _, t := range to {
		from := r.b
		r.take(r.uvarint())
		if r.err != nil {
			return
		}
		out[t] = append(out[t], from[:len(from)-len(r.b)]...)
	}
}

// uniqState is the state of uniq: a byte, a number, and so many hashes of four bytes.
type uniqState struct{}

func (uniqState) prefix(*reader, pieces) {}

func (uniqState) cut(r *reader, to []uint16, out pieces) {
	for _, t := range to {
		from := r.b
		r.take(1)
		r.take(4 * r.uvarint())
		if r.err != nil {
			return
		}
		out[t] = append(out[t], from[:len(from)-len(r.b)]...)
	}
}

// array has the ends of all rows, then all elements.
type array struct{ of shape }

func (a array) prefix(r *reader, out pieces) { a.of.prefix(r, out) }

func (a array) cut(r *reader, to []uint16, out pieces) {
	ends := make([]uint64, len(out))
	var elements []uint16
	before := uint64(0)
	for _, t := range to {
		end := r.uint64()
		if r.err != nil || end < before {
			r.err = errors.Join(r.err, errShort)
			return
		}
		n := r.count(end) - int(before)
		if r.err != nil {
			return
		}
		before = end
		ends[t] += uint64(n)
		out[t] = binary.LittleEndian.AppendUint64(out[t], ends[t])
		for range n {
			elements = append(elements, t)
		}
	}
	a.of.cut(r, elements, out)
}

// tuple has one column after the other; Map is an array of one.
type tuple []shape

func (t tuple) prefix(r *reader, out pieces) {
	for _, s := range t {
		s.prefix(r, out)
	}
}

func (t tuple) cut(r *reader, to []uint16, out pieces) {
	for _, s := range t {
		s.cut(r, to, out)
	}
}

// nullable has a byte for each row, then the values.
type nullable struct{ of shape }

func (n nullable) prefix(r *reader, out pieces) { n.of.prefix(r, out) }

func (n nullable) cut(r *reader, to []uint16, out pieces) {
	fixed(1).cut(r, to, out)
	n.of.cut(r, to, out)
}

// fixedWidths are the types of fixed width.
var fixedWidths = map[string]int{
	"UInt8": 1, "UInt16": 2, "UInt32": 4, "UInt64": 8, "UInt128": 16, "UInt256": 32,
	"Int8": 1, "Int16": 2, "Int32": 4, "Int64": 8, "Int128": 16, "Int256": 32,
	"Float32": 4, "Float64": 8, "Bool": 1, "Date": 2, "Date32": 4, "DateTime": 4, "DateTime64": 8,
	"IPv4": 4, "IPv6": 16, "UUID": 16, "Enum8": 1, "Enum16": 2,
}

// shapeOf reads a type.
func shapeOf(typ string) (shape, error) {
	name, rest, ok := strings.Cut(strings.TrimSpace(typ), "(")
	var args []string
	if ok {
		if !strings.HasSuffix(rest, ")") {
			return nil, fmt.Errorf("type %q", typ)
		}
		args = splitArgs(rest[:len(rest)-1])
	}
	if w, ok := fixedWidths[name]; ok {
		return fixed(w), nil
	}
	switch {
	case name == "String" && len(args) == 0:
		return text{}, nil
	case name == "FixedString" && len(args) == 1:
		n, err := strconv.Atoi(args[0])
		if err != nil || n < 1 || n > 1<<20 {
			return nil, fmt.Errorf("type %q", typ)
		}
		return fixed(n), nil
	case name == "AggregateFunction" && len(args) == 2 && args[0] == "uniq":
		return uniqState{}, nil
	case name == "SimpleAggregateFunction" && len(args) == 2:
		return shapeOf(args[1])
	case name == "LowCardinality" && len(args) == 1 && args[0] == "String":
		return dictionary{}, nil
	case name == "Nullable" && len(args) == 1:
		of, err := shapeOf(args[0])
		return nullable{of}, err
	case name == "Array" && len(args) == 1:
		of, err := shapeOf(args[0])
		return array{of}, err
	case name == "Map" && len(args) == 2, name == "Tuple" && len(args) > 0:
		return listShape(name, args)
	}
	return nil, fmt.Errorf("no way to cut a column of type %q is known", typ)
}

func listShape(name string, args []string) (shape, error) {
	var t tuple
	for _, a := range args {
		if before, after, ok := strings.Cut(a, " "); ok && name == "Tuple" && !strings.Contains(before, "(") {
			a = after // the element has a name
		}
		s, err := shapeOf(a)
		if err != nil {
			return nil, err
		}
		t = append(t, s)
	}
	if name == "Map" {
		return array{t}, nil
	}
	return t, nil
}

// splitArgs cuts the arguments of a type at commas that are not within brackets or quotes.
func splitArgs(s string) []string {
	var list []string
	depth, from, quoted := 0, 0, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quoted && c == '\\':
			i++
		case c == '\'':
			quoted = !quoted
		case quoted:
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth == 0:
			list = append(list, strings.TrimSpace(s[from:i]))
			from = i + 1
		}
	}
	return append(list, strings.TrimSpace(s[from:]))
}
