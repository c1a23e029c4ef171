package embedded

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// openMarker exists while a broker has the directory open; one that is there at start says that the last run crashed.
const openMarker = "spate.open"

// lockDir takes the directory for this process; the kernel frees the lock when the process ends, however it ends.
func lockDir(dir string) (unlock func(), err error) {
	path := filepath.Join(dir, "spate.lock")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: another process uses this directory: %w", path, err)
	}
	return func() { f.Close() }, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// writeSynced replaces path with data so that either the old or the new content is there after a crash.
func writeSynced(path string, data []byte) error {
	tmp := path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		f.Close()
		return err
	}
	if err := f.Sync(); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}
