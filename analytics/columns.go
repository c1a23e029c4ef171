package analytics

import (
	"github.com/ClickHouse/ch-go/proto"

	"github.com/spate-io/spate/store/schema"
)

// counter is a column of whole numbers of a rollup and where their sum goes in an answer of type T.
type counter[T any] struct {
	column string
	at     func(t *T) *uint64
}

// mapping is a column of counts by name and where their sums go.
type mapping[T any] struct {
	column string
	at     func(t *T) *Counts
}

// sum and sumMap are the expressions that combine a rollup's columns.
func sum(column string) string { return "toUInt64(sum(" + column + "))" }

func sumMap(column string) string {
	return "CAST(sumMap(" + column + "), 'Map(String, UInt64)')"
}

func (c counter[T]) expr() string {
	if c.column == schema.ColUniques {
		return "toUInt64(" + schema.UniquesMerge + "(" + c.column + "))"
	}
	return sum(c.column)
}

// layout is the set of columns that fill a T.
type layout[T any] struct {
	counters []counter[T]
	maps     []mapping[T]
}

// columnSet receives blocks for a layout.
type columnSet[T any] struct {
	layout[T]
	numbers []proto.ColUInt64
	counts  []*proto.ColMap[string, uint64]
}

func (l layout[T]) receive() *columnSet[T] {
	c := &columnSet[T]{layout: l, numbers: make([]proto.ColUInt64, len(l.counters))}
	for range l.maps {
		c.counts = append(c.counts, proto.NewMap[string, uint64](new(proto.ColStr), new(proto.ColUInt64)))
	}
	return c
}

// sql gives the column list of a statement.
func (l layout[T]) sql() []string {
	var columns []string
	for i, c := range l.counters {
		columns = append(columns, c.expr()+" AS "+numberName(i))
	}
	for i, m := range l.maps {
		columns = append(columns, sumMap(m.column)+" AS "+mapName(i))
	}
	return columns
}

// results gives the receiving columns in the order of sql.
func (c *columnSet[T]) results() proto.Results {
	var r proto.Results
	for i := range c.numbers {
		r = append(r, proto.ResultColumn{Name: numberName(i), Data: &c.numbers[i]})
	}
	for i := range c.counts {
		r = append(r, proto.ResultColumn{Name: mapName(i), Data: c.counts[i]})
	}
	return r
}

// fill copies row i of the block at hand into t.
func (c *columnSet[T]) fill(t *T, i int) {
	for j, k := range c.counters {
		*k.at(t) = c.numbers[j].Row(i)
	}
	for j, k := range c.maps {
		*k.at(t) = c.counts[j].Row(i)
	}
}

func numberName(i int) string { return "n" + string(rune('a'+i)) }

func mapName(i int) string { return "m" + string(rune('a'+i)) }
