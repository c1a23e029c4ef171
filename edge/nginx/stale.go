package nginx

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// stopStale ends every nginx that runs in dir, masters and orphaned workers: gracefully, then, after the timeout, for
// certain. They are known by their working folder, which only processes started by once have.
func stopStale(ctx context.Context, dir string, timeout time.Duration, log *slog.Logger) error {
	pids, err := running(dir)
	if err != nil || len(pids) == 0 {
		return err
	}
	log.Info("stopping the nginx of an earlier run", "pids", pids)
	signal(pids, syscall.SIGQUIT)
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	killed := false
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline.C:
			if killed {
				return fmt.Errorf("processes %v do not end", pids)
			}
			log.Warn("killing the nginx of an earlier run, it did not stop", "pids", pids)
			killed = true
			deadline.Reset(timeout)
			signal(pids, syscall.SIGKILL)
		case <-again.C:
		}
		if pids, err = running(dir); err != nil || len(pids) == 0 {
			return err
		}
	}
}

func signal(pids []int, s syscall.Signal) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, s)
	}
}

// running lists the nginx processes whose working folder is dir.
func running(dir string) ([]int, error) {
	want, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		// Processes of others cannot be looked into, and are not ours.
		if cwd, err := os.Readlink(filepath.Join("/proc", e.Name(), "cwd")); err != nil || cwd != want {
			continue
		}
		name, err := os.ReadFile(filepath.Join("/proc", e.Name(), "comm"))
		if err == nil && isNginx(strings.TrimSpace(string(name))) && !zombie(e.Name()) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

func isNginx(name string) bool { return name == "nginx" || name == "openresty" }

// zombie says that a process has ended and only waits for its parent to notice.
func zombie(pid string) bool {
	b, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return true
	}
	i := strings.LastIndexByte(string(b), ')')
	return i >= 0 && strings.HasPrefix(string(b)[i+1:], " Z")
}
