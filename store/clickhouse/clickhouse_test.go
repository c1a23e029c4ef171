package clickhouse_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ClickHouse/ch-go/compress"
	"github.com/google/go-cmp/cmp"

	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/clickhouse"
	"github.com/spate-io/spate/store/serve/servetest"
	"github.com/spate-io/spate/store/storetest"
)

func TestParseAddress(t *testing.T) {
	cfg, err := clickhouse.ParseAddress("clickhouses://sp%40te:p%3A%2F@a:9443,b,[::1]:1/edge?compression=zstd&max_connections=3&dial_timeout=2s&read_timeout=1m&quarantine=5s&server_name=x&set.max_threads=2")
	if err != nil {
		t.Fatal(err)
	}
	got := []any{cfg.User, cfg.Password.Reveal(), cfg.Addresses, cfg.Database, cfg.Compression, cfg.MaxConnections, cfg.DialTimeout, cfg.ReadTimeout, cfg.Quarantine, cfg.TLS.ServerName, cfg.Settings["max_threads"]}
	want := []any{"sp@te", "p:/", []string{"a:9443", "b:8443", "[::1]:1"}, "edge", compress.ZSTD, 3, 2 * time.Second, time.Minute, 5 * time.Second, "x", "2"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{
		"", "http://x", "clickhouse://", "clickhouse://a,,b", "clickhouse://a:x", "clickhouse://a:0", "clickhouse://a/b/c", "clickhouse://a?nope=1", "clickhouse://a?compression=rar",
		"clickhouse://a?max_connections=0", "clickhouse://a?ca=x", "clickhouse://u:%zz@a", "clickhouses://a?ca=/does/not/exist", "clickhouse://a?dial_timeout=-1s", "clickhouse://a?set.=1", "clickhouses://a?key=x",
	} {
		if cfg, err := clickhouse.ParseAddress(bad); err == nil {
			t.Errorf("%q gave %+v", bad, cfg)
		}
	}
	if _, err := clickhouse.ParseAddress("clickhouse://u:secret@a?nope=1"); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
}

func FuzzParseAddress(f *testing.F) {
	f.Add("clickhouse://u:p@a:1,b/d?compression=lz4&set.x=1")
	f.Add("clickhouses://[::1]:1?server_name=x")
	f.Fuzz(func(t *testing.T, s string) {
		if strings.Contains(s, "ca=") || strings.Contains(s, "cert=") {
			t.Skip() // they open files
		}
		if cfg, err := clickhouse.ParseAddress(s); err == nil && (len(cfg.Addresses) == 0 || cfg.Database == "") {
			t.Errorf("%q: %+v", s, cfg)
		}
	})
}

// closedPort gives an address where nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func TestDB_GoesOnWithTheNextAddress(t *testing.T) {
	dir := t.TempDir()
	a, b := servetest.Start(t, servetest.Options{Path: dir}), servetest.Start(t, servetest.Options{})
	db := open(t, "clickhouse://"+closedPort(t)+","+a.Addr+","+b.Addr+"/?quarantine=100ms")
	defer func() { _ = db.Close() }()
	storetest.Exec(t, db, "CREATE TABLE who (a UInt8) ENGINE = Memory") // on a: sent nowhere before, so the dead first address is no reason to stop
	if got := storetest.Text(t, db, "EXISTS TABLE who"); got != "1" {
		t.Errorf("not on the first that answers: %q", got)
	}
	a.Kill()
	for range 20 {
		if got := storetest.Text(t, db, "SELECT 1"); got != "1" {
			t.Fatalf("got %q", got)
		}
	}
	if got := storetest.Text(t, db, "EXISTS TABLE who"); got != "0" {
		t.Errorf("not on the second: %q", got)
	}
	b.Kill()
	if err := db.Exec(context.Background(), store.Query{SQL: "SELECT 1"}); err == nil || !store.Retriable(err) {
		t.Errorf("with all dead: %v", err)
	}
}

// scripted answers every statement with fn.
func scripted(t *testing.T, options string, fn http.HandlerFunc) *clickhouse.DB {
	t.Helper()
	srv := httptest.NewServer(fn)
	t.Cleanup(srv.Close)
	return open(t, "clickhouse://"+strings.TrimPrefix(srv.URL, "http://")+"/?"+options)
}

const hello = "SELECT version()"

func body(r *http.Request) string {
	var b bytes.Buffer
	_, _ = b.ReadFrom(r.Body) // a short body shows in the test
	return b.String()
}

