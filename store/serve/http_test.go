package serve_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/spate-io/spate/store/serve/servetest"
)

// ask sends one request. where is the URL's query; headers are name, value pairs.
func ask(t testing.TB, addr, method, where, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, "http://"+addr+"/"+where, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
	}
	client := http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		b = append(b, " <"+err.Error()+">"...)
	}
	return resp, string(b)
}

func TestHTTP_AnswersAsClickHouse(t *testing.T) {
	p := servetest.Start(t, servetest.Options{})
	for _, c := range []struct {
		name, method, where, body string
		status                    int
		want                      string // of the body, or its start with ... at the end
	}{
		{"root", "GET", "", "", 200, "Ok.\n"},
		{"ping", "GET", "ping", "", 200, "Ok.\n"},
		{"replicas", "GET", "replicas_status", "", 200, "Ok.\n"},
		{"unknown_path", "GET", "nope", "", 404, "There is no handle /nope..."},
		{"get", "GET", "?query=SELECT+1", "", 200, "1\n"},
		{"post_body", "POST", "", "SELECT 1", 200, "1\n"},
		{"query_and_body", "POST", "?query=SELECT+1,", "2", 200, "1\t2\n"},
		{"semicolon", "POST", "", "SELECT 1;", 200, "1\n"},
		{"format_clause", "POST", "?default_format=CSV", "SELECT 1 AS a FORMAT JSONEachRow", 200, "{\"a\":1}\n"},
		{"default_format", "POST", "?default_format=CSV", "SELECT 'a'", 200, "\"a\"\n"},
		{"param", "POST", "?param_a=it%27s", "SELECT {a:String}", 200, "it\\'s\n"},
		{"setting", "POST", "?max_block_size=7", "SELECT getSetting('max_block_size')", 200, "7\n"},
		{"unknown_setting", "POST", "?no_such=7", "SELECT 1", 404, "Code: 115. DB::Exception: ..."},
		{"unknown_table", "POST", "", "SELECT * FROM nope", 404, "Code: 60. DB::Exception: ..."},
		{"syntax", "POST", "", "SELEC 1", 400, "Code: 62. DB::Exception: ..."},
		{"two_statements", "POST", "", "SELECT 1; SELECT 2", 400, "Code: 62. DB::Exception: ..."},
		{"empty", "POST", "", "", 400, "Code: 62. DB::Exception: ..."},
		{"get_changes_nothing", "GET", "?query=CREATE+TABLE+g+(a+UInt8)+ENGINE+%3D+Memory", "", 403, "Code: 164. DB::Exception: ..."},
		{"other_method", "PUT", "", "SELECT 1", 405, "Method not allowed\n"},
		{"database", "POST", "?database=default", "SELECT 1", 200, "1\n"},
		{"database_unknown", "POST", "?database=nope", "SELECT 1", 404, "Code: 81. DB::Exception: ..."},
		{"too_long", "POST", "", "SELECT '" + strings.Repeat("x", 300<<10) + "'", 413, "Code: 307. DB::Exception: ..."},
		{"create", "POST", "", "CREATE TABLE h (a UInt8, s String) ENGINE = MergeTree ORDER BY a", 200, ""},
		{"insert_values", "POST", "", "INSERT INTO h VALUES (1, 'a'), (1+1, upper('b'))", 200, ""},
		{"insert_values_params", "POST", "?param_x=3&param_s=p", "INSERT INTO h (a, s) VALUES ({x:UInt8}, {s:String})", 200, ""},
		{"insert_values_outside", "POST", "", "INSERT INTO h VALUES (9, file('/etc/hostname'))", 403, "Code: 497. DB::Exception: ..."},
		{"insert_json", "POST", "?query=INSERT+INTO+h+FORMAT+JSONEachRow", "{\"a\":4,\"s\":\"j\"}\n{\"a\":5,\"s\":\"k\"}", 200, ""},
		{"insert_csv", "POST", "", "INSERT INTO h (s, a) FORMAT CSV\nx,6\n", 200, ""},
		{"insert_bad", "POST", "", "INSERT INTO h (s, a) FORMAT CSV\nx,oops\n", 400, "Code: 117. DB::Exception: ..."},
		{"insert_select", "POST", "", "INSERT INTO h SELECT 7, 'sel'", 200, ""},
		{"rows", "POST", "", "SELECT groupArray(s) FROM (SELECT s FROM h ORDER BY a)", 200, "['a','B','p','j','k','x','sel']\n"},
		{"describe", "POST", "", "DESCRIBE h FORMAT CSV", 200, "\"a\",\"UInt8\"..."},
		{"exists_wait", "POST", "?wait_end_of_query=1", "SELECT count() > 0 FROM h", 200, "1\n"},
		{"held_too_large", "POST", "", "SELECT number, toString(number) FROM numbers(10000000) FORMAT JSON", 500, "Code: 396. DB::Exception: ..."},
		{"truncate", "POST", "", "DROP TABLE h SYNC", 200, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			resp, got := ask(t, p.Addr, c.method, c.where, c.body)
			want, open := strings.CutSuffix(c.want, "...")
			if resp.StatusCode != c.status || !open && got != want || open && !strings.HasPrefix(got, want) {
				t.Errorf("status %d, body %.300q", resp.StatusCode, got)
			}
			code := resp.Header.Get("X-ClickHouse-Exception-Code")
			if after, ok := strings.CutPrefix(want, "Code: "); ok && code != strings.SplitN(after, ".", 2)[0] || !ok && code != "" {
				t.Errorf("exception code %q", code)
			}
		})
	}
}

