package producer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
)

// listener is a unix listener that removes its own socket, and only its own, when it is closed.
type listener struct {
	*net.UnixListener
	path string
	made os.FileInfo
}

// Close stops listening and removes the socket, unless another process has put its own in this place.
func (l *listener) Close() error {
	if now, err := os.Lstat(l.path); err == nil && os.SameFile(now, l.made) {
		_ = os.Remove(l.path)
	}
	return l.UnixListener.Close()
}

// listen makes the socket under another name, sets its permissions and moves it into its place, so that there is no
// moment at which a wrong user could connect, or a right one could not.
func listen(cfg Config) (*listener, error) {
	if err := vacant(cfg.Socket); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(cfg.Socket), 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of socket %s: %w", cfg.Socket, err)
	}
	temporary := cfg.temporary()
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove stale socket: %w", err)
	}
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: temporary, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", cfg.Socket, err)
	}
	ln.SetUnlinkOnClose(false)
	made, err := place(cfg, temporary)
	if err != nil {
		_ = ln.Close()
		_ = os.Remove(temporary)
		return nil, fmt.Errorf("open socket %s: %w", cfg.Socket, err)
	}
	return &listener{UnixListener: ln, path: cfg.Socket, made: made}, nil
}

func place(cfg Config, temporary string) (os.FileInfo, error) {
	mode, err := cfg.mode()
	if err != nil {
		return nil, err
	}
	gid, err := cfg.gid()
	if err != nil {
		return nil, err
	}
	if gid >= 0 {
		if err := os.Chown(temporary, -1, gid); err != nil {
			return nil, err
		}
	}
	if err := os.Chmod(temporary, mode); err != nil {
		return nil, err
	}
	made, err := os.Lstat(temporary)
	if err != nil {
		return nil, err
	}
	return made, os.Rename(temporary, cfg.Socket)
}

// vacant refuses a path that holds something else than a socket, or a socket on which somebody answers. A stale socket,
// left by a process that was killed, is fine.
func vacant(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at socket %s: %w", path, err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s exists and is not a socket", path)
	}
	c, err := (&net.Dialer{}).DialContext(context.Background(), "unix", path)
	if err == nil {
		_ = c.Close()
		return fmt.Errorf("another process listens on %s", path)
	}
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT) {
		return nil
	}
	return fmt.Errorf("try socket %s: %w", path, err)
}
