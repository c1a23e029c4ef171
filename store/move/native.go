package move

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Blocks in ClickHouse's Native format follow one another without a length in front, so whoever wants to cut a stream
// between two of them has to know where every column ends. That is all this file knows: values are passed on as they are.

const (
	// maxBlock bounds the bytes of one block, against a stream that is not what it should be.
	maxBlock = 1 << 30
	// readPiece is how much room is made at a time: a length that is wrong ends in an error, not in an allocation.
	readPiece = 1 << 20
	maxDepth  = 16
)

// blocks cuts a stream of Native blocks. It is used by one goroutine.
type blocks struct {
	r     *bufio.Reader
	buf   []byte
	types map[string]*colType
}

func newBlocks(r io.Reader) *blocks {
	return &blocks{r: bufio.NewReaderSize(r, 256<<10), types: map[string]*colType{}}
}

// next gives the next block and its number of rows; io.EOF when the stream ends between two. The block is valid until the
// next call.
func (b *blocks) next() (block []byte, rows int, err error) {
	b.buf = b.buf[:0]
	if _, err := b.r.Peek(1); err != nil {
		return nil, 0, err
	}
	if rows, err = b.block(); err != nil {
		return nil, 0, fmt.Errorf("read block: %w", err)
	}
	return b.buf, rows, nil
}

func (b *blocks) block() (int, error) {
	columns, err := b.uvarint()
	if err != nil {
		return 0, err
	}
	rows, err := b.uvarint()
	if err != nil {
		return 0, err
	}
	if columns > 10_000 || rows > maxBlock {
		return 0, fmt.Errorf("%d columns of %d rows", columns, rows)
	}
	for range columns {
		if _, err := b.text(); err != nil {
			return 0, err
		}
		name, err := b.text()
		if err != nil {
			return 0, err
		}
		t, err := b.typ(name)
		if err != nil {
			return 0, err
		}
		if rows == 0 {
			continue
		}
		if err := b.prefix(t); err != nil {
			return 0, err
		}
		if err := b.column(t, rows); err != nil {
			return 0, fmt.Errorf("column of %s: %w", name, err)
		}
	}
	return int(rows), nil
}

// take moves n bytes to the block.
func (b *blocks) take(n uint64) error {
	if n > maxBlock || uint64(len(b.buf))+n > maxBlock {
		return errors.New("it is too large")
	}
	for n > 0 {
		piece := int(min(n, readPiece))
		at := len(b.buf)
		b.buf = slices.Grow(b.buf, piece)[:at+piece]
		if _, err := io.ReadFull(b.r, b.buf[at:]); err != nil {
			return within(err)
		}
		n -= uint64(piece)
	}
	return nil
}

// within gives the error of a read within a block.
func within(err error) error {
	if err == io.EOF { //nolint:errorlint // only the plain value is the end of the stream
		return io.ErrUnexpectedEOF
	}
	return err
}

// many moves n values of size bytes.
func (b *blocks) many(n, size uint64) error {
	if n > maxBlock { // so that the product fits
		return errors.New("it is too large")
	}
	return b.take(n * size)
}

func (b *blocks) uvarint() (uint64, error) {
	var v uint64
	for shift := 0; ; shift += 7 {
		c, err := b.r.ReadByte()
		if err != nil {
			return 0, within(err)
		}
		if shift > 63 || shift == 63 && c > 1 {
			return 0, errors.New("a number is too long")
		}
		b.buf = append(b.buf, c)
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return v, nil
		}
	}
}

func (b *blocks) uint64() (uint64, error) {
	if err := b.take(8); err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b.buf[len(b.buf)-8:]), nil
}

func (b *blocks) text() (string, error) {
	n, err := b.uvarint()
	if err != nil {
		return "", err
	}
	at := len(b.buf)
	if err := b.take(n); err != nil {
		return "", err
	}
	return string(b.buf[at:]), nil
}

// prefix moves what stands before the data of a column: the version of each LowCardinality in it.
func (b *blocks) prefix(t *colType) error {
	if t.name == "LowCardinality" {
		return b.take(8)
	}
	for _, a := range t.of {
		if err := b.prefix(a); err != nil {
			return err
		}
	}
	return nil
}

