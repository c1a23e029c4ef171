package move

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

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
	at     []position // on each server of the source
	open   map[int64]diff
	pieces map[int64]sum // of the source
}

// position says how far the source's partition was when it was compared: what is inserted later has a higher block, what is
// rewritten has a higher mutation.
type position struct{ block, mutation uint64 }

// compare finds the pieces of a table that differ. Of a partition that was compared before it looks only at those that did
// differ then or were added to since.
func (m *mover) compare(ctx context.Context, t *table) ([]diff, error) {
	at, err := m.positions(ctx, m.readers(t), t)
	if err != nil {
		return nil, err
	}
	has := map[string][]position{}
	if t.to != nil {
		if has, err = m.positions(ctx, []Source{m.dst}, t.to); err != nil {
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
		now := at[name]
		if now == nil {
			now = make([]position, len(m.readers(t)))
		}
		some, err := m.comparePartition(ctx, t, name, now, inTarget)
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

// readers gives the servers of the source that have rows of a table: all of those that it is spread over, else one.
func (m *mover) readers(t *table) []Source {
	if t.local {
		return m.srcs
	}
	return m.srcs[:1]
}

// positions gives the partitions that have parts, and how far they are on each of the servers. A part's name ends in the number of
// its last mutation when it has one.
func (m *mover) positions(ctx context.Context, servers []Source, t *table) (map[string][]position, error) {
	out := map[string][]position{}
	for i, s := range servers {
		rows, err := m.ask(ctx, s, `SELECT partition_id, max(max_block_number), max(toUInt64OrZero(splitByChar('_', name)[5])) FROM system.parts
WHERE database = currentDatabase() AND table = `+store.Quote(t.onServer())+` AND active GROUP BY partition_id`)
		if err != nil {
			return nil, fmt.Errorf("list parts: %w", err)
		}
		for _, r := range rows {
			n, err := numbers(r, 1)
			if err != nil {
				return nil, err
			}
			if out[r[0]] == nil {
				out[r[0]] = make([]position, len(servers))
			}
			out[r[0]][i] = position{n[0], n[1]}
		}
	}
	return out, nil
}

// since says that all that happened since a position is that parts were added or merged.
func (p *partition) since(at []position) bool {
	if !p.known || len(p.at) != len(at) {
		return false
	}
	for i := range at {
		if p.at[i].mutation != at[i].mutation || p.at[i].block > at[i].block {
			return false
		}
	}
	return true
}

func (m *mover) comparePartition(ctx context.Context, t *table, name string, at []position, inTarget bool) ([]diff, error) {
	p := m.state[t.name][name]
	if p == nil {
		p = &partition{}
		m.state[t.name][name] = p
	}
	var only []int64 // nil: all
	if p.since(at) {
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
	src, dst, err := m.both(ctx, t, name, only, inTarget)
	if err != nil {
		return nil, err
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

// both reads source and target at the same time: each has to read as much.
func (m *mover) both(ctx context.Context, t *table, name string, only []int64, inTarget bool) (src, dst map[int64]sum, err error) {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		var err error
		if src, err = m.sums(ctx, m.readers(t), t, name, only, inTarget); err != nil {
			return fmt.Errorf("read the source: %w", err)
		}
		return nil
	})
	group.Go(func() error {
		var err error
		if !inTarget {
			return nil
		}
		if dst, err = m.sums(ctx, []Source{m.dst}, t.to, name, only, true); err != nil {
			return fmt.Errorf("read the target: %w", err)
		}
		return nil
	})
	return src, dst, group.Wait()
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
func (m *mover) added(ctx context.Context, t *table, name string, from, at []position) ([]int64, error) {
	var list []int64
	for i, s := range m.readers(t) {
		if from[i] == at[i] {
			continue
		}
		if t.step == whole {
			return []int64{0}, nil
		}
		some, err := m.addedOn(ctx, s, t, name, from[i])
		if err != nil {
			return nil, err
		}
		list = append(list, some...)
	}
	return list, nil
}

func (m *mover) addedOn(ctx context.Context, s Source, t *table, name string, from position) ([]int64, error) {
	parts := fmt.Sprintf("SELECT name FROM system.parts WHERE database = currentDatabase() AND table = %s AND partition_id = %s AND active AND max_block_number > %d",
		store.Quote(t.onServer()), store.Quote(name), from.block)
	rows, err := m.ask(ctx, s, parts)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	names := make([]string, len(rows))
	for i, r := range rows {
		names[i] = store.Quote(r[0])
	}
	rows, err = m.ask(ctx, s, "SELECT DISTINCT "+t.piece()+" FROM "+store.Ident(t.onServer())+" WHERE _part IN ("+strings.Join(names, ", ")+")")
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

// sums gives what is to be compared of the pieces of a partition, on all of the servers together; hashed says that more than
// counts are needed.
func (m *mover) sums(ctx context.Context, servers []Source, t *table, name string, only []int64, hashed bool) (map[int64]sum, error) {
	hash := "toUInt64(0)"
	if hashed {
		hash = "sum(" + t.hash(m.elements) + ")"
	}
	sql := "SELECT " + t.piece() + " AS piece_of_move, count(), sum(" + t.weight() + "), " + hash + " FROM " + t.from(t.onServer()) +
		" WHERE " + m.belongs(t, name, only) + " GROUP BY piece_of_move"
	total := map[int64]sum{}
	for _, s := range servers {
		rows, err := m.ask(ctx, s, sql)
		if err != nil {
			return nil, err
		}
		some, err := readSums(rows)
		if err != nil {
			return nil, err
		}
		for n, s := range some {
			was := total[n]
			total[n] = sum{was.rows + s.rows, was.weight + s.weight, was.hash + s.hash}
		}
	}
	return total, nil
}

// belongs is the condition for the rows of pieces that count and belong on the server of the target that is moved to.
func (m *mover) belongs(t *table, partition string, pieces []int64) string {
	sql := t.alive(m.today) + " AND " + t.where(partition, pieces)
	if t.to != nil {
		sql += t.to.ofShard(m.shard, m.shards)
	}
	return sql
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