func TestHTTP_HeadersTellWhatHappened(t *testing.T) {
	p := servetest.Start(t, servetest.Options{})
	resp, _ := ask(t, p.Addr, "POST", "?query_id=my-id&send_progress_in_http_headers=1", "SELECT number FROM numbers(1000) FORMAT Native")
	h := resp.Header
	if h.Get("X-ClickHouse-Query-Id") != "my-id" || h.Get("X-ClickHouse-Format") != "Native" || h.Get("X-ClickHouse-Timezone") != "UTC" || h.Get("X-ClickHouse-Server-Display-Name") == "" {
		t.Errorf("%v", h)
	}
	var s map[string]string
	if err := json.Unmarshal([]byte(h.Get("X-ClickHouse-Summary")), &s); err != nil || s["read_rows"] != "1000" || s["result_rows"] != "1000" || s["elapsed_ns"] == "0" {
		t.Errorf("%v %v", s, err)
	}
	if h.Get("X-ClickHouse-Progress") == "" {
		t.Error("no progress")
	}
}

func TestHTTP_ErrorAfterTheAnswerBegan(t *testing.T) {
	p := servetest.Start(t, servetest.Options{})
	const sql = "SELECT number, throwIf(number = 3000000) FROM numbers(4000000) SETTINGS max_threads = 1"
	resp, got := ask(t, p.Addr, "POST", "", sql)
	tag := resp.Header.Get("X-ClickHouse-Exception-Tag")
	at := strings.Index(got, "\r\n__exception__\r\n"+tag+"\r\nCode: 395. DB::Exception: ")
	if resp.StatusCode != 200 || at < 0 || !strings.Contains(got[at:], " "+tag+"\r\n__exception__\r\n <unexpected EOF>") {
		t.Errorf("status %d, end %.400q", resp.StatusCode, got[max(0, len(got)-400):])
	}
	resp, got = ask(t, p.Addr, "POST", "?wait_end_of_query=1", sql)
	if resp.StatusCode != 500 || !strings.HasPrefix(got, "Code: 395.") {
		t.Errorf("waiting: status %d, %.100q", resp.StatusCode, got)
	}
}

func TestHTTP_WaitHoldsLargeAnswersOnDisk(t *testing.T) {
	p := servetest.Start(t, servetest.Options{})
	resp, got := ask(t, p.Addr, "POST", "?wait_end_of_query=1", "SELECT number FROM numbers(1000000)")
	if n := strings.Count(got, "\n"); resp.StatusCode != 200 || n != 1_000_000 || !strings.Contains(resp.Header.Get("X-ClickHouse-Summary"), `"result_rows":"1000000"`) {
		t.Errorf("%d lines, %v", n, resp.Header)
	}
}

