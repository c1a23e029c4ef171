package event

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"
)

// What can be wrong with a message. Errors of ReadHTTP and Walk match one of these with errors.Is.
var (
	// ErrShort says that the bytes end before the message does.
	ErrShort = errors.New("message is cut short")
	// ErrTooLarge says that the message declares more than MaxMessage bytes or more than 512 segments.
	ErrTooLarge = errors.New("message is too large")
	// ErrPointer says that a pointer leads outside of its segment, or that the pointers lead to more bytes than there are.
	ErrPointer = errors.New("pointer leads outside")
	// ErrKind says that a pointer leads to another kind of object than the schema has there.
	ErrKind = errors.New("pointer to the wrong kind of object")
	// ErrText says that a text does not end with a NUL.
	ErrText = errors.New("text without its NUL")
)

// Error says what is wrong with a message and where.
type Error struct {
	Part   string // "framing", "root", or the name of a field
	Offset int    // byte in the message where the part that is wrong lies
	Err    error  // one of the sentinels of this package
}

// Error returns part, offset and problem in one line.
func (e *Error) Error() string { return fmt.Sprintf("%s at byte %d: %v", e.Part, e.Offset, e.Err) }

// Unwrap returns the sentinel.
func (e *Error) Unwrap() error { return e.Err }

func bad(part string, offset int, err error) error {
	return &Error{Part: part, Offset: offset, Err: err}
}

// View reads the fields of one message in place. It is made by ReadHTTP or Walk; the zero View has no fields and must
// not be read. Slices that its methods return alias the message, are valid as long as its bytes are left alone, and must
// not be written to. Copies of a View and concurrent readers are fine.
//
// A text that is absent is returned as an empty slice. An address that is absent, or has a length other than 4 or 16
// bytes, is returned as the zero netip.Addr.
type View struct {
	seg  []byte // the segment, cut to its length
	data int    // where in seg the data section begins
	ptrs int    // where in seg the pointer section begins
}

// ReadHTTP reads the message that b begins with and returns a View of it and the number of bytes it takes in b.
// Everything is checked here. Messages of older and newer versions of the schema are accepted, and any number of segments;
// only messages that are not of the plain form (one segment, all sections at least as long as this version's) cost
// an allocation. Errors are of type *Error.
func ReadHTTP(b []byte) (v View, n int, err error) {
	if len(b) < framing {
		return View{}, 0, bad("framing", len(b), ErrShort)
	}
	word := binary.LittleEndian.Uint64(b)
	if uint32(word) != 0 {
		return readSegments(b)
	}
	words := int(word >> 32)
	if words > maxSegment {
		return View{}, 0, bad("framing", 4, ErrTooLarge)
	}
	n = framing + words*8
	if len(b) < n {
		return View{}, 0, bad("framing", len(b), ErrShort)
	}
	if words == 0 {
		return View{}, 0, bad("root", framing, ErrPointer)
	}
	seg := b[framing:n:n]
	root := binary.LittleEndian.Uint64(seg)
	dataWords, pointers := int(uint16(root>>32)), int(uint16(root>>48))
	if root&3 != 0 || dataWords*8 < HTTPDataSize || pointers < HTTPPointers {
		return readSegments(b)
	}
	v = View{seg: seg, data: 8 + int(int32(root)>>2)*8}
	v.ptrs = v.data + dataWords*8
	if v.data < 0 || v.ptrs+pointers*8 > len(seg) {
		return View{}, 0, bad("root", framing, ErrPointer)
	}
	if i, err := v.check(); err != nil {
		if errors.Is(err, errFar) {
			return readSegments(b)
		}
		return View{}, 0, bad(pointerName(i), framing+v.ptrs+i*8, err)
	}
	return v, n, nil
}

// errFar says that a pointer takes the long way over a landing pad.
var errFar = errors.New("far pointer")

// check looks at every pointer of the struct and returns the index of one that a View could not follow, and why.
func (v View) check() (int, error) {
	left := len(v.seg)
	ptrs := v.ptrs
	section := v.seg[ptrs : ptrs+HTTPPointers*8]
	for i := range HTTPPointers {
		word := binary.LittleEndian.Uint64(section[i*8:])
		if word == 0 {
			continue
		}
		if word&(7<<32|3) != listOfByte {
			if word&3 == 2 {
				return i, errFar
			}
			return i, ErrKind
		}
		size := int(word >> 35)
		start := ptrs + i*8 + 8 + int(int32(word)>>2)*8
		end := start + size
		left -= size
		if start < 0 || end > len(v.seg) || left < 0 {
			return i, ErrPointer
		}
		if i >= firstText && (size == 0 || v.seg[end-1] != 0) {
			return i, ErrText
		}
	}
	return 0, nil
}

// bytes returns the object behind pointer i.
func (v View) bytes(i int) []byte {
	at := v.ptrs + i*8
	word := binary.LittleEndian.Uint64(v.seg[at:])
	if word == 0 {
		return nil
	}
	start := at + 8 + int(int32(word)>>2)*8
	end := start + int(word>>35)
	return v.seg[start:end:end]
}

func (v View) text(i int) []byte {
	at := v.ptrs + i*8
	word := binary.LittleEndian.Uint64(v.seg[at:])
	if word == 0 {
		return nil
	}
	start := at + 8 + int(int32(word)>>2)*8
	end := start + int(word>>35) - 1 // without the NUL
	return v.seg[start:end:end]
}

func (v View) ip(i int) netip.Addr {
	a, _ := netip.AddrFromSlice(v.bytes(i))
	return a
}

func (v View) uint64(off int) uint64 { return binary.LittleEndian.Uint64(v.seg[v.data+off:]) }
func (v View) uint32(off int) uint32 { return binary.LittleEndian.Uint32(v.seg[v.data+off:]) }
func (v View) uint16(off int) uint16 { return binary.LittleEndian.Uint16(v.seg[v.data+off:]) }
func (v View) float32(off int) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(v.seg[v.data+off:]))
}
func (v View) bool(off, bit int) bool { return v.seg[v.data+off]>>bit&1 != 0 }

// Walk calls f with a View of each of the messages that lie in b one after the other, and returns how many it called
// f for. It stops at the first error, its own or f's; an error of its own says which message is wrong and wraps an *Error.
func Walk(b []byte, f func(View) error) (count int, err error) {
	for at := 0; at < len(b); count++ {
		v, n, err := ReadHTTP(b[at:])
		if err != nil {
			return count, fmt.Errorf("message %d at byte %d: %w", count, at, err)
		}
		if err := f(v); err != nil {
			return count, err
		}
		at += n
	}
	return count, nil
}
