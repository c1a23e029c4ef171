package producer

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/spate-io/spate/edge/forward"
	"github.com/spate-io/spate/edge/forward/forwardtest"
	"github.com/spate-io/spate/event"
)

// script is a connection that reads fixed bytes and takes any answer.
type script struct {
	net.Conn
	in io.Reader
}

func (s *script) Read(b []byte) (int, error)       { return s.in.Read(b) }
func (s *script) Write(b []byte) (int, error)      { return len(b), nil }
func (s *script) Close() error                     { return nil }
func (s *script) SetReadDeadline(time.Time) error  { return nil }
func (s *script) SetWriteDeadline(time.Time) error { return nil }

// strict fails the test when it gets a chunk that is not what the promises say.
type strict struct {
	*forwardtest.Sink
	t    *testing.T
	last uint64
}

func (s *strict) Put(ctx context.Context, c forward.Chunk) error {
	n, err := event.Walk(c.Events, func(event.View) error { return nil })
	if err != nil || n != int(c.Count) {
		s.t.Errorf("chunk of %d events has %d: %v", c.Count, n, err)
	}
	if c.Origin.Position <= s.last {
		s.t.Errorf("position %d after %d", c.Origin.Position, s.last)
	}
	s.last = c.Origin.Position
	return s.Sink.Put(ctx, c)
}

// FuzzSession gives arbitrary bytes to a connection: only well-formed frames may reach the sink, in order, and every
// refusal has a reason. Input that parses as one frame is taken whole.
func FuzzSession(f *testing.F) {
	e := event.HTTP{ClientRequestPath: []byte("/a"), EdgeResponseStatus: 200}
	payload := e.Append(nil)
	hello := append([]byte("SPPR\x01\x01\x01\x00\x01\x00\x00\x00\x01\x00\x00\x00"), bytes.Repeat([]byte{7}, 16)...)
	hello = append(hello, 'e')
	frame := binary.LittleEndian.AppendUint32([]byte("SPFR"), 1)
	frame = binary.LittleEndian.AppendUint64(frame, 1)
	frame = binary.LittleEndian.AppendUint32(frame, 0)
	frame = binary.LittleEndian.AppendUint32(frame, uint32(len(payload)))
	frame = append(frame, payload...)
	f.Add(append(bytes.Clone(hello), frame...))
	f.Add(append(append(bytes.Clone(hello), frame...), frame...))
	f.Add(hello)
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		sink := &strict{Sink: forwardtest.New(), t: t}
		p, err := New(DefaultConfig(), Deps{Sink: sink})
		if err != nil {
			t.Fatal(err)
		}
		s := &session{p: p, conn: &script{in: bytes.NewReader(b)}, log: slog.New(slog.DiscardHandler)}
		err = s.run(t.Context())
		var refusal *Refusal
		if errors.As(err, &refusal) && (refusal.Reason == "" || refusal.Kind == "") {
			t.Errorf("refusal without a reason: %+v", refusal)
		}
		if err == nil {
			t.Error("a session ended without a reason")
		}
	})
}

func TestSession_ReceiveDoesNotAllocatePerFrame(t *testing.T) {
	var payload []byte
	for range 100 {
		e := event.HTTP{ClientRequestPath: []byte("/a/path/of/usual/length"), EdgeResponseStatus: 200}
		payload = e.Append(payload)
	}
	var in bytes.Buffer
	const frames = 50
	for i := range frames {
		in.WriteString("SPFR")
		_ = binary.Write(&in, binary.LittleEndian, []uint32{100, uint32(i + 1), 0, 0, uint32(len(payload))})
		in.Write(payload)
	}
	p, err := New(DefaultConfig(), Deps{Sink: drop{}})
	if err != nil {
		t.Fatal(err)
	}
	allocations := testing.AllocsPerRun(5, func() {
		s := &session{p: p, conn: &script{}, log: slog.New(slog.DiscardHandler)}
		err := s.receive(t.Context(), bufio.NewReaderSize(bytes.NewReader(in.Bytes()), 64<<10), [16]byte{1}, 0)
		if !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	})
	if allocations > frames/2 {
		t.Errorf("%.0f allocations for %d frames", allocations, frames)
	}
}

// drop is a sink that keeps nothing.
type drop struct{}

func (drop) Put(context.Context, forward.Chunk) error         { return nil }
func (drop) Position([16]byte) (uint64, bool)                 { return 0, false }
func (drop) OnDurable([16]byte, func(uint64)) (cancel func()) { return func() {} }
