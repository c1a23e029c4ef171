package move

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/schema"
)

// table is one table that is moved, and how its rows are cut into pieces.
type table struct {
	name string
	// local says that the rows of the table are spread over the servers of a cluster: on each it is called NAME_local.
	local  bool
	engine string // with its parameters
	to     *table // the same in the target; nil when that lacks it
	// final says that rows of one key count as one: they are read merged.
	final   bool
	columns []column
	time    string // the column that pieces are cut by; empty: the table is one piece
	wide    bool   // the column has fractions of a second
	step    step
	due     string // when the source's engine may drop a row, as SQL; empty: never, or not known
	dueTo   string // when the target's may
}

type column struct{ name, typ string }

// step is how much time is in one piece.
type step uint8

const (
	whole step = iota
	hour
	day
	month
)

// skipped are the tables that belong to a store and not to what is in it.
var skipped = []string{schema.Migrations, movesTable, "cluster_layout"}

// localSuffix is what a table on one server of a cluster has behind the name of the one over all servers.
const localSuffix = "_local"

// stagingPrefix begins the names of the tables that pieces are put together in.
const stagingPrefix = "spate_move_"

func (t *table) staging() string { return stagingPrefix + t.name }

// onServer gives the name of the table on one server.
func (t *table) onServer() string {
	if t.local {
		return t.name + localSuffix
	}
	return t.name
}

var (
	replicatedEngine = regexp.MustCompile(`^Replicated(\w+)\('[^']*', '[^']*'(?:, )?([^)]*)\)`)
	replicatedWindow = regexp.MustCompile(`\breplicated_deduplication_window = \d+(, replicated_deduplication_window_seconds = \d+)?`)
)

// createStaging gives the statement that makes a table like this one, which no other server has.
func (t *table) createStaging() string {
	sql := "CREATE TABLE " + store.Ident(t.staging()) + " AS " + store.Ident(t.onServer())
	if !strings.HasPrefix(t.engine, "Replicated") {
		return sql
	}
	engine := replicatedEngine.ReplaceAllString(t.engine, "$1($2)")
	return sql + " ENGINE = " + replicatedWindow.ReplaceAllString(engine, "non_replicated_deduplication_window = 1000")
}

// ofShard is the condition for the rows that belong on one of so many shards; empty for all. It is what a cluster's distributed
// tables have as their key.
func (t *table) ofShard(i, n int) string {
	for _, c := range t.columns {
		if n > 1 && t.local && (c.name == schema.ColZoneID || c.name == "ZoneID") {
			return fmt.Sprintf(" AND cityHash64(%s) %% %d = %d", store.Ident(c.name), n, i)
		}
	}
	return ""
}

// describe finds out from the engine which tables there are and how they are made.
func describe(ctx context.Context, src Source) ([]*table, error) {
	rows, err := texts(ctx, src, `SELECT name, engine, partition_key, engine_full FROM system.tables
WHERE database = currentDatabase() AND engine LIKE '%MergeTree' ORDER BY name`)
	if err != nil {
		return nil, fmt.Errorf("list tables: %w", err)
	}
	columns, err := texts(ctx, src, `SELECT table, name, type FROM system.columns
WHERE database = currentDatabase() AND default_kind NOT IN ('ALIAS', 'MATERIALIZED', 'EPHEMERAL') ORDER BY table, position`)
	if err != nil {
		return nil, fmt.Errorf("list columns: %w", err)
	}
	var list []*table
	for _, r := range rows {
		if slices.Contains(skipped, r[0]) || strings.HasPrefix(r[0], stagingPrefix) {
			continue
		}
		t := &table{final: r[1] != "MergeTree" && r[1] != "ReplicatedMergeTree", engine: r[3], due: dueFrom(r[3])}
		t.name, t.local = strings.CutSuffix(r[0], localSuffix)
		for _, c := range columns {
			if c[0] == r[0] {
				t.columns = append(t.columns, column{c[1], c[2]})
			}
		}
		t.cut(r[2])
		list = append(list, t)
	}
	if len(list) == 0 {
		return nil, errors.New("there are no tables: is it a store of Spate?")
	}
	// What is small and what says whether somebody else writes there comes first, requests last.
	slices.SortStableFunc(list, func(a, b *table) int { return int(a.step) - int(b.step) })
	slices.SortStableFunc(list, func(a, b *table) int { return rank(a) - rank(b) })
	return list, nil
}

