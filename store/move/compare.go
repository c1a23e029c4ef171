package move

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spate-io/spate/store"
)

// sum is what is compared of a piece.
type sum struct{ rows, weight, hash uint64 }

// diff is a piece that is not the same in both stores.
type diff struct {
	partition string
	piece     int64
	src, dst  sum
}

// partition is what is known of a partition of the source since it was compared last.
type partition struct {
	known  bool
	at     position
	open   map[int64]diff
	pieces map[int64]sum // of the source
}

// position says how far the source's partition was when it was compared: what is inserted later has a higher block, what is
// rewritten has a higher mutation.
type position struct{ block, mutation uint64 }

// compare finds the pieces of a table that differ. Of a partition that was compared before it looks only at those that did
// differ then or were added to since.
func (m *mover) compare(ctx context.Context, t *table) ([]diff, error) {
	at, err := m.positions(ctx, m.src, t)
	if err != nil {
		return nil, err
	}
	has := map[string]position{}
	if m.there[t.name] {
		if has, err = m.positions(ctx, m.dst, t); err != nil {
			return nil, err
		}
	}
	names := slices.Collect(maps.Keys(at))
	for name := range has {
		if _, ok := at[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var list []diff
	for i, name := range names {
		_, inTarget := has[name]
		m.say("comparing %s: partition %s, %d of %d", t.name, name, i+1, len(names))
		some, err := m.comparePartition(ctx, t, name, at[name], inTarget)
		if err != nil {
			return nil, fmt.Errorf("partition %s: %w", name, err)
		}
		list = append(list, some...)
	}
	for name, p := range m.state[t.name] { // gone from both since it was compared
		if !slices.Contains(names, name) {
			p.open, p.pieces = map[int64]diff{}, map[int64]sum{}
		}
	}
	return list, m.saveComparison(ctx, t)
}

// positions gives the partitions that have parts. A part's name ends in the number of its last mutation when it has one.
func (m *mover) positions(ctx context.Context, s Source, t *table) (map[string]position, error) {
	rows, err := m.ask(ctx, s, `SELECT partition_id, max(max_block_number), max(toUInt64OrZero(splitByChar('_', name)[5])) FROM system.parts
WHERE database = currentDatabase() AND table = `+store.Quote(t.name)+` AND active GROUP BY partition_id`)
	if err != nil {
		return nil, fmt.Errorf("list parts: %w", err)
	}
	out := map[string]position{}
	for _, r := range rows {
		n, err := numbers(r, 1)
		if err != nil {
			return nil, err
		}
		out[r[0]] = position{n[0], n[1]}
	}
	return out, nil
}

func (m *mover) comparePartition(ctx context.Context, t *table, name string, at position, inTarget bool) ([]diff, error) {
	p := m.state[t.name][name]
	if p == nil {
		p = &partition{}
		m.state[t.name][name] = p
	}
	var only []int64 // nil: all
	if p.known && p.at.mutation == at.mutation && p.at.block <= at.block {
		added, err := m.added(ctx, t, name, p.at, at)
		if err != nil {
			return nil, err
		}
		for n := range p.open {
			added = append(added, n)
		}
		if len(added) == 0 {
			return nil, nil
		}
		slices.Sort(added)
		only = slices.Compact(added)
	}
	src, err := m.sums(ctx, m.src, t, name, only, inTarget)
	if err != nil {
		return nil, fmt.Errorf("read the source: %w", err)
	}
	dst := map[int64]sum{}
	if inTarget {
		if dst, err = m.sums(ctx, m.dst, t, name, only, true); err != nil {
			return nil, fmt.Errorf("read the target: %w", err)
		}
	}
	if only == nil {
		p.pieces = src
	} else {
		for _, n := range only {
			p.pieces[n] = src[n]
		}
	}
	p.known, p.at, p.open = true, at, map[int64]diff{}
	return p.note(name, src, dst), nil
}

// note keeps and gives the pieces that differ, in their order.
func (p *partition) note(name string, src, dst map[int64]sum) []diff {
	var list []diff
	for n, s := range src {
		if dst[n] != s {
			list = append(list, diff{name, n, s, dst[n]})
		}
	}
	for n, s := range dst {
		if _, ok := src[n]; !ok {
			list = append(list, diff{name, n, sum{}, s})
		}
	}
	slices.SortFunc(list, func(a, b diff) int { return int(a.piece - b.piece) })
	for _, d := range list {
		p.open[d.piece] = d
	}
	return list
}

// added gives the pieces of rows in parts that are newer than a position.
func (m *mover) added(ctx context.Context, t *table, name string, from, at position) ([]int64, error) {
	if from == at {
		return nil, nil
	}
	if t.step == whole {
		return []int64{0}, nil
	}
	parts := fmt.Sprintf("SELECT name FROM system.parts WHERE database = currentDatabase() AND table = %s AND partition_id = %s AND active AND max_block_number > %d",
		store.Quote(t.name), store.Quote(name), from.block)
	rows, err := m.ask(ctx, m.src, parts)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	names := make([]string, len(rows))
	for i, r := range rows {
		names[i] = store.Quote(r[0])
	}
	rows, err = m.ask(ctx, m.src, "SELECT DISTINCT "+t.piece()+" FROM "+store.Ident(t.name)+" WHERE _part IN ("+strings.Join(names, ", ")+")")
	if err != nil {
		return nil, err
	}
	var list []int64
	for _, r := range rows {
		n, err := strconv.ParseInt(r[0], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("decode answer: %w", err)
		}
		list = append(list, n)
	}
	return list, nil
}

// sums gives what is to be compared of the pieces of a partition; hashed says that more than counts are needed.
func (m *mover) sums(ctx context.Context, s Source, t *table, name string, only []int64, hashed bool) (map[int64]sum, error) {
	hash := "toUInt64(0)"
	if hashed {
		hash = "sum(" + t.hash(m.elements) + ")"
	}
	rows, err := m.ask(ctx, s, "SELECT "+t.piece()+" AS piece_of_move, count(), sum("+t.weight()+"), "+hash+" FROM "+t.from(t.name)+
		" WHERE "+t.alive(m.today)+" AND "+t.where(name, only)+" GROUP BY piece_of_move")
	if err != nil {
		return nil, err
	}
	return readSums(rows)
}

func readSums(rows [][]string) (map[int64]sum, error) {
	out := map[int64]sum{}
	for _, r := range rows {
		piece, err := strconv.ParseInt(r[0], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("decode answer: %w", err)
		}
		n, err := numbers(r, 1)
		if err != nil {
			return nil, err
		}
		out[piece] = sum{n[0], n[1], n[2]}
	}
	return out, nil
}
