package histogram_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"math"
	"testing"

	"github.com/spate-io/spate/histogram"
)

func golden() *histogram.Histogram {
	h := histogram.New()
	h.Record(0, -6)
	h.Record(1500, -6)
	h.RecordBin(histogram.BinOf(1500), -6, 255)
	h.Record(-42, 0)
	h.RecordFloat(math.NaN())
	return h
}

// goldenHex is: 4 buckets; NaN 1; -42 1; 0 1; 1.5e-3 256.
const goldenHex = "0004" + "ff000001" + "d6010001" + "00000001" + "0ffd010001"

func TestSerialize_Golden(t *testing.T) {
	b, err := golden().MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(b); got != goldenHex {
		t.Errorf("got  %s\nwant %s", got, goldenHex)
	}
	var h histogram.Histogram
	if err := h.UnmarshalBinary(b); err != nil || !h.Equal(golden()) {
		t.Errorf("round trip: %v", err)
	}
}

func TestSerialize_RefusesEveryShortAndLongForm(t *testing.T) {
	b, _ := hex.DecodeString(goldenHex)
	for n := range b {
		h := golden()
		if err := h.UnmarshalBinary(b[:n]); err == nil || h.Buckets() != 0 {
			t.Errorf("%d bytes accepted", n)
		}
	}
	for _, bad := range []string{goldenHex + "00", "ffff", "00010ffd08000000000000000001"} {
		b, _ := hex.DecodeString(bad)
		if new(histogram.Histogram).UnmarshalBinary(b) == nil {
			t.Errorf("%s accepted", bad)
		}
	}
	if new(histogram.Histogram).UnmarshalText([]byte("AAE*")) == nil {
		t.Error("bad base64 accepted")
	}
}

func TestSerialize_JSON(t *testing.T) {
	b, err := json.Marshal(map[string]any{"h": golden()})
	if err != nil {
		t.Fatal(err)
	}
	var back struct{ H histogram.Histogram }
	if err := json.Unmarshal(b, &back); err != nil || !back.H.Equal(golden()) {
		t.Errorf("%s: %v", b, err)
	}
}

func TestSerialize_TooManyBuckets(t *testing.T) {
	h := histogram.New()
	for b := -histogram.MaxBin; b <= histogram.MaxBin; b++ {
		h.RecordBin(b, 0, 1)
		h.RecordBin(b, -128, 1)
	}
	if _, err := h.MarshalBinary(); err == nil {
		t.Errorf("%d buckets serialised", h.Buckets())
	}
}

// FuzzUnmarshalBinary: whatever decodes serialises to a form that decodes to the same, and asking it never fails.
func FuzzUnmarshalBinary(f *testing.F) {
	b, _ := hex.DecodeString(goldenHex)
	f.Add(b)
	f.Add([]byte{0, 0})
	f.Add([]byte{0, 1, 10, 0x80, 7, 255, 255, 255, 255, 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, b []byte) {
		var h, back histogram.Histogram
		if h.UnmarshalBinary(b) != nil {
			return
		}
		once, err := h.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		if err := back.UnmarshalBinary(once); err != nil || !back.Equal(&h) {
			t.Fatalf("second round differs: %v", err)
		}
		twice, _ := back.MarshalBinary()
		if !bytes.Equal(once, twice) {
			t.Fatal("serialised form is not stable")
		}
		if q := h.Quantile(0.5); h.Count() > 0 && math.IsNaN(q) {
			t.Fatal("no median")
		}
		h.Modes(0.1)
		h.CountBelow(1)
		if err := back.Subtract(&h); err != nil || back.Count() != 0 || back.NaNs() != 0 {
			t.Fatalf("h - h: %v", err)
		}
	})
}
