package chdb

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"github.com/spate-io/spate/internal/config"
)

// Config is how the engine runs inside this process.
type Config struct {
	// Path is the data directory; it is made when it is not there.
	Path string `yaml:"path"`
	// Library is the path of libchdb.so; empty means the places that FindLibrary names.
	Library string `yaml:"library"`
	// Memory is what the engine may hold in all, caches included. Above it, queries fail with code 241, which is retriable. An
	// insert that lacks memory ends the query that holds the most of it.
	Memory config.Size `yaml:"memory"`
	// QueryMemory is what one query may hold.
	QueryMemory config.Size `yaml:"query_memory"`
	// Cache is the memory for index marks and decompressed blocks, together.
	Cache config.Size `yaml:"cache"`
	// Threads is how many threads one query may use; 0 means one per CPU.
	Threads int `yaml:"threads"`
	// MergeThreads is how many parts are merged at a time in the background.
	MergeThreads int `yaml:"merge_threads"`
	// Connections is how many queries of dashboards run at a time, and half of it how many in the background: exports, checks, and
	// SQL of users. Others wait. What is in the background yields the processors to inserts and dashboards.
	Connections int `yaml:"connections"`
	// Inserters is how many inserts run at a time, beside the queries; 0 means half as many as there are CPUs, for the
	// other half builds what is inserted next. Each takes the memory of one block.
	Inserters int `yaml:"inserters"`
	// Sync makes an insert return only when the disk has it, so that a power cut loses nothing that was acknowledged.
	// Without it only the death of the process is survived.
	Sync bool `yaml:"sync"`
	// QueryTimeout ends a query that runs longer.
	QueryTimeout config.Duration `yaml:"query_timeout"`
	// BackupPath is the directory that backups may be written to; empty means "backups" beside Path.
	BackupPath string `yaml:"backup_path"`
}

// DefaultConfig holds the engine to about 1 GiB resident under full ingest.
func DefaultConfig() Config {
	return Config{
		Memory:       576 << 20,
		QueryMemory:  400 << 20,
		Cache:        64 << 20,
		MergeThreads: 2,
		Connections:  6,
		Sync:         true,
		QueryTimeout: config.Duration(60e9),
	}
}

// ParallelInserts is how many inserts run at a time, [Config.Inserters] resolved.
func (c *Config) ParallelInserts() int {
	if c.Inserters > 0 {
		return c.Inserters
	}
	return max(1, runtime.GOMAXPROCS(0)/2)
}

// Validate adds what is wrong with the configuration to p. Path may be empty here; Open insists on it.
func (c *Config) Validate(p *config.Problems) {
	p.Check(c.Memory >= 256<<20, "memory", c.Memory, "must be at least 256MiB")
	p.Check(c.QueryMemory > 0 && c.QueryMemory <= c.Memory, "query_memory", c.QueryMemory, "must be above 0 and at most memory")
	p.Check(c.Cache >= 1<<20 && c.Cache < c.Memory, "cache", c.Cache, "must be at least 1MiB and below memory")
	p.Check(c.Threads >= 0 && c.Threads <= 1024, "threads", c.Threads, "must be 0 to 1024")
	p.Check(c.MergeThreads >= 1 && c.MergeThreads <= 256, "merge_threads", c.MergeThreads, "must be 1 to 256")
	p.Check(c.Connections >= 1 && c.Connections <= 256, "connections", c.Connections, "must be 1 to 256")
	p.Check(c.Inserters >= 0 && c.Inserters <= 64, "inserters", c.Inserters, "must be 0 to 64")
	p.Check(c.QueryTimeout > 0, "query_timeout", c.QueryTimeout, "must be above 0")
}

// packWellFrom is the size of a part in bytes from which it is worth zstd.
const packWellFrom = 4 << 20

// configName is the engine's own configuration, written anew at each start.
const configName = "engine.xml"

