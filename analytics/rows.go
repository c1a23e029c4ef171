package analytics

import (
	"context"
	"strconv"
	"time"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/spate-io/spate/store/schema"
)

// Most of what a question about a few rows costs the engine is planning how to add up thirty columns: more than half of the
// answer's time. So where the rows of a window are few, they are read as they are and added up here.

// maxRows is how many rows of one zone a window may have in its rollup for them to be added up here.
const maxRows = 400

// fewRows says whether the window has few rows of a zone. There may be more while the store has not merged what came in
// last.
func fewRows(w Window) bool {
	step := time.Minute
	switch {
	case w.Delta%(24*time.Hour) == 0:
		step = 24 * time.Hour
	case w.Delta%time.Hour == 0:
		step = time.Hour
	}
	return w.Until.Sub(w.Since)/step <= maxRows
}

// plainNumber and plainCounts receive columns of a rollup as they are stored.
type plainNumber struct {
	anyType
	proto.ColUInt64
}

// Type implements proto.ColResult.
func (c *plainNumber) Type() proto.ColumnType { return c.anyType.Type() }

type plainCounts struct {
	anyType
	column interface {
		proto.ColResult
		proto.StateDecoder
	}
	add func(i int, sum *Counts)
}

// Type implements proto.ColResult, as the following do.
func (c *plainCounts) Type() proto.ColumnType { return c.anyType.Type() }

// Rows gives the number of rows.
func (c *plainCounts) Rows() int { return c.column.Rows() }

// Reset empties the column.
func (c *plainCounts) Reset() { c.column.Reset() }

// DecodeColumn reads rows.
func (c *plainCounts) DecodeColumn(r *proto.Reader, rows int) error {
	return c.column.DecodeColumn(r, rows)
}

// DecodeState reads what comes before the rows.
func (c *plainCounts) DecodeState(r *proto.Reader) error { return c.column.DecodeState(r) }

func newPlainCounts(column string) *plainCounts {
	if column == schema.ColByStatus {
		keys := new(proto.ColUInt16)
		return plainMap(keys, func(j int) string { return strconv.Itoa(int(keys.Row(j))) })
	}
	keys, names := new(proto.ColStr), map[string]string{} // one string for a name, not one for each point that has it
	return plainMap(keys, func(j int) string {
		k := keys.RowBytes(j)
		name, ok := names[string(k)]
		if !ok {
			name = string(k)
			names[name] = name
		}
		return name
	})
}

// plainMap receives a map; name gives the name of its j-th key.
func plainMap[K comparable](keys proto.ColumnOf[K], name func(j int) string) *plainCounts {
	values := new(proto.ColUInt64)
	m := proto.NewMap[K, uint64](keys, values)
	return &plainCounts{column: m, add: func(i int, sum *Counts) {
		from, to := 0, int(m.Offsets[i])
		if i > 0 {
			from = int(m.Offsets[i-1])
		}
		if *sum == nil {
			*sum = make(Counts, to-from)
		}
		for j := from; j < to; j++ {
			(*sum)[name(j)] += values.Row(j)
		}
	}}
}

// addDashboard reads the rows of the window and adds them to the points and the totals of d.
func (s *Service) addDashboard(ctx context.Context, zone string, d *Dashboard) error {
	l := trafficLayout()
	var at proto.ColDateTime
	var clients uniquesColumn
	columns, results := []string{schema.ColTime}, proto.Results{{Name: schema.ColTime, Data: &at}}
	var numbers []*plainNumber
	for _, c := range l.counters {
		columns = append(columns, c.column)
		if c.column == schema.ColUniques {
			results = append(results, proto.ResultColumn{Name: c.column, Data: &clients})
			continue
		}
		n := new(plainNumber)
		numbers = append(numbers, n)
		results = append(results, proto.ResultColumn{Name: c.column, Data: n})
	}
	var counts []*plainCounts
	for _, m := range l.maps {
		c := newPlainCounts(m.column)
		counts = append(counts, c)
		columns, results = append(columns, m.column), append(results, proto.ResultColumn{Name: m.column, Data: c})
	}
	sets := make([]uniques, len(d.Timeseries))
	var all uniques
	err := s.run(ctx, "dashboard", statement{from: rollup(d.Window), columns: columns}.query(zone, d.Window), results, func(rows int) error {
		for i := range rows {
			p := d.Window.Index(at.Row(i))
			if p < 0 {
				continue
			}
			t := &d.Timeseries[p]
			n := 0
			for _, c := range l.counters {
				if c.column == schema.ColUniques {
					continue
				}
				v := numbers[n].Row(i)
				n++
				*c.at(t) += v
				*c.at(&d.Totals) += v
			}
			for j, m := range l.maps {
				counts[j].add(i, m.at(t))
			}
			sets[p].merge(clients.skips[i], clients.hashes[i])
			all.merge(clients.skips[i], clients.hashes[i])
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := range d.Timeseries {
		t := &d.Timeseries[i]
		t.Uniques.All = sets[i].number()
		for _, m := range l.maps {
			addCounts(m.at(&d.Totals), *m.at(t))
		}
	}
	d.Totals.Uniques.All = all.number()
	return nil
}

// addCounts adds the counts of one point to those of all.
func addCounts(sum *Counts, m Counts) {
	if *sum == nil {
		*sum = make(Counts, len(m))
	}
	for k, n := range m {
		(*sum)[k] += n
	}
}
