package chdb

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The engine remembers the tokens of a table's inserts in files deduplication_logs/deduplication_log_N.txt below the
// table, one line each: operation (1 add, 2 drop), part, token's hash, with tabs between. It writes the line before it
// gives the part its name. A process that dies in between leaves a token without data, and the insert that is repeated
// with this token would be taken for done. So before the engine starts, tokens whose part is not there, nor in a part it
// was merged into, are dropped; and a last line that a power cut tore is cut off.

const (
	logAdd  = "1"
	logDrop = "2"
)

// mendLogs mends the logs of all tables below the engine's data directory and gives the number of tokens dropped. The
// engine must not run.
func mendLogs(data string) (int, error) {
	dirs, err := filepath.Glob(filepath.Join(data, "store", "*", "*", "deduplication_logs"))
	if err != nil {
		return 0, err
	}
	total := 0
	for _, dir := range dirs {
		n, err := mendTable(dir)
		if err != nil {
			return total, err
		}
		total += n
	}
	return total, nil
}

// mendTable mends the logs in one directory.
func mendTable(dir string) (int, error) {
	logs, err := logFiles(dir)
	if err != nil || len(logs) == 0 {
		return 0, err
	}
	live := map[string]string{} // token to part
	var order []string
	for _, name := range logs {
		lines, err := readLog(name)
		if err != nil {
			return 0, err
		}
		for _, f := range lines {
			if f[0] == logDrop {
				delete(live, f[2])
				continue
			}
			if _, ok := live[f[2]]; !ok {
				order = append(order, f[2])
			}
			live[f[2]] = f[1]
		}
	}
	parts, err := partsOf(filepath.Dir(dir))
	if err != nil {
		return 0, err
	}
	var lost bytes.Buffer
	n := 0
	for _, token := range order {
		name, ok := live[token]
		if !ok {
			continue
		}
		if p, ok := parsePart(name); ok && !parts.cover(p) {
			fmt.Fprintf(&lost, "%s\t%s\t%s\n", logDrop, name, token)
			delete(live, token)
			n++
		}
	}
	if n == 0 {
		return 0, nil
	}
	return n, appendSynced(logs[len(logs)-1], lost.Bytes())
}

// logFiles gives the logs of a table, oldest first.
func logFiles(dir string) ([]string, error) {
	names, err := filepath.Glob(filepath.Join(dir, "deduplication_log_*.txt"))
	if err != nil {
		return nil, err
	}
	number := func(name string) int {
		s := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(name), "deduplication_log_"), ".txt")
		n, _ := strconv.Atoi(s)
		return n
	}
	slices.SortFunc(names, func(a, b string) int { return number(a) - number(b) })
	return names, nil
}

// readLog gives the lines of a log, each in three fields. What follows the last whole line is cut off the file.
func readLog(name string) ([][3]string, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var lines [][3]string
	good := 0
	for good < len(data) {
		end := bytes.IndexByte(data[good:], '\n')
		if end < 0 {
			break
		}
		f := strings.Split(string(data[good:good+end]), "\t")
		if len(f) != 3 || (f[0] != logAdd && f[0] != logDrop) {
			break
		}
		lines = append(lines, [3]string{f[0], f[1], f[2]})
		good += end + 1
	}
	if good < len(data) {
		if err := os.Truncate(name, int64(good)); err != nil {
			return nil, err
		}
	}
	return lines, nil
}

// part is the range of blocks that a part holds.
type part struct {
	partition string
	min, max  int64
}

type partSet map[string][]part

func (s partSet) cover(p part) bool {
	return slices.ContainsFunc(s[p.partition], func(q part) bool { return q.min <= p.min && p.max <= q.max })
}

// parsePart reads partition_min_max_level, with _mutation behind it perhaps.
func parsePart(name string) (part, bool) {
	f := strings.Split(name, "_")
	if len(f) != 4 && len(f) != 5 {
		return part{}, false
	}
	lo, err1 := strconv.ParseInt(f[1], 10, 64)
	hi, err2 := strconv.ParseInt(f[2], 10, 64)
	_, err3 := strconv.ParseInt(f[3], 10, 64)
	return part{f[0], lo, hi}, err1 == nil && err2 == nil && err3 == nil
}

// partsOf gives the parts in a table's directory.
func partsOf(dir string) (partSet, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	set := partSet{}
	for _, e := range entries {
		if p, ok := parsePart(e.Name()); ok && e.IsDir() {
			set[p.partition] = append(set[p.partition], p)
		}
	}
	return set, nil
}

func appendSynced(name string, data []byte) error {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
