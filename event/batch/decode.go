package batch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Decoder checks and unpacks batches of any codec. It is not safe for concurrent use. It needs no closing.
type Decoder struct {
	max  int
	raw  []byte
	src  bytes.Reader
	gzip *gzip.Reader
	lz4  *lz4.Reader
	zstd *zstd.Decoder
}

// NewDecoder returns a Decoder that refuses payloads of more than maxRaw bytes; with 0 or more than MaxRaw the limit is MaxRaw.
func NewDecoder(maxRaw int) *Decoder {
	if maxRaw <= 0 || maxRaw > MaxRaw {
		maxRaw = MaxRaw
	}
	return &Decoder{max: maxRaw}
}

// Decode checks the batch that b is, no byte more and none less, and returns its header and its payload unpacked. The payload
// is valid until the next call and, with codec None, as long as b is. Memory for it never exceeds what the header
// declares and the Decoder's limit. Errors are of type *Error.
func (d *Decoder) Decode(b []byte) (Header, []byte, error) {
	h, n, err := ParseHeader(b)
	if err != nil {
		return Header{}, nil, err
	}
	switch {
	case int(h.RawLen) > d.max:
		return Header{}, nil, bad("raw length", 48, fmt.Errorf("%w: %d bytes, limit %d", ErrTooLarge, h.RawLen, d.max))
	case len(b) < h.Size():
		return Header{}, nil, bad("payload", len(b), ErrShort)
	case len(b) > h.Size():
		return Header{}, nil, bad("payload", h.Size(), ErrTrailing)
	}
	packed := b[n:]
	if crc(0, packed) != h.PayloadCRC {
		return Header{}, nil, bad("payload CRC", 56, ErrChecksum)
	}
	raw, err := d.unpack(h.Codec, int(h.RawLen), packed)
	if err != nil {
		return Header{}, nil, bad("payload", n, fmt.Errorf("%w: %w", ErrPayload, err))
	}
	return h, raw, nil
}

// errLength says that a payload has another length than the header declares.
var errLength = errors.New("another length than declared")

// unpack returns packed unpacked, which has to give size bytes.
func (d *Decoder) unpack(c Codec, size int, packed []byte) ([]byte, error) {
	if c == None {
		if len(packed) != size {
			return nil, errLength
		}
		return packed, nil
	}
	if cap(d.raw) < size {
		d.raw = make([]byte, size)
	}
	raw := d.raw[:size:size]
	switch c {
	case Snappy:
		if n, err := snappy.DecodedLen(packed); err != nil || n != size {
			return nil, errors.Join(errLength, err)
		}
		return snappy.Decode(raw, packed)
	case Gzip:
		return raw, d.ungzip(raw, packed)
	case LZ4:
		return raw, d.unlz4(raw, packed)
	case Zstd:
		return d.unzstd(raw, packed)
	}
	return nil, ErrValue
}

// drain fills raw from r and makes sure that both r and the bytes under it end there.
func (d *Decoder) drain(r io.Reader, raw []byte) error {
	if _, err := io.ReadFull(r, raw); err != nil {
		return errors.Join(errLength, err)
	}
	var one [1]byte
	switch n, err := io.ReadFull(r, one[:]); {
	case n != 0:
		return errLength
	case err != io.EOF:
		return err
	case d.src.Len() != 0:
		return ErrTrailing
	}
	return nil
}

func (d *Decoder) ungzip(raw, packed []byte) (err error) {
	d.src.Reset(packed)
	if d.gzip == nil {
		d.gzip, err = gzip.NewReader(&d.src)
	} else {
		err = d.gzip.Reset(&d.src)
	}
	if err != nil {
		return err
	}
	d.gzip.Multistream(false)
	return d.drain(d.gzip, raw)
}

func (d *Decoder) unlz4(raw, packed []byte) error {
	d.src.Reset(packed)
	if d.lz4 == nil {
		d.lz4 = lz4.NewReader(nil)
	}
	d.lz4.Reset(&d.src)
	return d.drain(d.lz4, raw)
}

func (d *Decoder) unzstd(raw, packed []byte) (_ []byte, err error) {
	if d.zstd == nil {
		d.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(uint64(d.max)),
			zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			return nil, err
		}
	}
	out, err := d.zstd.DecodeAll(packed, slices.Clip(raw)[:0])
	if err == nil && len(out) != len(raw) {
		err = errLength
	}
	return out, err
}
