// Package bench measures Spate on the machine it runs on: how fast requests come into the store, how large they lie there,
// and how fast dashboards are answered while more come in. The commands under `spate bench` print what it finds.
//
// An absolute time says more about a machine than about a program, so everything that can be is a ratio of two things
// measured in turns in the same run. Store is the type for the store; Import compares programs that read a log file.
//
// The invariant: what is measured is the product's own code with the operator's configuration. Nothing here inserts, reads
// or answers in a way of its own.
package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"
)

// Row is one figure of a report.
type Row struct {
	// Part groups rows: ingest, size, dashboard and so on.
	Part string `json:"part"`
	// What says what was measured.
	What string `json:"what"`
	// Value is in Unit.
	Value float64 `json:"value"`
	Unit  string  `json:"unit,omitempty"`
	// Target is what is aimed for, empty where nothing is; Met says whether Value reaches it.
	Target string `json:"target,omitempty"`
	Met    *bool  `json:"met,omitempty"`
}

// Report is the result of a run.
type Report struct {
	// Setting says with what the figures came about, in the order of printing.
	Setting [][2]string `json:"setting"`
	Rows    []Row       `json:"rows"`
}

func (r *Report) set(name string, value any) {
	r.Setting = append(r.Setting, [2]string{name, fmt.Sprint(value)})
}

func (r *Report) add(part, what string, value float64, unit string) {
	r.Rows = append(r.Rows, Row{Part: part, What: what, Value: value, Unit: unit})
}

// atLeast adds a row that should reach target, atMost one that should not exceed it.
func (r *Report) atLeast(part, what string, value float64, unit string, target float64) {
	r.aim(part, what, value, unit, ">= "+number(target), value >= target)
}

func (r *Report) atMost(part, what string, value float64, unit string, target float64) {
	r.aim(part, what, value, unit, "<= "+number(target), value <= target)
}

func (r *Report) aim(part, what string, value float64, unit, target string, met bool) {
	r.Rows = append(r.Rows, Row{Part: part, What: what, Value: value, Unit: unit, Target: target, Met: &met})
}

// Print writes the report as a table.
func (r *Report) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, s := range r.Setting {
		fmt.Fprintf(t, "%s\t%s\n", s[0], s[1])
	}
	fmt.Fprintln(t)
	part := ""
	for _, row := range r.Rows {
		name := row.Part
		if name == part {
			name = ""
		}
		part = row.Part
		fmt.Fprintf(t, "%s\t%s\t%s %s\t", name, row.What, number(row.Value), row.Unit)
		if row.Met != nil {
			fmt.Fprintf(t, "%s\t%s", row.Target, map[bool]string{true: "met", false: "missed"}[*row.Met])
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

// JSON writes the report for scripts.
func (r *Report) JSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// number prints with three digits that count, thousands parted by commas.
func number(v float64) string {
	switch {
	case v != v: //nolint:gocritic // not a number
		return "-"
	case v >= 1000 || v <= -1000:
		s := strconv.FormatFloat(v, 'f', 0, 64)
		for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
			s = s[:i] + "," + s[i:]
		}
		return s
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// median gives the middle of list, the mean of the two in the middle where there are two, 0 for none.
func median(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	s := slices.Clone(list)
	slices.Sort(s)
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// quantile gives the value that the share q of list does not exceed.
func quantile[T float64 | time.Duration](list []T, q float64) T {
	if len(list) == 0 {
		var none T
		return none
	}
	s := slices.Clone(list)
	slices.Sort(s)
	return s[min(int(q*float64(len(s))), len(s)-1)]
}

// progress tells a person what goes on, in lines.
type progress struct {
	w     io.Writer // nil: nobody
	began time.Time
}

func (p progress) say(format string, args ...any) {
	if p.w != nil {
		fmt.Fprintf(p.w, "%6.0fs  %s\n", time.Since(p.began).Seconds(), fmt.Sprintf(format, args...))
	}
}
