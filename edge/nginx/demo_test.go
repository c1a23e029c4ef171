package nginx_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spate-io/spate/edge/forward/forwardtest"
	"github.com/spate-io/spate/edge/nginx"
)

// demoSite is a Demo with a producer beside it.
type demoSite struct {
	*nginx.Demo
	cfg  nginx.Config
	sink *forwardtest.Sink
}

func newDemo(t *testing.T) *demoSite {
	t.Helper()
	build(t)
	// Paths of unix sockets are short, those of t.TempDir are not.
	dir, err := os.MkdirTemp("", "spate-demo")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	cfg := nginx.DefaultConfig()
	cfg.Dir, cfg.Socket = filepath.Join(dir, "site"), filepath.Join(dir, "p.sock")
	cfg.Listen = fmt.Sprintf("127.0.0.1:%d", ports(t, 1)[0])
	s := &demoSite{cfg: cfg, sink: auto()}
	(&server{socket: cfg.Socket}).listen(t, s.sink)
	s.Demo = s.again(t)
	return s
}

// again makes another Demo with the same configuration.
func (s *demoSite) again(t *testing.T) *nginx.Demo {
	t.Helper()
	d, err := nginx.NewDemo(s.cfg, nginx.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// run runs a Demo until stop is called, and waits until it is ready.
func run(t *testing.T, d *nginx.Demo) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			if err := <-done; err != nil {
				t.Errorf("run: %v", err)
			}
		}
	}
	t.Cleanup(stop)
	eventually(t, "the demo is ready", d.Ready)
	return stop
}

func (s *demoSite) get(t *testing.T, host, path string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.cfg.Listen+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func TestDemo_ServesASiteAndRecordsIt(t *testing.T) {
	s := newDemo(t)
	if err := s.Ready(); err == nil {
		t.Error("ready before it runs")
	}
	stop := run(t, s.Demo)
	want := map[string]int{
		"/": 200, "/about.html": 200, "/gallery.html": 200, "/style.css": 200, "/river.svg": 200, "/dot.png": 200,
		"/api/items": 200, "/api/stock": 200, "/api/broken": 500, "/old": 301, "/temporary": 302, "/error": 500, "/missing": 404,
		"/attack": 403, "/login": 200, "/teapot": 418,
	}
	got := map[string]int{}
	for path := range want {
		got[path], _ = s.get(t, "demo.localhost", path)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("status by path (-want +got):\n%s", diff)
	}
	if _, body := s.get(t, "shop.localhost", "/"); !strings.Contains(body, "Demo shop") && !strings.Contains(body, "demo shop") {
		t.Errorf("the second host has %q", body)
	}
	stop()
	if err := s.Ready(); err == nil {
		t.Error("ready after it has stopped")
	}
	log, err := os.ReadFile(filepath.Join(s.cfg.Dir, nginx.AccessLog))
	if err != nil {
		t.Fatal(err)
	}
	events, _ := received(t, s.sink)
	if lines := bytes.Count(log, []byte("\n")); lines != len(want)+1 || len(events) != lines {
		t.Errorf("%d requests, %d lines in the log, %d events", len(want)+1, lines, len(events))
	}
	hosts := map[string]int{}
	for _, e := range events {
		hosts[string(e.ClientRequestHost)]++
		if string(e.EdgeName) != "demo" {
			t.Errorf("edge %q", e.EdgeName)
		}
	}
	if diff := cmp.Diff(map[string]int{"demo.localhost": len(want), "shop.localhost": 1}, hosts); diff != "" {
		t.Errorf("events by host (-want +got):\n%s", diff)
	}
}

func TestDemo_RestartsNginxThatCrashed(t *testing.T) {
	s := newDemo(t)
	run(t, s.Demo)
	pid := s.master(t)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another nginx is there", func() error {
		if err := s.Ready(); err != nil {
			return err
		}
		if now := s.master(t); now == pid {
			return fmt.Errorf("still process %d", pid)
		}
		return nil
	})
}

func (s *demoSite) master(t *testing.T) int {
	t.Helper()
	var pid int
	eventually(t, "there is a pid file", func() error {
		b, err := os.ReadFile(filepath.Join(s.cfg.Dir, "nginx.pid"))
		if err != nil {
			return err
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(b)))
		return err
	})
	return pid
}

func TestDemo_StopsTheNginxOfAKilledRun(t *testing.T) {
	s := newDemo(t)
	run(t, s.Demo)()
	// What a spate that is killed leaves behind: an nginx without a parent that cares.
	left := exec.Command(build(t).Path, "-p", s.cfg.Dir, "-e", "logs/error.log", "-c", "nginx.conf", "-g", "daemon off;")
	left.Dir = s.cfg.Dir
	if err := left.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- left.Wait() }()
	eventually(t, "the nginx that was left answers", func() error {
		if s.master(t) != left.Process.Pid {
			return errors.New("not yet")
		}
		resp, err := http.Get(s.URL() + "robots.txt") // may still be in the worker's memory when it is stopped
		if err == nil {
			_ = resp.Body.Close()
		}
		return err
	})
	run(t, s.again(t))
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		_ = left.Process.Kill()
		t.Fatal("the nginx of the killed run lives on")
	}
	if n, _ := count(s.sink); n != 1 {
		t.Errorf("%d events of the nginx of the killed run, want 1", n)
	}
}

func TestDemo_SaysWhatIsMissing(t *testing.T) {
	cfg := nginx.DefaultConfig()
	cfg.Dir, cfg.Socket, cfg.Binary = t.TempDir(), "/tmp/x.sock", "no-such-nginx"
	d, err := nginx.NewDemo(cfg, nginx.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	err = d.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "apt-get install nginx libnginx-mod-http-lua") {
		t.Errorf("error %v does not say what to install", err)
	}
}

func TestDemo_FailsWhenThePortIsTaken(t *testing.T) {
	s := newDemo(t)
	other := http.Server{Addr: s.cfg.Listen, Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Second}
	go func() { _ = other.ListenAndServe() }()
	defer other.Close()
	eventually(t, "another server has the port", func() error {
		resp, err := http.Get("http://" + s.cfg.Listen)
		if err == nil {
			_ = resp.Body.Close()
		}
		return err
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := s.Run(ctx); err == nil || !strings.Contains(err.Error(), "bind()") {
		t.Errorf("error %v does not tell of the port", err)
	}
}

func TestConfig_RefusesWhatCannotWork(t *testing.T) {
	for name, change := range map[string]func(*nginx.Config){
		"dir":    func(c *nginx.Config) { c.Dir = "/a;b" },
		"listen": func(c *nginx.Config) { c.Listen = "0.0.0.0:80" },
		"socket": func(c *nginx.Config) { c.Socket = "" },
		"edge":   func(c *nginx.Config) { c.Edge = "\"" },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := nginx.DefaultConfig()
			cfg.Dir, cfg.Socket = "/tmp/a", "/tmp/b"
			change(&cfg)
			if _, err := nginx.NewDemo(cfg, nginx.Deps{}); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("error %v does not name %s", err, name)
			}
		})
	}
}
