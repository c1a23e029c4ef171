package move

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spate-io/spate/store"
)

// movesTable is the table in the target that says what moves put there.
const movesTable = "moves"

const createMoves = `CREATE TABLE IF NOT EXISTS ` + movesTable + ` (
    name LowCardinality(String),
    partition String,
    piece Int64,
    rows UInt64,
    weight UInt64,
    open UInt8,
    block UInt64,
    mutation UInt64,
    moved DateTime64(6, 'UTC')
) ENGINE = ReplacingMergeTree(moved)
ORDER BY (name, partition, piece)`

// ofPartition stands in the place of a piece in the row that says how far a partition was when it was compared; of a source of
// several servers, the numbers from there on.
const ofPartition = math.MinInt64

// maxServers bounds the servers of a source.
const maxServers = 10_000

// pieceKey names a piece of a table.
type pieceKey struct {
	partition string
	piece     int64
}

// claim is what a move has put into the target at most.
type claim struct {
	rows, weight uint64
	open         bool // not yet seen equal
}

// claims are those of one table.
type claims map[pieceKey]claim

// covers says that a piece of the target has nothing but what a move put there. Rows may have expired or been erased since.
func (c claims) covers(d diff) bool {
	if d.dst == (sum{}) {
		return true
	}
	had, ok := c[pieceKey{d.partition, d.piece}]
	return ok && d.dst.rows <= had.rows && d.dst.weight <= had.weight
}

// openClaims makes the table and sees to it that source and target are not the same store.
func (m *mover) openClaims(ctx context.Context) error {
	if err := m.writeClaims(ctx, "", []row{{pieceKey: pieceKey{partition: m.run}}}); err != nil {
		return err
	}
	rows, err := m.ask(ctx, m.srcs[0], "SELECT count() FROM "+movesTable+" WHERE name = '' AND partition = "+store.Quote(m.run))
	same := err == nil && len(rows) > 0 && rows[0][0] != "0"
	if err != nil && !store.IsCode(err, store.CodeUnknownTable) {
		return err
	}
	if err := m.tell(ctx, "ALTER TABLE "+movesTable+" DELETE WHERE name = ''", map[string]string{"mutations_sync": "2"}); err != nil {
		return err
	}
	if same {
		return fmt.Errorf("source and target are the same store")
	}
	return nil
}

// loadClaims reads what earlier runs left.
func (m *mover) loadClaims(ctx context.Context) error {
	rows, err := m.ask(ctx, m.dst, "SELECT name, partition, toString(piece), rows, weight, open, block, mutation FROM "+movesTable+" FINAL WHERE name != ''")
	if store.IsCode(err, store.CodeUnknownTable) && (m.o.Verify || m.o.DryRun) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", movesTable, err)
	}
	for _, r := range rows {
		name, ok := m.ofMoves(r[0])
		if !ok {
			continue
		}
		piece, err := strconv.ParseInt(r[2], 10, 64)
		if err != nil {
			return fmt.Errorf("read %s: %w", movesTable, err)
		}
		n, err := numbers(r, 3)
		if err != nil {
			return fmt.Errorf("read %s: %w", movesTable, err)
		}
		m.loadClaim(name, pieceKey{r[1], piece}, n)
	}
	return nil
}

func (m *mover) loadClaim(name string, key pieceKey, n []uint64) {
	if m.state[name] == nil {
		m.state[name] = map[string]*partition{}
	}
	if m.claims[name] == nil {
		m.claims[name] = claims{}
	}
	server := uint64(key.piece) - 1<<63 // ofPartition is 1<<63
	ofServer := server < maxServers
	if !ofServer {
		m.claims[name][key] = claim{n[0], n[1], n[2] != 0}
	}
	if !m.o.Quick {
		return
	}
	p := m.state[name][key.partition]
	if p == nil {
		p = &partition{open: map[int64]diff{}, pieces: map[int64]sum{}}
		m.state[name][key.partition] = p
	}
	switch {
	case ofServer:
		for uint64(len(p.at)) <= server {
			p.at = append(p.at, position{})
		}
		p.known, p.at[server] = true, position{n[3], n[4]}
	case n[2] != 0:
		p.open[key.piece] = diff{partition: key.partition, piece: key.piece}
	default:
		p.pieces[key.piece] = sum{rows: n[0]}
	}
}

