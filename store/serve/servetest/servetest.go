// Package servetest runs the embedded engine behind its HTTP interface in another process, for tests of clients: the
// test's own binary, started again.
//
// The test's package needs
//
//	func TestMain(m *testing.M) { servetest.Main(m) }
package servetest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spate-io/spate/store/chdb"
	"github.com/spate-io/spate/store/serve"
)

const env = "SPATE_SERVETEST"

// Options are what the other process is told.
type Options struct {
	// Path is the data directory; empty means one of the test.
	Path string
	// Users are the accounts; without any, everybody on loopback is "default".
	Users []User
	// Verbose logs to standard error.
	Verbose bool
}

// User is an account in a form that can be sent to the other process.
type User struct {
	Name, PasswordSHA256, TokenSHA256 string
	Readonly                          int
	Admin, Outside                    bool
	MaxQueries                        int
	MaxResultRows                     uint64
}

// Main is the body of TestMain: it runs the tests, or, in the other process, the server.
func Main(m *testing.M) {
	options := os.Getenv(env)
	if options == "" {
		os.Exit(m.Run())
	}
	if err := child(options); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

// noLibrary is what the child prints when the engine is not installed.
const noLibrary = "no library"

func child(options string) error {
	var o Options
	if err := json.Unmarshal([]byte(options), &o); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() { // the parent holds the other end of standard input: when it dies, so does this process
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	cfg := chdb.DefaultConfig()
	cfg.Path = o.Path
	db, err := chdb.Open(ctx, cfg, chdb.Deps{})
	if errors.Is(err, chdb.ErrNoLibrary) {
		return errors.New(noLibrary)
	}
	if err != nil {
		return err
	}
	sc := serve.DefaultConfig()
	sc.Listen = "127.0.0.1:0"
	for _, u := range o.Users {
		sc.Users = append(sc.Users, serve.User{Name: u.Name, PasswordSHA256: u.PasswordSHA256, TokenSHA256: u.TokenSHA256, Readonly: u.Readonly,
			Admin: u.Admin, Outside: u.Outside, MaxQueries: u.MaxQueries, MaxResultRows: u.MaxResultRows})
	}
	log := slog.New(slog.DiscardHandler)
	if o.Verbose {
		log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	s, err := serve.New(sc, serve.Deps{DB: db, Logger: log})
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	for s.Ready() != nil {
		select {
		case err := <-ended:
			return err
		case <-time.After(5 * time.Millisecond):
		}
	}
	fmt.Println("listening", s.Addr())
	return errors.Join(<-ended, db.Close())
}

// Process is a server in another process.
type Process struct {
	// Addr is its host:port.
	Addr string
	cmd  *exec.Cmd
	in   io.Closer
}

// Start starts a server and stops it when the test ends. The test is skipped where libchdb is not installed.
func Start(t testing.TB, o Options) *Process {
	t.Helper()
	if o.Path == "" {
		o.Path = t.TempDir()
	}
	options, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &Process{cmd: exec.Command(exe)}
	p.cmd.Env = append(os.Environ(), env+"="+string(options))
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if addr, ok := strings.CutPrefix(lines.Text(), "listening "); ok {
			p.Addr = addr
			return p
		}
		if strings.HasSuffix(lines.Text(), noLibrary) {
			t.Skip("libchdb.so is not installed")
		}
	}
	t.Fatal("the server did not start")
	return nil
}

// Stop stops the server and waits for its end; again it does nothing.
func (p *Process) Stop() {
	_ = p.in.Close()
	_ = p.cmd.Wait() // its output says what was wrong
}

// Kill ends the server at once.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}
