package nginx_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spate-io/spate/edge/forward/forwardtest"
	"github.com/spate-io/spate/edge/nginx"
	"github.com/spate-io/spate/edge/producer"
	"github.com/spate-io/spate/event"
)

// server is a real nginx with the module, in a folder of its own.
type server struct {
	dir    string
	socket string
	cmd    *exec.Cmd
	ended  chan struct{}
	build  nginx.Build
}

// build skips the test when nginx or its Lua module is missing.
func build(t testing.TB) nginx.Build {
	t.Helper()
	b, err := nginx.Probe(t.Context(), "nginx")
	if errors.Is(err, nginx.ErrNotInstalled) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// start runs nginx with the given main and http level configuration. {{dir}} stands for the folder.
func start(t testing.TB, main, http string, o nginx.Options) *server {
	t.Helper()
	b := build(t)
	dir, err := os.MkdirTemp("", "spate-nginx")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &server{dir: dir, socket: filepath.Join(dir, "p.sock"), build: b}
	if err := nginx.WriteTo(filepath.Join(dir, "spate")); err != nil {
		t.Fatal(err)
	}
	o.LuaDir, o.Socket = filepath.Join(dir, "spate", "lua"), s.socket
	if o.Edge == "" {
		o.Edge = "test-edge"
	}
	snippet, err := nginx.Snippet(o)
	if err != nil {
		t.Fatal(err)
	}
	owner := ""
	if os.Geteuid() == 0 {
		owner = "user root;\n"
	}
	conf := b.LoadModules() + owner + `pid nginx.pid;
daemon off;
` + main + `
http {
client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;
` + snippet + http + "\n}\n"
	conf = strings.ReplaceAll(conf, "{{dir}}", dir)
	s.write(t, "nginx.conf", conf)
	s.write(t, "html/index.html", "<h1>hello</h1>\n")
	s.write(t, "html/page.html", "<p>"+strings.Repeat("the quick brown fox ", 200)+"</p>\n")
	return s
}

func (s *server) write(t testing.TB, name, text string) {
	t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// run starts the process and waits until it answers on addr.
func (s *server) run(t testing.TB, addr string) {
	t.Helper()
	s.cmd = exec.Command(s.build.Path, "-p", s.dir, "-e", "error.log", "-c", "nginx.conf")
	out, err := os.Create(filepath.Join(s.dir, "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	s.cmd.Stderr, s.cmd.Stdout = out, out
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.ended = make(chan struct{})
	go func() {
		defer close(s.ended)
		_ = s.cmd.Wait()
	}()
	t.Cleanup(func() {
		s.signal(syscall.SIGQUIT)
		select {
		case <-s.ended:
		case <-time.After(10 * time.Second):
			for _, pid := range s.workers(t) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			_ = s.cmd.Process.Kill()
			<-s.ended
		}
		if t.Failed() {
			t.Logf("error.log:\n%s", s.tail("error.log"))
			t.Logf("stderr:\n%s", s.tail("stderr"))
		}
	})
	eventually(t, "nginx listens", func() error {
		select {
		case <-s.ended:
			t.Fatalf("nginx ended: %s", s.tail("stderr"))
		default:
		}
		c, err := net.Dial("tcp", addr)
		if err == nil {
			_ = c.Close()
		}
		return err
	})
}

func (s *server) signal(sig syscall.Signal) { _ = s.cmd.Process.Signal(sig) }

// quit ends nginx gracefully and waits for it.
func (s *server) quit(t testing.TB) {
	t.Helper()
	s.signal(syscall.SIGQUIT)
	select {
	case <-s.ended:
	case <-time.After(15 * time.Second):
		t.Fatal("nginx does not quit")
	}
}

func (s *server) tail(name string) string {
	b, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-4000):])
}

// workers lists the worker processes.
func (s *server) workers(t testing.TB) []int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", s.cmd.Process.Pid, s.cmd.Process.Pid))
	if err != nil {
		return nil
	}
	var pids []int
	for _, f := range strings.Fields(string(b)) {
		pid, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// listen runs a producer on the server's socket until stop is called or the test ends.
func (s *server) listen(t testing.TB, sink producer.Sink) (stop func()) {
	t.Helper()
	cfg := producer.DefaultConfig()
	cfg.Socket = s.socket
	p, err := producer.New(cfg, producer.Deps{Sink: sink})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("producer: %v", err)
		}
	}
	t.Cleanup(stop)
	eventually(t, "producer listens", p.Ready)
	return stop
}

// received decodes what a sink got.
func received(t testing.TB, sink *forwardtest.Sink) (events []event.HTTP, dropped int) {
	t.Helper()
	chunks, _ := sink.Chunks()
	for _, c := range chunks {
		dropped += int(c.Dropped)
		_, err := event.Walk(c.Events, func(v event.View) error {
			var e event.HTTP
			v.Decode(&e)
			events = append(events, e)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return events, dropped
}

// count is the number of events and drops that a sink got.
func count(sink *forwardtest.Sink) (events, dropped int) {
	chunks, _ := sink.Chunks()
	for _, c := range chunks {
		events += int(c.Count)
		dropped += int(c.Dropped)
	}
	return events, dropped
}

// eventually waits until f gives nil, for 20 s at most.
func eventually(t testing.TB, what string, f func() error) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("waiting until %s: %v", what, err)
		case <-again.C:
		}
	}
}

// ports gives n free loopback ports.
func ports(t testing.TB, n int) []int {
	t.Helper()
	var p []int
	for range n {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		p = append(p, ln.Addr().(*net.TCPAddr).Port)
	}
	return p
}

// get makes n requests over one connection and returns when all are answered.
func get(t testing.TB, addr string, n int) {
	t.Helper()
	if err := request(addr, n); err != nil {
		t.Fatal(err)
	}
}

func request(addr string, n int) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	var b strings.Builder
	for i := range n {
		last := ""
		if i == n-1 {
			last = "Connection: close\r\n"
		}
		fmt.Fprintf(&b, "GET /index.html?n=%d HTTP/1.1\r\nHost: a.test\r\n%s\r\n", i, last)
	}
	go func() { _, _ = c.Write([]byte(b.String())) }()
	if answers := strings.Count(readAll(c), "HTTP/1.1 200"); answers != n {
		return fmt.Errorf("%d answers to %d requests", answers, n)
	}
	return nil
}

func readAll(c net.Conn) string {
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	var b strings.Builder
	buf := make([]byte, 64<<10)
	for {
		n, err := c.Read(buf)
		b.Write(buf[:n])
		if err != nil {
			return b.String()
		}
	}
}
