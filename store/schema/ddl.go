package schema

import (
	"fmt"
	"strings"
)

// The statements that make the tables of requests as this version wants them. What is applied to a store are the frozen
// files in migrations/; a test holds that they come to the same. Tables that no Go code describes are in those files alone.

const (
	// dedupWindow is how many tokens a table remembers. A replay after a crash concerns the last insert of each partition
	// of the bus; this is far more.
	dedupWindow = 10_000
	// rollupGranularity is how many rows of a rollup lie between two marks of its index: a dashboard reads few rows of one
	// zone. docs/explanation/store-measurements.md has the measurement.
	rollupGranularity = 256
	// wideFrom is the size in bytes, unpacked, from which a part of raw or of minutes has a file for each column: what an insert
	// writes stays below, and is one file.
	wideFrom = 64 << 20
	// wideLongFrom is the same for hours and longer. The few rows of a zone that a dashboard reads from a part cost half of what
	// they cost in sixty files, and a merge holds 3 MiB for each part instead of 25. Not without a bound, because the marks of
	// all columns are loaded together then. docs/adr/0010 has the measurement.
	wideLongFrom = 2 << 30
	// rollupBuffer bounds the buffer that each of a rollup's hundred columns has while a part is written. With the engine's
	// own, a mebibyte, one merge takes 265 MiB; with this, 80 MiB and less time.
	rollupBuffer = 64 << 10
	// rollupBlock is from how many bytes on a compressed block of a wide part of a rollup ends with its granule: a dashboard
	// unpacks what it reads, and little more, in two dozen columns.
	rollupBlock = 16 << 10
	// minuteMerge and longMerge bound how many parts of minutes, and of hours and longer, are merged at a time, for what a
	// merge holds for each.
	minuteMerge = 6
	longMerge   = 15
	// minuteBase, hourBase and dayBase are mergeBase for the rollups: minutes have the engine's own. Of days and months there are few
	// rows, and a dashboard reads a part of each time that was not merged yet. docs/adr/0010 has the measurement.
	minuteBase = 5
	hourBase   = 3
	dayBase    = 2
	// mergeBase is how much smaller than their sum the parts of raw must be to be merged. The engine's own is 5; a row of
	// raw is merged fewer times with more, and the few queries of raw read more parts.
	mergeBase = 10
)

// createRaw gives the statement that makes the raw table.
func createRaw() string {
	var b strings.Builder
	b.WriteString("CREATE TABLE IF NOT EXISTS " + HTTPRequests + " (\n")
	for i, c := range HTTPColumns() {
		if i > 0 {
			b.WriteString(",\n")
		}
		b.WriteString("    " + c.definition())
	}
	b.WriteString("\n) ENGINE = MergeTree\nPARTITION BY toMonday(EdgeStartTimestamp)\nORDER BY (ZoneID, EdgeStartTimestamp)\n")
	fmt.Fprintf(&b, "TTL StoredOn + INTERVAL %d DAY DELETE\n", DefaultRetention().Raw)
	fmt.Fprintf(&b, "SETTINGS index_granularity = 8192, non_replicated_deduplication_window = %d, ttl_only_drop_parts = 1, min_bytes_for_wide_part = %d, merge_selector_base = %d", dedupWindow, wideFrom, mergeBase)
	return b.String()
}

func (c Column) definition() string {
	s := c.Name + " " + c.Type
	switch {
	case c.Alias != "":
		s += " ALIAS " + c.Alias
	case c.Default != "":
		s += " DEFAULT " + c.Default
	}
	if c.Codec != "" {
		s += " CODEC(" + c.Codec + ")"
	}
	return s
}

// rollup is one table of the cascade.
type rollup struct {
	table string
	from  string // the table it is fed from
	colo  bool   // by colo too, with fewer columns
	trunc string // time of the source's row to time of the row, with %s
	part  string // partition key
	base  int    // merge_selector_base
	days  int    // retention, 0 for ever
}

func rollups() []rollup {
	r := DefaultRetention()
	return []rollup{
		{HTTPMinute, HTTPFlow, false, "%s", "toYYYYMM(time)", minuteBase, r.Minute},
		{HTTPHour, HTTPMinute, false, "toStartOfHour(%s)", "toYear(time)", hourBase, r.Hour},
		{HTTPDay, HTTPHour, false, "toStartOfDay(%s)", "toYear(time)", dayBase, r.Day},
		{HTTPMonth, HTTPDay, false, "toDateTime(toStartOfMonth(%s), 'UTC')", "tuple()", dayBase, r.Month},
		{ColoMinute, HTTPFlow, true, "%s", "toYYYYMM(time)", minuteBase, r.Minute},
		{ColoHour, ColoMinute, true, "toStartOfHour(%s)", "toYear(time)", hourBase, r.Hour},
		{ColoDay, ColoHour, true, "toStartOfDay(%s)", "toYear(time)", dayBase, r.Day},
		{ColoMonth, ColoDay, true, "toDateTime(toStartOfMonth(%s), 'UTC')", "tuple()", dayBase, r.Month},
	}
}

