package histogram

import "math"

// Count gives how many numbers were recorded, NaN not counted.
func (h *Histogram) Count() uint64 {
	var total uint64
	for _, n := range h.numbers {
		total = plus(total, n)
	}
	return total
}

// Buckets gives how many buckets are not empty.
func (h *Histogram) Buckets() int {
	used := 0
	for range h.All() {
		used++
	}
	return used
}

// NaNs gives how many recorded values were no number, or greater than a histogram can hold.
func (h *Histogram) NaNs() uint64 { return h.nan }

// Sum gives the sum of all numbers, each taken as the middle of its bucket: within 5 % when all have one sign.
func (h *Histogram) Sum() float64 {
	sum := 0.0
	for k, n := range h.numbers {
		sum += k.Midpoint() * float64(n)
	}
	return sum
}

// Mean gives Sum divided by Count, NaN when nothing was recorded.
func (h *Histogram) Mean() float64 {
	sum, count := 0.0, 0.0
	for k, n := range h.numbers {
		sum += k.Midpoint() * float64(n)
		count += float64(n)
	}
	return sum / count
}

// Min gives the lower bound of the least number's bucket, Max the upper bound of the greatest's; NaN when empty.
func (h *Histogram) Min() float64 { return h.Quantile(0) }

// Max gives the upper bound of the bucket of the greatest number; NaN when nothing was recorded.
func (h *Histogram) Max() float64 { return h.Quantile(1) }

// Quantile gives the value below which the share q (0 to 1) of the numbers lies, interpolated inside its bucket. It is NaN
// when nothing was recorded or q is not in 0..1.
func (h *Histogram) Quantile(q float64) float64 {
	var out [1]float64
	h.quantiles(out[:], []float64{q})
	return out[0]
}

// Quantiles gives Quantile for each of qs, in their order; one pass when they ascend.
func (h *Histogram) Quantiles(qs ...float64) []float64 {
	out := make([]float64, len(qs))
	h.quantiles(out, qs)
	return out
}

func (h *Histogram) quantiles(out, qs []float64) {
	for i := range out {
		out[i] = math.NaN()
	}
	total := 0.0
	for _, n := range h.numbers {
		total += float64(n)
	}
	if total == 0 {
		return
	}
	for done := 0; done < len(qs); {
		done += h.ascending(out[done:], qs[done:], total)
	}
}

// ascending answers the longest run of ascending quantiles at the head of qs and gives its length, at least 1.
func (h *Histogram) ascending(out, qs []float64, total float64) int {
	run := 1
	for run < len(qs) && qs[run] >= qs[run-1] {
		run++
	}
	i, below := 0, 0.0
	var last Bucket
	lastN := 0.0
	for k, n := range h.numbers {
		last, lastN = k, float64(n)
		upper := below + lastN
		for i < run && !(total*qs[i] > upper) {
			out[i] = inBucket(k, qs[i], total*qs[i], below, upper)
			i++
		}
		if i == run {
			return run
		}
		below = upper
	}
	for ; i < run; i++ { // rounding of the running sum can leave the last ones over
		out[i] = inBucket(last, qs[i], below, below-lastN, below)
	}
	return run
}

// inBucket interpolates rank, which lies between the ranks of the bucket's ends.
func inBucket(k Bucket, q, rank, below, upper float64) float64 {
	low, _ := k.Bounds()
	width := k.width()
	switch {
	case !(q >= 0 && q <= 1):
		return math.NaN()
	case rank == below:
		return low
	case rank == upper:
		return low + width
	case width == 0:
		return low
	default:
		return low + (rank-below)/(upper-below)*width
	}
}

// CountBelow gives how many numbers lie in buckets that end at or below x: exact when x is the bound of a bucket (two
// digits and an exponent, such as 0.25 or 1500), else too small by at most the count of the bucket of x.
func (h *Histogram) CountBelow(x float64) uint64 {
	var total uint64
	for k, n := range h.numbers {
		if _, high := k.Bounds(); !(high <= x) {
			break
		}
		total = plus(total, n)
	}
	return total
}
