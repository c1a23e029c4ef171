package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/google/go-cmp/cmp"

	"github.com/spate-io/spate/store"
)

func testExec(t *testing.T, db store.DB) {
	name := Table(t, db, "n UInt64", "ENGINE = MergeTree ORDER BY n")
	Exec(t, db, "INSERT INTO "+name+" SELECT number FROM numbers(1000)")
	Exec(t, db, "ALTER TABLE "+name+" ADD COLUMN m UInt8 DEFAULT 7")
	Exec(t, db, "INSERT INTO "+name+" (n) VALUES (1000), (1001)")
	Exec(t, db, "SELECT * FROM "+name) // the answer goes nowhere
	if got := Text(t, db, "SELECT count(), sum(n), sum(m) FROM "+name); got != "1002\t501501\t7014" {
		t.Errorf("got %q", got)
	}
}

func testStream(t *testing.T, db store.DB) {
	const sql = "SELECT number AS n, if(number = 1, 'a\tb\"', 'c') AS s FROM numbers(2) ORDER BY n"
	for _, c := range []struct{ format, want string }{
		{"", "0\tc\n1\ta\\tb\"\n"},
		{"TabSeparated", "0\tc\n1\ta\\tb\"\n"},
		{"CSV", "0,\"c\"\n1,\"a\tb\"\"\"\n"},
		{"CSVWithNames", "\"n\",\"s\"\n0,\"c\"\n1,\"a\tb\"\"\"\n"},
		{"TSVWithNamesAndTypes", "n\ts\nUInt64\tString\n0\tc\n1\ta\\tb\"\n"},
		{"JSONEachRow", "{\"n\":0,\"s\":\"c\"}\n{\"n\":1,\"s\":\"a\\tb\\\"\"}\n"},
		{"Values", "(0,'c'),(1,'a\\tb\"')"},
		{"RowBinary", "\x00\x00\x00\x00\x00\x00\x00\x00\x01c\x01\x00\x00\x00\x00\x00\x00\x00\x04a\tb\""},
	} {
		name := c.format
		if name == "" {
			name = "none"
		}
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			stats, err := db.Stream(context.Background(), store.Query{SQL: sql, Format: c.format, Settings: map[string]string{"output_format_json_quote_64bit_integers": "0"}}, &b)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, b.String()); diff != "" {
				t.Error(diff)
			}
			if stats.Elapsed <= 0 {
				t.Errorf("stats %+v", stats)
			}
		})
	}
	t.Run("json_is_one_document", func(t *testing.T) {
		got := Stream(t, db, store.Query{SQL: "SELECT number FROM numbers(150000)", Format: "JSONCompact"})
		if strings.Count(got, `"meta"`) != 1 || !strings.Contains(got, `"rows": 150000`) {
			t.Errorf("%d bytes, %d documents", len(got), strings.Count(got, `"meta"`))
		}
	})
	t.Run("header_once", func(t *testing.T) {
		for _, c := range []struct {
			format       string
			lines, bytes int
		}{
			{"CSVWithNames", 300_001, 0}, {"TSVWithNamesAndTypes", 300_002, 0}, {"JSONCompactEachRowWithNamesAndTypes", 300_002, 0},
			{"RowBinaryWithNamesAndTypes", -1, 1 + 5 + 7 + 300_000*8},
		} {
			got := Stream(t, db, store.Query{SQL: "SELECT number AS `a\n\"b` FROM numbers(300000)", Format: c.format}) + "\n"
			lines := strings.Count(got, "\n")
			if strings.HasPrefix(c.format, "CSV") {
				lines-- // the name has one in quotes
			}
			if c.lines >= 0 && lines != c.lines || c.bytes > 0 && len(got)-1 != c.bytes {
				t.Errorf("%s: %d lines, %d bytes", c.format, lines, len(got))
			}
		}
	})
	t.Run("statements_that_describe", func(t *testing.T) {
		name := Table(t, db, "n UInt64", "ENGINE = MergeTree ORDER BY n")
		for sql, want := range map[string]string{
			"DESCRIBE TABLE " + name:             "n\tUInt64\t\t\t\t\t",
			"EXISTS TABLE " + name:               "1",
			"SHOW TABLES LIKE '" + name + "'":    name,
			"EXPLAIN AST SELECT 1":               "SelectWithUnionQuery (children 1)\n ExpressionList (children 1)\n  SelectQuery (children 1)\n   ExpressionList (children 1)\n    Literal UInt64_1",
			"SELECT 1 UNION ALL SELECT 1":        "1\n1",
			"WITH 1 AS a SELECT a":               "1",
			"SELECT 1 AS `format` -- FORMAT XML": "1",
		} {
			if got := Text(t, db, sql); got != want {
				t.Errorf("%s: got %q", sql, got)
			}
		}
		var column proto.ColStr
		found := ""
		if _, err := db.Select(context.Background(), store.Query{SQL: "SHOW TABLES LIKE '" + name + "'"}, proto.Results{{Name: "name", Data: &column}},
			func(context.Context, int) error { found = column.Row(0); return nil }); err != nil || found != name {
			t.Errorf("select: %q %v", found, err)
		}
	})
	t.Run("no_rows", func(t *testing.T) {
		if got := Text(t, db, "SELECT 1 WHERE 0"); got != "" {
			t.Errorf("got %q", got)
		}
	})
}

