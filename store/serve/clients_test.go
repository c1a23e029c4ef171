package serve_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/spate-io/spate/store/serve/servetest"
)

func TestMain(m *testing.M) { servetest.Main(m) }

func goClient(t *testing.T, addr string, method clickhouse.CompressionMethod) driver.Conn {
	t.Helper()
	conn, err := clickhouse.Open(&clickhouse.Options{Addr: []string{addr}, Protocol: clickhouse.HTTP, Compression: &clickhouse.Compression{Method: method, Level: 3}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestClients_GoHTTP(t *testing.T) {
	p := servetest.Start(t, servetest.Options{})
	for _, method := range []clickhouse.CompressionMethod{clickhouse.CompressionNone, clickhouse.CompressionLZ4, clickhouse.CompressionZSTD, clickhouse.CompressionGZIP, clickhouse.CompressionDeflate, clickhouse.CompressionBrotli} {
		t.Run(method.String(), func(t *testing.T) { driveGo(t, goClient(t, p.Addr, method)) })
	}
}

func driveGo(t *testing.T, conn driver.Conn) {
	ctx := context.Background()
	if err := conn.Ping(ctx); err != nil {
		t.Fatal(err)
	}
	var text string
	var n uint64
	const hard = "it's\t\\ \n日本"
	qctx := clickhouse.Context(ctx, clickhouse.WithParameters(clickhouse.Parameters{"a": "it\\'s\\t\\\\ \\n日本", "n": "41"}), clickhouse.WithSettings(clickhouse.Settings{"max_block_size": 1000}))
	if err := conn.QueryRow(qctx, "SELECT {a:String}, {n:UInt64} + 1").Scan(&text, &n); err != nil || text != hard || n != 42 {
		t.Errorf("params: %q %d %v", text, n, err)
	}
	var (
		m   map[string]uint64
		arr []string
		lc  string
		nul *string
		at  time.Time
		ip  net.IP
	)
	err := conn.QueryRow(ctx, "SELECT map('k', toUInt64(7)), ['a', 'b'], toLowCardinality('lc'), CAST(NULL, 'Nullable(String)'), toDateTime64('2024-02-29 12:00:00.5', 3, 'UTC'), toIPv6('2001:db8::1')").Scan(&m, &arr, &lc, &nul, &at, &ip)
	if err != nil || m["k"] != 7 || len(arr) != 2 || lc != "lc" || nul != nil || at.UnixMilli() != 1709208000500 || ip.String() != "2001:db8::1" {
		t.Errorf("types: %v %v %v %v %v %v %v", m, arr, lc, nul, at, ip, err)
	}
	if err := conn.Exec(ctx, "CREATE OR REPLACE TABLE go (n UInt64, s String, l LowCardinality(String), m Map(LowCardinality(String), UInt64)) ENGINE = MergeTree ORDER BY n"); err != nil {
		t.Fatal(err)
	}
	batch, err := conn.PrepareBatch(ctx, "INSERT INTO go (n, s, l, m)")
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(20_000) {
		if err := batch.Append(i, fmt.Sprintf("it's %d\x00", i), fmt.Sprint(i%5), map[string]uint64{"k": i}); err != nil {
			t.Fatal(err)
		}
	}
	if err := batch.Send(); err != nil {
		t.Fatal(err)
	}
	rows, err := conn.Query(ctx, "SELECT n, s, l, m FROM go ORDER BY n")
	if err != nil {
		t.Fatal(err)
	}
	seen := uint64(0)
	for rows.Next() {
		if err := rows.Scan(&n, &text, &lc, &m); err != nil || n != seen || text != fmt.Sprintf("it's %d\x00", n) || lc != fmt.Sprint(n%5) || m["k"] != n {
			t.Fatalf("row %d: %d %q %q %v %v", seen, n, text, lc, m, err)
		}
		seen++
	}
	if err := rows.Err(); err != nil || seen != 20_000 {
		t.Errorf("%d rows, %v", seen, err)
	}
	_ = rows.Close()

	var ex *clickhouse.Exception
	if err := conn.Exec(ctx, "SELECT * FROM no_such_table"); !errors.As(err, &ex) || ex.Code != 60 {
		t.Errorf("error: %v", err)
	}
	if rows, err = conn.Query(clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"max_threads": 1})), "SELECT number, throwIf(number = 3000000) FROM numbers(4000000)"); err == nil {
		for rows.Next() {
		}
		err = rows.Err()
		_ = rows.Close()
	}
	if !errors.As(err, &ex) || ex.Code != 395 {
		t.Errorf("error in stream: %v", err)
	}
	cctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	if err := conn.Exec(cctx, "SELECT sum(sipHash64(number)) FROM numbers(1000000000000) -- by go"); err == nil || time.Since(began) > 5*time.Second {
		t.Errorf("cancel: %v after %s", err, time.Since(began))
	}
	waitFor(t, "the cancelled statement to end", func() bool {
		var c uint64
		err := conn.QueryRow(ctx, "SELECT count() FROM system.processes WHERE query LIKE '%sip' || 'Hash64%'").Scan(&c)
		return err == nil && c == 0
	})
}

func waitFor(t testing.TB, what string, cond func() bool) {
	t.Helper()
	deadline := time.After(15 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-deadline:
			t.Fatalf("waited too long for %s", what)
		case <-tick.C:
		}
	}
}

// cache gives a folder for other languages' packages below the repository's cache.
func cache(t *testing.T, name string) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", "..", ".cache", "clients", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	return dir
}

// prepare runs a command that installs packages; where it cannot, the test is skipped.
func prepare(t *testing.T, name string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		t.Skipf("%s is not available: %v: %.300s", name, err, out)
	}
}

// drive runs a script and checks that it came to its end.
func drive(t *testing.T, steps int, name string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if got := strings.Count("\n"+string(out), "\nok "); err != nil || got != steps {
		t.Errorf("%d steps of %d, %v\n%s", got, steps, err, out)
	}
}

func TestClients_PythonConnect(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed: clickhouse-connect was not tried")
	}
	venv := filepath.Join(cache(t, "python"), "venv")
	bin := filepath.Join(venv, "bin", "python3")
	if exec.Command(bin, "-c", "import clickhouse_connect").Run() != nil {
		prepare(t, python, "-m", "venv", venv)
		prepare(t, bin, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "clickhouse-connect==1.12.0")
	}
	p := servetest.Start(t, servetest.Options{})
	drive(t, 9, bin, filepath.Join("testdata", "connect.py"), p.Addr)
}

func TestClients_Node(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed: @clickhouse/client was not tried")
	}
	dir := cache(t, "node")
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "@clickhouse", "client", "package.json")); err != nil {
		prepare(t, "npm", "install", "--prefix", dir, "--no-audit", "--no-fund", "--ignore-scripts", "@clickhouse/client")
	}
	p := servetest.Start(t, servetest.Options{})
	drive(t, 16, node, filepath.Join("testdata", "client.mjs"), p.Addr, dir)
}
