package cluster

import (
	"encoding/binary"
	"fmt"
	"math"
)

// dictionary is LowCardinality(String): a version once; then what kind of keys, the words, and a key for each row.
type dictionary struct{}

const (
	sharedDictionary        = 1      // the only version there is
	additionalKeys          = 1 << 9 // the words come with the block
	needsUpdate             = 1 << 10
	globalDictionary        = 1 << 8 // the words came with an earlier block
	keyWidthMask            = 0xff
	unknownWord      uint32 = math.MaxUint32
)

func (dictionary) prefix(r *reader, out pieces) {
	b := r.take(8)
	if r.err == nil && binary.LittleEndian.Uint64(b) != sharedDictionary {
		r.err = fmt.Errorf("dictionary of version %d", binary.LittleEndian.Uint64(b))
	}
	out.all(b)
}

// read gives the words, each with its length before it, and the keys of n rows.
func (dictionary) read(r *reader, n int) (words [][]byte, keys []uint32) {
	flags := r.uint64()
	if r.err == nil && (flags&globalDictionary != 0 || flags&additionalKeys == 0 || flags&keyWidthMask > 3) {
		r.err = fmt.Errorf("dictionary with flags %#x", flags)
	}
	words = make([][]byte, r.count(r.uint64()))
	for i := range words {
		from := r.b
		r.take(r.uvarint())
		if r.err != nil {
			return nil, nil
		}
		words[i] = from[:len(from)-len(r.b)]
	}
	if rows := r.uint64(); r.err == nil && rows != uint64(n) {
		r.err = fmt.Errorf("dictionary with %d keys for %d rows", rows, n)
	}
	width := 1 << (flags & keyWidthMask)
	data := r.take(n * width)
	if r.err != nil {
		return nil, nil
	}
	keys = make([]uint32, n)
	for i := range keys {
		switch width {
		case 1:
			keys[i] = uint32(data[i])
		case 2:
			keys[i] = uint32(binary.LittleEndian.Uint16(data[2*i:]))
		case 4:
			keys[i] = binary.LittleEndian.Uint32(data[4*i:])
		default:
			keys[i] = uint32(min(binary.LittleEndian.Uint64(data[8*i:]), math.MaxUint32))
		}
		if uint64(keys[i]) >= uint64(len(words)) {
			r.err = fmt.Errorf("key %d of %d words", keys[i], len(words))
			return nil, nil
		}
	}
	return words, keys
}

// cut gives each piece the words that it needs, in the order in which its rows need them.
func (d dictionary) cut(r *reader, to []uint16, out pieces) {
	if len(to) == 0 {
		return
	}
	words, keys := d.read(r, len(to))
	if r.err != nil {
		return
	}
	own := make([][]uint32, len(out)) // a word's number in the piece
	list := make([][]uint32, len(out))
	rows := make([][]uint32, len(out))
	for i, t := range to {
		if own[t] == nil {
			own[t] = make([]uint32, len(words))
			for j := range own[t] {
				own[t][j] = unknownWord
			}
		}
		k := own[t][keys[i]]
		if k == unknownWord {
			k = uint32(len(list[t]))
			own[t][keys[i]] = k
			list[t] = append(list[t], keys[i])
		}
		rows[t] = append(rows[t], k)
	}
	for t := range out {
		if len(rows[t]) > 0 {
			out[t] = encodeDictionary(out[t], words, list[t], rows[t])
		}
	}
}

func encodeDictionary(b []byte, words [][]byte, list, rows []uint32) []byte {
	width := 0 // log2 of the bytes of a key
	switch n := len(list); {
	case n > math.MaxUint16:
		width = 2
	case n > math.MaxUint8:
		width = 1
	}
	b = binary.LittleEndian.AppendUint64(b, additionalKeys|needsUpdate|uint64(width))
	b = binary.LittleEndian.AppendUint64(b, uint64(len(list)))
	for _, w := range list {
		b = append(b, words[w]...)
	}
	b = binary.LittleEndian.AppendUint64(b, uint64(len(rows)))
	for _, k := range rows {
		switch width {
		case 0:
			b = append(b, byte(k))
		case 1:
			b = binary.LittleEndian.AppendUint16(b, uint16(k))
		default:
			b = binary.LittleEndian.AppendUint32(b, k)
		}
	}
	return b
}