// countingWriter sums what it is given and holds nothing.
type countingWriter struct{ lines, largest int }

// Write implements io.Writer.
func (c *countingWriter) Write(p []byte) (int, error) {
	c.lines += bytes.Count(p, []byte("\n"))
	c.largest = max(c.largest, len(p))
	return len(p), nil
}

func testStreamLarge(t *testing.T, db store.DB) {
	var c countingWriter
	if _, err := db.Stream(context.Background(), store.Query{SQL: "SELECT number, toString(number) FROM numbers(2000000)"}, &c); err != nil {
		t.Fatal(err)
	}
	if c.lines != 2_000_000 || c.largest > 8<<20 {
		t.Errorf("%d lines, largest piece %d bytes", c.lines, c.largest)
	}
}

func testParams(t *testing.T, db store.DB) {
	for _, s := range []string{
		"", "plain", "it's", `\`, `\\'`, "a\tb\nc\rd", "\x00", "'; DROP TABLE x; --", "{a:String}", "ÿ日本\U0001F600", "\xff\xfe", "%27&=+ ?#", `"quoted"`, "\\N", "null",
		strings.Repeat("long ", 2000),
	} {
		got := Stream(t, db, store.Query{SQL: "SELECT hex({a:String}), length({a:String})", Params: map[string]string{"a": store.Text(s)}})
		if want := fmt.Sprintf("%X\t%d", s, len(s)); got != want {
			t.Errorf("%.40q: got %.80q", s, got)
		}
	}
	q := store.Query{
		SQL: "SELECT {u:UInt64} + 1, {f:Float64}, {arr:Array(String)}, {d:DateTime64(3, 'UTC')}, {m:Map(String, UInt8)}['k'], {ip:IPv6}",
		Params: map[string]string{
			"u": "18446744073709551614", "f": "0.5", "arr": `['x','it\'s']`, "d": "2024-02-29 12:00:00.123", "m": "{'k':7}", "ip": "2001:db8::1",
		},
	}
	if diff := cmp.Diff("18446744073709551615\t0.5\t['x','it\\'s']\t2024-02-29 12:00:00.123\t7\t2001:db8::1", Stream(t, db, q)); diff != "" {
		t.Error(diff)
	}
	if _, err := db.Stream(context.Background(), store.Query{SQL: "SELECT {missing:UInt8}"}, &bytes.Buffer{}); err == nil {
		t.Error("a missing parameter passed")
	}
	if _, err := db.Stream(context.Background(), store.Query{SQL: "SELECT {n:UInt8}", Params: map[string]string{"n": "1 OR 1"}}, &bytes.Buffer{}); err == nil {
		t.Error("text passed for a number")
	}
}

func testSettings(t *testing.T, db store.DB) {
	q := store.Query{SQL: "SELECT getSetting('max_block_size')", Settings: map[string]string{"max_block_size": "777"}}
	if got := Stream(t, db, q); got != "777" {
		t.Errorf("got %q", got)
	}
	if got := Text(t, db, "SELECT getSetting('max_block_size') = 777"); got != "0" {
		t.Error("a setting outlived its query")
	}
	q.Settings = map[string]string{"no_such_setting": "1"}
	if _, err := db.Stream(context.Background(), q, &bytes.Buffer{}); !store.IsCode(err, 115) {
		t.Errorf("an unknown setting gave %v", err)
	}
	q.Settings = map[string]string{"max_block_size": "1' , 'x"}
	if _, err := db.Stream(context.Background(), q, &bytes.Buffer{}); err == nil {
		t.Error("a setting that is no number passed")
	}
	if got := Text(t, db, "SELECT 1"); got != "1" {
		t.Errorf("afterwards: %q", got)
	}
}

