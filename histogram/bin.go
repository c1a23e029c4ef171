package histogram

import (
	"math"
	"math/bits"
)

// Bin numbers the buckets of whole numbers, for rollup tables and other places that want one small integer per bucket.
//
// Zero is bin 0. For v > 0 with e = floor(log10(v)) and m the two leading digits of v (10..99; v*10 when v < 10):
//
//	bin = 90*e + (m - 10) + 1
//
// so 1 is bin 1, 10 is bin 91, 100 to 109 is bin 181, and one million is bin 541. Negative numbers have the negated bin
// of their magnitude. Bins of greater numbers are greater. The largest int64 has bin 1703. A fraction below 1 has no bin
// of its own and counts as zero: choose the unit so that this does no harm (latencies here are whole microseconds).
//
// A bin carries no unit. The functions that leave the world of bins take a scale, the power of ten that one unit is
// worth: -6 when the bins are of microseconds and the histogram shall hold seconds.
type Bin int16

const (
	// ZeroBin holds zero and everything smaller in magnitude than one unit.
	ZeroBin Bin = 0
	// MaxBin is the last bin, of numbers from 9.9e127 to 1e128.
	MaxBin Bin = perDecade * (maxExp + 1)
	// NaNBin holds what is no number: NaN, the infinities, and magnitudes from 1e128.
	NaNBin Bin = math.MinInt16
)

const (
	perDecade = 90
	minExp    = -128
	maxExp    = 127
)

// BinOf gives the bin of a whole number. It uses integer arithmetic only, so that it agrees with SQLBin.
func BinOf(v int64) Bin {
	switch {
	case v > 0:
		e, m := leading(uint64(v))
		return Bin(perDecade*e + int(m) - 9)
	case v < 0:
		e, m := leading(-uint64(v))
		return -Bin(perDecade*e + int(m) - 9)
	default:
		return ZeroBin
	}
}

// BinOfFloat gives the bin of v: ZeroBin when |v| < 1, NaNBin when v is no number or |v| is 1e128 or more.
func BinOfFloat(v float64) Bin {
	b, ok := BucketOf(v).Bin(0)
	switch {
	case ok:
		return b
	case math.Abs(v) < 1:
		return ZeroBin
	default:
		return NaNBin
	}
}

// Valid says whether b is one of the bins that BinOf and BinOfFloat give, NaNBin included.
func (b Bin) Valid() bool {
	return b == NaNBin || (b >= -MaxBin && b <= MaxBin)
}

// Bucket gives the bucket of the numbers of bin b, each multiplied by 10^scale. It is the zero bucket when they are
// smaller than a Histogram can tell from zero, and the NaN bucket when they are greater than it can hold or b is not
// valid.
func (b Bin) Bucket(scale int) Bucket {
	if !b.Valid() || b == NaNBin {
		return NaNBucket
	}
	n, sign := int(b), 1
	if n < 0 {
		n, sign = -n, -1
	}
	if n == 0 {
		return ZeroBucket
	}
	n--
	return newBucket(sign*(10+n%perDecade), n/perDecade+scale)
}

// Bounds gives the interval of bin b in its own unit. Positive bins hold low <= v < high, negative ones low < v <= high;
// ZeroBin is (0, 0) and NaNBin (NaN, NaN).
func (b Bin) Bounds() (low, high float64) { return b.Bucket(0).Bounds() }

// Midpoint gives the middle of the interval of bin b in its own unit: at most 5 % away from any number in it.
func (b Bin) Midpoint() float64 { return b.Bucket(0).Midpoint() }

// leading gives the decimal exponent e of u and its two leading digits m, 10..99, so that m*10^(e-1) <= u < (m+1)*10^(e-1).
// u must lie in 1..2^63.
func leading(u uint64) (e int, m uint64) {
	if u < 100 {
		if u < 10 {
			return 0, u * 10
		}
		return 1, u
	}
	e = bits.Len64(u) * 1233 >> 12 // log10(2) is close to 1233/4096: right, or one too many
	if u < tens[e] {
		e--
	}
	r := reciprocals[e]
	hi, _ := bits.Mul64(u, r.mul)
	return e, hi >> r.shift
}

// tens holds the powers of ten that a uint64 can hold.
var tens = func() (t [20]uint64) {
	p := uint64(1)
	for i := range t {
		t[i] = p
		p *= 10
	}
	return t
}()

// reciprocal stands for a division: u/d = (u*mul)>>(64+shift).
type reciprocal struct {
	mul   uint64
	shift uint8
}

// reciprocals[e] divides by d = 10^(e-1), for e of 2 to 18. With s = floor(log2(d)) and mul = ceil(2^(64+s)/d) the quotient
// is exact as long as u*d < 2^(64+s), and u < 100*d, d <= 10^17 satisfy that.
var reciprocals = func() (t [20]reciprocal) {
	for e := 2; e < len(t); e++ {
		d := tens[e-1]
		s := bits.Len64(d) - 1
		q, _ := bits.Div64(1<<s, 0, d)
		t[e] = reciprocal{mul: q + 1, shift: uint8(s)}
	}
	return t
}()
