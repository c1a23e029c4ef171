// Package histogram counts numbers in log-linear buckets, 90 to each power of ten, as Circonus and OpenHistogram do.
//
// A bucket holds the numbers that share their two leading decimal digits and their exponent. The buckets are the same
// everywhere, so histograms of any minutes, hosts or months merge and subtract without loss, and every quantile of the
// merged one is within 5 % of a number that was recorded.
//
// Histogram is the type to record in and to ask. Bin is the short name of a bucket of whole numbers that the rollup tables
// use as the key of a map; SQLBin gives the same name inside the engine. The serialised form is OpenHistogram's
// (circllhist); docs in serialize.go.
//
// It is not a sketch with a tunable error: the error follows from the decimal system and never changes, which is what makes
// old and new histograms comparable.
package histogram

import (
	"errors"
	"iter"
	"math"
)

// Histogram holds counts per bucket. The zero value is empty and ready. It takes memory by powers of ten in use, 720 bytes
// each. Not safe for concurrent use. Counts stop at the largest uint64 and do not wrap.
type Histogram struct {
	pos, neg  side
	zero, nan uint64
}

// page holds the counts of the 90 buckets of one power of ten.
type page [perDecade]uint64

// side holds the pages of one sign: pages[i] is of exponent base+i, nil when nothing was counted there.
type side struct {
	base  int
	pages []*page
}

// ErrNegative is returned by Subtract when a bucket would have gone below zero.
var ErrNegative = errors.New("more subtracted than was recorded")

// New gives an empty histogram.
func New() *Histogram { return new(Histogram) }

// Record counts v * 10^scale once: scale -6 for a v in microseconds when the histogram is of seconds. Use one scale per
// histogram unless you mean to mix units.
func (h *Histogram) Record(v int64, scale int) {
	if v > 0 {
		e, m := leading(uint64(v))
		if i := e + scale - h.pos.base; uint(i) < uint(len(h.pos.pages)) {
			if p := h.pos.pages[i]; p != nil {
				if n := p[m-10] + 1; n != 0 {
					p[m-10] = n
				}
				return
			}
		}
	}
	h.Add(BucketOfInt(v, scale), 1)
}

// RecordFloat counts v once.
func (h *Histogram) RecordFloat(v float64) { h.Add(BucketOf(v), 1) }

// RecordBin counts n numbers of bin b, whose unit is worth 10^scale.
func (h *Histogram) RecordBin(b Bin, scale int, n uint64) { h.Add(b.Bucket(scale), n) }

// Add counts n numbers of bucket k.
func (h *Histogram) Add(k Bucket, n uint64) {
	if n == 0 {
		return
	}
	c := h.at(k)
	*c = plus(*c, n)
}

// at gives the counter of bucket k and makes its page when needed.
func (h *Histogram) at(k Bucket) *uint64 {
	switch {
	case k == ZeroBucket:
		return &h.zero
	case k.IsNaN():
		return &h.nan
	case k.Val < 0:
		return &h.neg.page(int(k.Exp))[-int(k.Val)-10]
	default:
		return &h.pos.page(int(k.Exp))[int(k.Val)-10]
	}
}

// page gives the page of an exponent and makes it when needed.
func (s *side) page(exp int) *page {
	if len(s.pages) == 0 {
		s.base = exp
		s.pages = make([]*page, 1, 8)
	}
	if exp < s.base {
		grown := make([]*page, s.base-exp+len(s.pages))
		copy(grown[s.base-exp:], s.pages)
		s.base, s.pages = exp, grown
	}
	for exp >= s.base+len(s.pages) {
		s.pages = append(s.pages, nil)
	}
	p := s.pages[exp-s.base]
	if p == nil {
		p = new(page)
		s.pages[exp-s.base] = p
	}
	return p
}

// Reset forgets all counts and keeps the memory.
func (h *Histogram) Reset() {
	for _, s := range []*side{&h.pos, &h.neg} {
		for _, p := range s.pages {
			if p != nil {
				*p = page{}
			}
		}
	}
	h.zero, h.nan = 0, 0
}

// Clone gives a copy that shares nothing with h.
func (h *Histogram) Clone() *Histogram {
	c := New()
	c.Merge(h)
	return c
}

// Merge adds the counts of o, which stays as it is.
func (h *Histogram) Merge(o *Histogram) {
	h.zero, h.nan = plus(h.zero, o.zero), plus(h.nan, o.nan)
	h.pos.merge(&o.pos)
	h.neg.merge(&o.neg)
}

func (s *side) merge(o *side) {
	for i, from := range o.pages {
		if from == nil {
			continue
		}
		to := s.page(o.base + i)
		for j, n := range from {
			to[j] = plus(to[j], n)
		}
	}
}

// Subtract takes the counts of o away: what was recorded since, when o is an earlier copy of h. A bucket of which o has
// more than h becomes empty, and the error is then ErrNegative.
func (h *Histogram) Subtract(o *Histogram) error {
	under := false
	for k, n := range o.All() {
		c := h.at(k)
		if *c < n {
			*c, under = 0, true
			continue
		}
		*c -= n
	}
	if under {
		return ErrNegative
	}
	return nil
}

// All gives the buckets that are not empty, with their counts: first NaN, then from the least number to the greatest.
func (h *Histogram) All() iter.Seq2[Bucket, uint64] {
	return func(yield func(Bucket, uint64) bool) {
		if h.nan != 0 && !yield(NaNBucket, h.nan) {
			return
		}
		h.numbers(yield)
	}
}

// numbers gives the buckets that are not empty without NaN, in the order of the numbers.
func (h *Histogram) numbers(yield func(Bucket, uint64) bool) {
	for i := len(h.neg.pages) - 1; i >= 0; i-- {
		p := h.neg.pages[i]
		if p == nil {
			continue
		}
		for j := perDecade - 1; j >= 0; j-- {
			if p[j] != 0 && !yield(Bucket{int8(-10 - j), int8(h.neg.base + i)}, p[j]) {
				return
			}
		}
	}
	if h.zero != 0 && !yield(ZeroBucket, h.zero) {
		return
	}
	for i, p := range h.pos.pages {
		if p == nil {
			continue
		}
		for j, n := range p {
			if n != 0 && !yield(Bucket{int8(10 + j), int8(h.pos.base + i)}, n) {
				return
			}
		}
	}
}

// Equal says whether both hold the same counts.
func (h *Histogram) Equal(o *Histogram) bool {
	next, stop := iter.Pull2(o.All())
	defer stop()
	for k, n := range h.All() {
		if ok, on, more := next(); !more || ok != k || on != n {
			return false
		}
	}
	_, _, more := next()
	return !more
}

// plus adds without wrapping.
func plus(a, b uint64) uint64 {
	if s := a + b; s >= a {
		return s
	}
	return math.MaxUint64
}