func rank(t *table) int {
	if t.name == schema.HTTPRequests {
		return 1
	}
	return 0
}

// cut chooses the pieces: time in the partition key, else a column named time, and as much of it as is rewritten at small
// cost when an event comes late.
func (t *table) cut(partitionKey string) {
	for _, c := range t.columns {
		if !strings.HasPrefix(c.typ, "DateTime") {
			continue
		}
		in := regexp.MustCompile(`\b` + regexp.QuoteMeta(c.name) + `\b`).MatchString(partitionKey)
		if in || c.name == schema.ColTime {
			t.time, t.wide = c.name, strings.HasPrefix(c.typ, "DateTime64")
			break
		}
	}
	switch {
	case t.time == "":
		t.step = whole
	case t.name == schema.HTTPRequests:
		t.step = hour
	case strings.HasSuffix(t.name, "_1d"), strings.HasSuffix(t.name, "_1mo"):
		t.step = month
	default:
		t.step = day
	}
}

var (
	ttlClause = regexp.MustCompile(`\sTTL (.*?)(?: DELETE)?(?: SETTINGS |$)`)
	ttlOther  = regexp.MustCompile(`\b(WHERE|GROUP BY|RECOMPRESS|TO DISK|TO VOLUME)\b`)
)

// dueFrom reads when rows are dropped from the text of an engine. Rules that it does not understand are none: then rows that
// one store has dropped already and the other has not show as a difference.
func dueFrom(engine string) string {
	m := ttlClause.FindStringSubmatch(engine)
	if m == nil || ttlOther.MatchString(m[1]) {
		return ""
	}
	return m[1]
}

// alive is the condition for rows that count: those that neither store may drop today.
func (t *table) alive(today time.Time) string {
	var list []string
	for _, due := range slices.Compact([]string{t.due, t.dueTo}) {
		if due != "" {
			list = append(list, "toDate("+due+") > toDate("+store.Quote(today.Format(time.DateOnly))+")")
		}
	}
	if len(list) == 0 {
		return "1"
	}
	return strings.Join(list, " AND ")
}

// from is what rows are read from.
func (t *table) from(name string) string {
	if t.final {
		return store.Ident(name) + " FINAL"
	}
	return store.Ident(name)
}

// piece gives the expression for the number of a row's piece.
func (t *table) piece() string {
	c := store.Ident(t.time)
	switch t.step {
	case hour:
		return "toInt64(intDiv(toUnixTimestamp(toStartOfHour(" + c + ")), 3600))"
	case day:
		return "toInt64(toDate(" + c + "))"
	case month:
		return "toInt64(toYYYYMM(" + c + "))"
	}
	return "toInt64(0)"
}

// bounds gives the time in which pieces from first to last lie; ok is false when there is none.
func (t *table) bounds(first, last int64) (from, until time.Time, ok bool) {
	switch t.step {
	case hour:
		return time.Unix(first*3600, 0).UTC(), time.Unix((last+1)*3600, 0).UTC(), true
	case day:
		return time.Unix(first*86400, 0).UTC(), time.Unix((last+1)*86400, 0).UTC(), true
	case month:
		return time.Date(int(first/100), time.Month(first%100), 1, 0, 0, 0, 0, time.UTC),
			time.Date(int(last/100), time.Month(last%100)+1, 1, 0, 0, 0, 0, time.UTC), true
	}
	return from, until, false
}

// label names a piece for people.
func (t *table) label(n int64) string {
	from, _, ok := t.bounds(n, n)
	if !ok {
		return "all"
	}
	return from.Format(map[step]string{hour: "2006-01-02 15h", day: time.DateOnly, month: "2006-01"}[t.step])
}

