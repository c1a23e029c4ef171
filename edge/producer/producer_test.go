package producer_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/spate-io/spate/edge/forward"
	"github.com/spate-io/spate/edge/forward/forwardtest"
	"github.com/spate-io/spate/edge/producer"
	"github.com/spate-io/spate/event"
	"github.com/spate-io/spate/internal/config"
)

var stream = [16]byte{1, 2, 3}

// socketDir is a folder with a path short enough for a socket.
func socketDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "spate")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// run starts a producer over sink and gives its socket.
func run(t *testing.T, sink producer.Sink, change func(*producer.Config, *producer.Deps)) string {
	t.Helper()
	cfg, deps := producer.DefaultConfig(), producer.Deps{Sink: sink}
	cfg.Socket = filepath.Join(socketDir(t), "p.sock")
	if change != nil {
		change(&cfg, &deps)
	}
	p, err := producer.New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	start(t, p)
	return cfg.Socket
}

func start(t *testing.T, p *producer.Producer) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	var err error
	go func() {
		defer close(done)
		err = p.Run(ctx)
	}()
	stop = func() error {
		cancel()
		<-done
		return err
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	eventually(t, p.Ready)
	return stop
}

func eventually(t *testing.T, f func() error) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-deadline:
			t.Fatal(err)
		case <-again.C:
		}
	}
}

func hello(stream [16]byte) []byte {
	b := append([]byte("SPPR"), 1, 1, 4, 0)
	b = binary.LittleEndian.AppendUint32(b, 4711)
	b = binary.LittleEndian.AppendUint32(b, 0)
	return append(append(b, stream[:]...), "edge"...)
}

func messages(n int) []byte {
	var b []byte
	for i := range n {
		e := event.HTTP{ClientRequestPath: fmt.Appendf(nil, "/%d", i), EdgeResponseStatus: 200}
		b = e.Append(b)
	}
	return b
}

func frame(position uint64, events, dropped int, payload []byte) []byte {
	b := binary.LittleEndian.AppendUint32([]byte("SPFR"), uint32(events))
	b = binary.LittleEndian.AppendUint64(b, position)
	b = binary.LittleEndian.AppendUint32(b, uint32(dropped))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)))
	return append(b, payload...)
}

// worker is the other side of the protocol.
type worker struct {
	t *testing.T
	net.Conn
}

func dial(t *testing.T, socket string) worker {
	t.Helper()
	c, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	return worker{t, c}
}

func (w worker) send(b []byte) {
	w.t.Helper()
	if _, err := w.Write(b); err != nil {
		w.t.Fatal(err)
	}
}

type answer struct {
	Kind     byte
	Position uint64
	Reason   string
}

func (w worker) answer() answer {
	w.t.Helper()
	var b [16]byte
	if _, err := io.ReadFull(w, b[:]); err != nil {
		w.t.Fatal(err)
	}
	reason := make([]byte, binary.LittleEndian.Uint16(b[2:]))
	if _, err := io.ReadFull(w, reason); err != nil {
		w.t.Fatal(err)
	}
	return answer{b[0], binary.LittleEndian.Uint64(b[8:]), string(reason)}
}

func (w worker) want(want answer) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.answer()); diff != "" {
		w.t.Fatalf("answer (-want +got):\n%s", diff)
	}
}

