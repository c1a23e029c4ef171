package histogram_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	ref "github.com/openhistogram/circonusllhist"

	"github.com/spate-io/spate/histogram"
)

// values gives n numbers of a long-tailed distribution over about eight powers of ten, all positive.
func values(seed uint64, n int) []int64 {
	r := rand.New(rand.NewPCG(seed, 1))
	out := make([]int64, n)
	for i := range out {
		out[i] = int64(math.Exp(r.NormFloat64()*2.5 + 8))
	}
	return out
}

func refText(t *testing.T, h *ref.Histogram) string {
	t.Helper()
	var b bytes.Buffer
	if err := h.SerializeB64(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func text(t *testing.T, h *histogram.Histogram) string {
	t.Helper()
	b, err := h.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestHistogram_EqualsReferenceForIntegers(t *testing.T) {
	for _, scale := range []int{-9, -6, 0, 3, 100} {
		ours, theirs := histogram.New(), ref.New()
		for _, v := range append(values(uint64(scale+10), 5000), 0, 1, 9, 10, 99, 100, 101, math.MaxInt64, 999_999, 1_000_000) {
			ours.Record(v, scale)
			if err := theirs.RecordIntScale(v, scale); err != nil {
				t.Fatal(err)
			}
		}
		compare(t, ours, theirs)
	}
}

func TestHistogram_EqualsReferenceForFloats(t *testing.T) {
	ours, theirs := histogram.New(), ref.New()
	r := rand.New(rand.NewPCG(3, 4))
	record := func(v float64) {
		ours.RecordFloat(v)
		if err := theirs.RecordValue(v); err != nil {
			t.Fatal(err)
		}
	}
	for range 20000 {
		record(math.Exp(r.NormFloat64()*20 - 3))
	}
	for e := -127; e <= 127; e++ { // two-digit decimals are where float arithmetic is most easily wrong
		for m := 10; m < 100; m++ {
			record(float64(m) / 10 * math.Pow10(e))
		}
	}
	compare(t, ours, theirs)
}

func TestHistogram_EqualsReferenceForNegatives(t *testing.T) {
	ours, theirs := histogram.New(), ref.New()
	for _, v := range values(8, 3000) {
		ours.Record(-v, -3)
		if err := theirs.RecordIntScale(-v, -3); err != nil {
			t.Fatal(err)
		}
	}
	back := histogram.New() // the port orders negative buckets by magnitude, libcircllhist and we by value: compare contents
	if err := back.UnmarshalText([]byte(refText(t, theirs))); err != nil {
		t.Fatal(err)
	}
	if !back.Equal(ours) {
		t.Error("buckets differ")
	}
	if got, want := ours.Sum(), theirs.ApproxSum(); math.Abs(got-want) > 1e-9*math.Abs(want) {
		t.Errorf("sum %v, reference %v", got, want)
	}
}

// compare checks serialised bytes both ways, quantiles, mean and sum.
func compare(t *testing.T, ours *histogram.Histogram, theirs *ref.Histogram) {
	t.Helper()
	mine, other := text(t, ours), refText(t, theirs)
	if mine != other {
		t.Errorf("serialised forms differ:\n%s\n%s", mine, other)
	}
	back := histogram.New()
	if err := back.UnmarshalText([]byte(other)); err != nil {
		t.Fatal(err)
	}
	if !back.Equal(ours) {
		t.Error("reference's serialised form decodes to other buckets")
	}
	var theirBack ref.Histogram
	if err := theirBack.UnmarshalJSON([]byte(`"` + mine + `"`)); err != nil {
		t.Fatal(err)
	}
	if theirBack.Count() != ours.Count() {
		t.Errorf("reference decodes %d numbers of our %d", theirBack.Count(), ours.Count())
	}
	qs := []float64{0, 0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999, 1}
	want, err := theirs.ApproxQuantile(qs)
	if err != nil {
		t.Fatal(err)
	}
	for i, got := range ours.Quantiles(qs...) {
		if got != want[i] {
			t.Errorf("quantile %v is %v, reference says %v", qs[i], got, want[i])
		}
	}
	if got, want := ours.Count(), theirs.Count(); got != want {
		t.Errorf("count %d, reference %d", got, want)
	}
	if got, want := ours.Mean(), theirs.ApproxMean(); math.Abs(got-want) > 1e-12*math.Abs(want) {
		t.Errorf("mean %v, reference %v", got, want)
	}
	if got, want := ours.Sum(), theirs.ApproxSum(); math.Abs(got-want) > 1e-12*math.Abs(want) {
		t.Errorf("sum %v, reference %v", got, want)
	}
}

func BenchmarkReferenceRecord(b *testing.B) {
	vs := values(1, 4096)
	h := ref.New(ref.NoLocks())
	i := 0
	for b.Loop() {
		_ = h.RecordIntScale(vs[i&4095], -6)
		i++
	}
}