// where is the condition for the rows of some pieces of a partition, in a form from which the engine sees which parts it
// need not read. pieces are sorted; nil means all.
func (t *table) where(partition string, pieces []int64) string {
	sql := "_partition_id = " + store.Quote(partition)
	if more := t.within(pieces); more != "" {
		sql += " AND " + more
	}
	return sql
}

func (t *table) within(pieces []int64) string {
	if len(pieces) == 0 || t.step == whole {
		return ""
	}
	var sql string
	if from, until, ok := t.bounds(pieces[0], pieces[len(pieces)-1]); ok {
		c := store.Ident(t.time)
		sql = c + " >= " + t.literal(from) + " AND " + c + " < " + t.literal(until)
	}
	list := make([]string, len(pieces))
	for i, n := range pieces {
		list[i] = fmt.Sprint(n)
	}
	return sql + " AND " + t.piece() + " IN (" + strings.Join(list, ", ") + ")"
}

func (t *table) literal(at time.Time) string {
	if t.wide {
		return "toDateTime64(" + store.Quote(at.Format(time.DateTime)) + ", 6, 'UTC')"
	}
	return "toDateTime(" + store.Quote(at.Format(time.DateTime)) + ", 'UTC')"
}

// selected gives the columns as they travel. States of aggregate functions travel as their bytes: the target's engine makes
// states of them again.
func (t *table) selected() string {
	list := make([]string, len(t.columns))
	for i, c := range t.columns {
		list[i] = store.Ident(c.name)
		if strings.HasPrefix(c.typ, "AggregateFunction(") {
			list[i] = "CAST(" + list[i] + " AS String) AS " + list[i]
		}
	}
	return strings.Join(list, ", ")
}

func (t *table) names() []string {
	list := make([]string, len(t.columns))
	for i, c := range t.columns {
		list[i] = c.name
	}
	return list
}

// weight is an expression for a row that only grows when events are added to what is stored.
func (t *table) weight() string {
	var list []string
	for _, c := range t.columns {
		if c.typ == "SimpleAggregateFunction(sum, UInt64)" || c.name == schema.ColRequests && c.typ == "UInt64" {
			list = append(list, "toUInt64("+store.Ident(c.name)+")")
		}
	}
	if len(list) == 0 {
		return "toUInt64(1)"
	}
	return strings.Join(list, " + ")
}

// hash is an expression that is the same for rows that say the same, however their parts were merged. elements says that the
// engine can take a set of uniq apart.
func (t *table) hash(elements bool) string {
	list := make([]string, len(t.columns))
	for i, c := range t.columns {
		name := store.Ident(c.name)
		switch {
		case strings.HasPrefix(c.typ, "SimpleAggregateFunction(") && strings.Contains(c.typ, " Map("):
			name = "mapSort(mapFilter((k, v) -> v != 0, " + name + "))" // a merge sorts keys and drops those that count nothing
		case strings.HasPrefix(c.typ, "AggregateFunction(groupBitmap,"):
			name = "bitmapToArray(" + name + ")"
		case strings.HasPrefix(c.typ, "AggregateFunction(uniq,") && elements:
			name = "arraySort(reinterpret(" + elementsOf("CAST("+name+" AS String)") + ", 'Array(UInt32)'))"
		case strings.HasPrefix(c.typ, "AggregateFunction("):
			name = "finalizeAggregation(" + name + ")"
		}
		list[i] = name
	}
	return "cityHash64(" + strings.Join(list, ", ") + ")"
}

// elementsOf cuts a byte and a number of up to three bytes off the state of uniq, which leaves four bytes for each element.
func elementsOf(s string) string {
	return "substring(" + s + ", multiIf(reinterpretAsUInt8(substring(" + s + ", 2, 1)) < 128, 3, reinterpretAsUInt8(substring(" + s + ", 3, 1)) < 128, 4, 5))"
}

// same says in what two tables differ, or nothing.
func (t *table) same(other *table) error {
	if t.final != other.final || t.step != other.step || !slices.Equal(t.columns, other.columns) {
		return fmt.Errorf("table %s is not made alike in both stores", t.name)
	}
	return nil
}
