package wire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spate-io/spate/internal/config"
)

var update = flag.Bool("update", false, "write the golden files anew")

// conversation is one frame of each kind.
func conversation(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	w := NewWriter(&b)
	for _, err := range []error{
		w.Hello(Hello{Min: 1, Max: 1, Edge: "e1", Software: "spate 1.2.3"}),
		w.Welcome(Welcome{Version: 1, MaxBatch: 32 << 20, Window: 64, Keepalive: 5 * time.Second, Name: "gw1"}),
		w.Batch(1, []byte("SPBT...")),
		w.Ack(1),
		w.Refuse(2, RefuseEvents, "event 0: message is cut short"),
		w.Ping(7),
		w.Pong(7),
		w.GoAway(GoAwayShutdown, "gateway stops"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func TestGolden_Conversation(t *testing.T) {
	b := conversation(t)
	bin := filepath.Join("testdata", "conversation.bin")
	if *update {
		if err := os.MkdirAll("testdata", 0o750); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.WriteFile(bin, b, 0o640), os.WriteFile(filepath.Join("testdata", "conversation.hex"), []byte(hex.Dump(b)), 0o640)); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(bin)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b, want) {
		t.Fatalf("the bytes have changed; the format is fixed:\n%s", hex.Dump(b))
	}
}

// readAll reads frames to the end and says what each is.
func readAll(b []byte, maxBatch int) (types []Type, err error) {
	r := NewReader(bytes.NewReader(b), maxBatch)
	for {
		t, n, err := r.Next()
		if err != nil {
			return types, err
		}
		if t == TypeBatch {
			_, got, err := r.Batch(nil)
			if err != nil {
				return types, err
			}
			if len(got) != n-8 {
				return types, errors.New("length of a batch")
			}
			types = append(types, t)
			continue
		}
		body, err := r.Control()
		if err != nil {
			return types, err
		}
		switch t { //nolint:exhaustive // batches are above
		case TypeHello:
			_, err = ParseHello(body)
		case TypeWelcome:
			_, err = ParseWelcome(body)
		case TypeRefuse:
			_, _, _, err = ParseRefuse(body)
		case TypeGoAway:
			_, err = ParseGoAway(body)
		default:
			_, err = ParseNumber(body)
		}
		if err != nil {
			return types, err
		}
		types = append(types, t)
	}
}

func TestReader_ReadsWhatWriterWrites(t *testing.T) {
	b := conversation(t)
	types, err := readAll(b, 100)
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Type{1, 2, 3, 4, 5, 6, 7, 8}, types); diff != "" {
		t.Fatal(diff)
	}
	r := NewReader(bytes.NewReader(b), 100)
	_, _, _ = r.Next()
	body, _ := r.Control()
	h, err := ParseHello(body)
	if diff := cmp.Diff(Hello{1, 1, "e1", "spate 1.2.3"}, h); diff != "" || err != nil {
		t.Fatal(diff, err)
	}
	_, _, _ = r.Next()
	body, _ = r.Control()
	v, err := ParseWelcome(append(bytes.Clone(body), "of a later version"...))
	if diff := cmp.Diff(Welcome{1, 32 << 20, 64, 5 * time.Second, "gw1"}, v); diff != "" || err != nil {
		t.Fatal(diff, err)
	}
}

func TestReader_EveryShortPrefixIsAnError(t *testing.T) {
	b := conversation(t)
	ends := map[int]bool{}
	for at := 0; at < len(b); {
		ends[at] = true
		at += FrameHeader + int(b[at]) + int(b[at+1])<<8
	}
	for n := range len(b) {
		_, err := readAll(b[:n], 100)
		if ends[n] && err != io.EOF || !ends[n] && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
}

func TestReader_Bounds(t *testing.T) {
	for name, c := range map[string]struct {
		head string
		want error
	}{
		"batch_at_limit":  {"6c000000 03000000", io.ErrUnexpectedEOF},
		"batch_above":     {"6d000000 03000000", ErrTooLarge},
		"batch_too_short": {"07000000 03000000", ErrFrame},
		"control_above":   {"01100000 04000000", ErrTooLarge},
		"type_0":          {"00000000 00000000", ErrFrame},
		"type_9":          {"00000000 09000000", ErrFrame},
		"not_zero":        {"00000000 06000001", ErrFrame},
	} {
		b, err := hex.DecodeString(strings.ReplaceAll(c.head, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := readAll(b, 100); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func FuzzReader(f *testing.F) {
	f.Add(conversation(f))
	f.Fuzz(func(t *testing.T, b []byte) {
		types, err := readAll(b, 1000)
		if err == nil {
			t.Fatal("reading never ends without an error")
		}
		if len(types)*FrameHeader > len(b) {
			t.Fatal("more frames than bytes")
		}
	})
}

func TestWriter_ClipsTexts(t *testing.T) {
	var b bytes.Buffer
	if err := NewWriter(&b).Refuse(1, RefuseEvents, strings.Repeat("ä", 2000)); err != nil {
		t.Fatal(err)
	}
	if types, err := readAll(b.Bytes(), 0); len(types) != 1 || err != io.EOF {
		t.Fatal(types, err)
	}
}

func TestPipe_BehavesAsAConnection(t *testing.T) {
	a, b := Pipe(16)
	sent := bytes.Repeat([]byte("0123456789"), 100)
	go func() {
		_, _ = a.Write(sent)
		_ = a.Close()
	}()
	got, err := io.ReadAll(b)
	if err != nil || !bytes.Equal(got, sent) {
		t.Fatalf("%d bytes of %d: %v", len(got), len(sent), err)
	}
	if _, err := b.Write([]byte("x")); err == nil {
		t.Fatal("wrote to an end that nobody reads")
	}

	a, b = Pipe(16)
	if n, err := a.Write([]byte("does not wait")); n != 13 || err != nil {
		t.Fatal(n, err)
	}
	_ = a.SetWriteDeadline(time.Now().Add(5 * time.Millisecond))
	if n, err := a.Write([]byte("more than fits")); n != 3 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(n, err)
	}
	_ = b.SetReadDeadline(time.Now().Add(-time.Second))
	if _, err := b.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	_ = b.SetReadDeadline(time.Time{})
	if n, err := b.Read(make([]byte, 100)); n != 16 || err != nil {
		t.Fatal(n, err)
	}
	unblocked := make(chan error, 1)
	go func() { _, err := b.Read(make([]byte, 1)); unblocked <- err }()
	_ = b.Close()
	if err := <-unblocked; !errors.Is(err, net.ErrClosed) {
		t.Fatal(err)
	}
}

func TestConfig_Validate(t *testing.T) {
	ok, bad := DefaultConfig(), Config{IdleTimeout: -1}
	var p, q config.Problems
	ok.Validate(&p)
	bad.Validate(&q)
	if p.Err() != nil || q.Err() == nil {
		t.Fatal(p.Err(), q.Err())
	}
}
