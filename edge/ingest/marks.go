package ingest

import (
	"bytes"
	"crypto/sha256"
)

// Sum is a truncated SHA-256.
type Sum [16]byte

// Mark is a place in the unpacked content of a log, always behind a line, and a sum of all that is before it.
type Mark struct {
	At  uint64
	Sum Sum
}

// Where marks are. They follow from the content alone: behind each of the first lines, then behind the first line that ends at
// or after each multiple of markEvery. So two copies of a log have the same marks as far as their content is the same,
// whatever their names, their compression, and how much each has.
const (
	markLines = 16
	markEvery = 64 << 10
)

// chunkSize is how much text is parsed and handed over as one. A chunk ends behind the first line that ends at or after a
// multiple of it, so chunks end at marks as well.
const chunkSize = 1 << 20

// maxLine is how far behind that multiple a line may end. A line that is longer is cut there: what has no line end for a
// mebibyte is no log.
const maxLine = 1 << 20

// chain adds a run of content, from one mark to the next, to the sum of what was before.
func chain(before Sum, block Sum) Sum {
	h := sha256.New()
	h.Write(before[:])
	h.Write(block[:])
	var out [sha256.Size]byte
	return Sum(h.Sum(out[:0])[:16])
}

func sumOf(b []byte) Sum {
	s := sha256.Sum256(b)
	return Sum(s[:16])
}

// cuts gives the offsets in text at which marks are, text being what follows a mark at offset at (0 at the start), up to
// the end of a chunk or of the log. An end of the log that is no mark is not among them.
func cuts(text []byte, at uint64, ends bool, out []int) []int {
	i := 0
	if at == 0 {
		for n := 0; n < markLines && i < markEvery; n++ {
			j := bytes.IndexByte(text[i:], '\n')
			if j < 0 {
				break
			}
			i += j + 1
			out = append(out, i)
		}
	}
	for {
		next := (at+uint64(i))/markEvery*markEvery + markEvery
		from := int(next-at) - 1 // a line that ends with the byte before the multiple ends at it
		if from >= len(text) {
			break
		}
		j := bytes.IndexByte(text[from:], '\n')
		if j < 0 {
			break
		}
		i = from + j + 1
		out = append(out, i)
	}
	if n := len(out); ends && len(text) > 0 && (n == 0 || out[n-1] != len(text)) {
		out = append(out, len(text))
	}
	return out
}