func TestHTTP_CompressionBothWays(t *testing.T) {
	p := servetest.Start(t, servetest.Options{})
	pack := map[string]func(io.Writer) io.WriteCloser{
		"gzip": func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
		"br":   func(w io.Writer) io.WriteCloser { return brotli.NewWriter(w) },
		"zstd": func(w io.Writer) io.WriteCloser { e, _ := zstd.NewWriter(w); return e },
		"lz4":  func(w io.Writer) io.WriteCloser { return lz4.NewWriter(w) },
	}
	unpack := map[string]func(io.Reader) io.Reader{
		"gzip": func(r io.Reader) io.Reader { z, _ := gzip.NewReader(r); return z },
		"br":   func(r io.Reader) io.Reader { return brotli.NewReader(r) },
		"zstd": func(r io.Reader) io.Reader { z, _ := zstd.NewReader(r); return z },
		"lz4":  func(r io.Reader) io.Reader { return lz4.NewReader(r) },
	}
	for name := range pack {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			w := pack[name](&b)
			_, _ = io.WriteString(w, "SELECT number FROM numbers(300000)") // into memory
			_ = w.Close()
			resp, got := ask(t, p.Addr, "POST", "", b.String(), "Content-Encoding", name, "Accept-Encoding", name)
			if resp.Header.Get("Content-Encoding") != name {
				t.Fatalf("%d %v", resp.StatusCode, resp.Header)
			}
			plain, err := io.ReadAll(unpack[name](strings.NewReader(got)))
			if n := bytes.Count(plain, []byte("\n")); err != nil || n != 300_000 {
				t.Errorf("%d lines, %v", n, err)
			}
			if resp, got := ask(t, p.Addr, "POST", "", "not packed at all, and long enough", "Content-Encoding", name); resp.StatusCode != 400 {
				t.Errorf("a body that is not %s: %d %.200q", name, resp.StatusCode, got)
			}
		})
	}
	if resp, _ := ask(t, p.Addr, "POST", "?enable_http_compression=0", "SELECT 1", "Accept-Encoding", "gzip"); resp.Header.Get("Content-Encoding") != "" {
		t.Error("compressed although switched off")
	}
	if resp, got := ask(t, p.Addr, "POST", "?decompress=1", strings.Repeat("garbage ", 10)); resp.StatusCode != 400 {
		t.Errorf("%d %.200q", resp.StatusCode, got)
	}
}

func sum(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:])
}

func TestHTTP_Users(t *testing.T) {
	p := servetest.Start(t, servetest.Options{Users: []servetest.User{
		{Name: "writer", PasswordSHA256: sum("w")},
		{Name: "reader", PasswordSHA256: sum("r"), Readonly: 2, MaxResultRows: 10},
		{Name: "strict", PasswordSHA256: sum("s"), Readonly: 1},
		{Name: "robot", TokenSHA256: sum("token"), Readonly: 2},
		{Name: "owner", PasswordSHA256: sum("o"), Admin: true, Outside: true},
	}})
	for _, c := range []struct {
		name, where, sql string
		headers          []string
		status           int
		code             string
	}{
		{"nobody", "", "SELECT 1", nil, 401, "194"},
		{"wrong", "?user=writer&password=x", "SELECT 1", nil, 403, "516"},
		{"unknown", "?user=ghost&password=x", "SELECT 1", nil, 403, "516"},
		{"no_password", "?user=writer", "SELECT 1", nil, 403, "516"},
		{"token_user_by_password", "?user=robot", "SELECT 1", nil, 403, "516"},
		{"url", "?user=writer&password=w", "SELECT 1", nil, 200, ""},
		{"headers", "", "SELECT 1", []string{"X-ClickHouse-User", "writer", "X-ClickHouse-Key", "w"}, 200, ""},
		{"basic", "", "SELECT 1", []string{"Authorization", "Basic d3JpdGVyOnc="}, 200, ""},
		{"two_ways", "?user=writer&password=w", "SELECT 1", []string{"Authorization", "Basic d3JpdGVyOnc="}, 403, "516"},
		{"token", "", "SELECT 1", []string{"Authorization", "Bearer token"}, 200, ""},
		{"token_wrong", "", "SELECT 1", []string{"Authorization", "Bearer nope"}, 403, "516"},
		{"token_writes", "", "CREATE TABLE x (a UInt8) ENGINE = Memory", []string{"Authorization", "Bearer token"}, 403, "164"},
		{"writer_writes", "?user=writer&password=w", "CREATE TABLE x (a UInt8) ENGINE = Memory", nil, 200, ""},
		{"writer_outside", "?user=writer&password=w", "SELECT * FROM file('/etc/passwd', LineAsString)", nil, 403, "497"},
		{"owner_outside", "?user=owner&password=o", "SELECT count() > 0 FROM file('/etc/passwd', LineAsString)", nil, 200, ""},
		{"reader_inserts", "?user=reader&password=r", "INSERT INTO x VALUES (1)", nil, 403, "164"},
		{"reader_sets", "?user=reader&password=r&max_threads=1", "SELECT 1", nil, 200, ""},
		{"reader_bound", "?user=reader&password=r", "SELECT number FROM numbers(11)", nil, 500, "396"},
		{"reader_raises", "?user=reader&password=r&max_result_rows=100", "SELECT 1", nil, 400, "452"},
		{"reader_raises_in_sql", "?user=reader&password=r", "SELECT number FROM numbers(11) SETTINGS max_result_rows = 100", nil, 400, "452"},
		{"strict_sets", "?user=strict&password=s&max_threads=1", "SELECT 1", nil, 403, "164"},
		{"strict_reads", "?user=strict&password=s&wait_end_of_query=1", "SELECT 1", nil, 200, ""},
		{"strict_loosens", "?user=strict&password=s&readonly=0", "DROP TABLE x", nil, 403, "164"},
		{"writer_binds_itself", "?user=writer&password=w&readonly=1", "DROP TABLE x", nil, 403, "164"},
	} {
		t.Run(c.name, func(t *testing.T) {
			resp, got := ask(t, p.Addr, "POST", c.where, c.sql, c.headers...)
			if resp.StatusCode != c.status || resp.Header.Get("X-ClickHouse-Exception-Code") != c.code {
				t.Errorf("status %d, code %q, %.200q", resp.StatusCode, resp.Header.Get("X-ClickHouse-Exception-Code"), got)
			}
		})
	}
}