func testSelectTypes(t *testing.T, db store.DB) {
	var (
		u8   proto.ColUInt8
		i16  proto.ColInt16
		u64  proto.ColUInt64
		f    proto.ColFloat64
		bo   proto.ColBool
		s    proto.ColStr
		fs   = &proto.ColFixedStr{Size: 4}
		lc   = new(proto.ColStr).LowCardinality()
		ip   proto.ColIPv6
		dt   = &proto.ColDateTime{}
		dt64 = new(proto.ColDateTime64).WithPrecision(proto.PrecisionMicro)
		m    = proto.NewMap[string, uint64](new(proto.ColStr), new(proto.ColUInt64))
		mlc  = proto.NewMap[string, uint64](new(proto.ColStr).LowCardinality(), new(proto.ColUInt64))
		arr  = proto.NewArrUInt16()
		null = proto.NewColNullable[string](new(proto.ColStr))
	)
	rows := 0
	_, err := db.Select(context.Background(), store.Query{SQL: `SELECT toUInt8(number) AS u8, toInt16(-number) AS i16, bitNot(number) AS u64,
		number / 4 AS f, number = 1 AS bo, concat('s', toString(number), '\0') AS s, toFixedString('abcd', 4) AS fs,
		toLowCardinality('l') AS lc, toIPv6('2001:db8::1') AS ip, toDateTime('2024-02-29 12:00:00', 'UTC') AS dt,
		toDateTime64('2024-02-29 12:00:00.123456', 6, 'UTC') AS dt64, map('k', number) AS m,
		CAST(map('k', number), 'Map(LowCardinality(String), UInt64)') AS mlc, range(toUInt16(number)) AS arr, if(number = 0, NULL, 'n') AS nul
		FROM numbers(3) ORDER BY number`}, proto.Results{
		{Name: "u8", Data: &u8}, {Name: "i16", Data: &i16}, {Name: "u64", Data: &u64}, {Name: "f", Data: &f}, {Name: "bo", Data: proto.Alias(&bo, "UInt8")},
		{Name: "s", Data: &s}, {Name: "fs", Data: fs}, {Name: "lc", Data: lc}, {Name: "ip", Data: &ip}, {Name: "dt", Data: dt}, {Name: "dt64", Data: dt64},
		{Name: "m", Data: m}, {Name: "mlc", Data: mlc}, {Name: "arr", Data: arr}, {Name: "nul", Data: null},
	}, func(_ context.Context, n int) error {
		for i := range n {
			k := uint64(rows)
			got := []any{u8.Row(i), i16.Row(i), u64.Row(i), f.Row(i), bo.Row(i), s.Row(i), string(fs.Row(i)), lc.Row(i), ip.Row(i).ToIP().String(),
				dt.Row(i).Unix(), dt64.Row(i).UnixMicro(), m.Row(i)["k"], mlc.Row(i)["k"], len(arr.Row(i)), null.Row(i).Set}
			want := []any{uint8(k), -int16(k), ^uint64(0) - k, float64(k) / 4, k == 1, fmt.Sprintf("s%d\x00", k), "abcd", "l", netip.MustParseAddr("2001:db8::1").String(),
				int64(1709208000), int64(1709208000123456), k, k, int(k), k != 0}
			if diff := cmp.Diff(want, got); diff != "" {
				return fmt.Errorf("row %d: %s", k, diff)
			}
			rows++
		}
		return nil
	})
	if err != nil || rows != 3 {
		t.Errorf("%d rows, %v", rows, err)
	}
}

func testSelectMany(t *testing.T, db store.DB) {
	var n proto.ColUInt64
	var rows, sum uint64
	blocks := 0
	_, err := db.Select(context.Background(), store.Query{SQL: "SELECT number AS n FROM numbers({k:UInt64})", Params: map[string]string{"k": "300000"}},
		proto.Results{{Name: "n", Data: &n}}, func(_ context.Context, r int) error {
			blocks++
			rows += uint64(r)
			for i := range r {
				sum += n.Row(i)
			}
			return nil
		})
	if err != nil || rows != 300_000 || sum != 299_999*150_000 || blocks < 2 {
		t.Errorf("%d rows in %d blocks, sum %d, %v", rows, blocks, sum, err)
	}
	if _, err := db.Select(context.Background(), store.Query{SQL: "SELECT 1 AS n"}, proto.Results{{Name: "n", Data: new(proto.ColStr)}}, nil); err == nil {
		t.Error("a number was decoded as text")
	}
	if _, err := db.Select(context.Background(), store.Query{SQL: "SELECT number AS n FROM numbers(0)"}, proto.Results{{Name: "n", Data: &n}},
		func(context.Context, int) error { return errors.New("called without rows") }); err != nil {
		t.Error(err)
	}
}

