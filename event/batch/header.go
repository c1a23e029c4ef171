package batch

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// Header is the header of a batch. Encode fills in Version, Codec, RawLen, PackedLen and PayloadCRC; the rest is the caller's.
type Header struct {
	Version     uint8
	Type        Type
	Codec       Codec
	Name        Name
	Events      uint32 // messages in the payload
	Dropped     uint32 // events that sources say they dropped since the batch before
	First, Last int64  // smallest and largest EdgeStartTimestamp in ns; both 0 with no events
	RawLen      uint32 // bytes of the payload before compression
	PackedLen   uint32 // bytes of the payload in the batch
	PayloadCRC  uint32 // CRC-32C of the payload in the batch
}

// Size returns the bytes of the whole batch.
func (h *Header) Size() int { return h.HeaderSize() + int(h.PackedLen) }

// HeaderSize returns the bytes before the payload.
func (h *Header) HeaderSize() int { return HeaderSize + len(h.Name.Edge) }

const magic = "SPBT"

// crc returns the CRC-32C of b, continuing from sum.
func crc(sum uint32, b []byte) uint32 {
	return crc32.Update(sum, crc32.MakeTable(crc32.Castagnoli), b)
}

// append appends the header in its final form.
func (h *Header) append(dst []byte) []byte {
	at := len(dst)
	dst = append(dst, magic...)
	dst = append(dst, h.Version, byte(h.Type), byte(h.Codec), byte(len(h.Name.Edge)))
	dst = binary.LittleEndian.AppendUint64(dst, h.Name.Epoch)
	dst = binary.LittleEndian.AppendUint64(dst, h.Name.Sequence)
	dst = binary.LittleEndian.AppendUint32(dst, h.Events)
	dst = binary.LittleEndian.AppendUint32(dst, h.Dropped)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(h.First))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(h.Last))
	dst = binary.LittleEndian.AppendUint32(dst, h.RawLen)
	dst = binary.LittleEndian.AppendUint32(dst, h.PackedLen)
	dst = binary.LittleEndian.AppendUint32(dst, h.PayloadCRC)
	sum := crc(0, dst[at:])
	dst = append(dst, 0, 0, 0, 0)
	dst = append(dst, h.Name.Edge...)
	binary.LittleEndian.PutUint32(dst[at+60:], crc(sum, dst[at+HeaderSize:]))
	return dst
}

// ParseHeader reads the header that b begins with and returns it and its length. It checks magic, version, header CRC and
// each field, but not the payload, of which b need not hold any. Errors are of type *Error; ErrShort says that b ends too
// early.
func ParseHeader(b []byte) (Header, int, error) {
	if len(b) < HeaderSize {
		if n := min(len(b), len(magic)); string(b[:n]) != magic[:n] {
			return Header{}, 0, bad("magic", 0, ErrMagic)
		}
		return Header{}, 0, bad("header", len(b), ErrShort)
	}
	if string(b[:4]) != magic {
		return Header{}, 0, bad("magic", 0, ErrMagic)
	}
	if b[4] != Version {
		return Header{}, 0, bad("version", 4, fmt.Errorf("%w: %d", ErrVersion, b[4]))
	}
	n := HeaderSize + int(b[7])
	if len(b) < n {
		return Header{}, 0, bad("edge", len(b), ErrShort)
	}
	if crc(crc(0, b[:60]), b[HeaderSize:n]) != binary.LittleEndian.Uint32(b[60:]) {
		return Header{}, 0, bad("header CRC", 60, ErrChecksum)
	}
	h := Header{
		Version: b[4], Type: Type(b[5]), Codec: Codec(b[6]),
		Name: Name{
			Edge:     string(b[HeaderSize:n]),
			Epoch:    binary.LittleEndian.Uint64(b[8:]),
			Sequence: binary.LittleEndian.Uint64(b[16:]),
		},
		Events:     binary.LittleEndian.Uint32(b[24:]),
		Dropped:    binary.LittleEndian.Uint32(b[28:]),
		First:      int64(binary.LittleEndian.Uint64(b[32:])),
		Last:       int64(binary.LittleEndian.Uint64(b[40:])),
		RawLen:     binary.LittleEndian.Uint32(b[48:]),
		PackedLen:  binary.LittleEndian.Uint32(b[52:]),
		PayloadCRC: binary.LittleEndian.Uint32(b[56:]),
	}
	if err := h.check(); err != nil {
		return Header{}, 0, err
	}
	return h, n, nil
}

// check checks what the format says of the fields, lengths included.
func (h *Header) check() error {
	switch {
	case h.Type != HTTPRequests && h.Type != Notices:
		return bad("type", 5, fmt.Errorf("%w: %d", ErrValue, h.Type))
	case int(h.Codec) >= len(codecNames):
		return bad("codec", 6, fmt.Errorf("%w: %d", ErrValue, h.Codec))
	case !ValidEdge(h.Name.Edge):
		return bad("edge", HeaderSize, fmt.Errorf("%w: %q", ErrValue, h.Name.Edge))
	case h.Name.Sequence == 0:
		return bad("sequence", 16, fmt.Errorf("%w: 0", ErrValue))
	case h.Events == 0 && (h.First != 0 || h.Last != 0):
		return bad("first", 32, fmt.Errorf("%w: times without events", ErrValue))
	case h.First > h.Last:
		return bad("last", 40, fmt.Errorf("%w: before first", ErrValue))
	case h.Type == Notices && h.RawLen > MaxNotices:
		return bad("raw length", 48, fmt.Errorf("%w: %d bytes of notices", ErrTooLarge, h.RawLen))
	case h.RawLen > MaxRaw:
		return bad("raw length", 48, fmt.Errorf("%w: %d bytes", ErrTooLarge, h.RawLen))
	case (h.Events == 0) != (h.RawLen == 0) || uint64(h.Events)*minMessage > uint64(h.RawLen):
		return bad("raw length", 48, fmt.Errorf("%w: %d bytes for %d events", ErrValue, h.RawLen, h.Events))
	case h.PackedLen > MaxPacked:
		return bad("packed length", 52, fmt.Errorf("%w: %d bytes", ErrTooLarge, h.PackedLen))
	}
	return nil
}
