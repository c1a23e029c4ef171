package analytics

import (
	"strconv"
	"strings"

	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/schema"
)

// source is a table that a statement reads.
type source struct {
	table, zone, time string
	how               string // what stands behind the table's name, such as FINAL
}

// statement is a question about one zone and one window, in the form all of ours have. All its texts are constants of this
// package.
type statement struct {
	from    source
	columns []string // expression AS name; {point} stands for the number of the point that a row lies in
	and     string   // a further condition
	group   string   // what GROUP BY, ORDER BY and LIMIT say
	params  map[string]string
	memory  uint64 // bytes the engine may use, 0: its default
}

// pointOf is the number of the point in the window that the time column lies in.
const pointOf = "toUInt32(intDiv(toUInt32(toDateTime({time}, 'UTC')) - {since:UInt32}, {delta:UInt32}))"

// query prints the statement. With union it is the only maker of SQL in this package, and both put the zone's condition in,
// so that no statement can be about another zone or about all of them.
func (st statement) query(zone string, w Window) store.Query {
	return st.ask(st.text(), zone, w)
}

// union is a question about rows that several statements give together, whose own parameters it has.
func (st statement) union(parts []statement, zone string, w Window) store.Query {
	texts := make([]string, len(parts))
	scan := false
	for i, p := range parts {
		texts[i] = p.text()
		scan = scan || p.isScan()
	}
	q := st.ask("SELECT "+strings.Join(st.columns, ", ")+" FROM ("+strings.Join(texts, " UNION ALL ")+") "+st.group, zone, w)
	if scan {
		q.Priority = store.Scan
	}
	return q
}

// isScan says that the statement reads one row per request.
func (st statement) isScan() bool { return st.from.table == schema.HTTPRequests }

// text prints the statement alone.
func (st statement) text() string {
	var b strings.Builder
	b.WriteString("SELECT ")
	b.WriteString(strings.ReplaceAll(strings.ReplaceAll(strings.Join(st.columns, ", "), "{point}", pointOf), "{time}", st.from.time))
	b.WriteString(" FROM " + st.from.table)
	if st.from.how != "" {
		b.WriteString(" " + st.from.how)
	}
	b.WriteString(" WHERE " + st.from.zone + " = {zone:String}")
	b.WriteString(" AND " + st.from.time + " >= toDateTime({since:UInt32}, 'UTC')")
	b.WriteString(" AND " + st.from.time + " < toDateTime({until:UInt32}, 'UTC')")
	if st.and != "" {
		b.WriteString(" AND (" + st.and + ")")
	}
	if st.group != "" {
		b.WriteString(" " + st.group)
	}
	return b.String()
}

// ask adds parameters and settings.
func (st statement) ask(sql, zone string, w Window) store.Query {
	params := map[string]string{
		"zone":  store.Text(zone),
		"since": strconv.FormatInt(w.Since.Unix(), 10),
		"until": strconv.FormatInt(w.Until.Unix(), 10),
		"delta": strconv.FormatInt(int64(w.Delta.Seconds()), 10),
	}
	for k, v := range st.params {
		params[k] = v
	}
	q := store.Query{SQL: sql, Params: params, Settings: map[string]string{}, Small: true}
	if st.memory > 0 {
		q.Settings["max_memory_usage"] = strconv.FormatUint(st.memory, 10)
	}
	if st.isScan() {
		q.Priority = store.Scan
	} else {
		// A rollup's rows of one zone are few: dividing them among threads costs more than reading them.
		q.Settings["max_threads"] = "1"
	}
	return q
}
