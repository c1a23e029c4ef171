package schema

import (
	"encoding/binary"
	"math"
	"net/netip"

	"github.com/ClickHouse/ch-go/proto"
)

// The columns of a block under construction. Each appends its Native form, header included, to a buffer; all memory is
// kept over reset.
type blockColumn interface {
	encode(b *proto.Buffer)
	reset()
}

// header is what precedes the data of each column in a Native block: name and type.
type header struct{ name, typ string }

func (h header) put(b *proto.Buffer) {
	b.PutString(h.name)
	b.PutString(h.typ)
}

// word is an unsigned column of fixed width, kept in its wire form.
type word struct {
	header
	data []byte
}

func (c *word) u16(v uint16)  { c.data = binary.LittleEndian.AppendUint16(c.data, v) }
func (c *word) u32(v uint32)  { c.data = binary.LittleEndian.AppendUint32(c.data, v) }
func (c *word) u64(v uint64)  { c.data = binary.LittleEndian.AppendUint64(c.data, v) }
func (c *word) i64(v int64)   { c.u64(uint64(v)) }
func (c *word) f32(v float32) { c.u32(math.Float32bits(v)) }
func (c *word) ip(a netip.Addr) {
	v := address(a)
	c.data = append(c.data, v[:]...)
}

// address gives an address as IPv6 columns have it; one that is not known is all zeros.
func address(a netip.Addr) [16]byte {
	if !a.IsValid() {
		return [16]byte{}
	}
	return a.As16()
}

func (c *word) bool(v bool) {
	var n uint8
	if v {
		n = 1
	}
	c.data = append(c.data, n)
}

// uint16, uint32 and uint64 give what a row of a column of that width has.
func (c *word) uint16(row uint32) uint16 { return binary.LittleEndian.Uint16(c.data[2*row:]) }
func (c *word) uint32(row uint32) uint32 { return binary.LittleEndian.Uint32(c.data[4*row:]) }
func (c *word) uint64(row uint32) uint64 { return binary.LittleEndian.Uint64(c.data[8*row:]) }

func (c *word) encode(b *proto.Buffer) {
	c.put(b)
	b.Buf = append(b.Buf, c.data...)
}

func (c *word) reset() { c.data = c.data[:0] }

// text is a String column, kept in its wire form.
type text struct {
	header
	data []byte
}

func (c *text) bytes(v []byte) {
	c.data = binary.AppendUvarint(c.data, uint64(len(v)))
	c.data = append(c.data, v...)
}

func (c *text) encode(b *proto.Buffer) {
	c.put(b)
	b.Buf = append(b.Buf, c.data...)
}

func (c *text) reset() { c.data = c.data[:0] }

// dict is a LowCardinality(String) column: a dictionary and one key per row.
type dict struct {
	header
	known map[string]uint32
	list  []string // the dictionary
	keys  []uint32 // one per row
	index uint32   // key of the row before, which is often that of the next one too
}

func newDict(name string) dict {
	return dict{header: header{name, lowCardinalityText}, known: map[string]uint32{}}
}

func (c *dict) bytes(v []byte) {
	if len(c.keys) == 0 || string(v) != c.list[c.index] {
		i, ok := c.known[string(v)]
		if !ok {
			i = c.add(string(v))
		}
		c.index = i
	}
	c.keys = append(c.keys, c.index)
}

func (c *dict) string(v string) {
	if len(c.keys) == 0 || v != c.list[c.index] {
		i, ok := c.known[v]
		if !ok {
			i = c.add(v)
		}
		c.index = i
	}
	c.keys = append(c.keys, c.index)
}

func (c *dict) add(v string) uint32 {
	i := uint32(len(c.list))
	c.known[v] = i
	c.list = append(c.list, v)
	return i
}

// Parts of the Native form of LowCardinality.
const (
	dictVersion     = 1            // shared dictionaries with additional keys
	dictUpdateFlags = 1<<9 | 1<<10 // the block brings keys of its own, and they are all of them
)

func (c *dict) encode(b *proto.Buffer) {
	c.put(b)
	if len(c.keys) == 0 {
		return
	}
	b.PutInt64(dictVersion)
	width := 0 // log2 of the bytes of a key
	switch n := len(c.list); {
	case n > math.MaxUint16:
		width = 2
	case n > math.MaxUint8:
		width = 1
	}
	b.PutInt64(dictUpdateFlags | int64(width))
	b.PutInt64(int64(len(c.list)))
	for _, v := range c.list {
		b.PutString(v)
	}
	b.PutInt64(int64(len(c.keys)))
	buf := b.Buf
	switch width {
	case 0:
		for _, k := range c.keys {
			buf = append(buf, byte(k))
		}
	case 1:
		for _, k := range c.keys {
			buf = binary.LittleEndian.AppendUint16(buf, uint16(k))
		}
	default:
		for _, k := range c.keys {
			buf = binary.LittleEndian.AppendUint32(buf, k)
		}
	}
	b.Buf = buf
}

func (c *dict) reset() {
	clear(c.known)
	clear(c.list)
	c.list, c.keys, c.index = c.list[:0], c.keys[:0], 0
}