// column moves the data of rows values.
func (b *blocks) column(t *colType, rows uint64) error {
	if rows == 0 {
		return nil
	}
	switch t.name {
	case "String":
		return b.strings(rows)
	case "LowCardinality":
		return b.lowCardinality(t.of[0])
	case "Nullable":
		if err := b.many(rows, 1); err != nil {
			return err
		}
	case "Array", "Map":
		if err := b.many(rows, 8); err != nil {
			return err
		}
		rows = binary.LittleEndian.Uint64(b.buf[len(b.buf)-8:])
	case "Tuple", "SimpleAggregateFunction":
	default:
		return b.many(rows, t.size)
	}
	for _, a := range t.of {
		if err := b.column(a, rows); err != nil {
			return err
		}
	}
	return nil
}

func (b *blocks) strings(rows uint64) error {
	for range rows {
		n, err := b.uvarint()
		if err != nil {
			return err
		}
		if err := b.take(n); err != nil {
			return err
		}
	}
	return nil
}

// lowCardinality moves dictionary and indexes.
func (b *blocks) lowCardinality(of *colType) error {
	flags, err := b.uint64()
	if err != nil {
		return err
	}
	if flags&(1<<8) != 0 {
		return errors.New("a dictionary of many blocks")
	}
	keys, err := b.uint64()
	if err != nil {
		return err
	}
	if of.name == "Nullable" {
		of = of.of[0]
	}
	if err := b.column(of, keys); err != nil {
		return err
	}
	rows, err := b.uint64()
	if err != nil {
		return err
	}
	return b.many(rows, 1<<(flags&3))
}

// colType is a ClickHouse type as far as its size is concerned.
type colType struct {
	name string
	of   []*colType // what it is made of; of SimpleAggregateFunction only the type
	size uint64     // of one value, of types with a fixed size
}

func (b *blocks) typ(name string) (*colType, error) {
	if t := b.types[name]; t != nil {
		return t, nil
	}
	t, err := parseType(name, 0)
	if err != nil {
		return nil, err
	}
	b.types[strings.Clone(name)] = t
	return t, nil
}

// parseType reads the name of a type.
func parseType(s string, depth int) (*colType, error) {
	if depth > maxDepth {
		return nil, errors.New("a type has too many levels")
	}
	name, args, err := cutType(s)
	if err != nil {
		return nil, err
	}
	t := &colType{name: name}
	var wanted int
	switch name {
	case "String":
		return t, nil
	case "Array", "Nullable", "LowCardinality":
		wanted = 1
	case "Map":
		wanted = 2
	case "SimpleAggregateFunction":
		if len(args) != 2 {
			return nil, fmt.Errorf("type %q is not known", s)
		}
		args, wanted = args[1:], 1
	case "Tuple":
		wanted = len(args)
	default:
		if t.size = fixedSize(name, args); t.size == 0 {
			return nil, fmt.Errorf("type %q is not known", s)
		}
		return t, nil
	}
	if len(args) != wanted || wanted == 0 {
		return nil, fmt.Errorf("type %q is not known", s)
	}
	for _, a := range args {
		if name == "Tuple" { // an element may have a name
			if _, rest, ok := strings.Cut(a, " "); ok && !strings.Contains(a[:len(a)-len(rest)], "(") {
				a = rest
			}
		}
		of, err := parseType(a, depth+1)
		if err != nil {
			return nil, err
		}
		t.of = append(t.of, of)
	}
	return t, nil
}

// cutType takes Name(a, b) apart.
func cutType(s string) (name string, args []string, err error) {
	s = strings.TrimSpace(s)
	open := strings.IndexByte(s, '(')
	if open < 0 {
		return s, nil, nil
	}
	if !strings.HasSuffix(s, ")") {
		return "", nil, fmt.Errorf("type %q is not known", s)
	}
	name, s = s[:open], s[open+1:len(s)-1]
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
			args = append(args, strings.TrimSpace(s[from:i]))
			from = i + 1
		}
	}
	return name, append(args, strings.TrimSpace(s[from:])), nil
}

// fixedSize gives the bytes of one value; 0 for types without a fixed size and those that no table of ours has.
func fixedSize(name string, args []string) uint64 {
	switch name {
	case "UInt8", "Int8", "Bool", "Enum8":
		return 1
	case "UInt16", "Int16", "Enum16", "Date":
		return 2
	case "UInt32", "Int32", "Float32", "Date32", "DateTime", "IPv4":
		return 4
	case "UInt64", "Int64", "Float64", "DateTime64":
		return 8
	case "UInt128", "Int128", "UUID", "IPv6":
		return 16
	case "UInt256", "Int256":
		return 32
	case "FixedString":
		if len(args) == 1 {
			n, err := strconv.ParseUint(args[0], 10, 31)
			if err == nil {
				return n
			}
		}
	}
	return 0
}
