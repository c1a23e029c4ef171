package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// grown is an access log to which somebody writes all the time.
type grown struct {
	t       *testing.T
	path    string
	lines   int
	stop    chan struct{}
	stopped sync.WaitGroup
}

func grow(t *testing.T, path string) *grown {
	g := &grown{t: t, path: path, stop: make(chan struct{})}
	g.stopped.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			appendLines(t, path, g.lines, g.lines+40)
			g.lines += 40
			select {
			case <-g.stop:
				return
			case <-tick.C:
			}
		}
	})
	return g
}

// end stops writing and gives the number of lines.
func (g *grown) end() int {
	close(g.stop)
	g.stopped.Wait()
	return g.lines
}

// serveStore runs `spate store serve` on a new data directory and gives its address.
func serveStore(t *testing.T) string {
	t.Helper()
	dir, addr := t.TempDir(), freePort(t)
	file := filepath.Join(dir, "spate.yaml")
	yaml := fmt.Sprintf("data_dir: %s\nhttp:\n  listen: %s\nstore:\n  serve:\n    listen: %s\n", filepath.Join(dir, "data"), freePort(t), addr)
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd := exec.Command(spateBinary(t), "store", "serve", "--config", file)
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the served store's log:\n%s", tail(log.Bytes(), 30))
		}
	})
	waitFor(t, 60*time.Second, "the served store", func() error {
		_, err := text("http://" + addr + "/ping")
		return err
	})
	return addr
}

// edit replaces text in the configuration.
func (s *spate) edit(was, is string) {
	s.t.Helper()
	file := filepath.Join(s.dir, "spate.yaml")
	b, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(b), was) {
		s.t.Fatalf("%v: no %q in\n%s", err, was, b)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(b), was, is, 1)), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// An operator takes a running Spate from the embedded store to a server: history while lines come in, a move that is killed on
// its way, the rest while Spate is stopped, and a new address. Every line that was ever written is in the server, once.
func TestMove_ToAServerWhileLinesComeIn(t *testing.T) {
	server := serveStore(t)
	logs := t.TempDir()
	path := filepath.Join(logs, "access.log")
	local := freePort(t)
	section := "store:\n  serve:\n    listen: " + local + "\n"
	s := newSpate(t, fmt.Sprintf("edge:\n  inputs:\n    - {type: file, path: %s, host: followed.test}\n%s", path, section))
	s.start()
	if out, err := s.run("import", writeLog(t, numberedLines(0, 20_000)), "--host", "old.test"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	g := grow(t, path)

	to := "clickhouse://" + server
	killed := exec.Command(spateBinary(t), "store", "move", "--to", to, "--rate", "300KiB", "--config", filepath.Join(s.dir, "spate.yaml"))
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, 60*time.Second, "some history in the server", func() error {
		n, err := text("http://" + server + "/?query=SELECT+count()+FROM+http_requests_1h")
		if err == nil && n == "0" {
			err = fmt.Errorf("none")
		}
		return err
	})
	_ = killed.Process.Kill()
	_ = killed.Wait()

	out, err := s.run("store", "move", "--to", to)
	if err != nil && !strings.Contains(err.Error(), "exit status 3") {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(out, "next        Spate runs") {
		t.Fatalf("it does not say what comes next:\n%s", out)
	}
	t.Logf("while Spate runs:\n%s", out)

	s.kill() // the worst way to stop it: an insert may be under way
	began := time.Now()
	if out, err = s.run("store", "move", "--to", to, "--quick"); strings.Contains(out, "unfinished") {
		t.Logf("an insert was under way:\n%s", out)
		if err == nil {
			t.Error("and the exit code is 0")
		}
		s.start()
		s.stop()
		began = time.Now()
		out, err = s.run("store", "move", "--to", to, "--quick")
	}
	if err != nil || !strings.Contains(out, "start Spate on the target") {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("while Spate was stopped, in %s:\n%s", time.Since(began), out)
	if out, err := s.run("store", "move", "--to", to, "--verify"); err != nil || !strings.Contains(out, "equal") {
		t.Fatalf("%v\n%s", err, out)
	}

	s.edit(section, "store:\n  address: "+to+"\n")
	s.start()
	n := g.end()
	storedOnceAt(t, server, "old.test", 20_000)
	storedOnceAt(t, server, "followed.test", n)
	t.Logf("%d lines came in meanwhile", n)
	waitFor(t, 60*time.Second, "the ledger to say that nothing is missing", func() error {
		out, err := s.run("ledger", "--since", "1h")
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, out)
		}
		return err
	})
	if out, err := s.run("store", "check"); err != nil {
		t.Errorf("check: %v\n%s", err, out)
	}
	// Once more by mistake: what Spate has stored in the server stays.
	old := filepath.Join(s.dir, "data", "store")
	if out, err := s.run("store", "move", "--from", old, "--to", to); err == nil || !strings.Contains(err.Error(), "no move put there") {
		t.Errorf("%v\n%s", err, out)
	}
	storedOnceAt(t, server, "followed.test", n)
}

// storedOnceAt waits until a host has n requests in every table, each path once.
func storedOnceAt(t *testing.T, serve, host string, n int) {
	t.Helper()
	sql := "WITH (SELECT any(ZoneID) FROM http_requests WHERE ClientRequestHost = '" + host + "') AS z" +
		" SELECT (SELECT count() FROM http_requests WHERE ZoneID = z), (SELECT uniqExact(ClientRequestPath) FROM http_requests WHERE ZoneID = z)"
	want := fmt.Sprintf("%d\t%d", n, n)
	for _, table := range []string{"http_requests_1m", "http_requests_1h", "http_requests_1d", "http_requests_1mo", "http_colos_1m", "http_colos_1mo"} {
		sql += ", (SELECT sum(requests) FROM " + table + " WHERE zone_id = z)"
		want += fmt.Sprintf("\t%d", n)
	}
	waitFor(t, 60*time.Second, fmt.Sprintf("%d requests of %s in the server", n, host), func() error {
		resp, err := client.Post("http://"+serve+"/", "text/plain", strings.NewReader(sql))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		var b bytes.Buffer
		if _, err := b.ReadFrom(resp.Body); err != nil {
			return err
		}
		if got := strings.TrimSpace(b.String()); got != want {
			return fmt.Errorf("requests, paths, and requests of the rollups are %s, want %s", got, want)
		}
		return nil
	})
}
