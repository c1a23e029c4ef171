package chdb_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/google/go-cmp/cmp"

	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/chdb"
	"github.com/spate-io/spate/store/chdb/chdbtest"
)

func exec(t testing.TB, db store.DB, sql string) {
	t.Helper()
	if err := db.Exec(context.Background(), store.Query{SQL: sql}); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func text(t testing.TB, db store.DB, q store.Query) string {
	t.Helper()
	var b bytes.Buffer
	if _, err := db.Stream(context.Background(), q, &b); err != nil {
		t.Fatalf("%s: %v", q.SQL, err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// block makes a Native block of one UInt64 column n with the numbers from..to-1 and a text column s.
func block(t testing.TB, from, to uint64) []byte {
	t.Helper()
	var n proto.ColUInt64
	var s proto.ColStr
	for i := from; i < to; i++ {
		n.Append(i)
		s.Append(fmt.Sprintf("it's %d\x00\n'", i))
	}
	var buf proto.Buffer
	b := proto.Block{Columns: 2, Rows: n.Rows()}
	if err := b.EncodeRawBlock(&buf, 0, proto.Input{{Name: "n", Data: &n}, {Name: "s", Data: &s}}); err != nil {
		t.Fatal(err)
	}
	return buf.Buf
}

func TestDB_Stream(t *testing.T) {
	db := chdbtest.Open(t)
	for _, c := range []struct {
		name string
		q    store.Query
		want string
	}{
		{"plain", store.Query{SQL: "SELECT 1, 'a'"}, "1\ta"},
		{"format", store.Query{SQL: "SELECT 1 AS a", Format: "JSONEachRow"}, `{"a":1}`},
		{"params", store.Query{SQL: "SELECT {a:String}, {b:UInt8}, {c:Array(String)}", Params: map[string]string{"a": store.Text("it's\t\\'\n-- x"), "b": "7", "c": "['x','y']"}}, `it\'s\t\\\'\n-- x` + "\t7\t['x','y']"},
		{"empty_param", store.Query{SQL: "SELECT {a:String} = ''", Params: map[string]string{"a": ""}}, "1"},
		{"settings", store.Query{SQL: "SELECT getSetting('max_block_size')", Settings: map[string]string{"max_block_size": "77"}}, "77"},
		{"settings_are_gone", store.Query{SQL: "SELECT getSetting('max_block_size') = 77, getSetting('session_timezone')"}, "0\tUTC"},
		{"session_setting_returns", store.Query{SQL: "SELECT getSetting('session_timezone')", Settings: map[string]string{"session_timezone": "Asia/Tokyo"}}, "Asia/Tokyo"},
		{"session_setting_returned", store.Query{SQL: "SELECT getSetting('session_timezone')"}, "UTC"},
		{"many_chunks", store.Query{SQL: "SELECT count(), sum(number) FROM (SELECT number FROM numbers(300000))"}, "300000\t44999850000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, text(t, db, c.q)); diff != "" {
				t.Error(diff)
			}
		})
	}
	var b bytes.Buffer
	stats, err := db.Stream(context.Background(), store.Query{SQL: "SELECT number FROM numbers(200000)", Format: "JSONCompact"}, &b)
	if err != nil || strings.Count(b.String(), `"meta"`) != 1 || strings.Count(b.String(), "\n") < 200000 {
		t.Errorf("JSONCompact of many blocks: %v, %d bytes, %+v", err, b.Len(), stats)
	}
}

func TestDB_ErrorsHaveCodes(t *testing.T) {
	db := chdbtest.Open(t)
	for _, c := range []struct {
		sql  string
		code int
		name string
	}{
		{"SELECT * FROM nope", store.CodeUnknownTable, "UNKNOWN_TABLE"},
		{"SELEC 1", store.CodeSyntax, "SYNTAX_ERROR"},
		{"SELECT throwIf(number = 100000) FROM numbers(200000)", 395, "FUNCTION_THROW_IF_VALUE_IS_NON_ZERO"},
		{"SELECT groupArray(number) FROM numbers(1000000000)", store.CodeMemoryLimit, "MEMORY_LIMIT_EXCEEDED"},
	} {
		_, err := db.Stream(context.Background(), store.Query{SQL: c.sql}, &bytes.Buffer{})
		var e *store.Error
		if !errors.As(err, &e) || e.Code != c.code || e.Name != c.name || strings.Contains(e.Message, "Code:") {
			t.Errorf("%s: %#v", c.sql, err)
		}
	}
	if err := db.Exec(context.Background(), store.Query{SQL: "SELECT 1", Settings: map[string]string{"no_such": "1"}}); err == nil {
		t.Error("an unknown setting passed")
	}
}

func TestDB_Select(t *testing.T) {
	db := chdbtest.Open(t)
	n, s := new(proto.ColUInt64), new(proto.ColStr)
	lc := new(proto.ColStr).LowCardinality()
	m := proto.NewMap[string, uint64](new(proto.ColStr), new(proto.ColUInt64))
	var rows, sum uint64
	blocks := 0
	_, err := db.Select(context.Background(), store.Query{
		SQL: "SELECT number AS n, toString(number) AS s, toLowCardinality(toString(n % 7)) AS l, map(s, n) AS m FROM numbers({n:UInt64})", Params: map[string]string{"n": "200000"},
	}, proto.Results{{Name: "n", Data: n}, {Name: "s", Data: s}, {Name: "l", Data: lc}, {Name: "m", Data: m}}, func(_ context.Context, r int) error {
		blocks++
		rows += uint64(r)
		for i := range r {
			v := n.Row(i)
			sum += v
			if s.Row(i) != fmt.Sprint(v) || lc.Row(i) != fmt.Sprint(v%7) || m.Row(i)[s.Row(i)] != v {
				return fmt.Errorf("row %d is %q %q", v, s.Row(i), lc.Row(i))
			}
		}
		return nil
	})
	if err != nil || rows != 200000 || sum != 199999*100000 || blocks < 2 {
		t.Errorf("%d rows in %d blocks, sum %d, %v", rows, blocks, sum, err)
	}
	stop := errors.New("enough")
	if _, err := db.Select(context.Background(), store.Query{SQL: "SELECT number AS n FROM numbers(1000000000)"}, proto.Results{{Name: "n", Data: n}},
		func(context.Context, int) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
	if got := text(t, db, store.Query{SQL: "SELECT 1"}); got != "1" {
		t.Errorf("after a stopped stream: %q", got)
	}
}

func TestDB_Insert(t *testing.T) {
	db := chdbtest.Open(t)
	exec(t, db, "CREATE TABLE t (n UInt64, s String) ENGINE = MergeTree ORDER BY n SETTINGS non_replicated_deduplication_window = 1000")
	in := store.Insert{Table: "t", Columns: []string{"n", "s"}, Block: block(t, 0, 50_000), Token: "a/0/0-1"}
	for range 3 {
		if err := db.Insert(context.Background(), in); err != nil {
			t.Fatal(err)
		}
	}
	if got := text(t, db, store.Query{SQL: "SELECT count(), sum(n), countIf(s = concat('it\\'s ', toString(n), '\\0\\n\\'')) FROM t"}); got != "50000\t1249975000\t50000" {
		t.Error(got)
	}
	if got := text(t, db, store.Query{SQL: "SELECT count() FROM system.parts WHERE table = 't' AND active"}); got != "1" {
		t.Error("one insert made parts:", got)
	}
	in.Table = "nope"
	if err := db.Insert(context.Background(), in); !store.IsCode(err, store.CodeUnknownTable) {
		t.Error(err)
	}
	in.Table, in.Block, in.Token = "t", in.Block[:len(in.Block)/2], "b"
	if err := db.Insert(context.Background(), in); err == nil {
		t.Error("half a block passed")
	}
	if got := text(t, db, store.Query{SQL: "SELECT count() FROM t"}); got != "50000" {
		t.Error(got)
	}
}

func TestDB_CancelEndsTheStatement(t *testing.T) {
	db := chdbtest.Open(t)
	for name, fn := range map[string]func(context.Context) error{
		"exec": func(ctx context.Context) error {
			return db.Exec(ctx, store.Query{SQL: "SELECT sum(sipHash64(number)) FROM numbers(100000000000)"})
		},
		"stream": func(ctx context.Context) error {
			_, err := db.Stream(ctx, store.Query{SQL: "SELECT sum(sipHash64(number)) FROM numbers(100000000000)"}, &bytes.Buffer{})
			return err
		},
		"select": func(ctx context.Context) error {
			_, err := db.Select(ctx, store.Query{SQL: "SELECT sum(sipHash64(number)) FROM numbers(100000000000)"}, proto.Results{proto.AutoResult("")}, nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			defer cancel()
			began := time.Now()
			if err := fn(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			if d := time.Since(began); d > 3*time.Second {
				t.Errorf("took %s", d)
			}
		})
	}
	if got := text(t, db, store.Query{SQL: "SELECT count() FROM system.processes WHERE query LIKE '%sip' || 'Hash64%'"}); got != "0" {
		t.Errorf("%s statements still run", got)
	}
}

func TestDB_ManyCallersShareThePools(t *testing.T) {
	db := chdbtest.Open(t)
	exec(t, db, "CREATE TABLE t (n UInt64, s String) ENGINE = MergeTree ORDER BY n SETTINGS non_replicated_deduplication_window = 1000")
	var wg sync.WaitGroup
	for w := range uint64(16) {
		wg.Go(func() {
			for i := range uint64(20) {
				from := (w*20 + i) * 100
				if err := db.Insert(context.Background(), store.Insert{Table: "t", Columns: []string{"n", "s"}, Block: block(t, from, from+100), Token: fmt.Sprint(from)}); err != nil {
					t.Error(err)
				}
				var b bytes.Buffer
				q := store.Query{SQL: "SELECT {x:UInt64}, getSetting('max_block_size'), count() >= {x:UInt64} FROM t", Params: map[string]string{"x": fmt.Sprint(i)}, Settings: map[string]string{"max_block_size": fmt.Sprint(from + 1)}}
				if _, err := db.Stream(context.Background(), q, &b); err != nil || b.String() != fmt.Sprintf("%d\t%d\t1\n", i, from+1) {
					t.Errorf("%q %v", b.String(), err)
				}
			}
		})
	}
	wg.Wait()
	if got := text(t, db, store.Query{SQL: "SELECT count(), uniqExact(n) FROM t"}); got != "32000\t32000" {
		t.Error(got)
	}
}

func TestOpen_OneProcessPerPath(t *testing.T) {
	dir := t.TempDir()
	first, err := chdb.LockPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Close() }()
	cfg := chdb.DefaultConfig()
	cfg.Path = dir
	_, err = chdb.Open(context.Background(), cfg, chdb.Deps{})
	if !errors.Is(err, chdb.ErrLocked) || !strings.Contains(err.Error(), fmt.Sprint("process ", os.Getpid())) {
		t.Errorf("got %v", err)
	}
}

func TestDB_CloseAndOpenKeepsData(t *testing.T) {
	dir := t.TempDir()
	for i := range 3 {
		cfg := chdb.DefaultConfig()
		cfg.Path = dir
		db, err := chdb.Open(context.Background(), cfg, chdb.Deps{})
		if errors.Is(err, chdb.ErrNoLibrary) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		exec(t, db, "CREATE TABLE IF NOT EXISTS t (n UInt64, s String) ENGINE = MergeTree ORDER BY n")
		exec(t, db, "INSERT INTO t SELECT number, '' FROM numbers(10)")
		if got, want := text(t, db, store.Query{SQL: "SELECT count() FROM t"}), fmt.Sprint(10*(i+1)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		if err := db.Exec(context.Background(), store.Query{SQL: "SELECT 1"}); !errors.Is(err, store.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
}