func TestDB_ErrorsInEveryForm(t *testing.T) {
	const text = "Code: 241. DB::Exception: Memory limit exceeded. (MEMORY_LIMIT_EXCEEDED) (version 24.8.1.1 (official build))\n"
	cut := func(w http.ResponseWriter) {
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	for _, c := range []struct {
		name   string
		answer func(w http.ResponseWriter)
		code   int // -1 for another error, 0 for none
	}{
		{"status", func(w http.ResponseWriter) { w.WriteHeader(500); fmt.Fprint(w, text) }, 241},
		{"status_of_proxy", func(w http.ResponseWriter) { w.WriteHeader(502); fmt.Fprint(w, "<html>bad gateway") }, -1},
		{"code_in_header_only", func(w http.ResponseWriter) {
			w.Header().Set("X-ClickHouse-Exception-Code", "241")
			w.WriteHeader(500)
			fmt.Fprint(w, "no text")
		}, 241},
		{"tagged", func(w http.ResponseWriter) {
			w.Header().Set("X-ClickHouse-Exception-Tag", "abcdefghijklmnop")
			fmt.Fprintf(w, "1\n2\n\r\n__exception__\r\nabcdefghijklmnop\r\n%s%d abcdefghijklmnop\r\n__exception__\r\n", text, len(text))
			cut(w)
		}, 241},
		{"tagged_clean_end", func(w http.ResponseWriter) {
			w.Header().Set("X-ClickHouse-Exception-Tag", "abcdefghijklmnop")
			fmt.Fprintf(w, "1\n\r\n__exception__\r\nabcdefghijklmnop\r\n%s%d abcdefghijklmnop\r\n__exception__\r\n", text, len(text))
		}, 241},
		{"data_like_an_exception", func(w http.ResponseWriter) {
			w.Header().Set("X-ClickHouse-Exception-Tag", "abcdefghijklmnop")
			fmt.Fprintf(w, "\r\n__exception__\r\nponmlkjihgfedcba\r\n%s%d ponmlkjihgfedcba\r\n__exception__\r\n", text, len(text))
		}, 0},
		{"data_like_an_old_exception", func(w http.ResponseWriter) { fmt.Fprint(w, text) }, 0},
		{"old_and_cut", func(w http.ResponseWriter) { fmt.Fprint(w, "1\n", text); cut(w) }, 241},
		{"cut_without_a_word", func(w http.ResponseWriter) { fmt.Fprint(w, "1\n"); cut(w) }, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := scripted(t, "compression=none", func(w http.ResponseWriter, r *http.Request) {
				switch sql := body(r); {
				case sql == hello:
					fmt.Fprintln(w, "24.8")
				case strings.HasPrefix(sql, "KILL"):
				default:
					c.answer(w)
				}
			})
			_, err := db.Stream(context.Background(), store.Query{SQL: "SELECT x"}, &bytes.Buffer{})
			switch {
			case c.code == 0 && err != nil, c.code < 0 && err == nil, c.code > 0 && !store.IsCode(err, c.code):
				t.Errorf("got %v", err)
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestDB_InsertIsNotRepeatedElsewhere(t *testing.T) {
	var inserts, reads atomic.Int32
	handler := func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Query().Get("query"), "INSERT") {
			inserts.Add(1)
			panic(http.ErrAbortHandler) // received, and no answer: nobody knows what became of it
		}
		if body(r) == "SELECT 2" && reads.Add(1) == 1 {
			panic(http.ErrAbortHandler)
		}
		fmt.Fprintln(w, "2")
	}
	a, b := httptest.NewServer(http.HandlerFunc(handler)), httptest.NewServer(http.HandlerFunc(handler))
	defer a.Close()
	defer b.Close()
	db := open(t, "clickhouse://"+strings.TrimPrefix(a.URL, "http://")+","+strings.TrimPrefix(b.URL, "http://")+"/?compression=none")
	defer func() { _ = db.Close() }()
	err := db.Insert(context.Background(), store.Insert{Table: "t", Columns: []string{"n", "s"}, Block: storetest.Block(t, 0, 1), Token: "x"})
	if err == nil || !store.Retriable(err) || inserts.Load() != 1 {
		t.Errorf("%d inserts, %v", inserts.Load(), err)
	}
	if got := storetest.Text(t, db, "SELECT 2"); got != "2" || reads.Load() != 2 {
		t.Errorf("%q after %d tries", got, reads.Load())
	}
}

func TestDB_CancelKillsByID(t *testing.T) {
	killed := make(chan string, 1)
	db := scripted(t, "compression=none", func(w http.ResponseWriter, r *http.Request) {
		switch sql := body(r); {
		case sql == hello:
			fmt.Fprintln(w, "24.8")
		case strings.HasPrefix(sql, "KILL"):
			killed <- sql
		default:
			<-r.Context().Done()
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := db.Exec(ctx, store.Query{SQL: "ALTER x", ID: "it's"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if err := db.Close(); err != nil { // waits until the message is out
		t.Error(err)
	}
	select {
	case sql := <-killed:
		if sql != `KILL QUERY WHERE query_id = 'it\'s' ASYNC` {
			t.Errorf("got %s", sql)
		}
	default:
		t.Error("nothing was killed")
	}
}

func TestDB_SilentServerTimesOut(t *testing.T) {
	db := scripted(t, "compression=none&read_timeout=100ms", func(w http.ResponseWriter, r *http.Request) {
		switch body(r) {
		case hello:
			fmt.Fprintln(w, "24.8")
		case "SELECT late":
			fmt.Fprintln(w, "1")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		case "SELECT never":
			<-r.Context().Done()
		}
	})
	defer func() { _ = db.Close() }()
	for _, sql := range []string{"SELECT late", "SELECT never"} {
		began := time.Now()
		_, err := db.Stream(context.Background(), store.Query{SQL: sql}, &bytes.Buffer{})
		if err == nil || !store.Retriable(err) || time.Since(began) > 5*time.Second {
			t.Errorf("%s: %v after %s", sql, err, time.Since(began))
		}
	}
}

func TestOpen_WrongPasswordShowsAtOnce(t *testing.T) {
	p := servetest.Start(t, servetest.Options{Users: []servetest.User{{Name: "u", PasswordSHA256: strings.Repeat("0", 64)}}})
	cfg, err := clickhouse.ParseAddress("clickhouse://u:wrong@" + p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := clickhouse.Open(context.Background(), cfg, clickhouse.Deps{}); !store.IsCode(err, 516) || strings.Contains(err.Error(), "wrong@") {
		t.Errorf("got %v", err)
	}
}
