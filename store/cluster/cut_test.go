package cluster

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/serve/servetest"
	"github.com/spate-io/spate/store/storetest"
)

// Columns of all kinds that can be cut. z comes in the middle, so that it has to be looked for.
const kinds = `n UInt64, a8 UInt8, i16 Int16, f Float64, b Bool, d Date, dt DateTime('UTC'), dt64 DateTime64(6, 'UTC'), ip IPv6, u UUID, fs FixedString(3), e Enum8('a,(' = 1, 'b' = 2),
s String, z %s, lc LowCardinality(String), nu Nullable(String), arr Array(String), arrlc Array(LowCardinality(String)), tup Tuple(a UInt8, b String),
m Map(String, UInt64), mlc Map(LowCardinality(String), UInt64), nest Array(Array(UInt16)), sum SimpleAggregateFunction(sumMap, Map(Int16, UInt64)), un AggregateFunction(uniq, IPv6)`

const kindsOf = `number, number %% 251, -number, number / 7, number %% 3 = 0, toDate('2024-01-01') + number %% 900, toDateTime('2024-02-29 00:00:00', 'UTC') + number, toDateTime64('2024-02-29 00:00:00', 6, 'UTC') + number, toIPv6('2001:db8::1'), generateUUIDv4(),
toFixedString('abc', 3), if(number %% 2, 'b', 'a,('), repeat('x', number %% 300), concat('zone', toString(cityHash64(number) %% %d)), concat('w', toString(number %% 70000)), if(number %% 3 = 0, NULL, toString(number)),
arrayMap(x -> toString(x), range(number %% 4)), arrayMap(x -> toString(x), range(number %% 3)), (number %% 9, toString(number)),
mapFromArrays(arrayMap(x -> toString(x), range(number %% 5)), range(number %% 5)), mapFromArrays(arrayMap(x -> toString(x), range(number %% 2)), range(number %% 2)), [range(number %% 3), [], range(number %% 2)],
map(number %% 100, number), arrayReduce('uniqState', arrayMap(x -> toIPv6(concat('2001:db8::', hex(x))), range(number %% 40)))`

// The pieces of a block, inserted, are the rows that the engine's own cityHash64 gives to each shard, to the last byte; and the
// same block is always cut into the same bytes.
func TestCut_IsWhatTheEngineWouldDo(t *testing.T) {
	db := single(t, servetest.Start(t, servetest.Options{}).Addr)
	for i, c := range []struct {
		zone         string
		zones, parts int
	}{{"String", 1000, 2}, {"LowCardinality(String)", 1000, 3}, {"LowCardinality(String)", 3, 36}, {"String", 1, 2}} {
		t.Run(fmt.Sprintf("%d_zones_%d_shards", c.zones, c.parts), func(t *testing.T) {
			const rest = "ENGINE = MergeTree ORDER BY n"
			columns := fmt.Sprintf(kinds, c.zone)
			whole := storetest.Table(t, db, columns, rest)
			storetest.Exec(t, db, "INSERT INTO "+whole+" SELECT "+fmt.Sprintf(kindsOf, c.zones)+" FROM numbers(100000)")
			var block bytes.Buffer
			if _, err := db.Stream(context.Background(), store.Query{SQL: "SELECT * FROM " + whole + " ORDER BY n", Format: "Native",
				Settings: map[string]string{"max_block_size": "1000000", "max_threads": "1", "preferred_block_size_bytes": "0"}}, &block); err != nil {
				t.Fatal(err)
			}
			pieces, err := Cut(block.Bytes(), "z", c.parts)
			if err != nil {
				t.Fatal(err)
			}
			again, err := Cut(block.Bytes(), "z", c.parts)
			if err != nil || !slices.EqualFunc(pieces, again, bytes.Equal) {
				t.Errorf("cut again into other bytes, %v", err)
			}
			names := columnNames(columns)
			for shard, piece := range pieces {
				where := fmt.Sprintf(" WHERE cityHash64(z) %% %d = %d", c.parts, shard)
				want := storetest.Text(t, db, "SELECT count() FROM "+whole+where)
				if piece == nil {
					if want != "0" {
						t.Errorf("shard %d: nothing, want %s rows", shard, want)
					}
					continue
				}
				if i == 2 && shard > 3 && shard < 33 {
					continue // three zones are on three of 36 shards
				}
				part := storetest.Table(t, db, columns, rest)
				if err := db.Insert(context.Background(), store.Insert{Table: part, Columns: names, Block: piece}); err != nil {
					t.Fatalf("shard %d: %v", shard, err)
				}
				sum := "SELECT count(), groupBitXor(cityHash64(" + strings.Join(names[:len(names)-1], ", ") + ")), sum(finalizeAggregation(un)), sum(cityHash64(hex(CAST(un AS String)))) FROM "
				if got, want := storetest.Text(t, db, sum+part), storetest.Text(t, db, sum+whole+where); got != want {
					t.Errorf("shard %d: %s, want %s", shard, got, want)
				}
			}
		})
	}
}