func testSelectStopped(t *testing.T, db store.DB) {
	var n proto.ColUInt64
	enough := errors.New("enough")
	began := time.Now()
	_, err := db.Select(context.Background(), store.Query{SQL: "SELECT number AS n FROM numbers(100000000000)"}, proto.Results{{Name: "n", Data: &n}},
		func(context.Context, int) error { return enough })
	if !errors.Is(err, enough) {
		t.Errorf("got %v", err)
	}
	if d := time.Since(began); d > 5*time.Second {
		t.Errorf("took %s", d)
	}
	if got := Text(t, db, "SELECT 1"); got != "1" {
		t.Errorf("afterwards: %q", got)
	}
}

func testErrors(t *testing.T, db store.DB) {
	for _, c := range []struct {
		name, sql string
		code      int
		symbol    string
	}{
		{"unknown_table", "SELECT * FROM no_such_table", store.CodeUnknownTable, "UNKNOWN_TABLE"},
		{"unknown_database", "SELECT * FROM no_such_db.t", store.CodeUnknownDatabase, "UNKNOWN_DATABASE"},
		{"syntax", "SELEC 1", store.CodeSyntax, "SYNTAX_ERROR"},
		{"throw", "SELECT throwIf(number = 2) FROM numbers(3)", 395, "FUNCTION_THROW_IF_VALUE_IS_NON_ZERO"},
		{"timeout", "SELECT sum(sipHash64(number)) FROM numbers(100000000000) SETTINGS max_execution_time = 1", store.CodeTimeout, "TIMEOUT_EXCEEDED"},
		{"memory", "SELECT length(groupArray(number)) FROM numbers(1000000000) SETTINGS max_memory_usage = 50000000", store.CodeMemoryLimit, "MEMORY_LIMIT_EXCEEDED"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for kind, err := range map[string]error{
				"exec":   db.Exec(context.Background(), store.Query{SQL: c.sql}),
				"stream": second(db.Stream(context.Background(), store.Query{SQL: c.sql}, &bytes.Buffer{})),
			} {
				var e *store.Error
				if !errors.As(err, &e) || e.Code != c.code || e.Name != c.symbol || strings.Contains(e.Message, "DB::Exception") {
					t.Errorf("%s: %#v", kind, err)
				}
			}
		})
	}
	if err := db.Exec(context.Background(), store.Query{SQL: ""}); err == nil {
		t.Log("an empty statement is accepted")
	}
}

func second[A any](_ A, err error) error { return err }

func testLateError(t *testing.T, db store.DB) {
	const sql = "SELECT number AS n, throwIf(number = 3000000) AS thrown FROM numbers(4000000)"
	var c countingWriter
	_, err := db.Stream(context.Background(), store.Query{SQL: sql, Settings: map[string]string{"max_threads": "1"}}, &c)
	if !store.IsCode(err, 395) {
		t.Errorf("stream: %d lines and %v", c.lines, err)
	}
	var n proto.ColUInt64
	var thrown proto.ColUInt8
	rows := 0
	_, err = db.Select(context.Background(), store.Query{SQL: sql, Settings: map[string]string{"max_threads": "1"}}, proto.Results{{Name: "n", Data: &n}, {Name: "thrown", Data: &thrown}},
		func(_ context.Context, r int) error { rows += r; return nil })
	if !store.IsCode(err, 395) {
		t.Errorf("select: %d rows and %v", rows, err)
	}
}

type failingWriter struct{ err error }

// Write implements io.Writer.
func (f failingWriter) Write([]byte) (int, error) { return 0, f.err }

func testWriterFails(t *testing.T, db store.DB) {
	full := errors.New("disk is full")
	if _, err := db.Stream(context.Background(), store.Query{SQL: "SELECT number FROM numbers(100000000000)"}, failingWriter{full}); !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
}
