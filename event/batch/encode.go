package batch

import (
	"bytes"
	"fmt"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Encoder compresses and seals batches with one codec. It is not safe for concurrent use. It needs no closing.
type Encoder struct {
	codec Codec
	pack  func(dst, raw []byte) ([]byte, error)
}

// NewEncoder returns an Encoder for a codec. Level 0 is the codec's default; otherwise gzip takes 1 to 9, lz4 1 (fast) to 10,
// zstd 1 to 19 as the zstd tool counts; none and snappy have no levels.
func NewEncoder(c Codec, level int) (*Encoder, error) {
	limit := map[Codec]int{Gzip: 9, LZ4: 10, Zstd: 19}[c]
	if level < 0 || level > limit {
		return nil, fmt.Errorf("level %d of codec %s: want 0 to %d", level, c, limit)
	}
	e := &Encoder{codec: c}
	var err error
	switch c {
	case None:
		e.pack = func(dst, raw []byte) ([]byte, error) { return append(dst, raw...), nil }
	case Snappy:
		e.pack = packSnappy()
	case Gzip:
		e.pack, err = packGzip(level)
	case LZ4:
		e.pack, err = packLZ4(level)
	case Zstd:
		e.pack, err = packZstd(level)
	default:
		return nil, fmt.Errorf("%s: %w", c, ErrValue)
	}
	if err != nil {
		return nil, fmt.Errorf("codec %s: %w", c, err)
	}
	return e, nil
}

// Encode appends to dst the batch with header h and the payload raw, which is concatenated messages, and returns the longer
// slice. h.Version, Codec, lengths and CRC are filled in here. It fails, and returns dst as it was, when raw is larger than MaxRaw
// or h says what the format does not allow.
func (e *Encoder) Encode(dst []byte, h Header, raw []byte) ([]byte, error) {
	at := len(dst)
	if len(raw) > MaxRaw {
		return dst, bad("raw length", 48, fmt.Errorf("%w: %d bytes", ErrTooLarge, len(raw)))
	}
	h.Version, h.Codec, h.RawLen, h.PackedLen = Version, e.codec, uint32(len(raw)), 0
	if err := h.check(); err != nil {
		return dst, err
	}
	payload := at + h.HeaderSize()
	out := append(dst, make([]byte, h.HeaderSize())...)
	out, err := e.pack(out, raw)
	if err != nil {
		return dst, bad("payload", h.HeaderSize(), fmt.Errorf("%w: %w", ErrPayload, err))
	}
	if len(out)-payload > MaxPacked {
		return dst, bad("packed length", 52, fmt.Errorf("%w: %d bytes", ErrTooLarge, len(out)-payload))
	}
	h.PackedLen = uint32(len(out) - payload)
	h.PayloadCRC = crc(0, out[payload:])
	h.append(out[:at])
	return out, nil
}

func packSnappy() func(dst, raw []byte) ([]byte, error) {
	var room []byte
	return func(dst, raw []byte) ([]byte, error) {
		room = snappy.Encode(room[:cap(room)], raw)
		return append(dst, room...), nil
	}
}

func packGzip(level int) (func(dst, raw []byte) ([]byte, error), error) {
	if level == 0 {
		level = gzip.DefaultCompression
	}
	w, err := gzip.NewWriterLevel(nil, level)
	return func(dst, raw []byte) ([]byte, error) {
		out := bytes.NewBuffer(dst)
		w.Reset(out)
		if _, err := w.Write(raw); err != nil {
			return nil, err
		}
		err := w.Close()
		return out.Bytes(), err
	}, err
}

func packLZ4(level int) (func(dst, raw []byte) ([]byte, error), error) {
	l := lz4.Fast
	if level > 1 {
		l = lz4.CompressionLevel(1 << (7 + level)) // 2 is the library's Level1
	}
	w := lz4.NewWriter(nil)
	err := w.Apply(lz4.CompressionLevelOption(l), lz4.ConcurrencyOption(1), lz4.ChecksumOption(false))
	return func(dst, raw []byte) ([]byte, error) {
		out := bytes.NewBuffer(dst)
		w.Reset(out)
		if _, err := w.Write(raw); err != nil {
			return nil, err
		}
		err := w.Close()
		return out.Bytes(), err
	}, err
}

func packZstd(level int) (func(dst, raw []byte) ([]byte, error), error) {
	if level == 0 {
		level = defaultZstdLevel
	}
	w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(level)),
		zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false))
	return func(dst, raw []byte) ([]byte, error) { return w.EncodeAll(raw, dst), nil }, err
}

// defaultZstdLevel is chosen by the measurements in docs/format/batch.md.
const defaultZstdLevel = 1
