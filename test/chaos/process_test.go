package chaos

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// process is one role in a process of its own, started again when it ends, as an init system does.
type process struct {
	name string
	bin  string
	args []string
	env  []string
	base string // of its HTTP interface
	log  *os.File

	mu    sync.Mutex
	cmd   *exec.Cmd
	ended chan struct{}
	held  bool // somebody wants it to be down
	exits int  // how often it ended although nobody killed it
}

// start runs the process and keeps it running until hold.
func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = false
	return p.launch()
}

func (p *process) launch() error {
	cmd := exec.Command(p.bin, p.args...)
	cmd.Env = append(os.Environ(), p.env...)
	cmd.Stdout, cmd.Stderr = p.log, p.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	p.cmd, p.ended = cmd, make(chan struct{})
	go p.watch(cmd, p.ended)
	return nil
}

// watch starts the process again when it ended by itself.
func (p *process) watch(cmd *exec.Cmd, ended chan struct{}) {
	_ = cmd.Wait()
	close(ended)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held || p.cmd != cmd {
		return
	}
	p.exits++
	_, _ = fmt.Fprintf(p.log, "chaos: %s ended by itself: %v\n", p.name, cmd.ProcessState)
	time.AfterFunc(500*time.Millisecond, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.held && p.cmd == cmd {
			_ = p.launch()
		}
	})
}

// kill ends the process as a power cut would, and keeps it down until start.
func (p *process) kill() {
	p.mu.Lock()
	p.held = true
	cmd, ended := p.cmd, p.ended
	p.mu.Unlock()
	if cmd == nil {
		return
	}
	_ = cmd.Process.Kill()
	<-ended
}

func (p *process) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.cmd.Process.Signal(s)
}

// setClock sets the clock of the process as it runs now; one that is started again has the machine's.
func (p *process) setClock(by time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := setClock(p.cmd.Process.Pid, by); err != nil {
		_, _ = fmt.Fprintf(p.log, "chaos: clock of %s: %v\n", p.name, err)
	}
}

var client = &http.Client{Timeout: 3 * time.Second}

// ready says whether the process does what it is there for.
func (p *process) ready() error {
	res, err := client.Get(p.base + "/ready")
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: /ready answers %d", p.name, res.StatusCode)
	}
	return nil
}

// waitFor asks until there is no error, for at most limit.
func waitFor(limit time.Duration, what string, f func() error) error {
	deadline := time.Now().Add(limit)
	for {
		err := f()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("waited %s for %s: %w", limit, what, err)
		}
		<-time.After(50 * time.Millisecond)
	}
}

// disk is where the edge's spool lies: a small file system of its own where we may mount one, else a directory that
// never fills.
type disk struct {
	dir     string
	mounted bool
}

func newDisk(dir string) (*disk, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=96m")
	if err != nil && !errors.Is(err, syscall.EPERM) && !errors.Is(err, syscall.EACCES) {
		return nil, fmt.Errorf("mount a small disk: %w", err)
	}
	return &disk{dir: dir, mounted: err == nil}, nil
}

// fill takes all that is left.
func (d *disk) fill() error {
	f, err := os.Create(filepath.Join(d.dir, "ballast"))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	block := make([]byte, 64<<10)
	for len(block) > 0 {
		if _, err := f.Write(block); err != nil {
			block = block[:len(block)/2]
		}
	}
	return nil
}

func (d *disk) free() error { return os.Remove(filepath.Join(d.dir, "ballast")) }

func (d *disk) close() {
	if d.mounted {
		_ = syscall.Unmount(d.dir, syscall.MNT_DETACH)
	}
}
