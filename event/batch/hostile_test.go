package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/spate-io/spate/event"
	"github.com/spate-io/spate/event/internal/goldentest"
)

// reseal makes the checksums of a changed batch right again.
func reseal(b []byte) []byte {
	n := HeaderSize + int(b[7])
	if len(b) >= n {
		binary.LittleEndian.PutUint32(b[52:], uint32(len(b)-n))
		binary.LittleEndian.PutUint32(b[56:], crc(0, b[n:]))
		binary.LittleEndian.PutUint32(b[60:], crc(crc(0, b[:60]), b[HeaderSize:n]))
	}
	return b
}

func TestParseHeader_RefusesWhatTheFormatDoesNotAllow(t *testing.T) {
	le := binary.LittleEndian
	for _, c := range []struct {
		name   string
		change func(b []byte)
		field  string
		err    error
	}{
		{"nothing_changed", func([]byte) {}, "", nil},
		{"magic", func(b []byte) { b[0] = 'X' }, "magic", ErrMagic},
		{"version", func(b []byte) { b[4] = 2 }, "version", ErrVersion},
		{"type", func(b []byte) { b[5] = 9 }, "type", ErrValue},
		{"codec", func(b []byte) { b[6] = 5 }, "codec", ErrValue},
		{"edge_upper_case", func(b []byte) { b[64] = 'E' }, "edge", ErrValue},
		{"edge_slash", func(b []byte) { b[65] = '/' }, "edge", ErrValue},
		{"no_edge", func(b []byte) { b[7] = 0 }, "edge", ErrValue},
		{"sequence", func(b []byte) { le.PutUint64(b[16:], 0) }, "sequence", ErrValue},
		{"times_without_events", func(b []byte) { le.PutUint32(b[24:], 0) }, "first", ErrValue},
		{"last_before_first", func(b []byte) { le.PutUint64(b[40:], 5) }, "last", ErrValue},
		{"raw_length", func(b []byte) { le.PutUint32(b[48:], MaxRaw+1) }, "raw length", ErrTooLarge},
		{"more_events_than_bytes", func(b []byte) { le.PutUint32(b[24:], math.MaxUint32) }, "raw length", ErrValue},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := seal(t, None, head(), payload(400))
			c.change(b)
			_, _, err := ParseHeader(reseal(b))
			var e *Error
			if c.err == nil && err == nil {
				return
			}
			if !errors.Is(err, c.err) || !errors.As(err, &e) || e.Field != c.field {
				t.Fatalf("got %v, want %s: %v", err, c.field, c.err)
			}
		})
	}
}

func TestEncoder_RefusesWhatTheFormatDoesNotAllow(t *testing.T) {
	e, err := NewEncoder(None, 0)
	if err != nil {
		t.Fatal(err)
	}
	h := head()
	h.Name.Edge = "Edge"
	if b, err := e.Encode([]byte("kept"), h, payload(400)); !errors.Is(err, ErrValue) || string(b) != "kept" {
		t.Fatalf("%q: %v", b, err)
	}
	if _, err := e.Encode(nil, head(), make([]byte, MaxRaw+1)); !errors.Is(err, ErrTooLarge) {
		t.Fatal(err)
	}
	for _, c := range []struct {
		codec Codec
		level int
	}{{None, 1}, {Snappy, 1}, {Gzip, 10}, {LZ4, 11}, {Zstd, 20}, {Zstd, -1}, {Codec(9), 0}} {
		if _, err := NewEncoder(c.codec, c.level); err == nil {
			t.Errorf("%s level %d accepted", c.codec, c.level)
		}
	}
}

func TestEncoder_EveryLevelRoundTrips(t *testing.T) {
	raw := payload(100_000)
	for c, top := range map[Codec]int{Gzip: 9, LZ4: 10, Zstd: 19} {
		for level := 1; level <= top; level++ {
			e, err := NewEncoder(c, level)
			if err != nil {
				t.Fatalf("%s level %d: %v", c, level, err)
			}
			b, err := e.Encode(nil, head(), raw)
			if err != nil {
				t.Fatalf("%s level %d: %v", c, level, err)
			}
			if _, got, err := NewDecoder(0).Decode(b); err != nil || !bytes.Equal(got, raw) {
				t.Fatalf("%s level %d: %v", c, level, err)
			}
		}
	}
}

// packWith packs raw with the libraries themselves, without the limits of an Encoder.
func packWith(t testing.TB, c Codec, raw []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	switch c {
	case None:
		b.Write(raw)
	case Gzip:
		w := gzip.NewWriter(&b)
		_, _ = w.Write(raw)
		_ = w.Close()
	case Snappy:
		b.Write(snappy.Encode(nil, raw))
	case LZ4:
		w := lz4.NewWriter(&b)
		_, _ = w.Write(raw)
		_ = w.Close()
	case Zstd:
		w, err := zstd.NewWriter(nil)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(w.EncodeAll(raw, nil))
	}
	return b.Bytes()
}

// withPayload returns a batch of that codec with any payload and any declared length, its checksums right.
func withPayload(t testing.TB, c Codec, declared int, packed []byte) []byte {
	t.Helper()
	b := seal(t, None, head(), payload(400))[:74]
	b[6] = byte(c)
	binary.LittleEndian.PutUint32(b[48:], uint32(declared))
	return reseal(append(b, packed...))
}

