package schema

import (
	"fmt"
	"strings"
)

// Reference gives docs/reference/tables.md, made from the tables.
func Reference() string {
	var b strings.Builder
	b.WriteString(referenceHead)
	b.WriteString("\n## `" + HTTPRequests + "`\n\nOne row per request, ordered by zone and time, in partitions of a week. An alias is computed when it is read and is\nnot part of `SELECT *`.\n\n| column | type | from | meaning |\n| --- | --- | --- | --- |\n")
	for _, c := range HTTPColumns() {
		from := c.Source
		if c.Alias != "" {
			from += ", alias"
		}
		doc := c.Doc
		if c.Unit != "" && !strings.Contains(doc, c.Unit) {
			doc = strings.TrimPrefix(doc+", "+c.Unit, ", ")
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s |\n", c.Name, c.Type, from, strings.ReplaceAll(doc, "|", "\\|"))
	}
	b.WriteString(rollupHead)
	for _, r := range rollups() {
		key := "zone, time"
		if r.colo {
			key = "zone, time, colo"
		}
		keep := "for ever"
		if r.days > 0 {
			keep = fmt.Sprintf("%d days", r.days)
		}
		fmt.Fprintf(&b, "| `%s` | %s | `%s` | %s |\n", r.table, key, r.from, keep)
	}
	b.WriteString(rollupColumnsHead)
	for _, c := range RollupColumns() {
		colo := ""
		if c.Colo {
			colo = "yes"
		}
		typ, combine := "UInt64", "`sum`"
		switch c.Merge {
		case MergeSum:
		case MergeMax:
			combine = "`max`"
		case MergeMap:
			typ, combine = "Map("+c.Key+", UInt64)", "`sumMap`"
		case MergeUniq:
			typ, combine = c.Type(), "`"+UniquesMerge+"`"
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s | %s |\n", c.Name, typ, combine, colo, c.Doc)
	}
	b.WriteString(referenceTail)
	return b.String()
}

const referenceHead = `# Tables

Made from package ` + "`store/schema`" + ` by ` + "`go test ./store/schema -run Reference -update`" + `; do not edit.

The store is ClickHouse, in the process or a server; the tables are the same. Retention counts from the day a row was
stored, not from the time of the event, and can be changed (key ` + "`store.retention`" + `). How the choices here were measured is
in [store measurements](../explanation/store-measurements.md).
`

const rollupHead = `
## Rollups

The loader adds up what it stores and inserts, beside the rows for ` + "`http_requests`" + `, one row for each zone, colo and minute into
` + "`http_requests_flow`" + `, which keeps nothing; materialized views feed the minutes from there, and each coarser table from the finer
one ([why](../adr/0005-sums-from-the-loader.md)). So rows that are put into ` + "`http_requests`" + ` by hand are in no rollup.

Rows of one key may lie in several parts until the engine has merged them, so always aggregate, as the column "combine"
says. Times are the start of the minute, hour, day or month in UTC.

| table | key | fed from | kept |
| --- | --- | --- | --- |
`

const rollupColumnsHead = `
Keys are ` + "`zone_id`" + ` (32 hex digits), ` + "`time`" + ` and, in the tables by colo, ` + "`colo`" + `. ` + "`stored_on`" + ` is the last day something was
added. The other columns:

| column | type | combine | by colo | meaning |
| --- | --- | --- | --- | --- |
`

const referenceTail = `
Bins are those of package ` + "`histogram`" + `: 0 for zero, else 90 times the exponent of ten, plus the two leading digits, less 9.

## Top lists

The tables ` + "`http_requests_top_1h`" + ` and ` + "`http_requests_top_1d`" + ` have one row per zone, dimension (as in the [API](api.md#top)) and hour or day
that is over; hours with fewer requests than the key ` + "`tops.hour_requests`" + ` have none. Columns: ` + "`requests`" + `, ` + "`bytes`" + `, ` + "`errors`" + ` of all values, ` + "`distinct_values`" + ` (how many values there were), and side by side the arrays ` + "`listed`" + `, ` + "`listed_requests`" + `, ` + "`listed_bytes`" + ` and
` + "`listed_errors`" + ` of those with the most requests and those with the most bytes (key ` + "`tops.values`" + ` of each). A value that is not listed has at
most ` + "`floor_requests`" + ` requests and ` + "`floor_bytes`" + ` bytes. Of rows with one key the one with more requests counts: read with ` + "`FINAL`" + `. The row of
the dimension ` + "`*`" + ` has no list; its ` + "`requests`" + ` are those that all lists of the zone and time have seen. Hours are kept for 400 days, days for five years. [How they are made](../explanation/top-lists.md).

## Others

| table | content |
| --- | --- |
| ` + "`zones`" + ` | id, name, hosts, plan and creation of each zone; read it with ` + "`FINAL`" + ` |
| ` + "`ledger`" + ` | by edge and minute: events accepted and shipped by the edge; batches, events and bytes stored; dropped, late events; duplicate and refused batches; greatest age. Add with ` + "`sum`" + `, ` + "`oldest_ms`" + ` with ` + "`max`" + ` |
| ` + "`ledger_batches`" + ` | by edge, epoch and block of 4096 sequence numbers: the names of stored batches. Combine ` + "`sequences`" + ` with ` + "`groupBitmapMerge`" + `; ` + "`marks`" + ` says the last sequence stored in each span of 20 s |
| ` + "`notices`" + ` | what edges had to tell besides requests: kind, source, line, how many, reason, a sample |
| ` + "`erasures`" + ` | by zone and day: how many requests were erased, ` + "`sum`" + `; whose they were is not there |
| ` + "`schema_migrations`" + ` | the migrations that were applied |
| ` + "`http_requests_flow`" + ` | holds nothing: what the loader has added up passes through it into the minute tables; addresses instead of states of ` + "`uniques`" + ` |
`