// writeConfig writes the engine's configuration and gives its path. Only what is bounded or switched off is in it.
func (c *Config) writeConfig(dir string) (string, error) {
	backups := c.BackupPath
	if backups == "" {
		backups = filepath.Join(dir, "backups")
	}
	server := [][2]string{
		{"max_server_memory_usage", strconv.FormatInt(int64(c.Memory), 10)},
		{"mark_cache_size", strconv.FormatInt(int64(c.Cache/2), 10)},
		{"uncompressed_cache_size", strconv.FormatInt(int64(c.Cache/2), 10)},
		{"primary_index_cache_size", strconv.FormatInt(int64(c.Cache/2), 10)},
		{"index_mark_cache_size", "1048576"},
		{"index_uncompressed_cache_size", "0"},
		{"mmap_cache_size", "64"},
		{"compiled_expression_cache_size", "16777216"},
		{"compiled_expression_cache_elements_size", "256"},
		{"background_pool_size", strconv.Itoa(c.MergeThreads)},
		// More at a time, as is the engine's own rule, do not fit into its memory where parts are large.
		{"background_merges_mutations_concurrency_ratio", "1"},
		{"background_move_pool_size", "1"},
		{"background_fetches_pool_size", "1"},
		{"background_common_pool_size", "2"},
		{"background_schedule_pool_size", "4"},
		{"background_buffer_flush_schedule_pool_size", "1"},
		{"background_message_broker_schedule_pool_size", "1"},
		{"background_distributed_schedule_pool_size", "1"},
		{"max_thread_pool_size", "512"},
		{"max_thread_pool_free_size", "16"},
		{"max_io_thread_pool_size", "8"},
		{"max_io_thread_pool_free_size", "1"},
	}
	var b bytes.Buffer
	b.WriteString("<clickhouse>\n")
	for _, s := range server {
		fmt.Fprintf(&b, "  <%s>%s</%s>\n", s[0], s[1], s[0])
	}
	b.WriteString("  <backups><allowed_path>")
	_ = xml.EscapeText(&b, []byte(backups))
	b.WriteString("</allowed_path></backups>\n")
	// What an insert writes is merged soon: it is packed fast. What merges leave is packed well.
	fmt.Fprintf(&b, "  <compression><case><min_part_size>%d</min_part_size><min_part_size_ratio>0</min_part_size_ratio>"+
		"<method>zstd</method><level>1</level></case></compression>\n", packWellFrom)
	b.WriteString("  <merge_tree>\n")
	for _, s := range mergeTreeSettings(c.MergeThreads) {
		fmt.Fprintf(&b, "    <%s>%s</%s>\n", s[0], s[1], s[0])
	}
	b.WriteString("  </merge_tree>\n</clickhouse>\n")
	name := filepath.Join(dir, configName)
	if err := os.WriteFile(name, b.Bytes(), 0o640); err != nil {
		return "", fmt.Errorf("write engine configuration: %w", err)
	}
	return name, nil
}

// mergeTreeSettings are defaults of every table, fitted to a small machine: the engine's own expect a merge pool of 16 and
// would refuse to merge with less.
func mergeTreeSettings(mergeThreads int) [][2]string {
	return [][2]string{
		{"auto_statistics_types", ""}, // nothing here reads them, and every insert would pay
		// What was erased is to be gone from the disk soon.
		{"cleanup_delay_period", "5"},
		{"cleanup_delay_period_random_add", "2"},
		{"max_cleanup_delay_period", "15"},
		{"number_of_free_entries_in_pool_to_lower_max_size_of_merge", strconv.Itoa(max(1, mergeThreads/2))},
		{"number_of_free_entries_in_pool_to_execute_mutation", strconv.Itoa(max(1, mergeThreads/2))},
		{"number_of_free_entries_in_pool_to_execute_optimize_entire_partition", strconv.Itoa(max(1, mergeThreads/2))},
	}
}

// sessionSettings are what every connection starts with.
func (c *Config) sessionSettings() map[string]string {
	m := map[string]string{
		"max_memory_usage":                        strconv.FormatInt(int64(c.QueryMemory), 10),
		"max_execution_time":                      strconv.FormatFloat(c.QueryTimeout.D().Seconds(), 'f', -1, 64),
		"session_timezone":                        "UTC",
		"use_uncompressed_cache":                  "1",
		"implicit_select":                         "0",
		"allow_introspection_functions":           "0",
		"max_bytes_before_external_group_by":      strconv.FormatInt(int64(c.QueryMemory/2), 10),
		"max_bytes_before_external_sort":          strconv.FormatInt(int64(c.QueryMemory/2), 10),
		"output_format_json_quote_64bit_integers": "0",
		"join_use_nulls":                          "0",
		"log_queries":                             "0",
	}
	if c.Threads > 0 {
		m["max_threads"] = strconv.Itoa(c.Threads)
	}
	return m
}
