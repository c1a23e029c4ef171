package producer

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Sizes and numbers of docs/format/producer.md.
const (
	version      = 1
	httpRequests = 1

	helloSize  = 32 // without the edge's name
	frameSize  = 24 // header of a frame
	answerSize = 16 // without the reason

	kindHello   = 1
	kindAck     = 2
	kindRefused = 3

	minEvent = 8 // bytes of the smallest framing
)

var (
	helloMagic = [4]byte{'S', 'P', 'P', 'R'}
	frameMagic = [4]byte{'S', 'P', 'F', 'R'}
)

// Refusal is why bytes of a worker were not accepted. The worker is told, and the connection closed.
type Refusal struct {
	Kind     string // label of the metric, one of the reason constants
	Position uint64 // of the frame; 0 for the hello
	Reason   string // for people
}

// Error gives the reason.
func (r *Refusal) Error() string { return r.Reason }

// Reasons, as the label of spate_producer_refused_total.
const (
	reasonBusy     = "too_many_connections"
	reasonHello    = "hello"
	reasonVersion  = "version"
	reasonHeader   = "frame_header"
	reasonSize     = "frame_size"
	reasonOrder    = "position"
	reasonMessages = "messages"
)

// hello is the first thing that a worker says.
type hello struct {
	pid, worker uint32
	stream      [16]byte
	edgeLength  int
}

func parseHello(b *[helloSize]byte) (h hello, err error) {
	if [4]byte(b[:4]) != helloMagic {
		return h, &Refusal{Kind: reasonHello, Reason: fmt.Sprintf("hello begins with % x, not with %s", b[:4], helloMagic)}
	}
	if b[4] != version {
		return h, &Refusal{Kind: reasonVersion, Reason: fmt.Sprintf("protocol version %d, only %d is spoken here", b[4], version)}
	}
	if b[5] != httpRequests {
		return h, &Refusal{Kind: reasonVersion, Reason: fmt.Sprintf("event type %d is unknown", b[5])}
	}
	h.edgeLength = int(binary.LittleEndian.Uint16(b[6:]))
	h.pid = binary.LittleEndian.Uint32(b[8:])
	h.worker = binary.LittleEndian.Uint32(b[12:])
	h.stream = [16]byte(b[16:])
	if h.edgeLength == 0 || h.edgeLength > math.MaxUint8 {
		return h, &Refusal{Kind: reasonHello, Reason: fmt.Sprintf("edge name of %d bytes, must be 1 to 255", h.edgeLength)}
	}
	if h.stream == [16]byte{} {
		return h, &Refusal{Kind: reasonHello, Reason: "stream id is zero"}
	}
	return h, nil
}

// frame is the header of a frame.
type frame struct {
	events, dropped, length uint32
	position                uint64
}

// parseFrame reads a header. after is the position of the frame before on this connection, or the one told in the answer
// to hello; maxFrame bounds header and payload together.
func parseFrame(b *[frameSize]byte, after uint64, maxFrame int64) (f frame, err error) {
	f = frame{
		events:   binary.LittleEndian.Uint32(b[4:]),
		position: binary.LittleEndian.Uint64(b[8:]),
		dropped:  binary.LittleEndian.Uint32(b[16:]),
		length:   binary.LittleEndian.Uint32(b[20:]),
	}
	refuse := func(kind, format string, args ...any) error {
		return &Refusal{Kind: kind, Position: f.position, Reason: fmt.Sprintf(format, args...)}
	}
	switch {
	case [4]byte(b[:4]) != frameMagic:
		f.position = 0 // not to be trusted
		return f, refuse(reasonHeader, "frame begins with % x, not with %s", b[:4], frameMagic)
	case f.position <= after:
		return f, refuse(reasonOrder, "frame %d after frame %d", f.position, after)
	case int64(f.length)+frameSize > maxFrame:
		return f, refuse(reasonSize, "frame of %d bytes, the limit is %d", int64(f.length)+frameSize, maxFrame)
	case f.length%8 != 0:
		return f, refuse(reasonHeader, "payload of %d bytes is not a multiple of 8", f.length)
	case uint64(f.events)*minEvent > uint64(f.length):
		return f, refuse(reasonHeader, "%d events in %d bytes", f.events, f.length)
	case f.events == 0 && f.length > 0:
		return f, refuse(reasonHeader, "no events in %d bytes", f.length)
	case f.events == 0 && f.dropped == 0:
		// An empty frame is what is left of one that was refused when nothing was in it; harmless.
	}
	return f, nil
}

// appendAnswer adds one message to the worker. reason is cut to what the worker takes.
func appendAnswer(dst []byte, kind byte, position uint64, reason string) []byte {
	reason = reason[:min(len(reason), 512)]
	dst = append(dst, kind, 0)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(reason)))
	dst = binary.LittleEndian.AppendUint32(dst, 0)
	dst = binary.LittleEndian.AppendUint64(dst, position)
	return append(dst, reason...)
}