// inMoves gives the name of a table in the table of claims, which all shards of a cluster may share.
func (m *mover) inMoves(name string) string {
	if m.shards > 1 && name != "" {
		return fmt.Sprintf("%s@%d/%d", name, m.shard+1, m.shards)
	}
	return name
}

// ofMoves is the reverse; ok is false for a table of another shard.
func (m *mover) ofMoves(name string) (table string, ok bool) {
	table, _, _ = strings.Cut(name, "@")
	return table, m.inMoves(table) == name
}

// row is one row of the table.
type row struct {
	pieceKey
	claim
	at position
}

// claimsAtOnce is how many rows one statement writes.
const claimsAtOnce = 500

func (m *mover) writeClaims(ctx context.Context, name string, list []row) error {
	name = m.inMoves(name)
	for len(list) > 0 {
		n := min(len(list), claimsAtOnce)
		var b strings.Builder
		b.WriteString("INSERT INTO " + movesTable + " (name, partition, piece, rows, weight, open, block, mutation, moved) VALUES ")
		moved := time.Now().UTC().Format("2006-01-02 15:04:05.000000")
		for i, r := range list[:n] {
			if i > 0 {
				b.WriteString(", ")
			}
			open := 0
			if r.open {
				open = 1
			}
			fmt.Fprintf(&b, "(%s, %s, %d, %d, %d, %d, %d, %d, '%s')", store.Quote(name), store.Quote(r.partition), r.piece, r.rows, r.weight, open, r.at.block, r.at.mutation, moved)
		}
		if err := m.tell(ctx, b.String(), nil); err != nil {
			return fmt.Errorf("write %s: %w", movesTable, err)
		}
		list = list[n:]
	}
	return nil
}

// claim keeps and writes what is about to be put into a partition.
func (m *mover) claim(ctx context.Context, t *table, partition string, staged map[int64]sum, pieces []diff) error {
	if m.claims[t.name] == nil {
		m.claims[t.name] = claims{}
	}
	list := make([]row, len(pieces))
	for i, d := range pieces {
		s := staged[d.piece]
		list[i] = row{pieceKey{partition, d.piece}, claim{s.rows, s.weight, true}, position{}}
		m.claims[t.name][list[i].pieceKey] = list[i].claim
	}
	return m.writeClaims(ctx, t.name, list)
}

// saveComparison writes which pieces were found equal or not, and how far their partitions were, so that a later run need
// not compare everything. Pieces are written before their partitions.
func (m *mover) saveComparison(ctx context.Context, t *table) error {
	if m.o.Verify || m.o.DryRun {
		return nil
	}
	known := m.claims[t.name]
	if known == nil {
		known = claims{}
		m.claims[t.name] = known
	}
	var pieces, partitions []row
	for name, p := range m.state[t.name] {
		if !p.known {
			continue
		}
		for n, s := range p.pieces {
			key := pieceKey{name, n}
			had, ok := known[key]
			_, open := p.open[n]
			switch {
			case ok && had.open == open:
				continue
			case !ok && !open: // both have it, and no move put it there
				had = claim{rows: s.rows, weight: s.weight}
			}
			had.open = open
			known[key] = had
			pieces = append(pieces, row{key, had, position{}})
		}
		for i, at := range p.at {
			partitions = append(partitions, row{pieceKey: pieceKey{name, ofPartition + int64(i)}, at: at})
		}
	}
	if err := m.writeClaims(ctx, t.name, pieces); err != nil {
		return err
	}
	return m.writeClaims(ctx, t.name, partitions)
}
