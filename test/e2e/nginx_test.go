package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// edge is a real nginx with Spate's module in every server block, and with an access log of its own that the tests hold
// Spate's numbers against.
type edge struct {
	dir   string
	addrs []string // IPv4 and IPv6
	log   string
}

const edgeConfig = `
load_module /usr/lib/nginx/modules/ndk_http_module.so;
load_module /usr/lib/nginx/modules/ngx_http_lua_module.so;
worker_processes 2;
pid nginx.pid;
error_log error.log notice;
daemon off;
%[6]s
events { worker_connections 512; }
http {
    include %[1]s;
    client_body_temp_path tmp/body; proxy_temp_path tmp/proxy; fastcgi_temp_path tmp/fcgi; uwsgi_temp_path tmp/uwsgi; scgi_temp_path tmp/scgi;
    types { text/html html; text/css css; image/png png; application/json json; }
    default_type application/octet-stream;
    large_client_header_buffers 4 16k;
    keepalive_requests 100000;
    gzip on; gzip_types text/css;
    log_format check escape=json '{"msec":"$msec","took":"$request_time","host":"$host","status":"$status","method":"$request_method","bytes":"$bytes_sent"}';
    access_log access.log check;
    server {
        listen %[2]s default_server;
        listen %[3]s default_server;
        server_name _;
        root site;
        %[5]s
        location = /small { return 200 "small"; }
        location = /teapot { return 418; }
        location = /broken { return 500; }
        location = /moved { return 301 /; }
        location /api/ { default_type application/json; return 200 '{"items":[1,2,3]}'; }
    }
}
`

// startEdge starts nginx, producing to the forwarder's socket. It is stopped when the test ends.
func startEdge(t *testing.T, s *spate) *edge {
	t.Helper()
	if _, err := exec.LookPath("nginx"); err != nil {
		t.Fatal("no nginx: make test installs it")
	}
	dir := filepath.Join(s.dir, "nginx")
	for _, d := range []string{"site", "tmp"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	// Workers of an nginx that root starts run as somebody else, who must reach the site.
	for d := dir; d != filepath.Dir(os.TempDir()) && len(d) > 4; d = filepath.Dir(d) {
		_ = os.Chmod(d, 0o755)
	}
	for name, size := range map[string]int{"index.html": 900, "page.html": 4000, "style.css": 20000, "big": 300000} {
		if err := os.WriteFile(filepath.Join(dir, "site", name), []byte(strings.Repeat("x", size)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	include, serverLine := s.installModule()
	v4 := freePort(t)
	v6 := "[::1]:" + v4[strings.LastIndex(v4, ":")+1:]
	user := ""
	if os.Getuid() == 0 {
		user = "user root;"
	}
	conf := fmt.Sprintf(edgeConfig, include, v4, v6, s.dir, serverLine, user)
	if err := os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("nginx", "-p", dir, "-c", "nginx.conf")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	e := &edge{dir: dir, addrs: []string{v4, v6}, log: filepath.Join(dir, "access.log")}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			b, _ := os.ReadFile(filepath.Join(dir, "error.log"))
			t.Logf("nginx's error log:\n%s", tail(b, 20))
		}
	})
	waitFor(t, 10*time.Second, "nginx to listen", func() error {
		l := lane{addr: v4}
		defer l.close()
		return l.roundTrip(wire{method: "GET", bytes: "GET /small HTTP/1.1\r\nHost: alpha.test\r\n\r\n"})
	})
	return e
}

// installModule asks the binary for the Lua module, as an operator does, and returns the file to include in http {} and
// the line for server {}.
func (s *spate) installModule() (include, serverLine string) {
	s.t.Helper()
	dir := filepath.Join(s.dir, "module")
	if _, err := s.run("nginx", "install", dir); err != nil {
		s.t.Fatal(err)
	}
	return filepath.Join(dir, "conf", "spate.conf"), "include " + filepath.Join(dir, "conf", "spate_log.conf") + ";"
}

// counts is what both sides are reduced to: a number of requests per key such as "zone alpha.test status 200".
type counts map[string]int

// accessLog reduces nginx's own log.
func (e *edge) accessLog(t *testing.T) (total int, c counts) {
	t.Helper()
	f, err := os.Open(e.log)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c = counts{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var line struct{ Msec, Took, Host, Status string }
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatalf("access log line %q: %v", lines.Text(), err)
		}
		// nginx writes both with milliseconds; the start is exact when computed in them.
		start := milliseconds(t, line.Msec) - milliseconds(t, line.Took)
		zone := zoneOf(line.Host)
		c["zone "+zone+" status "+line.Status]++
		c["zone "+zone+" minute "+time.UnixMilli(start).UTC().Truncate(time.Minute).Format(time.RFC3339)]++
		c["zone "+zone+" host "+strings.ToLower(line.Host)]++
		total++
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return total, c
}

func milliseconds(t *testing.T, seconds string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(strings.Replace(seconds, ".", "", 1), 10, 64)
	if err != nil {
		t.Fatalf("access log time %q: %v", seconds, err)
	}
	return n
}

// zoneOf says which zone a host belongs to: two are configured, the others follow from the public suffix list.
func zoneOf(host string) string {
	switch {
	case host == "alpha.test", host == "www.alpha.test":
		return "alpha.test"
	case host == "beta.test":
		return "beta.test"
	case strings.HasSuffix(host, "example.co.uk"):
		return "example.co.uk"
	case strings.HasSuffix(host, "example.org"):
		return "example.org"
	case strings.HasSuffix(host, "xn--bcher-kva.example"):
		return "xn--bcher-kva.example"
	}
	return "unknown"
}
