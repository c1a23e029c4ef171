package chdb

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spate-io/spate/store"
)

// insertSettings make one Insert one block: stored whole or not at all, known by its token in the table and in every
// table fed from it.
func insertSettings(token string) map[string]string {
	m := map[string]string{
		// A block is neither joined with others nor cut, on the way to the table and to those fed from it.
		"min_insert_block_size_rows":                         "0",
		"min_insert_block_size_bytes":                        "0",
		"max_insert_block_size":                              "100000000",
		"max_insert_threads":                                 "1",
		"min_insert_block_size_rows_for_materialized_views":  "0",
		"min_insert_block_size_bytes_for_materialized_views": "0",
		// A view that fails fails the insert, which is then tried again.
		"materialized_views_ignore_errors": "0",
		"parallel_view_processing":         "0",
		// Logs of many years have many partitions.
		"max_partitions_per_insert_block": "0",
		"async_insert":                    "0",
		"max_execution_time":              "0",
		"max_memory_usage":                "0",
	}
	if token != "" {
		m["insert_deduplicate"] = "1"
		m["insert_deduplication_token"] = token
		m["deduplicate_blocks_in_dependent_materialized_views"] = "1"
	}
	return m
}

func insertSQL(in store.Insert) (string, error) {
	if in.Table == "" || len(in.Columns) == 0 {
		return "", fmt.Errorf("table %q with %d columns", in.Table, len(in.Columns))
	}
	var b strings.Builder
	b.WriteString("INSERT INTO ")
	for i, part := range strings.Split(in.Table, ".") {
		if i > 0 {
			b.WriteByte('.')
		}
		b.WriteString(store.Ident(part))
	}
	b.WriteString(" (")
	for i, c := range in.Columns {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(store.Ident(c))
	}
	b.WriteString(")")
	settings := insertSettings(in.Token)
	maps.Copy(settings, in.Settings)
	set, err := quoteSettings(settings)
	if err != nil {
		return "", err
	}
	b.WriteString(" SETTINGS " + set)
	return b.String(), nil
}

// isRowFormat says that an answer in that format may be put together from pieces that are each complete.
func isRowFormat(format string) bool {
	switch format {
	case "Native", "RowBinary", "JSONEachRow", "NDJSON", "JSONLines", "JSONStringsEachRow", "JSONCompactEachRow", "JSONCompactStringsEachRow",
		"TabSeparated", "TSV", "TabSeparatedRaw", "TSVRaw", "CSV", "LineAsString", "RawBLOB", "Vertical", "MsgPack", "Null":
		return true
	}
	return false
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

// isName says that s is made of what a setting's name may have.
func isName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}