func TestProducer_AcknowledgesOnlyWhatIsDurable(t *testing.T) {
	sink := forwardtest.New()
	reg := prometheus.NewRegistry()
	socket := run(t, sink, func(_ *producer.Config, d *producer.Deps) { d.Registerer = reg })
	w := dial(t, socket)
	w.send(hello(stream))
	w.want(answer{Kind: 1})
	w.send(frame(1, 3, 0, messages(3)))
	w.send(frame(2, 1, 7, messages(1)))
	eventually(t, func() error {
		if p, _ := sink.Position(stream); p != 2 {
			return fmt.Errorf("position %d", p)
		}
		return nil
	})
	_ = w.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := w.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("something was said before anything was durable: %d bytes, %v", n, err)
	}
	_ = w.SetReadDeadline(time.Now().Add(10 * time.Second))
	sink.Sync()
	w.want(answer{Kind: 2, Position: 2})

	chunks, _ := sink.Chunks()
	if len(chunks) != 2 || chunks[0].Count != 3 || chunks[1].Dropped != 7 || !bytes.Equal(chunks[0].Events, messages(3)) {
		t.Errorf("chunks %+v", chunks)
	}
	want := `
# HELP spate_producer_dropped_events_total Events that workers said they lost because their buffer was full.
# TYPE spate_producer_dropped_events_total counter
spate_producer_dropped_events_total 7
# HELP spate_producer_events_total Events in frames taken from workers.
# TYPE spate_producer_events_total counter
spate_producer_events_total 4
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "spate_producer_dropped_events_total", "spate_producer_events_total"); err != nil {
		t.Error(err)
	}
}

func TestProducer_TellsAWorkerThatConnectsAgainWhatItHolds(t *testing.T) {
	sink := forwardtest.New()
	socket := run(t, sink, nil)
	w := dial(t, socket)
	w.send(hello(stream))
	w.want(answer{Kind: 1})
	w.send(frame(1, 1, 0, messages(1)))
	w.send(frame(2, 1, 0, messages(1)))
	eventually(t, func() error {
		if p, _ := sink.Position(stream); p != 2 {
			return fmt.Errorf("position %d", p)
		}
		return nil
	})
	// The old connection is still open: the producer has to give it up for the new one.
	again := dial(t, socket)
	again.send(hello(stream))
	again.want(answer{Kind: 1, Position: 2})
	sink.Sync()
	again.want(answer{Kind: 2, Position: 2})
	again.send(frame(3, 0, 5, nil))
	eventually(t, func() error {
		if c, dupes := sink.Chunks(); len(c) != 3 || dupes != 0 {
			return fmt.Errorf("%d chunks, %d duplicates", len(c), dupes)
		}
		return nil
	})

	// A worker whose frames are all durable is told so at once.
	sink.Sync()
	third := dial(t, socket)
	third.send(hello(stream))
	third.want(answer{Kind: 1, Position: 3})
	third.want(answer{Kind: 2, Position: 3})
}

func TestProducer_RefusesBadBytesAndServesOthers(t *testing.T) {
	broken := messages(2)
	broken[len(broken)-6] = 'x' // the last text loses its NUL
	cases := map[string]struct {
		send   []byte
		reason string
		at     uint64
	}{
		"not_a_hello":   {[]byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), "hello begins with", 0},
		"version":       {append([]byte("SPPR\x09"), hello(stream)[5:]...), "version 9", 0},
		"event_type":    {append([]byte("SPPR\x01\x09"), hello(stream)[6:]...), "event type 9", 0},
		"no_edge":       {append([]byte("SPPR\x01\x01\x00\x00"), hello(stream)[8:]...), "edge name of 0 bytes", 0},
		"zero_stream":   {hello([16]byte{}), "stream id is zero", 0},
		"frame_magic":   {append(hello(stream), bytes.Repeat([]byte("x"), 24)...), "frame begins with", 0},
		"position_zero": {append(hello(stream), frame(0, 1, 0, messages(1))...), "frame 0 after frame 0", 0},
		"too_large":     {append(hello(stream), frame(1, 1, 0, make([]byte, 2<<20))[:24]...), "the limit is", 1},
		"odd_length":    {append(hello(stream), frame(1, 1, 0, make([]byte, 13))...), "not a multiple of 8", 1},
		"more_events":   {append(hello(stream), frame(1, 3, 0, messages(2))...), "2 events, the header says 3", 1},
		"fewer_events":  {append(hello(stream), frame(1, 1, 0, messages(2))...), "2 events, the header says 1", 1},
		"no_events":     {append(hello(stream), frame(1, 0, 0, messages(1))...), "no events in", 1},
		"count_lies":    {append(hello(stream), frame(1, 1<<30, 0, messages(1))...), "1073741824 events in", 1},
		"zeros":         {append(hello(stream), frame(1, 1, 0, make([]byte, 64))...), "event 0", 1},
		"damaged":       {append(hello(stream), frame(1, 2, 0, broken)...), "event 1", 1},
		"cut_message":   {append(hello(stream), frame(1, 1, 0, messages(1)[:256])...), "event 0", 1},
	}
	sink := forwardtest.New()
	sink.Auto = true
	socket := run(t, sink, nil)
	other := [16]byte{9}
	good := dial(t, socket)
	good.send(hello(other))
	good.want(answer{Kind: 1})
	position := uint64(0)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			bad := dial(t, socket)
			_, _ = bad.Write(c.send) // it may be refused before it has all been sent
			a := bad.answer()
			if a.Kind == 1 {
				a = bad.answer()
			}
			if a.Kind != 3 || a.Position != c.at || !strings.Contains(a.Reason, c.reason) {
				t.Errorf("answer %+v, want a refusal of frame %d with %q", a, c.at, c.reason)
			}
			// A close with unread bytes is a reset.
			if n, err := bad.Read(make([]byte, 1)); n != 0 || (!errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET)) {
				t.Errorf("connection goes on: %d bytes, %v", n, err)
			}
			position++
			good.t = t
			good.send(frame(position, 1, 0, messages(1)))
			good.want(answer{Kind: 2, Position: position})
		})
	}
	if chunks, _ := sink.Chunks(); len(chunks) != len(cases) {
		t.Errorf("%d chunks, want those of the good worker, %d", len(chunks), len(cases))
	}
}

func TestProducer_ClosesWorkersThatStopInTheMiddle(t *testing.T) {
	socket := run(t, forwardtest.New(), func(c *producer.Config, _ *producer.Deps) {
		c.Timeout = config.Duration(50 * time.Millisecond)
	})
	for name, b := range map[string][]byte{
		"no_hello": nil, "half_hello": hello(stream)[:20], "half_frame": append(hello(stream), frame(1, 1, 0, messages(1))[:40]...),
	} {
		t.Run(name, func(t *testing.T) {
			w := dial(t, socket)
			w.send(b)
			if _, err := io.Copy(io.Discard, w); err != nil && !strings.Contains(err.Error(), "reset") {
				t.Errorf("not closed: %v", err)
			}
		})
	}
}

func TestProducer_LimitsConnections(t *testing.T) {
	socket := run(t, forwardtest.New(), func(c *producer.Config, _ *producer.Deps) { c.MaxConnections = 1 })
	first := dial(t, socket)
	first.send(hello(stream))
	first.want(answer{Kind: 1})
	second := dial(t, socket)
	if n, _ := second.Read(make([]byte, 1)); n != 0 {
		t.Error("a connection above the limit is served")
	}
	first.send(frame(1, 1, 0, messages(1)))
}

func TestProducer_Socket(t *testing.T) {
	dir := socketDir(t)
	cfg := producer.DefaultConfig()
	cfg.Socket = filepath.Join(dir, "sub", "p.sock")
	cfg.Mode = "0600"
	cfg.Group = fmt.Sprint(os.Getgid())
	make1 := func() *producer.Producer {
		p, err := producer.New(cfg, producer.Deps{Sink: forwardtest.New()})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := make1()
	if p.Ready() == nil {
		t.Error("ready before it runs")
	}
	stop := start(t, p)
	info, err := os.Stat(cfg.Socket)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("socket: %v, %v", info, err)
	}
	if err := make1().Run(t.Context()); err == nil || !strings.Contains(err.Error(), "another process listens") {
		t.Errorf("a second producer on the same socket: %v", err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(cfg.Socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("socket after the end: %v", err)
	}

	// What a killed process leaves behind is replaced.
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: cfg.Socket})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	_ = stale.Close()
	stop = start(t, make1())
	dial(t, cfg.Socket).send(hello(stream))
	_ = stop()

	if err := os.WriteFile(cfg.Socket, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := make1().Run(t.Context()); err == nil || !strings.Contains(err.Error(), "is not a socket") {
		t.Errorf("a file in the socket's place: %v", err)
	}
}

func TestProducer_EndsWhileTheSinkBlocks(t *testing.T) {
	sink := &blocking{Sink: forwardtest.New(), entered: make(chan struct{})}
	socket := run(t, sink, nil)
	w := dial(t, socket)
	w.send(append(hello(stream), frame(1, 1, 0, messages(1))...))
	<-sink.entered // the clean-up stops the producer now
}

// blocking is a sink under back-pressure.
type blocking struct {
	*forwardtest.Sink
	entered chan struct{}
}

func TestConfig_NamesWhatIsWrong(t *testing.T) {
	for path, change := range map[string]func(*producer.Config){
		"socket":          func(c *producer.Config) { c.Socket = strings.Repeat("x", 120) },
		"mode":            func(c *producer.Config) { c.Mode = "rw" },
		"group":           func(c *producer.Config) { c.Group = "no such group" },
		"max_frame":       func(c *producer.Config) { c.MaxFrame = 1000 },
		"max_connections": func(c *producer.Config) { c.MaxConnections = 0 },
		"timeout":         func(c *producer.Config) { c.Timeout = 0 },
	} {
		t.Run(path, func(t *testing.T) {
			cfg := producer.DefaultConfig()
			change(&cfg)
			if _, err := producer.New(cfg, producer.Deps{Sink: forwardtest.New()}); err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func (b *blocking) Put(ctx context.Context, _ forward.Chunk) error {
	close(b.entered)
	<-ctx.Done()
	return ctx.Err()
}
