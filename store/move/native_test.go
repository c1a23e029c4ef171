package move

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/spate-io/spate/store"
)

// native gives an answer of the engine.
func native(t testing.TB, db Source, sql string, settings map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	if _, err := db.Stream(t.Context(), store.Query{SQL: sql, Format: "Native", Settings: settings}, &b); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return b.Bytes()
}

// Every table's stream is cut into blocks that are together what came in.
func TestBlocks_CutTheEnginesStreams(t *testing.T) {
	src := source(t)
	ingest(t, src, 0, 500, 10)
	others(t, src)
	tables, err := describe(t.Context(), src)
	if err != nil {
		t.Fatal(err)
	}
	queries := []string{
		`SELECT number, toString(number), toNullable(number % 2), toLowCardinality(toNullable(toString(number % 3))), map(toLowCardinality(toString(number)), [toIPv6('::1')]),
(number, 'x')::Tuple(a UInt64, b String), toFixedString('abc', 3), toDateTime64(number, 3, 'UTC'), CAST('a' AS Enum8('a' = 1, 'b)' = 2)), true, toUInt128(1), [[1, 2], []], toDate('2026-01-01'),
toIPv4('1.2.3.4'), generateUUIDv4(), 1.5, [toLowCardinality('q')] FROM numbers(100)`,
		"SELECT 1 WHERE 0",
	}
	for _, tb := range tables {
		queries = append(queries, "SELECT "+tb.selected()+" FROM "+tb.from(tb.name))
	}
	for _, sql := range queries {
		data := native(t, src, sql, map[string]string{"max_block_size": "37"})
		var whole []byte
		rows, count := 0, 0
		in := newBlocks(iotestOneByte{bytes.NewReader(data)})
		for {
			block, n, err := in.next()
			if err == io.EOF { //nolint:errorlint // the plain value
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", sql, err)
			}
			whole = append(whole, block...)
			rows += n
			count++
		}
		if !bytes.Equal(whole, data) {
			t.Errorf("%s: %d of %d bytes came out", sql, len(whole), len(data))
		}
		if want := answer(t, src, "SELECT count() FROM ("+sql+")"); want != "0" && (rows == 0 || count == 0) {
			t.Errorf("%s: %d rows in %d blocks", sql, rows, count)
		}
	}
}

// iotestOneByte gives little at a time.
type iotestOneByte struct{ r io.Reader }

func (o iotestOneByte) Read(p []byte) (int, error) { return o.r.Read(p[:min(len(p), 7)]) }

// A stream that ends within a block is never taken for one that has ended, and what the source says is passed on.
func TestBlocks_RefuseEveryShortPrefix(t *testing.T) {
	src := source(t)
	data := native(t, src, "SELECT number, toString(number), toLowCardinality(toString(number)), map('a', number), [number] FROM numbers(3)", nil)
	for n := 1; n < len(data); n++ {
		if _, _, err := newBlocks(bytes.NewReader(data[:n])).next(); err == nil || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("%d of %d bytes: %v", n, len(data), err)
		}
	}
	away := errors.New("away")
	for n := range len(data) {
		if _, _, err := newBlocks(io.MultiReader(bytes.NewReader(data[:n]), failing{away})).next(); !errors.Is(err, away) {
			t.Fatalf("%d of %d bytes: %v", n, len(data), err)
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func FuzzBlocks(f *testing.F) {
	f.Add([]byte("\x01\x01\x01a\x06UInt64\x01\x00\x00\x00\x00\x00\x00\x00"))
	f.Add([]byte("\x01\x02\x01a\x06String\x01a\x02bc"))
	f.Add([]byte("\x01\x01\x01a\x13Map(String, UInt64)\x01\x00\x00\x00\x00\x00\x00\x00\x01k\x05\x00\x00\x00\x00\x00\x00\x00"))
	f.Add([]byte("\x01\x01\x01a\x16LowCardinality(String)\x01\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00\x01x\x01\x00\x00\x00\x00\x00\x00\x00\x01"))
	f.Add([]byte("\x01\x01\x01a\x1eTuple(a UInt8, b Enum8('x)'=1))\x01\x02"))
	f.Fuzz(func(t *testing.T, data []byte) {
		in := newBlocks(bytes.NewReader(data))
		at := 0
		for {
			block, _, err := in.next()
			if err != nil {
				return
			}
			if len(block) == 0 || !bytes.Equal(block, data[at:at+len(block)]) {
				t.Fatalf("block %q of %q at %d", block, data, at)
			}
			at += len(block)
		}
	})
}
