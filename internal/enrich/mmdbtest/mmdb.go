// Package mmdbtest writes small files in the MaxMind DB format for tests.
package mmdbtest

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sort"
	"testing"
)

// Map is a record: its values are strings, uint16, uint32, uint64 or Maps.
type Map map[string]any

// Write makes a file of that database type with a record for each prefix, and returns its path.
func Write(tb testing.TB, kind string, records map[string]Map) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), kind+".mmdb")
	if err := os.WriteFile(path, build(tb, kind, records), 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}

// node is a node of the tree: two sides, each nothing, a record's number, or a node.
type node struct {
	child  [2]*node
	record [2]int // 0 is none
	number int
}

func build(tb testing.TB, kind string, records map[string]Map) []byte {
	tb.Helper()
	prefixes := make([]string, 0, len(records))
	for p := range records {
		prefixes = append(prefixes, p)
	}
	sort.Strings(prefixes)
	root := &node{}
	nodes := []*node{root}
	var data []byte
	for _, text := range prefixes {
		p := netip.MustParsePrefix(text)
		bits, length := p.Addr().As16(), p.Bits()
		if p.Addr().Is4() {
			length += 96
			clear(bits[:12]) // IPv4 lies at ::/96
		}
		n := root
		for i := range length {
			side := bits[i/8] >> (7 - i%8) & 1
			if i == length-1 {
				n.record[side] = len(data) + 1
				break
			}
			if n.child[side] == nil {
				n.child[side] = &node{number: len(nodes)}
				nodes = append(nodes, n.child[side])
			}
			n = n.child[side]
		}
		data = appendValue(data, records[text])
	}
	var out []byte
	for _, n := range nodes {
		for side := range 2 {
			v := len(nodes) // nothing
			switch {
			case n.child[side] != nil:
				v = n.child[side].number
			case n.record[side] != 0:
				v = len(nodes) + 16 + n.record[side] - 1
			}
			out = append(out, byte(v>>16), byte(v>>8), byte(v))
		}
	}
	out = append(append(out, make([]byte, 16)...), data...)
	out = append(out, "\xab\xcd\xefMaxMind.com"...)
	return appendValue(out, Map{
		"binary_format_major_version": uint16(2), "binary_format_minor_version": uint16(0), "build_epoch": uint64(1_700_000_000),
		"database_type": kind, "ip_version": uint16(6), "node_count": uint32(len(nodes)), "record_size": uint16(24),
	})
}

// appendValue appends a value in the encoding of the data section.
func appendValue(b []byte, v any) []byte {
	switch v := v.(type) {
	case Map:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		sort.Strings(keys)
		b = append(b, byte(7<<5|len(v)))
		for _, k := range keys {
			b = appendValue(appendValue(b, k), v[k])
		}
		return b
	case string:
		if len(v) > 28 {
			panic(fmt.Sprintf("string %q is too long", v))
		}
		return append(append(b, byte(2<<5|len(v))), v...)
	case uint16:
		return binary.BigEndian.AppendUint16(append(b, 5<<5|2), v)
	case uint32:
		return binary.BigEndian.AppendUint32(append(b, 6<<5|4), v)
	case uint64:
		return binary.BigEndian.AppendUint64(append(b, 8, 2), v)
	}
	panic(fmt.Sprintf("value of type %T", v))
}
