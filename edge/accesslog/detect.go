package accesslog

import (
	"errors"
	"fmt"
	"sort"

	"github.com/spate-io/spate/event"
)

// Detection is what Detect found.
type Detection struct {
	Format     Format  // the zero value when no format reads any line
	Confidence float64 // share of the lines with text that Format reads, 0 to 1
	Candidates []Candidate
}

// Candidate says how one format did.
type Candidate struct {
	Name   string
	Parsed int   // lines read
	Bad    int   // lines refused
	First  error // why the first of those was refused
}

// String says what was found and why, in a line.
func (d Detection) String() string {
	if !d.Format.Valid() {
		return "no format reads these lines"
	}
	c := d.Candidates[0]
	s := fmt.Sprintf("%s: reads %d of %d lines", d.Format.Name, c.Parsed, c.Parsed+c.Bad)
	if len(d.Candidates) > 1 && d.Candidates[1].Parsed > 0 {
		n := d.Candidates[1]
		s += fmt.Sprintf("; next is %s with %d", n.Name, n.Parsed)
	}
	return s
}

// DetectLines is how many lines are enough to tell formats apart.
const DetectLines = 200

// Detect parses the lines, the first of a file and in order, with every format, and takes the one that reads most of
// them; among equals the most particular one, so that what a longer format carries is not lost. Lines may end in "\n".
func Detect(lines [][]byte) Detection { return DetectAmong(Formats(), lines, Options{}) }

// DetectAmong is Detect for chosen formats.
func DetectAmong(formats []Format, lines [][]byte, o Options) Detection {
	var d Detection
	var best Format
	bestParsed := 0
	var e event.HTTP
	rank := map[string]int{}
	for _, f := range formats {
		p := f.New(o)
		c := Candidate{Name: f.Name}
		for _, line := range lines {
			switch err := p.Parse(line, &e); {
			case err == nil:
				c.Parsed++
			case !errors.Is(err, ErrNoRequest):
				if c.Bad++; c.First == nil {
					c.First = err
				}
			}
		}
		rank[f.Name] = f.rank
		d.Candidates = append(d.Candidates, c)
		if c.Parsed > bestParsed || c.Parsed == bestParsed && c.Parsed > 0 && f.rank > best.rank {
			best, bestParsed = f, c.Parsed
		}
	}
	sort.SliceStable(d.Candidates, func(i, j int) bool {
		a, b := d.Candidates[i], d.Candidates[j]
		if a.Parsed != b.Parsed {
			return a.Parsed > b.Parsed
		}
		return rank[a.Name] > rank[b.Name]
	})
	d.Format = best
	if bestParsed > 0 {
		d.Confidence = float64(bestParsed) / float64(bestParsed+d.Candidates[0].Bad)
	}
	return d
}

// Reason gives why a format refused its first line, or nil.
func (d Detection) Reason(name string) error {
	for _, c := range d.Candidates {
		if c.Name == name {
			return c.First
		}
	}
	return nil
}