func TestHTTP_WithoutUsersOnlyThisMachine(t *testing.T) {
	p := servetest.Start(t, servetest.Options{})
	for _, c := range []struct {
		name    string
		headers []string
		status  int
	}{
		{"program", nil, 200},
		{"localhost", []string{"Host", "localhost:8123"}, 200},
		{"own_page", []string{"Origin", "http://" + p.Addr}, 200},
		{"rebound_name", []string{"Host", "evil.example"}, 403},
		{"foreign_page", []string{"Origin", "https://evil.example"}, 403},
		{"foreign_fetch", []string{"Sec-Fetch-Site", "cross-site"}, 403},
	} {
		t.Run(c.name, func(t *testing.T) {
			if resp, got := ask(t, p.Addr, "POST", "", "SELECT 1", c.headers...); resp.StatusCode != c.status {
				t.Errorf("%d %q", resp.StatusCode, got)
			}
		})
	}
}

func TestHTTP_SessionsKeepSettings(t *testing.T) {
	p := servetest.Start(t, servetest.Options{})
	get := func(where, sql string) string {
		t.Helper()
		_, got := ask(t, p.Addr, "POST", where, sql)
		return strings.TrimSpace(got)
	}
	get("?session_id=a", "SET max_block_size = 77, max_threads = 1")
	get("?session_id=a", "SET param_x = 'kept'")
	got := []string{
		get("?session_id=a", "SELECT getSetting('max_block_size'), {x:String}"),
		get("?session_id=a&max_block_size=78", "SELECT getSetting('max_block_size')"),
		get("?session_id=b", "SELECT getSetting('max_block_size') = 77"),
		get("?session_id=a&close_session=1", "SELECT getSetting('max_block_size')"),
		get("?session_id=a&session_check=1", "SELECT 1")[:10],
		get("?session_id=a", "SET no_such = 1")[:10],
		get("", "SELECT getSetting('max_block_size') = 77"),
	}
	if diff := cmp.Diff([]string{"77\tkept", "78", "0", "77", "Code: 372.", "Code: 115.", "0"}, got); diff != "" {
		t.Error(diff)
	}
}

const endless = "SELECT sum(sipHash64(number)) FROM numbers(1000000000000)"

// begin runs an endless statement in the background and gives its answer when it has ended.
func begin(t *testing.T, addr, where string) <-chan string {
	t.Helper()
	done := make(chan string, 1)
	go func() {
		_, got := ask(t, addr, "POST", where, endless)
		done <- got
	}()
	return done
}

