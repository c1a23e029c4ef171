package nginx

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	firstPause   = 200 * time.Millisecond // before nginx is started again after a crash
	longestPause = 10 * time.Second
	calm         = time.Minute // a run as long as this makes the next pause short again
	// hopeless is how soon an nginx ends that cannot start at all; it tries for 2.5 s to get a port that is taken.
	hopeless = 10 * time.Second
)

// Deps are what a Demo needs from outside.
type Deps struct {
	Logger *slog.Logger // nil: no logging
}

// Demo is the demo edge: it writes the site, runs nginx over it, and starts it again when it crashes. Make one with
// NewDemo; Run it once. Start the producer first: what nginx still holds when it stops goes there.
type Demo struct {
	cfg    Config
	log    *slog.Logger
	client *http.Client
	state  atomic.Pointer[error] // why nginx is not running; nil pointer: it is
	served atomic.Bool           // it has answered at least once
}

// NewDemo checks its arguments; it writes and starts nothing.
func NewDemo(cfg Config, deps Deps) (*Demo, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	d := &Demo{
		cfg: cfg, log: deps.Logger,
		client: &http.Client{
			Timeout:   time.Second,
			Transport: &http.Transport{DisableKeepAlives: true},
		},
	}
	d.down(errors.New("not started"))
	return d, nil
}

// URL is the address of the site.
func (d *Demo) URL() string { return "http://" + d.cfg.Listen + "/" }

func (d *Demo) down(err error) { d.state.Store(&err) }

// Ready asks nginx for an answer; it takes a second at most.
func (d *Demo) Ready() error {
	if err := d.state.Load(); err != nil {
		return *err
	}
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, d.URL()+".spate/ready", nil)
	if err != nil {
		return err
	}
	resp, err := d.client.Do(req)
	if err != nil {
		return fmt.Errorf("ask nginx: %w", err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		return fmt.Errorf("nginx at %s answers %s: another server has this port", d.cfg.Listen, resp.Status)
	}
	d.served.Store(true)
	return nil
}

// Run serves the site until ctx is cancelled. It fails when nginx is not installed, or ends at once on its first start.
func (d *Demo) Run(ctx context.Context) error {
	build, err := Probe(ctx, d.cfg.Binary)
	if err != nil {
		return err
	}
	if err := writeSite(d.cfg, build); err != nil {
		return fmt.Errorf("write demo site to %s: %w", d.cfg.Dir, err)
	}
	// An nginx whose spate was killed went on serving; it hands over its events now.
	if err := stopStale(ctx, d.cfg.Dir, d.cfg.StopTimeout.D(), d.log); err != nil {
		return fmt.Errorf("stop the nginx of an earlier run: %w", err)
	}
	pause := firstPause
	for first := true; ctx.Err() == nil; first = false {
		began := time.Now()
		err := d.once(ctx, build)
		if ctx.Err() != nil {
			return err
		}
		if first && !d.served.Load() && time.Since(began) < hopeless {
			return fmt.Errorf("start nginx: %w", err)
		}
		if time.Since(began) > calm {
			pause = firstPause
		}
		d.down(fmt.Errorf("nginx ended: %w", err))
		d.log.Warn("nginx ended, starting it again", "err", err, "pause", pause)
		if err := stopStale(ctx, d.cfg.Dir, d.cfg.StopTimeout.D(), d.log); err != nil {
			return fmt.Errorf("stop the workers of an nginx that crashed: %w", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(pause*2, longestPause)
	}
	return nil
}

// once runs nginx until it ends or ctx does, and gives its last words. After ctx the error is that it had to be killed.
func (d *Demo) once(ctx context.Context, b Build) error {
	cmd := exec.Command(b.Path, "-p", d.cfg.Dir, "-e", "logs/error.log", "-c", "nginx.conf", "-g", "daemon off;")
	cmd.Dir = d.cfg.Dir
	// Its own group: Ctrl-C in a terminal is for us, and we tell nginx when the time has come.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, in, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }()
	cmd.Stdout, cmd.Stderr = in, in
	err = cmd.Start()
	_ = in.Close()
	if err != nil {
		return err
	}
	d.state.Store(nil)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	words := make(chan string, 1)
	go func() { words <- d.listen(out) }()

	select {
	case err = <-ended:
		_ = out.SetReadDeadline(time.Now().Add(100 * time.Millisecond)) // workers that live on hold the other end
		if last := <-words; last != "" {
			return errors.New(last)
		}
		if err == nil {
			err = errors.New("it exited by itself")
		}
		return err
	case <-ctx.Done():
	}
	d.down(errors.New("stopping"))
	err = d.stop(cmd.Process.Pid, ended)
	_ = out.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	<-words
	return err
}

// stop lets nginx finish its requests and hand over its events, and kills it when it takes too long.
func (d *Demo) stop(pid int, ended <-chan error) error {
	_ = syscall.Kill(pid, syscall.SIGQUIT)
	select {
	case <-ended:
		return nil
	case <-time.After(d.cfg.StopTimeout.D()):
	}
	_ = syscall.Kill(-pid, syscall.SIGKILL)
	<-ended
	return fmt.Errorf("nginx did not stop within %s and was killed", d.cfg.StopTimeout.D())
}

// listen logs what nginx prints and gives the last line.
func (d *Demo) listen(r io.Reader) string {
	var last string
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		last = lines.Text()
		d.log.Warn("nginx says", "line", last)
	}
	return last
}
