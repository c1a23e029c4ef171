package serve

import (
	"encoding/binary"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spate-io/spate/store"
)

// A client that names its client_protocol_version gets Native blocks in the form of that protocol: with block info before
// the block, and from revisionCustom on with a byte before each column's data. The engine writes the form without either,
// so the server puts them in. For that it must find where each column ends, which is what this file does.

// revisionCustom is the first protocol revision with a flag for custom serialisation before each column's data.
const revisionCustom = 54454

// blockInfo is "not an overflow row, no bucket", as it stands before a block.
var blockInfo = [...]byte{1, 0, 2, 0xff, 0xff, 0xff, 0xff, 0}

// nativeWriter turns Native blocks of revision 0 into those of a later one. Every Write must hold whole blocks.
type nativeWriter struct {
	dst      io.Writer
	revision int
	out      []byte
}

// Write implements [io.Writer].
func (n *nativeWriter) Write(p []byte) (int, error) {
	n.out = n.out[:0]
	w := walker{b: p}
	for w.pos < len(p) && w.err == nil {
		n.block(&w)
	}
	if w.err != nil {
		return 0, w.err
	}
	if _, err := n.dst.Write(n.out); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (n *nativeWriter) block(w *walker) {
	from := w.pos
	columns, rows := w.count(), w.count()
	n.out = append(n.out, blockInfo[:]...)
	n.out = append(n.out, w.b[from:w.pos]...)
	for range columns {
		if w.err != nil {
			return
		}
		from = w.pos
		w.str()
		name := w.str()
		n.out = append(n.out, w.b[from:w.pos]...)
		if n.revision >= revisionCustom {
			n.out = append(n.out, 0)
		}
		from = w.pos
		if rows > 0 && w.err == nil {
			t := parseType(name)
			w.prefix(t)
			w.column(t, rows)
		}
		n.out = append(n.out, w.b[from:w.pos]...)
	}
}

// typeTree is a ClickHouse type taken apart: name and arguments, each with the element's name for Tuple and Nested.
type typeTree struct {
	name string
	args []typeTree
	text string // as written, for what is not a type
}

// parseType takes a type apart. It accepts anything; what it does not know fails when data is walked.
func parseType(s string) typeTree {
	s = strings.TrimSpace(s)
	open := strings.IndexByte(s, '(')
	if open < 0 || !strings.HasSuffix(s, ")") {
		return typeTree{name: s, text: s}
	}
	t := typeTree{name: s[:open], text: s}
	for _, arg := range splitArgs(s[open+1 : len(s)-1]) {
		if t.name == "Tuple" || t.name == "Nested" {
			arg = cutElementName(arg)
		}
		t.args = append(t.args, parseType(arg))
	}
	return t
}

// splitArgs cuts at the commas that are in no bracket and no quote.
func splitArgs(s string) []string {
	var list []string
	lex := lexer{sql: s}
	from := 0
	for {
		t, ok := lex.next()
		if !ok {
			break
		}
		if t.kind == punct && t.depth == 0 && s[t.start] == ',' {
			list = append(list, s[from:t.start])
			from = t.end
		}
	}
	return append(list, s[from:])
}

// cutElementName takes the name off "name Type".
func cutElementName(s string) string {
	lex := lexer{sql: s}
	first, ok := lex.next()
	second, more := lex.next()
	if ok && more && (first.kind == word || first.kind == quoted) && (second.kind == word) {
		return s[second.start:]
	}
	return s
}

// walker moves over the data of a block. After an error it stays where it is.
type walker struct {
	b   []byte
	pos int
	err error
}

func (w *walker) fail(format string, args ...any) {
	if w.err == nil {
		w.err = &store.Error{Code: codeNotImplemented, Name: "NOT_IMPLEMENTED", Message: "Native answer: " + fmt.Sprintf(format, args...)}
	}
}

func (w *walker) skip(n int) {
	if w.err != nil {
		return
	}
	if n < 0 || n > len(w.b)-w.pos {
		w.fail("block ends early")
		return
	}
	w.pos += n
}

// skipMany moves over rows values of size bytes.
func (w *walker) skipMany(rows, size int) {
	if rows > len(w.b) {
		w.fail("%d rows in %d bytes", rows, len(w.b))
		return
	}
	w.skip(rows * size)
}

func (w *walker) count() int {
	if w.err != nil {
		return 0
	}
	v, n := binary.Uvarint(w.b[w.pos:])
	if n <= 0 || v > 1<<40 {
		w.fail("bad number")
		return 0
	}
	w.pos += n
	return int(v)
}

func (w *walker) str() string {
	n := w.count()
	from := w.pos
	w.skip(n)
	if w.err != nil {
		return ""
	}
	return string(w.b[from:w.pos])
}

func (w *walker) uint64() uint64 {
	from := w.pos
	w.skip(8)
	if w.err != nil {
		return 0
	}
	return binary.LittleEndian.Uint64(w.b[from:])
}

// prefix moves over what stands before the data of a column: the version of each LowCardinality in it.
func (w *walker) prefix(t typeTree) {
	if t.name == "LowCardinality" {
		w.skip(8)
		return
	}
	if t.name == "SimpleAggregateFunction" {
		w.prefix(inner(t))
		return
	}
	for _, arg := range t.args {
		if isContainer(t.name) {
			w.prefix(arg)
		}
	}
}

func isContainer(name string) bool {
	switch name {
	case "Array", "Nullable", "Tuple", "Map", "Nested":
		return true
	}
	return isGeo(name)
}

func isGeo(name string) bool {
	switch name {
	case "Point", "Ring", "LineString", "Polygon", "MultiLineString", "MultiPolygon":
		return true
	}
	return false
}

// inner is the type below SimpleAggregateFunction(f, T).
func inner(t typeTree) typeTree {
	if len(t.args) == 0 {
		return typeTree{}
	}
	return t.args[len(t.args)-1]
}

// column moves over the data of rows values.
func (w *walker) column(t typeTree, rows int) {
	if w.err != nil || rows == 0 {
		return
	}
	if size := fixedSize(t); size > 0 {
		w.skipMany(rows, size)
		return
	}
	switch {
	case t.name == "String":
		for range rows {
			if w.skip(w.count()); w.err != nil {
				return
			}
		}
	case t.name == "Nullable" && len(t.args) == 1:
		w.skipMany(rows, 1)
		w.column(t.args[0], rows)
	case t.name == "Tuple":
		for _, arg := range t.args {
			w.column(arg, rows)
		}
		if len(t.args) == 0 {
			w.skipMany(rows, 1)
		}
	case (t.name == "Array" || t.name == "Map" || t.name == "Nested") && len(t.args) > 0:
		n := w.offsets(rows)
		for _, arg := range t.args {
			w.column(arg, n)
		}
	case t.name == "SimpleAggregateFunction" && len(t.args) > 1:
		w.column(inner(t), rows)
	case t.name == "LowCardinality" && len(t.args) == 1:
		w.lowCardinality(t.args[0])
	case isGeo(t.name):
		w.geo(t.name, rows)
	default:
		w.fail("type %s cannot be sent in this protocol version; cast it, or ask for another format", t.text)
	}
}

// offsets moves over the ends of rows arrays and gives the last one.
func (w *walker) offsets(rows int) int {
	from := w.pos
	w.skipMany(rows, 8)
	if w.err != nil {
		return 0
	}
	last := binary.LittleEndian.Uint64(w.b[from+8*(rows-1):])
	if last > 1<<40 {
		w.fail("bad array")
		return 0
	}
	return int(last)
}

// lowCardinality moves over dictionary and indexes.
func (w *walker) lowCardinality(of typeTree) {
	flags := w.uint64()
	if flags&(1<<8) != 0 {
		w.fail("a dictionary of many blocks")
		return
	}
	if of.name == "Nullable" && len(of.args) == 1 {
		of = of.args[0]
	}
	keys := w.uint64()
	if keys > 1<<40 {
		w.fail("bad dictionary")
		return
	}
	w.column(of, int(keys))
	rows := w.uint64()
	if rows > 1<<40 {
		w.fail("bad dictionary")
		return
	}
	w.skipMany(int(rows), 1<<(flags&3))
}

// geo moves over shapes: a point is two Float64, the others are arrays of arrays of points.
func (w *walker) geo(name string, rows int) {
	levels := map[string]int{"Point": 0, "Ring": 1, "LineString": 1, "Polygon": 2, "MultiLineString": 2, "MultiPolygon": 3}[name]
	for range levels {
		if rows == 0 || w.err != nil {
			return
		}
		rows = w.offsets(rows)
	}
	w.skipMany(rows, 16)
}

// fixedSize gives the bytes of one value; 0 for types without a fixed size.
func fixedSize(t typeTree) int {
	switch t.name {
	case "UInt8", "Int8", "Bool", "Enum8", "Nothing":
		return 1
	case "UInt16", "Int16", "Enum16", "Date", "BFloat16":
		return 2
	case "UInt32", "Int32", "Float32", "Date32", "DateTime", "IPv4", "Decimal32", "Time":
		return 4
	case "UInt64", "Int64", "Float64", "DateTime64", "Decimal64", "Time64":
		return 8
	case "UInt128", "Int128", "UUID", "IPv6", "Decimal128":
		return 16
	case "UInt256", "Int256", "Decimal256":
		return 32
	case "FixedString":
		if len(t.args) == 1 {
			n, _ := strconv.Atoi(t.args[0].text) // not a number: 0, which is refused
			return n
		}
	case "Decimal":
		return decimalSize(t)
	}
	if strings.HasPrefix(t.name, "Interval") {
		return 8
	}
	return 0
}

func decimalSize(t typeTree) int {
	if len(t.args) == 0 {
		return 0
	}
	p, err := strconv.Atoi(strings.TrimSpace(t.args[0].text))
	switch {
	case err != nil:
		return 0
	case p <= 9:
		return 4
	case p <= 18:
		return 8
	case p <= 38:
		return 16
	}
	return 32
}
