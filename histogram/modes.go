package histogram

// Mode is a place where many numbers lie close together.
type Mode struct {
	Low, High float64 // the interval between the valleys on both sides
	Peak      float64 // where the numbers are densest
	Count     uint64  // numbers in the interval
}

// modeWindow is how many neighbouring buckets are averaged before peaks are looked for: about a tenth of a power of ten,
// so that single buckets that stand out by chance are no modes.
const modeWindow = 5

// Modes gives the modes of the positive numbers, least first: peaks of the smoothed density (numbers per relative width)
// that have a valley of at most half their height on either side, and between valleys at least the share minShare (0 to
// 1) of all numbers. One answer means that the numbers have one typical size; two or more, that a mean or one quantile hides
// something (a cache that hits and misses, a retry timer).
func (h *Histogram) Modes(minShare float64) []Mode {
	density, first := h.density()
	total := float64(h.Count())
	var modes []Mode
	for _, r := range ridges(density) {
		m := Mode{Peak: first.shift(r.peak).Midpoint()}
		m.Low, _ = first.shift(r.from).Bounds()
		_, m.High = first.shift(r.to).Bounds()
		for i := r.from; i <= r.to; i++ {
			m.Count = plus(m.Count, h.pos.count(first.shift(i)))
		}
		if m.Count > 0 && float64(m.Count) >= minShare*total {
			modes = append(modes, m)
		}
	}
	return modes
}

// density gives the smoothed numbers per relative width of each bucket from first on, first being the first bucket in use
// less the smoothing window.
func (h *Histogram) density() (density []float64, first Bucket) {
	if len(h.pos.pages) == 0 {
		return nil, first
	}
	first = Bucket{10, int8(h.pos.base)}
	raw := make([]float64, len(h.pos.pages)*perDecade)
	for i, p := range h.pos.pages {
		if p == nil {
			continue
		}
		for j, n := range p {
			raw[i*perDecade+j] = float64(n) * float64(10+j)
		}
	}
	density = make([]float64, len(raw))
	for i := range raw {
		from, to := max(0, i-modeWindow/2), min(len(raw), i+modeWindow/2+1)
		for _, d := range raw[from:to] {
			density[i] += d / float64(to-from)
		}
	}
	return density, first
}

type ridge struct{ from, peak, to int }

// ridges cuts the density at its valleys. A valley counts when the density falls to half of the peak before and then rises
// to twice the valley again.
func ridges(d []float64) []ridge {
	var out []ridge
	from, peak, valley := 0, 0, -1
	for i := range d {
		if valley < 0 { // on the way up, or not far enough down
			switch {
			case d[i] > d[peak]:
				peak = i
			case d[i] <= d[peak]/2:
				valley = i
			}
			continue
		}
		if d[i] <= d[valley] {
			valley = i
		} else if d[i] >= 2*d[valley] && d[i] > 0 {
			out = append(out, ridge{from, peak, valley})
			from, peak, valley = valley+1, i, -1
		}
	}
	if len(d) > 0 && d[peak] > 0 {
		out = append(out, ridge{from, peak, len(d) - 1})
	}
	return out
}

// shift gives the bucket n places after k, which must be positive.
func (k Bucket) shift(n int) Bucket {
	i := int(k.Exp)*perDecade + int(k.Val) - 10 + n - minExp*perDecade
	return newBucket(10+i%perDecade, i/perDecade+minExp)
}

// count gives the count of a bucket without making its page.
func (s *side) count(k Bucket) uint64 {
	i := int(k.Exp) - s.base
	if k.IsNaN() || i < 0 || i >= len(s.pages) || s.pages[i] == nil {
		return 0
	}
	return s.pages[i][int(k.Val)-10]
}
