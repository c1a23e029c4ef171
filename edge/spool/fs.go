package spool

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
	"syscall"
)

// File is an open file. Reads and writes are at given offsets.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Truncate(size int64) error
	Sync() error
	Size() (int64, error)
}

// FS is the part of a file system that a spool uses; tests put faults behind it.
type FS interface {
	// Open opens a file for reading.
	Open(name string) (File, error)
	// Create makes a file that must not be there, open for reading and writing.
	Create(name string) (File, error)
	// Edit opens a file for reading and writing, making it when it is not there.
	Edit(name string) (File, error)
	Rename(from, to string) error
	Remove(name string) error
	MkdirAll(name string) error
	// List gives the names in a directory, sorted; none when it is not there.
	List(dir string) ([]string, error)
	// SyncDir makes the creations, renames and removals in a directory durable.
	SyncDir(dir string) error
	// Lock takes the lock of the given file, or gives ErrLocked when another holds it.
	Lock(name string) (io.Closer, error)
}

// OS is the file system of the operating system.
type OS struct{}

type osFile struct{ *os.File }

// Size is the length of the file.
func (f osFile) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, fmt.Errorf("stat: %w", err)
	}
	return st.Size(), nil
}

func open(name string, flag int) (File, error) {
	f, err := os.OpenFile(name, flag, 0o640) //nolint:gosec // the name comes from the configuration
	if err != nil {
		return nil, err //nolint:wrapcheck // says operation and path already
	}
	return osFile{f}, nil
}

// Open opens for reading.
func (OS) Open(name string) (File, error) { return open(name, os.O_RDONLY) }

// Create makes a new file.
func (OS) Create(name string) (File, error) { return open(name, os.O_RDWR|os.O_CREATE|os.O_EXCL) }

// Edit opens for reading and writing.
func (OS) Edit(name string) (File, error) { return open(name, os.O_RDWR|os.O_CREATE) }

// Rename moves a file.
func (OS) Rename(from, to string) error { return os.Rename(from, to) } //nolint:wrapcheck // says it all

// Remove deletes a file.
func (OS) Remove(name string) error { return os.Remove(name) } //nolint:wrapcheck // says it all

// MkdirAll makes a directory and those above it.
func (OS) MkdirAll(name string) error { return os.MkdirAll(name, 0o750) } //nolint:wrapcheck // says it all

// List gives the names in a directory.
func (OS) List(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err //nolint:wrapcheck // says operation and path already
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	sort.Strings(names)
	return names, nil
}

// SyncDir syncs a directory.
func (OS) SyncDir(dir string) error {
	d, err := os.Open(dir) //nolint:gosec // the name comes from the configuration
	if err != nil {
		return err //nolint:wrapcheck // says operation and path already
	}
	return errors.Join(d.Sync(), d.Close())
}

// Lock takes an advisory lock that ends with the process.
func (OS) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o640) //nolint:gosec // the name comes from the configuration
	if err != nil {
		return nil, err //nolint:wrapcheck // says operation and path already
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, ErrLocked
		}
		return nil, fmt.Errorf("flock: %w", err)
	}
	return f, nil
}
