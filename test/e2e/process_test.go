package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spate-io/spate/internal/testdata"
)

// spate is one running `spate up` and the data directory that outlives it.
type spate struct {
	t       *testing.T
	dir     string // holds spate.yaml and data/
	base    string // http://host:port of the API
	bus     string // host:port of the embedded broker
	gateway string // host:port of the gateway
	cmd     *exec.Cmd
	exited  chan struct{}
	log     *os.File
}

// spateBinary returns the built binary's path.
func spateBinary(t *testing.T) string {
	t.Helper()
	bin := os.Getenv("SPATE_BIN")
	if bin == "" {
		bin = filepath.Join(testdata.Root(t), "bin", "spate")
	}
	if _, err := os.Stat(bin); err != nil {
		t.Fatalf("no binary at %s: run `make build` first", bin)
	}
	return bin
}

// newSpate writes a configuration with free ports and the given extra YAML, and starts nothing.
func newSpate(t *testing.T, extra string) *spate {
	t.Helper()
	dir := t.TempDir()
	api, bus, gateway := freePort(t), freePort(t), freePort(t)
	yaml := fmt.Sprintf(`data_dir: %s
http:
  listen: %s
bus:
  embedded:
    listen: %s
gateway:
  listen: %s
%s`, filepath.Join(dir, "data"), api, bus, gateway, extra)
	if err := os.WriteFile(filepath.Join(dir, "spate.yaml"), []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "spate.log"))
	if err != nil {
		t.Fatal(err)
	}
	s := &spate{t: t, dir: dir, base: "http://" + api, bus: bus, gateway: gateway, log: log}
	t.Cleanup(func() {
		if s.cmd != nil {
			s.kill()
		}
		log.Close()
		if t.Failed() {
			b, _ := os.ReadFile(log.Name())
			t.Logf("spate's log:\n%s", tail(b, 60))
		}
	})
	return s
}

// start runs `spate up` and waits until it is ready. It returns how long that took.
func (s *spate) start() time.Duration {
	s.t.Helper()
	began := time.Now()
	s.cmd = exec.Command(spateBinary(s.t), "up", "--config", filepath.Join(s.dir, "spate.yaml"))
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.exited = make(chan struct{})
	go func(cmd *exec.Cmd, exited chan struct{}) { _ = cmd.Wait(); close(exited) }(s.cmd, s.exited)
	waitFor(s.t, 60*time.Second, "spate up to be ready", func() error {
		select {
		case <-s.exited:
			return fatal{fmt.Errorf("it exited: %v", s.cmd.ProcessState)}
		default:
		}
		resp, err := client.Get(s.base + "/ready")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			body, _ := io.ReadAll(resp.Body)
			return fmt.Errorf("/ready answers %d: %s", resp.StatusCode, body)
		}
		return nil
	})
	return time.Since(began)
}

// kill ends the process as a power cut would, without warning.
func (s *spate) kill() {
	s.t.Helper()
	_ = s.cmd.Process.Kill()
	<-s.exited
	s.cmd = nil
}

// stop asks the process to drain and end, and fails the test when it does not end well.
func (s *spate) stop() {
	s.t.Helper()
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.exited:
	case <-time.After(60 * time.Second):
		s.t.Fatal("spate up did not stop within 60 s of SIGTERM")
	}
	if code := s.cmd.ProcessState.ExitCode(); code != 0 {
		s.t.Fatalf("spate up ended with %v", s.cmd.ProcessState)
	}
	s.cmd = nil
}

// run executes another subcommand on the same configuration and returns what it printed on standard output.
func (s *spate) run(args ...string) (string, error) {
	s.t.Helper()
	args = append(args, "--config", filepath.Join(s.dir, "spate.yaml"))
	cmd := exec.Command(spateBinary(s.t), args...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("spate %s: %w\n%s", strings.Join(args, " "), err, tail(errOut.Bytes(), 20))
	}
	return out.String(), err
}

var client = &http.Client{Timeout: 10 * time.Second}

// get decodes the JSON answer of the API at path into into.
func (s *spate) get(path string, into any) error {
	resp, err := client.Get(s.base + path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s answers %d: %s", path, resp.StatusCode, body)
	}
	return json.Unmarshal(body, into)
}

// fatal marks an error that waiting cannot cure.
type fatal struct{ error }

// waitFor polls cond until it returns nil, and fails the test with its last error after the limit.
func waitFor(t *testing.T, limit time.Duration, what string, cond func() error) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for {
		err := cond()
		if err == nil {
			return
		}
		if _, hopeless := err.(fatal); hopeless || time.Now().After(deadline) {
			t.Fatalf("waited %s for %s: %v", limit, what, err)
		}
		<-time.After(20 * time.Millisecond)
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func tail(b []byte, lines int) []byte {
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] == '\n' {
			if lines--; lines < 0 {
				return b[i+1:]
			}
		}
	}
	return b
}

// text gives the answer at an address without the line's end.
func text(address string) (string, error) {
	resp, err := client.Get(address)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("answers %d: %s", resp.StatusCode, body)
	}
	return strings.TrimSpace(string(body)), err
}
