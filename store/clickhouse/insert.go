package clickhouse

import (
	"fmt"
	"strings"

	"github.com/ClickHouse/ch-go/compress"

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
		"input_format_parallel_parsing":                      "0",
		// A view that fails fails the insert, which is then tried again.
		"materialized_views_ignore_errors": "0",
		"parallel_view_processing":         "0",
		// Logs of many years have many partitions.
		"max_partitions_per_insert_block": "0",
		"async_insert":                    "0",
		// The answer comes after the block is on its shard.
		"distributed_foreground_insert": "1",
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
	table := strings.Split(in.Table, ".")
	for i, part := range table {
		table[i] = store.Ident(part)
	}
	columns := make([]string, len(in.Columns))
	for i, c := range in.Columns {
		columns[i] = store.Ident(c)
	}
	return "INSERT INTO " + strings.Join(table, ".") + " (" + strings.Join(columns, ", ") + ") FORMAT Native", nil
}

// compressPiece is how much plain data one compressed piece has.
const compressPiece = 1 << 20

// compressBlocks gives data in ClickHouse's own compression.
func compressBlocks(data []byte, method compress.Method) ([]byte, error) {
	w := compress.NewWriter(0, method)
	out := make([]byte, 0, len(data)/2)
	for len(data) > 0 {
		n := min(len(data), compressPiece)
		if err := w.Compress(data[:n]); err != nil {
			return nil, fmt.Errorf("compress block: %w", err)
		}
		out = append(out, w.Data...)
		data = data[n:]
	}
	return out, nil
}