func TestDecoder_BombsAndLiesRefused(t *testing.T) {
	bomb := make([]byte, 256<<20)
	for _, c := range codecs[1:] {
		t.Run(c.String(), func(t *testing.T) {
			packed := packWith(t, c, bomb)
			b := withPayload(t, c, 1<<20, packed)
			d := NewDecoder(4 << 20)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, _, err := d.Decode(b)
			runtime.ReadMemStats(&after)
			if !errors.Is(err, ErrPayload) {
				t.Fatalf("256 MiB in %d bytes: %v", len(packed), err)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 24<<20 {
				t.Fatalf("%d bytes allocated", used)
			}
		})
		t.Run(c.String()+"_lengths", func(t *testing.T) {
			packed := packWith(t, c, payload(5000))
			d := NewDecoder(0)
			for name, b := range map[string][]byte{
				"declared_longer":  withPayload(t, c, 5001, packed),
				"declared_shorter": withPayload(t, c, 4999, packed),
				"bytes_after":      withPayload(t, c, 5000, append(bytes.Clone(packed), 0, 1, 2)),
				"cut":              withPayload(t, c, 5000, packed[:len(packed)-1]),
				"nothing":          withPayload(t, c, 5000, nil),
				"noise":            withPayload(t, c, 5000, payload(300)),
			} {
				if _, _, err := d.Decode(b); !errors.Is(err, ErrPayload) {
					t.Errorf("%s: %v", name, err)
				}
			}
			if _, raw, err := d.Decode(withPayload(t, c, 5000, packed)); err != nil || !bytes.Equal(raw, payload(5000)) {
				t.Fatalf("after these, a good batch: %v", err)
			}
		})
	}
	t.Run("limit", func(t *testing.T) {
		if _, _, err := NewDecoder(399).Decode(seal(t, None, head(), payload(400))); !errors.Is(err, ErrTooLarge) {
			t.Fatal(err)
		}
	})
}

// goldenBatch returns the batch whose bytes the golden files hold.
func goldenBatch() (Header, []byte) {
	var raw []byte
	for i := range 3 {
		e := event.HTTP{EdgeStartTimestamp: 1_700_000_000_000_000_000 + int64(i), EdgeResponseStatus: 200, ClientRequestHost: []byte("www.example.com")}
		raw = e.Append(raw)
	}
	h := head()
	h.Events, h.First, h.Last = 3, 1_700_000_000_000_000_000, 1_700_000_000_000_000_002
	return h, raw
}

func TestBatch_Golden(t *testing.T) {
	h, raw := goldenBatch()
	for _, c := range codecs {
		t.Run(c.String(), func(t *testing.T) {
			if c == None { // compressors may find shorter bytes from one version to the next; here every byte is ours
				goldentest.Check(t, c.String(), seal(t, c, h, raw))
			} else if goldentest.Updating() {
				goldentest.Write(t, c.String(), seal(t, c, h, raw))
			}
			got, payload, err := NewDecoder(0).Decode(goldentest.Read(t, c.String()))
			if err != nil || !bytes.Equal(payload, raw) {
				t.Fatalf("payload differs: %v", err)
			}
			want := h
			want.Version, want.Codec, want.RawLen, want.PackedLen, want.PayloadCRC = Version, c, uint32(len(raw)), got.PackedLen, got.PayloadCRC
			if d := cmp.Diff(want, got); d != "" {
				t.Fatal(d)
			}
		})
	}
}

func TestName_PartitionStaysAndSpreads(t *testing.T) {
	n := Name{"edge-1", 1_700_000_000_000_000_000, 1}
	if n.String() != "edge-1/1700000000000000000/1" {
		t.Error(n.String())
	}
	// These are part of the format: a batch that is sent again after an upgrade must land where its first copy is.
	for partitions, want := range map[int32]int32{0: 0, -3: 0, 1: 0, 4: 2, 7: 5, 64: 50} {
		if got := n.Partition(partitions); got != want {
			t.Errorf("%d partitions: %d, want %d", partitions, got, want)
		}
	}
	var counts [8]int
	for i := range uint64(8000) {
		n.Sequence = i + 1
		counts[n.Partition(8)]++
	}
	for p, c := range counts {
		if c < 850 || c > 1150 {
			t.Errorf("partition %d got %d of 8000", p, c)
		}
	}
	if a := testing.AllocsPerRun(100, func() { n.Partition(8) }); a != 0 {
		t.Errorf("%v allocations", a)
	}
}

func TestParseCodec(t *testing.T) {
	for _, c := range codecs {
		if got, err := ParseCodec(c.String()); got != c || err != nil {
			t.Errorf("%s: %s, %v", c, got, err)
		}
	}
	if _, err := ParseCodec("ZSTD"); err == nil {
		t.Error("upper case accepted")
	}
	if Codec(7).String() != "codec(7)" || Type(7).String() != "type(7)" {
		t.Error("unknown numbers have no names")
	}
}

func FuzzDecoder(f *testing.F) {
	for _, c := range codecs {
		b, err := os.ReadFile("testdata/" + c.String() + ".raw")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(withPayload(f, c, 400, payload(100)))
	}
	const limit = 1 << 20
	d := NewDecoder(limit)
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, x := range [][]byte{b, reseal(bytes.Clone(append(b, make([]byte, max(0, 8-len(b)))...)))} {
			h, raw, err := d.Decode(x)
			var e *Error
			if err != nil {
				if !errors.As(err, &e) {
					t.Fatalf("error without a type: %v", err)
				}
				continue
			}
			if len(raw) != int(h.RawLen) || len(raw) > limit || h.Size() != len(x) {
				t.Fatalf("%d bytes of %d, batch %d of %d", len(raw), h.RawLen, h.Size(), len(x))
			}
			raw = bytes.Clone(raw)
			again := seal(t, h.Codec, h, raw)
			h2, raw2, err := d.Decode(again)
			h2.PackedLen, h2.PayloadCRC = h.PackedLen, h.PayloadCRC
			if err != nil || !bytes.Equal(raw, raw2) || h != h2 {
				t.Fatalf("sealed again, it differs: %v", err)
			}
		}
	})
}