func (r rollup) columns() []RollupColumn {
	all := RollupColumns()
	if !r.colo {
		return all
	}
	var some []RollupColumn
	for _, c := range all {
		if c.Colo {
			some = append(some, c)
		}
	}
	return some
}

func (r rollup) keys() string {
	if r.colo {
		return "zone_id, time, colo"
	}
	return "zone_id, time"
}

// create gives the statement that makes the table.
func (r rollup) create() string {
	var b strings.Builder
	fmt.Fprintf(&b, "CREATE TABLE IF NOT EXISTS %s (\n", r.table)
	b.WriteString("    zone_id LowCardinality(String),\n")
	if r.colo {
		b.WriteString("    colo LowCardinality(String),\n")
	}
	b.WriteString("    time DateTime('UTC') CODEC(Delta, Default),\n")
	for _, c := range r.columns() {
		fmt.Fprintf(&b, "    %s %s,\n", c.Name, c.Type())
	}
	b.WriteString("    stored_on SimpleAggregateFunction(max, Date)\n")
	fmt.Fprintf(&b, ") ENGINE = AggregatingMergeTree\nPARTITION BY %s\nORDER BY (%s)\n", r.part, r.keys())
	if r.days > 0 {
		fmt.Fprintf(&b, "TTL stored_on + INTERVAL %d DAY DELETE\n", r.days)
	}
	wide, merge := wideFrom, minuteMerge
	if r.from != HTTPFlow { // hours and longer
		wide, merge = wideLongFrom, longMerge
	}
	fmt.Fprintf(&b, "SETTINGS index_granularity = %d, non_replicated_deduplication_window = %d, ttl_only_drop_parts = 1, min_bytes_for_wide_part = %d, max_compress_block_size = %d, max_parts_to_merge_at_once = %d, min_compress_block_size = %d, merge_selector_base = %d",
		rollupGranularity, dedupWindow, wide, rollupBuffer, merge, rollupBlock, r.base)
	return b.String()
}

// view gives the statement that makes the view which feeds the table. It only renames time: rows of one key in a block are
// combined by the table itself when it writes the part (optimize_on_insert), for a fraction of what a GROUP BY costs.
func (r rollup) view() string {
	var b strings.Builder
	fmt.Fprintf(&b, "CREATE MATERIALIZED VIEW IF NOT EXISTS %s_mv TO %s AS\nSELECT\n    zone_id,\n", r.table, r.table)
	if r.colo {
		b.WriteString("    colo,\n")
	}
	if r.trunc == "%s" {
		b.WriteString("    time,\n")
	} else {
		fmt.Fprintf(&b, "    "+r.trunc+" AS time,\n", "f.time")
	}
	for _, c := range r.columns() {
		column := c.Name
		if r.from == HTTPFlow {
			column = c.fromFlow()
		}
		fmt.Fprintf(&b, "    %s,\n", column)
	}
	fmt.Fprintf(&b, "    stored_on\nFROM %s AS f", r.from)
	return b.String()
}

// createFlow gives the statement that makes the table which passes on what a block adds up to, to the minute tables by
// zone and by colo.
func createFlow() string {
	var b strings.Builder
	fmt.Fprintf(&b, "CREATE TABLE IF NOT EXISTS %s (\n", HTTPFlow)
	for _, c := range flowColumns() {
		fmt.Fprintf(&b, "    %s %s,\n", c.name, c.typ)
	}
	b.WriteString("    stored_on Date DEFAULT today()\n) ENGINE = Null")
	return b.String()
}

// httpTables gives all statements for HTTP events. Tables come before what feeds them, so that a store that was left half
// made is completed by running them again.
func httpTables() []string {
	list := []string{createRaw(), createFlow()}
	for _, r := range rollups() {
		list = append(list, r.create())
	}
	for _, r := range rollups() {
		list = append(list, r.view())
	}
	for _, l := range TopLevels() {
		list = append(list, l.create())
	}
	return list
}
