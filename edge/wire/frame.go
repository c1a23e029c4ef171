package wire

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode/utf8"
)

// Reader reads frames. It is not safe for concurrent use.
type Reader struct {
	r        *bufio.Reader
	maxBatch int
	typ      Type
	left     int // bytes of the frame's body not yet read
	buf      []byte
}

// NewReader reads frames whose batches are at most maxBatch bytes.
func NewReader(r io.Reader, maxBatch int) *Reader {
	return &Reader{r: bufio.NewReaderSize(r, 64<<10), maxBatch: maxBatch}
}

// Next reads the header of the next frame and gives its type and the length of its body. The body before must have been
// read. io.EOF comes only between frames. ErrFrame and ErrTooLarge leave the connection of no further use.
func (r *Reader) Next() (Type, int, error) {
	var h [FrameHeader]byte
	if _, err := io.ReadFull(r.r, h[:]); err != nil {
		return 0, 0, err //nolint:wrapcheck // io.EOF is told apart by the caller
	}
	n, t := binary.LittleEndian.Uint32(h[:]), Type(h[4])
	limit := uint64(MaxControl)
	if t == TypeBatch {
		limit = uint64(r.maxBatch) + batchNumber
	}
	switch {
	case t == 0 || t > TypeGoAway || h[5] != 0 || h[6] != 0 || h[7] != 0:
		return 0, 0, fmt.Errorf("header %x: %w", h, ErrFrame)
	case uint64(n) > limit:
		return 0, 0, fmt.Errorf("%s of %d bytes: %w", t, n, ErrTooLarge)
	case t == TypeBatch && n < batchNumber:
		return 0, 0, fmt.Errorf("batch of %d bytes: %w", n, ErrFrame)
	}
	r.typ, r.left = t, int(n)
	return t, int(n), nil
}

// Control reads the body of a frame that is not a batch; it is valid until the next call.
func (r *Reader) Control() ([]byte, error) {
	if cap(r.buf) < r.left {
		r.buf = make([]byte, MaxControl)
	}
	b := r.buf[:r.left]
	r.left = 0
	if _, err := io.ReadFull(r.r, b); err != nil {
		return nil, fmt.Errorf("read %s: %w", r.typ, noEOF(err))
	}
	return b, nil
}

// Batch reads the body of a batch frame: its number on the connection, and the batch into dst[:0], which is replaced when
// it has no room.
func (r *Reader) Batch(dst []byte) (n uint64, b []byte, err error) {
	var num [batchNumber]byte
	if _, err := io.ReadFull(r.r, num[:]); err != nil {
		return 0, nil, fmt.Errorf("read batch: %w", noEOF(err))
	}
	size := r.left - batchNumber
	r.left = 0
	if cap(dst) < size {
		dst = make([]byte, size)
	}
	dst = dst[:size]
	if _, err := io.ReadFull(r.r, dst); err != nil {
		return 0, nil, fmt.Errorf("read batch: %w", noEOF(err))
	}
	return binary.LittleEndian.Uint64(num[:]), dst, nil
}

// noEOF makes an end inside a frame an error that is not io.EOF.
func noEOF(err error) error {
	if err == io.EOF { //nolint:errorlint // as ReadFull gives it
		return io.ErrUnexpectedEOF
	}
	return err
}

// Writer writes frames, each in one Write. It is safe for concurrent use.
type Writer struct {
	mu  sync.Mutex
	w   io.Writer
	buf []byte
}

// NewWriter writes frames to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

func (w *Writer) frame(t Type, body func(dst []byte) []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf = append(w.buf[:0], 0, 0, 0, 0, byte(t), 0, 0, 0)
	w.buf = body(w.buf)
	binary.LittleEndian.PutUint32(w.buf, uint32(len(w.buf)-FrameHeader))
	if _, err := w.w.Write(w.buf); err != nil {
		return fmt.Errorf("write %s: %w", t, err)
	}
	return nil
}

// Batch sends a batch with its number on this connection, from 1.
func (w *Writer) Batch(n uint64, b []byte) error {
	return w.frame(TypeBatch, func(dst []byte) []byte { return append(binary.LittleEndian.AppendUint64(dst, n), b...) })
}

// Ack says that all batches up to n are done.
func (w *Writer) Ack(n uint64) error { return w.number(TypeAck, n) }

// Ping asks for a pong with the same token.
func (w *Writer) Ping(token uint64) error { return w.number(TypePing, token) }

// Pong answers a ping.
func (w *Writer) Pong(token uint64) error { return w.number(TypePong, token) }

func (w *Writer) number(t Type, n uint64) error {
	return w.frame(t, func(dst []byte) []byte { return binary.LittleEndian.AppendUint64(dst, n) })
}

// Refuse says that batch n is not taken, and that all before it are done.
func (w *Writer) Refuse(n uint64, c Code, text string) error {
	return w.frame(TypeRefuse, func(dst []byte) []byte {
		dst = binary.LittleEndian.AppendUint64(dst, n)
		return append(binary.LittleEndian.AppendUint16(dst, uint16(c)), clip(text)...)
	})
}

// GoAway ends the conversation.
func (w *Writer) GoAway(c Code, text string) error {
	return w.frame(TypeGoAway, func(dst []byte) []byte {
		return append(binary.LittleEndian.AppendUint16(dst, uint16(c)), clip(text)...)
	})
}

// clip makes a text short and valid.
func clip(s string) string {
	if len(s) > MaxText {
		s = s[:MaxText]
	}
	return strings.ToValidUTF8(s, "?")
}

// ParseNumber reads the body of an ack, a ping or a pong.
func ParseNumber(b []byte) (uint64, error) {
	if len(b) != 8 {
		return 0, fmt.Errorf("number of %d bytes: %w", len(b), ErrFrame)
	}
	return binary.LittleEndian.Uint64(b), nil
}

// ParseRefuse reads the body of a refusal.
func ParseRefuse(b []byte) (n uint64, c Code, text string, err error) {
	if len(b) < 10 || !utf8.Valid(b[10:]) {
		return 0, 0, "", fmt.Errorf("refusal of %d bytes: %w", len(b), ErrFrame)
	}
	return binary.LittleEndian.Uint64(b), Code(binary.LittleEndian.Uint16(b[8:])), string(b[10:]), nil
}

// ParseGoAway reads the body of a goaway.
func ParseGoAway(b []byte) (*GoAwayError, error) {
	if len(b) < 2 || !utf8.Valid(b[2:]) {
		return nil, fmt.Errorf("goaway of %d bytes: %w", len(b), ErrFrame)
	}
	return &GoAwayError{Code(binary.LittleEndian.Uint16(b)), string(b[2:])}, nil
}
