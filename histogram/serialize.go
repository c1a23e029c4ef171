package histogram

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
)

// The serialised form is that of OpenHistogram's libcircllhist and its ports:
//
//	count of buckets   int16, big-endian
//	each bucket        Val int8, Exp int8, length of the count less one (0..7), count little-endian
//
// in the order NaN, negative, zero, positive numbers, which is libcircllhist's. As text it is that in standard base64.

// AppendBinary appends the serialised form to dst. It is an error to have more than 32,767 buckets in use.
func (h *Histogram) AppendBinary(dst []byte) ([]byte, error) {
	used := h.Buckets()
	if used > math.MaxInt16 {
		return dst, fmt.Errorf("serialise histogram: %d buckets, at most %d can be", used, math.MaxInt16)
	}
	dst = binary.BigEndian.AppendUint16(dst, uint16(used))
	for k, n := range h.All() {
		size := (bits.Len64(n) + 7) / 8
		dst = append(dst, byte(k.Val), byte(k.Exp), byte(size-1))
		for range size {
			dst = append(dst, byte(n))
			n >>= 8
		}
	}
	return dst, nil
}

// MarshalBinary gives the serialised form.
func (h *Histogram) MarshalBinary() ([]byte, error) { return h.AppendBinary(nil) }

// UnmarshalBinary replaces the content of h by the serialised histogram in b, of which nothing may be left over. A bucket
// that occurs twice is counted with both; one that is no valid pair counts as NaN. On an error h is empty.
func (h *Histogram) UnmarshalBinary(b []byte) error {
	*h = Histogram{}
	if err := h.decode(b); err != nil {
		*h = Histogram{}
		return fmt.Errorf("decode histogram: %w", err)
	}
	return nil
}

func (h *Histogram) decode(b []byte) error {
	if len(b) < 2 {
		return fmt.Errorf("%d bytes, at least 2 expected", len(b))
	}
	buckets := int(int16(binary.BigEndian.Uint16(b)))
	if buckets < 0 {
		return fmt.Errorf("negative count of buckets: %d", buckets)
	}
	b = b[2:]
	for i := range buckets {
		if len(b) < 4 {
			return fmt.Errorf("bucket %d of %d cut off", i+1, buckets)
		}
		k, size := Bucket{int8(b[0]), int8(b[1])}, int(b[2])+1
		if size > 8 {
			return fmt.Errorf("bucket %d has a count of %d bytes, at most 8 can be", i+1, size)
		}
		b = b[3:]
		if len(b) < size {
			return fmt.Errorf("bucket %d of %d cut off", i+1, buckets)
		}
		n := uint64(0)
		for j := size - 1; j >= 0; j-- {
			n = n<<8 | uint64(b[j])
		}
		b = b[size:]
		h.Add(k, n)
	}
	if len(b) > 0 {
		return fmt.Errorf("%d bytes after the last bucket", len(b))
	}
	return nil
}

// MarshalText gives the serialised form in base64, which is also its form in JSON (as a string).
func (h *Histogram) MarshalText() ([]byte, error) {
	raw, err := h.MarshalBinary()
	if err != nil {
		return nil, err
	}
	return base64.StdEncoding.AppendEncode(nil, raw), nil
}

// UnmarshalText replaces the content of h by a serialised histogram in base64. On an error h is empty.
func (h *Histogram) UnmarshalText(text []byte) error {
	raw, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil {
		*h = Histogram{}
		return fmt.Errorf("decode histogram: %w", err)
	}
	return h.UnmarshalBinary(raw)
}
