package spool

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sort"
	"sync"
	"syscall"
)

var errCrashed = errors.New("machine has crashed")

// memFS is a file system in memory that knows what a crash would leave: file contents as of the last sync and a part of what
// came after, directory entries likewise. One operation can be made to fail, or to be the last before a crash.
type memFS struct {
	mu      sync.Mutex
	live    map[string]*memNode
	entries map[string]*memNode // as of the last SyncDir of their directory
	dirOps  []dirOp             // since then, in order

	ops     int
	failAt  int   // number of the operation that fails; 0 for none
	fault   error // errCrashed, or what it fails with once
	crashed bool
	locked  map[string]bool
}

type dirOp struct {
	dir, name string
	node      *memNode // nil for a removal
}

type memNode struct {
	live    []byte
	synced  []byte
	pending []memWrite
}

type memWrite struct {
	off  int64
	data []byte
	cut  bool // truncate to off
}

func (w memWrite) apply(b []byte) []byte {
	if w.cut {
		if int64(len(b)) > w.off {
			return b[:w.off:w.off]
		}
		return b
	}
	end := int(w.off) + len(w.data)
	if end > len(b) {
		b = append(append([]byte(nil), b...), make([]byte, end-len(b))...)
	} else {
		b = append([]byte(nil), b...)
	}
	copy(b[w.off:], w.data)
	return b
}

func newMemFS() *memFS {
	return &memFS{live: map[string]*memNode{}, entries: map[string]*memNode{}, locked: map[string]bool{}}
}

// step counts an operation; the error is the fault when its time has come.
func (m *memFS) step() error {
	if m.crashed {
		return errCrashed
	}
	m.ops++
	if m.failAt == 0 || m.ops != m.failAt {
		return nil
	}
	m.crashed = errors.Is(m.fault, errCrashed)
	return m.fault
}

// crash gives the file system that the machine finds when it comes up again.
func (m *memFS) crash(rnd *rand.Rand) *memFS {
	n := newMemFS()
	names := map[string]*memNode{}
	for k, v := range m.entries {
		names[k] = v
	}
	for _, op := range m.dirOps[:rnd.IntN(len(m.dirOps)+1)] {
		if op.node == nil {
			delete(names, op.name)
		} else {
			names[op.name] = op.node
		}
	}
	seen := map[*memNode]*memNode{}
	for k, v := range names {
		if seen[v] == nil {
			b := v.synced
			keep := rnd.IntN(len(v.pending) + 1)
			for i, w := range v.pending[:keep] {
				if i == keep-1 && !w.cut && len(w.data) > 0 {
					w.data = append([]byte(nil), w.data[:rnd.IntN(len(w.data)+1)]...)
					if rnd.IntN(3) == 0 && len(w.data) > 0 { // the length is there and a part of the bytes is not
						clear(w.data[rnd.IntN(len(w.data)):])
					}
				}
				b = w.apply(b)
			}
			seen[v] = &memNode{live: b, synced: b}
		}
		n.live[k], n.entries[k] = seen[v], seen[v]
	}
	return n
}

type memFile struct {
	m *memFS
	n *memNode
}

func (m *memFS) note(name string, n *memNode) {
	m.dirOps = append(m.dirOps, dirOp{filepath.Dir(name), name, n})
	if n == nil {
		delete(m.live, name)
	} else {
		m.live[name] = n
	}
}

func (m *memFS) Open(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.crashed {
		return nil, errCrashed
	}
	n := m.live[name]
	if n == nil {
		return nil, os.ErrNotExist
	}
	return &memFile{m, n}, nil
}

func (m *memFS) Create(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.step(); err != nil {
		return nil, err
	}
	if m.live[name] != nil {
		return nil, os.ErrExist
	}
	n := &memNode{}
	m.note(name, n)
	return &memFile{m, n}, nil
}

func (m *memFS) Edit(name string) (File, error) {
	if f, err := m.Open(name); !errors.Is(err, os.ErrNotExist) {
		return f, err
	}
	return m.Create(name)
}

func (m *memFS) Rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.step(); err != nil {
		return err
	}
	n := m.live[from]
	if n == nil {
		return os.ErrNotExist
	}
	m.note(from, nil)
	m.note(to, n)
	return nil
}

func (m *memFS) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.step(); err != nil {
		return err
	}
	if m.live[name] == nil {
		return os.ErrNotExist
	}
	m.note(name, nil)
	return nil
}

func (m *memFS) MkdirAll(string) error { return nil }

func (m *memFS) List(dir string) (names []string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for n := range m.live {
		if filepath.Dir(n) == dir {
			names = append(names, filepath.Base(n))
		}
	}
	sort.Strings(names)
	return names, nil
}

func (m *memFS) SyncDir(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.step(); err != nil {
		return err
	}
	var rest []dirOp
	for _, op := range m.dirOps {
		switch {
		case op.dir != dir:
			rest = append(rest, op)
		case op.node == nil:
			delete(m.entries, op.name)
		default:
			m.entries[op.name] = op.node
		}
	}
	m.dirOps = rest
	return nil
}

type unlock func()

func (u unlock) Close() error { u(); return nil }

func (m *memFS) Lock(name string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.locked[name] {
		return nil, ErrLocked
	}
	m.locked[name] = true
	return unlock(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.locked, name)
	}), nil
}

func (f *memFile) ReadAt(b []byte, off int64) (int, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if f.m.crashed {
		return 0, errCrashed
	}
	if off >= int64(len(f.n.live)) {
		return 0, io.EOF
	}
	n := copy(b, f.n.live[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) write(w memWrite) {
	f.n.live = w.apply(f.n.live)
	f.n.pending = append(f.n.pending, w)
}

func (f *memFile) WriteAt(b []byte, off int64) (int, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	err := f.m.step()
	if errors.Is(err, errCrashed) && f.m.ops != f.m.failAt {
		return 0, err
	}
	n := len(b)
	if errors.Is(err, syscall.ENOSPC) {
		n /= 2
	}
	f.write(memWrite{off: off, data: append([]byte(nil), b[:n]...)}) // also of a write that fails some may be there
	return n, err
}

func (f *memFile) Truncate(size int64) error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.m.step(); err != nil {
		return err
	}
	f.write(memWrite{off: size, cut: true})
	return nil
}

func (f *memFile) Sync() error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.m.step(); err != nil {
		if !f.m.crashed {
			f.n.pending = nil // the kernel forgets that the pages were dirty: no later sync writes them
		}
		return err
	}
	for _, w := range f.n.pending {
		f.n.synced = w.apply(f.n.synced)
	}
	f.n.pending = nil
	return nil
}

func (f *memFile) Size() (int64, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	return int64(len(f.n.live)), nil
}

func (f *memFile) Close() error { return nil }
