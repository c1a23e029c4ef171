package analytics

import (
	"cmp"
	"slices"

	"github.com/spate-io/spate/histogram"
)

// heat collects the cells of a heatmap: counts by point and row. Row r holds the bins 5r+1 to 5r+5, five neighbouring
// two-digit numbers; row -1 is the bin of zero.
type heat map[[2]int]uint64

func (h heat) add(point int, b histogram.Bin, n uint64) {
	switch {
	case n == 0 || b < 0 || !b.Valid():
	case b == histogram.ZeroBin:
		h[[2]int{point, -1}] += n
	default:
		h[[2]int{point, (int(b) - 1) / binsPerRow}] += n
	}
}

// answer gives the rows between the lowest and the highest in use, and the cells in the order of points, then rows.
func (h heat) answer() Heatmap {
	out := Heatmap{Bins: []HeatmapBin{}, Counts: [][3]uint64{}}
	if len(h) == 0 {
		return out
	}
	cells := make([][2]int, 0, len(h))
	low, high := int(histogram.MaxBin), -1
	for c := range h {
		cells = append(cells, c)
		low, high = min(low, c[1]), max(high, c[1])
	}
	slices.SortFunc(cells, func(a, b [2]int) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
	for row := low; row <= high; row++ {
		out.Bins = append(out.Bins, heatmapRow(row))
	}
	for _, c := range cells {
		out.Counts = append(out.Counts, [3]uint64{uint64(c[0]), uint64(c[1] - low), h[c]})
	}
	return out
}

// heatmapRow gives the bounds of a row in milliseconds.
func heatmapRow(row int) HeatmapBin {
	if row < 0 {
		return HeatmapBin{0, 0.001}
	}
	low, _ := histogram.Bin(row*binsPerRow + 1).Bounds()
	_, high := histogram.Bin(row*binsPerRow + binsPerRow).Bounds()
	return HeatmapBin{low / 1000, high / 1000}
}
