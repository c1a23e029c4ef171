package histogram

import (
	"math"
	"strconv"
)

// Bucket names a bucket as OpenHistogram does: the numbers from Val/10 * 10^Exp on, Val/10 * 10^Exp + 10^(Exp-1) excluded.
// Val is 10 to 99, or -99 to -10 for negative numbers (the interval then lies away from zero in the same manner), and
// Exp is -128 to 127. {0, 0} is zero; every other pair stands for "not a number".
type Bucket struct{ Val, Exp int8 }

// The two buckets that are not intervals.
var (
	ZeroBucket = Bucket{0, 0}  // zero, and magnitudes below 1e-128
	NaNBucket  = Bucket{-1, 0} // NaN, infinities, and magnitudes from 1e128
)

// newBucket gives the bucket of val (10..99, with sign) and an exponent that may be out of range.
func newBucket(val, exp int) Bucket {
	switch {
	case exp < minExp:
		return ZeroBucket
	case exp > maxExp:
		return NaNBucket
	default:
		return Bucket{int8(val), int8(exp)}
	}
}

// BucketOfInt gives the bucket of v * 10^scale, with integer arithmetic only.
func BucketOfInt(v int64, scale int) Bucket {
	return BinOf(v).Bucket(scale)
}

// BucketOf gives the bucket of v. As the reference does, it takes a number that lies within 1e-13 (of the distance of two
// powers of ten) below a bucket for a member of that bucket, because decimal fractions have no exact float64.
func BucketOf(v float64) Bucket {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return NaNBucket
	}
	if v == 0 {
		return ZeroBucket
	}
	sign, d := 1, v
	if v < 0 {
		sign, d = -1, -v
	}
	exp := int(math.Floor(math.Log10(d)))
	if exp < minExp-1 {
		return ZeroBucket
	}
	if exp > maxExp {
		return NaNBucket
	}
	if exp < minExp { // log10 may have been rounded down just below the smallest bucket
		exp = minExp
	}
	m := int(math.Floor(d/pow10(exp)*10 + 1e-13))
	switch {
	case m >= 100: // log10 was rounded down
		m, exp = m/10, exp+1
	case m < 10 && exp > minExp: // log10 was rounded up
		m, exp = 99, exp-1
	case m < 10:
		return ZeroBucket
	}
	return newBucket(sign*m, exp)
}

// IsNaN says whether k holds what is no number.
func (k Bucket) IsNaN() bool {
	return k != ZeroBucket && (k.Val > -10 && k.Val < 10 || k.Val > 99 || k.Val < -99)
}

// Bin gives the bin for the numbers of bucket k when one unit of the bin is worth 10^scale; false when the bucket lies below
// one unit or beyond the last bin, or holds NaN.
func (k Bucket) Bin(scale int) (Bin, bool) {
	if k == ZeroBucket {
		return ZeroBin, true
	}
	e := int(k.Exp) - scale
	if k.IsNaN() || e < 0 || e > maxExp {
		return 0, false
	}
	if k.Val < 0 {
		return -Bin(perDecade*e - int(k.Val) - 9), true
	}
	return Bin(perDecade*e + int(k.Val) - 9), true
}

// Bounds gives the interval of bucket k: low <= v < high for positive numbers, low < v <= high for negative ones, (0, 0)
// for zero, NaN twice for the NaN bucket.
func (k Bucket) Bounds() (low, high float64) {
	if k.IsNaN() {
		return math.NaN(), math.NaN()
	}
	edge, width := k.edge(), k.width()
	if k.Val < 0 {
		return edge - width, edge
	}
	return edge, edge + width
}

// Midpoint gives the middle of the interval of k. No number of the bucket differs from it by more than 5 %.
func (k Bucket) Midpoint() float64 {
	if k.IsNaN() {
		return math.NaN()
	}
	if k.Val < 0 {
		return k.edge() - k.width()/2
	}
	return k.edge() + k.width()/2
}

// edge is the bound of the bucket that is nearer to zero.
func (k Bucket) edge() float64 { return float64(k.Val) / 10 * pow10(int(k.Exp)) }

func (k Bucket) width() float64 {
	if k == ZeroBucket {
		return 0
	}
	return pow10(int(k.Exp)) / 10
}

// pow10 gives 10^n for n of -128 to 127, correctly rounded (which math.Pow10 is not).
func pow10(n int) float64 { return powers[n-minExp] }

var powers = func() (t [maxExp - minExp + 1]float64) {
	for i := range t {
		t[i], _ = strconv.ParseFloat("1e"+strconv.Itoa(i+minExp), 64)
	}
	return t
}()
