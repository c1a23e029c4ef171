package move

import (
	"slices"
	"strings"
	"time"
)

// Result is what became of a move.
type Result struct {
	Tables []TableResult `json:"tables"`
	// Equal says that every piece of every table was found equal.
	Equal bool `json:"equal"`
	// CopiedRows and CopiedBytes were sent to the target.
	CopiedRows  uint64        `json:"copied_rows"`
	CopiedBytes uint64        `json:"copied_bytes"`
	Elapsed     time.Duration `json:"elapsed_ns"`
}

// TableResult is one table of it.
type TableResult struct {
	Table string `json:"table"`
	// Rows is how many the source has, Partitions and Pieces what they lie in.
	Rows       uint64 `json:"rows"`
	Partitions int    `json:"partitions"`
	Pieces     int    `json:"pieces"`
	// Copied is how many rows were copied, Replaced how many pieces were deleted in the target and copied anew.
	Copied   uint64 `json:"copied"`
	Replaced int    `json:"replaced"`
	// Differing is how many pieces are not the same in both at the end; Differ has the first of them.
	Differing int          `json:"differing"`
	Differ    []Difference `json:"differ,omitempty"`
}

// Difference is a piece that is not the same in both stores.
type Difference struct {
	Partition  string `json:"partition"`
	Piece      string `json:"piece"`
	SourceRows uint64 `json:"source_rows"`
	TargetRows uint64 `json:"target_rows"`
}

// add adds what was found of another server's part.
func (r *Result) add(more *Result) {
	r.Equal = r.Equal && more.Equal
	r.CopiedRows += more.CopiedRows
	r.CopiedBytes += more.CopiedBytes
	for _, t := range more.Tables {
		i := slices.IndexFunc(r.Tables, func(had TableResult) bool { return had.Table == t.Table })
		if i < 0 {
			r.Tables = append(r.Tables, t)
			continue
		}
		had := &r.Tables[i]
		had.Rows += t.Rows
		had.Partitions += t.Partitions
		had.Pieces += t.Pieces
		had.Copied += t.Copied
		had.Replaced += t.Replaced
		had.Differing += t.Differing
		had.Differ = append(had.Differ, t.Differ[:min(len(t.Differ), reportPieces-len(had.Differ))]...)
	}
}

// result adds up what was found.
func (m *mover) result() *Result {
	r := &Result{Equal: len(m.tables) > 0, CopiedBytes: m.bytes}
	for _, t := range m.tables {
		tr := m.results[t.name]
		if tr == nil { // it ended before it began
			r.Equal = false
			continue
		}
		for name, p := range m.state[t.name] {
			rows := uint64(0)
			pieces := 0
			for _, s := range p.pieces {
				if s.rows > 0 {
					rows += s.rows
					pieces++
				}
			}
			tr.Rows += rows
			tr.Pieces += pieces
			if pieces > 0 {
				tr.Partitions++
			}
			tr.Differing += len(p.open)
			for _, d := range p.open {
				tr.Differ = append(tr.Differ, Difference{Partition: name, Piece: t.label(d.piece), SourceRows: d.src.rows, TargetRows: d.dst.rows})
			}
			r.Equal = r.Equal && p.known && len(p.open) == 0
		}
		slices.SortFunc(tr.Differ, func(a, b Difference) int { return strings.Compare(a.Partition+a.Piece, b.Partition+b.Piece) })
		tr.Differ = tr.Differ[:min(len(tr.Differ), reportPieces)]
		r.CopiedRows += tr.Copied
		r.Tables = append(r.Tables, *tr)
	}
	return r
}
