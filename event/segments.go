package event

import "encoding/binary"

// maxSegments is the limit that the C++ library has.
const maxSegments = 512

// readSegments reads any valid message: of several segments, with far pointers, with sections of another size. It
// copies what is found into a message of the plain form.
func readSegments(b []byte) (View, int, error) {
	m, n, err := splitSegments(b)
	if err != nil {
		return View{}, 0, err
	}
	root, err := m.follow("root", 0, 0)
	if err != nil {
		return View{}, 0, err
	}
	out := make([]byte, fixedSize, fixedSize+n)
	binary.LittleEndian.PutUint64(out, rootWord)
	v := View{seg: out, data: 8, ptrs: headSize}
	if root.word == 0 {
		return v, n, nil
	}
	size, pointers := int(uint16(root.word>>32))*8, int(uint16(root.word>>48))
	if root.word&3 != 0 {
		return View{}, 0, bad("root", m.offset(0, 0), ErrKind)
	}
	if !m.holds(root.seg, root.at, size+pointers*8) {
		return View{}, 0, bad("root", m.offset(0, 0), ErrPointer)
	}
	copy(out[8:headSize], m[root.seg].b[root.at:root.at+size])
	left := n
	for i := range min(pointers, HTTPPointers) {
		o, err := m.blob(i, root.seg, root.at+size+i*8, &left)
		if err != nil {
			return View{}, 0, err
		}
		if o == nil {
			continue
		}
		at := headSize + i*8
		binary.LittleEndian.PutUint64(out[at:], listWord(at, len(out), len(o)))
		out = append(out, o...)
		for len(out)%8 != 0 {
			out = append(out, 0)
		}
	}
	v.seg = out[:len(out):len(out)]
	return v, n, nil
}

// segments are the segments of a message, each with its place in it.
type segments []struct {
	b  []byte
	at int
}

// splitSegments reads the segment table and returns the segments and the size of the message.
func splitSegments(b []byte) (segments, int, error) {
	count := int(binary.LittleEndian.Uint32(b)) + 1
	if count > maxSegments {
		return nil, 0, bad("framing", 0, ErrTooLarge)
	}
	n := (4 + count*4 + 7) &^ 7
	if len(b) < n {
		return nil, 0, bad("framing", len(b), ErrShort)
	}
	m := make(segments, count)
	for i := range m {
		words := int(binary.LittleEndian.Uint32(b[4+i*4:]))
		if words > maxSegment || n+words*8 > MaxMessage {
			return nil, 0, bad("framing", 4+i*4, ErrTooLarge)
		}
		if n+words*8 > len(b) {
			return nil, 0, bad("framing", len(b), ErrShort)
		}
		m[i].b, m[i].at = b[n:n+words*8], n
		n += words * 8
	}
	return m, n, nil
}

// holds reports whether segment seg has n bytes at byte at.
func (m segments) holds(seg, at, n int) bool {
	return seg < len(m) && at >= 0 && at+n <= len(m[seg].b)
}

// offset returns the place in the message of byte at of segment seg.
func (m segments) offset(seg, at int) int { return m[seg].at + at }

// object is a pointer that was followed: its word, and where what it points to lies. The place is not checked.
type object struct {
	word    uint64
	seg, at int
}

// follow reads the pointer at byte at of segment seg, over one or two landing pads if it is a far pointer.
func (m segments) follow(part string, seg, at int) (object, error) {
	if !m.holds(seg, at, 8) {
		return object{}, bad(part, m.offset(seg, at), ErrPointer)
	}
	word := m.word(seg, at)
	if word&3 != 2 {
		return object{word: word, seg: seg, at: at + 8 + int(int32(word)>>2)*8}, nil
	}
	padSeg, pad := far(word)
	if word&4 == 0 {
		if !m.holds(padSeg, pad, 8) {
			return object{}, bad(part, m.offset(seg, at), ErrPointer)
		}
		tag := m.word(padSeg, pad)
		return object{word: tag, seg: padSeg, at: pad + 8 + int(int32(tag)>>2)*8}, nil
	}
	if !m.holds(padSeg, pad, 16) {
		return object{}, bad(part, m.offset(seg, at), ErrPointer)
	}
	second, tag := m.word(padSeg, pad), m.word(padSeg, pad+8)
	if second&7 != 2 {
		return object{}, bad(part, m.offset(padSeg, pad), ErrKind)
	}
	o := object{word: tag}
	o.seg, o.at = far(second)
	return o, nil
}

func (m segments) word(seg, at int) uint64 { return binary.LittleEndian.Uint64(m[seg].b[at:]) }

// far returns the segment and the byte in it that a far pointer names.
func far(word uint64) (seg, at int) { return int(word >> 32), int(uint32(word)>>3) * 8 }

// blob returns the object behind pointer i, which lies at byte at of segment seg, or nil if it is null. It takes its size
// from left, so that a small message cannot become a large one by pointing to the same bytes often.
func (m segments) blob(i, seg, at int, left *int) ([]byte, error) {
	name := pointerName(i)
	o, err := m.follow(name, seg, at)
	if err != nil || o.word == 0 {
		return nil, err
	}
	if o.word&(7<<32|3) != listOfByte {
		return nil, bad(name, m.offset(seg, at), ErrKind)
	}
	size := int(o.word >> 35)
	*left -= size
	if !m.holds(o.seg, o.at, size) || *left < 0 {
		return nil, bad(name, m.offset(seg, at), ErrPointer)
	}
	t := m[o.seg].b[o.at : o.at+size]
	if i >= firstText && (size == 0 || t[size-1] != 0) {
		return nil, bad(name, m.offset(seg, at), ErrText)
	}
	return t, nil
}