func columnNames(columns string) []string {
	var names []string
	for _, c := range splitArgs(columns) {
		names = append(names, strings.Fields(c)[0])
	}
	return names
}

func TestShardOf_IsCityHash64(t *testing.T) {
	db := single(t, servetest.Start(t, servetest.Options{}).Addr)
	var ids []string
	for i := range 300 {
		ids = append(ids, strings.Repeat("é\\'x", i%20)+fmt.Sprint(i))
	}
	ids = append(ids, "", "0123456789abcdef0123456789abcdef", "\x00\xff")
	for _, shards := range []uint64{1, 2, 3, 36} {
		var quoted []string
		for _, id := range ids {
			quoted = append(quoted, store.Quote(id))
		}
		got := storetest.Text(t, db, fmt.Sprintf("SELECT cityHash64(z) %% %d, cityHash64(toLowCardinality(z)) %% %d FROM (SELECT arrayJoin([%s]) AS z)", shards, shards, strings.Join(quoted, ",")))
		for i, line := range strings.Split(got, "\n") {
			if want := ShardOf(ids[i], int(shards)); line != fmt.Sprintf("%d\t%d", want, want) {
				t.Fatalf("%q of %d: Go says %d, the engine %s", ids[i], shards, want, line)
			}
		}
	}
}

func TestCut_RefusesWhatItCannotCut(t *testing.T) {
	block := func(typ, data string) []byte {
		b := binary.AppendUvarint(nil, 2)
		b = binary.AppendUvarint(b, 1)
		b = appendText(appendText(b, "z"), "String")
		b = appendText(b, "zone")
		return append(appendText(appendText(b, "c"), typ), data...)
	}
	if _, err := Cut(block("UInt16", "ab"), "z", 2); err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{
		"empty": nil, "short": block("UInt16", "a"), "long": block("UInt16", "abc"), "unknown_type": block("JSON", ""), "unknown_state": block("AggregateFunction(groupBitmap, UInt64)", ""),
		"bracket": block("Array(UInt8", ""), "array_without_elements": block("Array(UInt8)", "\x05\x00\x00\x00\x00\x00\x00\x00"), "fixed_string": block("FixedString(0)", ""),
		"dictionary_version": block("LowCardinality(String)", "\x02\x00\x00\x00\x00\x00\x00\x00"),
	} {
		if got, err := Cut(b, "z", 2); err == nil {
			t.Errorf("%s: gave %q", name, got)
		}
	}
	if _, err := Cut(block("UInt16", "ab"), "y", 2); err == nil || !strings.Contains(err.Error(), "no column y") {
		t.Errorf("got %v", err)
	}
	if _, err := Cut(block("UInt16", "ab"), "c", 2); err == nil {
		t.Error("a number was taken for a zone")
	}
	if got, err := Cut([]byte{0, 0}, "z", 3); err != nil || len(got) != 3 || got[0] != nil {
		t.Errorf("a block without rows gave %v, %v", got, err)
	}
}

// Whatever the bytes, Cut neither panics nor gives pieces with other rows than the block.
func FuzzCut(f *testing.F) {
	f.Add([]byte("\x02\x02\x01z\x06String\x01a\x01b\x01c\x06UInt16abcd"))
	f.Add([]byte("\x01\x01\x01z\x16LowCardinality(String)\x01\x00\x00\x00\x00\x00\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01a\x01\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Add([]byte("\x02\x01\x01z\x06String\x01a\x01m\x13Map(String, UInt64)\x01\x00\x00\x00\x00\x00\x00\x00\x01k12345678"))
	f.Fuzz(func(t *testing.T, b []byte) {
		pieces, err := Cut(b, "z", 3)
		if err != nil {
			return
		}
		r := &reader{b: b}
		r.uvarint()
		want, got := r.uvarint(), 0
		for _, p := range pieces {
			if p == nil {
				continue
			}
			r := &reader{b: p}
			r.uvarint()
			got += r.uvarint()
		}
		if got != want {
			t.Errorf("%d rows of %d", got, want)
		}
	})
}