func TestHTTP_KillDuplicateAndReplace(t *testing.T) {
	p := servetest.Start(t, servetest.Options{Users: []servetest.User{{Name: "a", MaxQueries: 2}, {Name: "b"}, {Name: "owner", Admin: true}}})
	running := func(n int) func() bool {
		return func() bool {
			_, got := ask(t, p.Addr, "POST", "?user=b", "SELECT count() FROM system.processes WHERE query LIKE '%sip' || 'Hash64%'")
			return got == fmt.Sprintf("%d\n", n)
		}
	}
	first := begin(t, p.Addr, "?user=a&query_id=one")
	waitFor(t, "the statement to begin", running(1))
	if _, got := ask(t, p.Addr, "POST", "?user=b", "KILL QUERY WHERE query_id = 'one'"); got != "" {
		t.Errorf("another user killed it: %q", got)
	}
	if resp, _ := ask(t, p.Addr, "POST", "?user=a&query_id=one", "SELECT 1"); resp.Header.Get("X-ClickHouse-Exception-Code") != "216" {
		t.Errorf("the same id twice: %d", resp.StatusCode)
	}
	second := begin(t, p.Addr, "?user=a&query_id=two")
	waitFor(t, "the second to begin", running(2)) // before the user asks again, which would take its place
	if resp, _ := ask(t, p.Addr, "POST", "?user=a", "SELECT 1"); resp.StatusCode != 503 || resp.Header.Get("X-ClickHouse-Exception-Code") != "202" {
		t.Errorf("beyond the bound of the user: %d", resp.StatusCode)
	}
	if _, got := ask(t, p.Addr, "POST", "?user=owner&param_id=two", "KILL QUERY WHERE query_id = {id:String} ASYNC FORMAT CSV"); got != fmt.Sprintf("\"waiting\",\"two\",\"a\",%q\n", endless) {
		t.Errorf("killed %q", got)
	}
	if got := <-second; !strings.HasPrefix(got, "Code: 394.") {
		t.Errorf("killed statement: %q", got)
	}
	third := begin(t, p.Addr, "?user=a&query_id=one&replace_running_query=1")
	if got := <-first; !strings.HasPrefix(got, "Code: 394.") {
		t.Errorf("replaced statement: %q", got)
	}
	waitFor(t, "the last to end", func() bool {
		_, got := ask(t, p.Addr, "POST", "?user=owner", "KILL QUERY WHERE query_id = 'one'")
		return got == ""
	})
	<-third
}

func TestHTTP_ClientThatLeavesEndsItsQuery(t *testing.T) {
	p := servetest.Start(t, servetest.Options{})
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, "POST", "http://"+p.Addr+"/", strings.NewReader(endless))
	if resp, err := http.DefaultTransport.RoundTrip(req); err == nil {
		_ = resp.Body.Close()
		t.Fatal("it ended")
	}
	waitFor(t, "the statement to end", func() bool {
		_, got := ask(t, p.Addr, "POST", "", "SELECT count() FROM system.processes WHERE query LIKE '%sip' || 'Hash64%'")
		return got == "0\n"
	})
}

func TestHTTP_InsertThatIsCutStoresNothing(t *testing.T) {
	p := servetest.Start(t, servetest.Options{})
	ask(t, p.Addr, "POST", "", "CREATE TABLE cut (a UInt64) ENGINE = MergeTree ORDER BY a")
	r, w := io.Pipe()
	go func() {
		for i := range 50_000 {
			fmt.Fprintln(w, i)
		}
		_ = w.CloseWithError(io.ErrClosedPipe)
	}()
	req, _ := http.NewRequestWithContext(context.Background(), "POST", "http://"+p.Addr+"/?query="+url.QueryEscape("INSERT INTO cut FORMAT TSV"), r)
	if resp, err := http.DefaultTransport.RoundTrip(req); err == nil {
		_ = resp.Body.Close()
	}
	waitFor(t, "the insert to end", func() bool {
		_, got := ask(t, p.Addr, "POST", "", "SELECT count() FROM system.processes WHERE query LIKE '%INTO cu' || 't%'")
		return got == "0\n"
	})
	if _, got := ask(t, p.Addr, "POST", "", "SELECT count() FROM cut"); got != "0\n" {
		t.Errorf("%q rows of an insert that was cut", got)
	}
}

func TestHTTP_LongInsertIsStreamed(t *testing.T) {
	p := servetest.Start(t, servetest.Options{})
	ask(t, p.Addr, "POST", "", "CREATE TABLE big (a UInt64, s String) ENGINE = MergeTree ORDER BY a")
	const rows = 1_000_000
	r, w := io.Pipe()
	go func() {
		var b bytes.Buffer
		b.WriteString("INSERT INTO big FORMAT TSV\n")
		for i := range rows {
			fmt.Fprintf(&b, "%d\tsome text of row %d\n", i, i)
			if b.Len() > 64<<10 {
				_, _ = b.WriteTo(w) // the reader's end tells
			}
		}
		_, _ = b.WriteTo(w)
		_ = w.Close()
	}()
	req, _ := http.NewRequestWithContext(context.Background(), "POST", "http://"+p.Addr+"/", r)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if _, got := ask(t, p.Addr, "POST", "", "SELECT count(), sum(a) FROM big"); got != fmt.Sprintf("%d\t%d\n", rows, rows*(rows-1)/2) {
		t.Errorf("%d %q", resp.StatusCode, got)
	}
}
