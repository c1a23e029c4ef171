package event

import (
	"encoding/binary"
	"net/netip"
	"slices"
)

const (
	framing    = 8                                                                 // segment table of a message with one segment
	headSize   = 8 + HTTPDataSize                                                  // root pointer and data section
	fixedSize  = headSize + HTTPPointers*8                                         // everything before the first object
	rootWord   = HTTPDataSize/8<<32 | HTTPPointers<<48                             // struct pointer, offset 0
	listOfByte = 2<<32 | 1                                                         // list pointer, one byte an element
	maxSegment = (MaxMessage - framing) / 8                                        // words
	_          = uint(MaxMessage - fixedSize - framing - HTTPPointers*(MaxText+8)) // cut events fit
)

// Reset empties e. It keeps nothing that a caller's slice refers to.
func (e *HTTP) Reset() { *e = HTTP{} }

// clip cuts every text to MaxText bytes.
func clip(t []byte) []byte { return t[:min(len(t), MaxText)] }

// textSize returns the bytes that t takes behind its pointer: its bytes and a NUL, rounded up to words.
func textSize(t []byte) int {
	if len(t) == 0 {
		return 0
	}
	return (len(t) + 8) &^ 7
}

// ipSize returns the bytes that a takes behind its pointer.
func ipSize(a netip.Addr) int {
	switch a.BitLen() {
	case 32:
		return 8
	case 128:
		return 16
	}
	return 0
}

// putText writes the text t at pos of the segment b, its pointer at index i, and returns the position after it.
func putText(b []byte, i, pos int, t []byte) int {
	at := headSize + i*8
	if len(t) == 0 {
		binary.LittleEndian.PutUint64(b[at:], 0)
		return pos
	}
	end := pos + (len(t)+8)&^7
	binary.LittleEndian.PutUint64(b[at:], listWord(at, pos, len(t)+1))
	binary.LittleEndian.PutUint64(b[end-8:], 0) // the NUL and the padding
	copy(b[pos:], t)
	return end
}

// putIP writes the address a as putText writes a text.
func putIP(b []byte, i, pos int, a netip.Addr) int {
	at := headSize + i*8
	switch a.BitLen() {
	case 32:
		v := a.As4()
		binary.LittleEndian.PutUint64(b[at:], listWord(at, pos, 4))
		binary.LittleEndian.PutUint64(b[pos:], uint64(binary.LittleEndian.Uint32(v[:])))
		return pos + 8
	case 128:
		v := a.As16()
		binary.LittleEndian.PutUint64(b[at:], listWord(at, pos, 16))
		copy(b[pos:pos+16], v[:])
		return pos + 16
	}
	binary.LittleEndian.PutUint64(b[at:], 0)
	return pos
}

// listWord returns the pointer at byte at to a list of n bytes at byte pos, both in one segment.
func listWord(at, pos, n int) uint64 {
	return uint64(n)<<35 | listOfByte | uint64(uint32((pos-at-8)/8)<<2)
}

// extend makes dst longer by n bytes and returns it with the new part. The new part holds garbage.
func extend(dst []byte, n int) (all, part []byte) {
	l := len(dst)
	all = slices.Grow(dst, n)[:l+n]
	return all, all[l : l+n : l+n]
}

// bit returns a byte that has bit n set if b is true.
func bit(b bool, n int) byte {
	if b {
		return 1 << n
	}
	return 0
}
