package histogram_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/spate-io/spate/histogram"
)

// binByDefinition follows the documented formula with plain divisions.
func binByDefinition(v int64) histogram.Bin {
	if v == 0 {
		return 0
	}
	if v < 0 {
		if v == math.MinInt64 {
			return -binByDefinition(math.MaxInt64)
		}
		return -binByDefinition(-v)
	}
	e, p := 0, int64(1)
	for v/p >= 10 {
		e, p = e+1, p*10
	}
	m := v * 10
	if v >= 10 {
		m = v / (p / 10)
	}
	return histogram.Bin(e*90 + int(m-10) + 1)
}

func TestBinOf_Definition(t *testing.T) {
	check := func(v int64) {
		if got, want := histogram.BinOf(v), binByDefinition(v); got != want {
			t.Fatalf("bin of %d is %d, want %d", v, got, want)
		}
	}
	for v := int64(-200_000); v < 2_000_000; v++ {
		check(v)
	}
	for p := int64(1); p <= math.MaxInt64/10; p *= 10 { // every bound, and the numbers beside it
		for m := int64(10); m < 100; m++ {
			if m > math.MaxInt64/p {
				break
			}
			for _, d := range []int64{-1, 0, 1} {
				check(m*p + d)
				check(-m*p + d)
			}
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 1_000_000 {
		check(r.Int64() >> r.IntN(63))
	}
	check(math.MaxInt64)
	check(math.MinInt64)
}

func TestBinOf_Documented(t *testing.T) {
	for _, c := range []struct {
		v    int64
		want histogram.Bin
	}{{0, 0}, {1, 1}, {2, 11}, {9, 81}, {10, 91}, {11, 92}, {99, 180}, {100, 181}, {109, 181}, {110, 182}, {1_000_000, 541}, {-1, -1}, {math.MaxInt64, 1703}} {
		if got := histogram.BinOf(c.v); got != c.want {
			t.Errorf("bin of %d is %d, want %d", c.v, got, c.want)
		}
		if got := histogram.BinOfFloat(float64(c.v)); got != c.want {
			t.Errorf("bin of float %d is %d, want %d", c.v, got, c.want)
		}
	}
	for _, c := range []struct {
		v    float64
		want histogram.Bin
	}{
		{0.5, 0}, {-0.99, 0}, {math.NaN(), histogram.NaNBin}, {math.Inf(1), histogram.NaNBin}, {1e128, histogram.NaNBin}, {-1e300, histogram.NaNBin},
		{1e-300, 0}, {9.95e127, histogram.MaxBin}, {-9.95e127, -histogram.MaxBin}, {1.05, 1}, {0.99999999999999, 0},
	} {
		if got := histogram.BinOfFloat(c.v); got != c.want {
			t.Errorf("bin of %v is %d, want %d", c.v, got, c.want)
		}
	}
}

func TestBin_BoundsHoldTheirNumbers(t *testing.T) {
	for b := histogram.Bin(1); b <= histogram.BinOf(math.MaxInt64); b++ {
		low, high := b.Bounds()
		next, _ := (b + 1).Bounds()
		if math.Abs(high-next) > 1e-12*next {
			t.Fatalf("bin %d ends at %v, bin %d starts at %v", b, high, b+1, next)
		}
		mid := b.Midpoint()
		if e := math.Max(mid-low, high-mid) / low; e > 0.05+1e-12 {
			t.Fatalf("bin %d: midpoint %v is %v off a bound", b, mid, e)
		}
		nlow, nhigh := (-b).Bounds()
		if nlow != -high || nhigh != -low || (-b).Midpoint() != -mid {
			t.Fatalf("bin %d is no mirror of bin %d", -b, b)
		}
	}
	if !histogram.NaNBin.Valid() || (histogram.MaxBin + 1).Valid() || !math.IsNaN(histogram.NaNBin.Midpoint()) {
		t.Error("validity of the ends is wrong")
	}
}

func TestBin_ToBucketAndBack(t *testing.T) {
	for b := -histogram.BinOf(math.MaxInt64); b <= histogram.BinOf(math.MaxInt64); b++ {
		k := b.Bucket(-6)
		if back, ok := k.Bin(-6); !ok || back != b {
			t.Fatalf("bin %d becomes bucket %v, that becomes bin %d, %v", b, k, back, ok)
		}
		if b.Bucket(0) != histogram.BucketOf(b.Midpoint()) {
			t.Fatalf("bin %d: bucket %v, bucket of its middle %v", b, b.Bucket(0), histogram.BucketOf(b.Midpoint()))
		}
	}
	if got, want := histogram.BinOf(1500).Bucket(-6), (histogram.Bucket{Val: 15, Exp: -3}); got != want {
		t.Errorf("1500 us is bucket %v in seconds, want %v", got, want)
	}
	if _, ok := (histogram.Bucket{Val: 15, Exp: -7}).Bin(-6); ok {
		t.Error("150 ns has a bin of microseconds")
	}
	if got := histogram.MaxBin.Bucket(1); got != histogram.NaNBucket {
		t.Errorf("bucket beyond the last is %v", got)
	}
	if got := histogram.Bin(1).Bucket(-129); got != histogram.ZeroBucket {
		t.Errorf("bucket before the first is %v", got)
	}
}

func of(vs ...int64) *histogram.Histogram {
	h := histogram.New()
	for _, v := range vs {
		h.Record(v, 0)
	}
	return h
}

func TestHistogram_QuantilesWithin5Percent(t *testing.T) {
	for seed := range uint64(20) {
		vs := values(seed, 3000)
		h := of(vs...)
		slices.Sort(vs)
		for _, q := range []float64{0.01, 0.1, 0.5, 0.9, 0.99, 0.999} {
			// The quantile lies in the bucket of the number of that rank, so one bucket's width, at most 10 %, bounds its error;
			// the bucket's middle is within 5 %.
			exact := float64(vs[int(math.Ceil(q*float64(len(vs))))-1])
			got := h.Quantile(q)
			if math.Abs(got-exact) > 0.1*exact {
				t.Errorf("seed %d: quantile %v is %v, exact %v", seed, q, got, exact)
			}
			if mid := histogram.BucketOfInt(int64(exact), 0).Midpoint(); math.Abs(mid-exact) > 0.05*exact && exact >= 10 {
				t.Errorf("middle %v of the bucket of %v", mid, exact)
			}
		}
		sum := 0.0
		for _, v := range vs {
			sum += float64(v)
		}
		if got := h.Sum(); math.Abs(got-sum) > 0.05*sum {
			t.Errorf("seed %d: sum %v, exact %v", seed, got, sum)
		}
	}
}

func TestHistogram_QuantilesInAnyOrder(t *testing.T) {
	h := of(values(5, 500)...)
	qs := []float64{0.9, 0.1, 0.5, 1, 0, 2, -1, math.NaN(), 0.5}
	for i, got := range h.Quantiles(qs...) {
		if want := h.Quantile(qs[i]); got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("quantile %v is %v with others, %v alone", qs[i], got, want)
		}
	}
	if !math.IsNaN(h.Quantile(1.5)) || !math.IsNaN(histogram.New().Quantile(0.5)) || !math.IsNaN(histogram.New().Mean()) {
		t.Error("no number expected")
	}
}

func TestHistogram_MergeIsAssociativeAndCommutative(t *testing.T) {
	a, b, c := of(values(1, 300)...), of(values(2, 300)...), of(-5, 0, 7, 1e15)
	ab := a.Clone()
	ab.Merge(b)
	ab.Merge(c)
	bc := c.Clone()
	bc.Merge(b)
	bc.Merge(a)
	whole := of(append(append(values(1, 300), values(2, 300)...), -5, 0, 7, 1e15)...)
	if !ab.Equal(bc) || !ab.Equal(whole) {
		t.Error("order of merging changes the result")
	}
	if a.Equal(whole) {
		t.Error("merging into a copy changed nothing or the original")
	}
}

func TestHistogram_Subtract(t *testing.T) {
	early := of(values(1, 300)...)
	late := early.Clone()
	since := of(values(2, 300)...)
	late.Merge(since)
	if err := late.Subtract(early); err != nil || !late.Equal(since) {
		t.Errorf("difference is not what was recorded since: %v", err)
	}
	h := of(5, 5)
	if err := h.Subtract(of(5, 5, 5, 9)); !errors.Is(err, histogram.ErrNegative) || h.Count() != 0 {
		t.Errorf("error %v, count %d", err, h.Count())
	}
}

func TestHistogram_CountsDoNotWrap(t *testing.T) {
	h := histogram.New()
	h.RecordBin(1, 0, math.MaxUint64)
	h.Record(1, 0)
	h.RecordBin(1, 0, 17)
	h.Record(2, 0)
	if h.Count() != math.MaxUint64 {
		t.Errorf("count %d", h.Count())
	}
}

func TestHistogram_CountBelow(t *testing.T) {
	h := of(-5, 0, 1, 9, 10, 11, 99, 100, 1000)
	for _, c := range []struct {
		x    float64
		want uint64
	}{{-100, 0}, {-5, 1}, {0, 2}, {1, 2}, {10, 4}, {11, 5}, {11.5, 5}, {100, 7}, {1e9, 9}, {math.NaN(), 0}} {
		if got := h.CountBelow(c.x); got != c.want {
			t.Errorf("%d below %v, want %d", got, c.x, c.want)
		}
	}
}

func TestHistogram_SpecialValues(t *testing.T) {
	h := histogram.New()
	for _, v := range []float64{math.NaN(), math.Inf(-1), 1e200, 1e-200, -1e-128, 9.99e127} {
		h.RecordFloat(v)
	}
	if h.NaNs() != 3 || h.Count() != 3 {
		t.Errorf("%d NaN and %d numbers, want 3 and 3", h.NaNs(), h.Count())
	}
	if h.Buckets() != 4 {
		t.Errorf("%d buckets", h.Buckets())
	}
	h.Reset()
	if h.Count() != 0 || h.NaNs() != 0 || h.Buckets() != 0 {
		t.Error("reset left something")
	}
}

func TestHistogram_Modes(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	h := histogram.New()
	for range 20000 { // hits about 300 us, misses about 80 ms
		h.Record(int64(300*math.Exp(r.NormFloat64()*0.3)), -6)
	}
	for range 5000 {
		h.Record(int64(80_000*math.Exp(r.NormFloat64()*0.3)), -6)
	}
	modes := h.Modes(0.01)
	if len(modes) != 2 {
		t.Fatalf("%d modes: %+v", len(modes), modes)
	}
	if p := modes[0].Peak; p < 200e-6 || p > 400e-6 {
		t.Errorf("first mode at %v", p)
	}
	if p := modes[1].Peak; p < 55e-3 || p > 110e-3 {
		t.Errorf("second mode at %v", p)
	}
	if n := modes[0].Count; n < 19900 || n > 20000 {
		t.Errorf("first mode holds %d of 20000", n)
	}
	if len(histogram.New().Modes(0)) != 0 {
		t.Error("an empty histogram has modes")
	}
	if m := of(42).Modes(0); len(m) != 1 || m[0].Count != 1 {
		t.Errorf("one number: %+v", m)
	}
}

func TestHistogram_RecordDoesNotAllocate(t *testing.T) {
	vs := values(1, 1000)
	h := of(vs...)
	if n := testing.AllocsPerRun(10, func() {
		for _, v := range vs {
			h.Record(v, 0)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRecord(b *testing.B) {
	vs := values(1, 4096)
	h := histogram.New()
	i := 0
	for b.Loop() {
		h.Record(vs[i&4095], -6)
		i++
	}
}

func BenchmarkRecordFloat(b *testing.B) {
	h := histogram.New()
	vs := values(1, 4096)
	i := 0
	for b.Loop() {
		h.RecordFloat(float64(vs[i&4095]) * 1e-6)
		i++
	}
}

func BenchmarkMerge(b *testing.B) {
	h, o := of(values(1, 4096)...), of(values(2, 4096)...)
	for b.Loop() {
		h.Merge(o)
	}
}

func BenchmarkQuantiles(b *testing.B) {
	h := of(values(1, 4096)...)
	for b.Loop() {
		h.Quantiles(0.5, 0.9, 0.99, 0.999)
	}
}
