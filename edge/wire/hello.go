package wire

import (
	"encoding/binary"
	"fmt"
	"time"
	"unicode/utf8"
)

const magic = "SPWR"

// Hello is what an edge says first.
type Hello struct {
	Min, Max uint8  // versions that it speaks
	Edge     string // its name as configured; the gateway goes by the certificate, and refuses when the two differ
	Software string // for the log
}

// Welcome is the gateway's answer.
type Welcome struct {
	Version   uint8
	MaxBatch  uint32        // bytes of a batch
	Window    uint32        // batches in flight
	Keepalive time.Duration // how often it sends a ping at least
	Name      string        // for the log
}

func appendText(dst []byte, s string) []byte {
	s = clip(s)
	if len(s) > 255 {
		s = s[:255]
	}
	return append(append(dst, byte(len(s))), s...)
}

// cutText reads a length and a text.
func cutText(b []byte) (s string, rest []byte, ok bool) {
	if len(b) == 0 || len(b) < 1+int(b[0]) || !utf8.Valid(b[1:1+int(b[0])]) {
		return "", nil, false
	}
	n := 1 + int(b[0])
	return string(b[1:n]), b[n:], true
}

// Hello sends h.
func (w *Writer) Hello(h Hello) error {
	return w.frame(TypeHello, func(dst []byte) []byte {
		dst = append(append(dst, magic...), h.Min, h.Max, 0, 0)
		return appendText(appendText(dst, h.Edge), h.Software)
	})
}

// ParseHello reads the body of a hello; what follows the known fields is left to later versions.
func ParseHello(b []byte) (h Hello, err error) {
	bad := fmt.Errorf("hello of %d bytes: %w", len(b), ErrFrame)
	if len(b) < 8 || string(b[:4]) != magic || b[4] == 0 || b[4] > b[5] {
		return Hello{}, bad
	}
	h.Min, h.Max = b[4], b[5]
	var ok bool
	if h.Edge, b, ok = cutText(b[8:]); !ok {
		return Hello{}, bad
	}
	if h.Software, _, ok = cutText(b); !ok {
		return Hello{}, bad
	}
	return h, nil
}

// Welcome sends v.
func (w *Writer) Welcome(v Welcome) error {
	return w.frame(TypeWelcome, func(dst []byte) []byte {
		dst = append(append(dst, magic...), v.Version, 0, 0, 0)
		dst = binary.LittleEndian.AppendUint32(dst, v.MaxBatch)
		dst = binary.LittleEndian.AppendUint32(dst, v.Window)
		dst = binary.LittleEndian.AppendUint32(dst, uint32(v.Keepalive.Milliseconds()))
		return appendText(dst, v.Name)
	})
}

// ParseWelcome reads the body of a welcome; what follows the known fields is left to later versions.
func ParseWelcome(b []byte) (v Welcome, err error) {
	bad := fmt.Errorf("welcome of %d bytes: %w", len(b), ErrFrame)
	if len(b) < 20 || string(b[:4]) != magic {
		return Welcome{}, bad
	}
	v = Welcome{
		Version:   b[4],
		MaxBatch:  binary.LittleEndian.Uint32(b[8:]),
		Window:    binary.LittleEndian.Uint32(b[12:]),
		Keepalive: time.Duration(binary.LittleEndian.Uint32(b[16:])) * time.Millisecond,
	}
	var ok bool
	if v.Name, _, ok = cutText(b[20:]); !ok || v.Window == 0 {
		return Welcome{}, bad
	}
	return v, nil
}
