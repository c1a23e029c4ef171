package batch

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var codecs = []Codec{None, Gzip, Snappy, LZ4, Zstd}

// payload returns n bytes that shrink as messages do.
func payload(n int) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "GET /articles/%d.html HTTP/1.1 host-%d.example.com %d\x00\x00\x00\x00", i*7919%1000, i%13, i*i)
	}
	return b.Bytes()[:n]
}

func head() Header {
	return Header{
		Type: HTTPRequests, Name: Name{Edge: "edge-1.fra", Epoch: 1_700_000_000_000_000_000, Sequence: 42},
		Events: 10, Dropped: 3, First: 1_700_000_000_000_000_001, Last: 1_700_000_009_000_000_002,
	}
}

func seal(t testing.TB, c Codec, h Header, raw []byte) []byte {
	t.Helper()
	e, err := NewEncoder(c, 0)
	if err != nil {
		t.Fatal(err)
	}
	b, err := e.Encode(nil, h, raw)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestBatch_RoundTrip(t *testing.T) {
	d := NewDecoder(0)
	for _, c := range codecs {
		t.Run(c.String(), func(t *testing.T) {
			e, err := NewEncoder(c, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range []int{200, 1 << 20, 5_000_001, 160} { // a large one before a small one: buffers are used again
				raw := payload(n)
				b, err := e.Encode([]byte("before"), head(), raw)
				if err != nil {
					t.Fatal(err)
				}
				b = b[len("before"):]
				h, got, err := d.Decode(b)
				if err != nil {
					t.Fatalf("%d bytes: %v", n, err)
				}
				if !bytes.Equal(got, raw) {
					t.Fatalf("%d bytes: payload differs", n)
				}
				want := head()
				want.Version, want.Codec, want.RawLen, want.PackedLen, want.PayloadCRC = Version, c, uint32(n), uint32(len(b)-74), h.PayloadCRC
				if diff := cmp.Diff(want, h); diff != "" {
					t.Fatal(diff)
				}
				if h.Size() != len(b) {
					t.Fatalf("size %d of %d", h.Size(), len(b))
				}
			}
		})
	}
}

func TestBatch_OnlyDrops(t *testing.T) {
	for _, c := range codecs {
		h := Header{Type: HTTPRequests, Name: Name{"e", 1, 1}, Dropped: 9}
		got, raw, err := NewDecoder(0).Decode(seal(t, c, h, nil))
		if err != nil || len(raw) != 0 || got.Dropped != 9 {
			t.Errorf("%s: %+v, %d bytes, %v", c, got, len(raw), err)
		}
	}
}

func TestDecoder_EveryPrefixAndFlipRefused(t *testing.T) {
	for _, c := range codecs {
		t.Run(c.String(), func(t *testing.T) {
			d := NewDecoder(0)
			b := seal(t, c, head(), payload(400))
			var e *Error
			for n := range b {
				if _, _, err := d.Decode(b[:n:n]); !errors.Is(err, ErrShort) || !errors.As(err, &e) {
					t.Fatalf("prefix of %d bytes: %v", n, err)
				}
			}
			if _, _, err := d.Decode(append(bytes.Clone(b), 0)); !errors.Is(err, ErrTrailing) {
				t.Fatalf("a byte more: %v", err)
			}
			for i := range b {
				x := bytes.Clone(b)
				x[i] ^= 0x10
				if _, _, err := d.Decode(x); !errors.As(err, &e) {
					t.Fatalf("byte %d flipped: %v", i, err)
				}
			}
		})
	}
}
