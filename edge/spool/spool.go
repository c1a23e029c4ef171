// Package spool keeps batches on disk between the moment they are made and the moment every destination has them.
//
// A spool is a directory of append-only segments. Each record carries a batch together with the positions of the
// sources that the batch brings up to date, so that neither can be there without the other. Records are read by named
// cursors, one a destination, which know nothing of one another; a segment goes away when every cursor has passed it.
// docs/format/spool.md has the bytes.
//
// The invariant: what was reported durable (by Sync, or by finding it at Open) is given by every cursor, in order and
// once per reading, until the cursor commits it, through any crash. Only durable records are ever given to a cursor: a
// batch that a destination holds is never one that a crash can take away here.
//
// The spool starts no goroutines. It is not a queue between goroutines of a process: appending is meant for one writer,
// reading for one goroutine a cursor.
package spool

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spate-io/spate/event/notice"
)

// Errors that callers branch on.
var (
	// ErrFull says that the spool holds as many bytes as it may and its policy is to block. Space has the signal.
	ErrFull = errors.New("spool is full")
	// ErrNoSpace says that the disk is full. What was written in part has been cut off; the append may be tried again.
	ErrNoSpace = errors.New("no space left for the spool")
	// ErrLocked says that another process uses the directory.
	ErrLocked = errors.New("spool is in use by another process")
	// ErrVersion says that a newer release wrote the spool.
	ErrVersion = errors.New("spool was written by a newer version")
	// ErrClosed says that the spool was closed.
	ErrClosed = errors.New("spool is closed")
	// ErrTooLarge says that a batch does not fit in a segment.
	ErrTooLarge = errors.New("batch is larger than a segment")
)

// Origin is a source's stream and the position that a record brings it to.
type Origin struct {
	Stream   [16]byte
	Position uint64
}

// Position is a place between two records.
type Position struct {
	Segment uint64 // number of the segment
	Offset  int64  // byte in it
	Index   uint64 // number of the record that comes next, from 0 over the life of the spool
}

// Deps are what a spool needs from its surroundings. All may be left out.
type Deps struct {
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	FS         FS               // default: the operating system's
	Now        func() time.Time // default: time.Now
	// Tell is told of trouble that an operator should know of. It must not block nor call the spool; nil: nobody is told.
	Tell func(notice.Notice)
}

// Spool is an open spool. Append, AppendPositions, Sync and Close may be called from any goroutine but are done one at a
// time; everything else is safe for concurrent use.
type Spool struct {
	cfg  Config
	fs   FS
	log  *slog.Logger
	met  *metrics
	now  func() time.Time
	tell func(notice.Notice)
	lock io.Closer
	id   [16]byte

	// wmu is held over writes and syncs of the active segment; it is taken before mu.
	wmu      sync.Mutex
	active   File  // nil when the next append has to begin a segment
	tail     int64 // where the next record goes in active
	pending  []pending
	free     [][]byte // record buffers for reuse
	lastSync time.Time
	nextNum  uint64 // number of the next segment

	// mu guards what readers see. It is never held over a sync.
	mu        sync.Mutex
	closed    bool
	segs      []*segment // ascending by number
	positions streams    // of all appended records
	durable   streams    // of the synced ones; what a snapshot says
	epoch     uint64     // highest epoch of any batch seen
	next      uint64     // index of the next record to be appended
	synced    uint64     // index up to which records are durable
	cursors   map[string]*Cursor
	damages   []Damage
	wake      chan struct{} // closed and replaced when synced grows
	space     chan struct{} // closed and replaced when a segment goes away
}

// pending is a record that is written but not yet synced. Its bytes are kept so that a failed sync can be made good.
type pending struct {
	bytes   []byte
	index   uint64
	origins []Origin
}

// segment is one file.
type segment struct {
	num     uint64
	first   uint64 // index of the first record in it
	size    int64  // bytes that may be read
	keep    bool   // something in it could not be copied to quarantine: rename instead of delete
	created int64
}

// Open opens the spool in cfg.Dir, making it when it is not there, and mends what a crash has left. destinations are the
// names of the cursors; a cursor that is new begins at the oldest record. Close the spool when done.
func Open(cfg Config, destinations []string, deps Deps) (*Spool, error) {
	if deps.FS == nil {
		deps.FS = OS{}
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	s := &Spool{
		cfg: cfg, fs: deps.FS, log: deps.Logger, now: deps.Now, tell: deps.Tell,
		positions: streams{}, durable: streams{}, cursors: map[string]*Cursor{},
		wake: make(chan struct{}), space: make(chan struct{}),
	}
	for _, d := range []string{"", cursorDir, quarantineDir, refusedDir} {
		if err := s.fs.MkdirAll(filepath.Join(cfg.Dir, d)); err != nil {
			return nil, fmt.Errorf("make spool directory: %w", err)
		}
	}
	lock, err := s.fs.Lock(filepath.Join(cfg.Dir, "LOCK"))
	if err != nil {
		return nil, fmt.Errorf("lock spool %s: %w", cfg.Dir, err)
	}
	s.lock = lock
	s.met = newMetrics(deps.Registerer, s, destinations)
	if err := s.recover(destinations); err != nil {
		s.met.unregister()
		return nil, errors.Join(fmt.Errorf("open spool %s: %w", cfg.Dir, err), lock.Close())
	}
	s.lastSync = s.now()
	return s, nil
}

// Close syncs what is not yet synced and lets go of the directory. Readers that wait in Next get ErrClosed.
func (s *Spool) Close() error {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.mu.Unlock()
	err := s.syncLocked()
	s.mu.Lock()
	s.closed = true
	close(s.wake)
	s.wake = make(chan struct{})
	for _, c := range s.cursors {
		err = errors.Join(err, c.close())
	}
	s.mu.Unlock()
	if s.active != nil {
		err = errors.Join(err, s.active.Close())
		s.active = nil
	}
	s.met.unregister()
	return errors.Join(err, s.lock.Close())
}

// Position gives the highest position of a stream that was appended, durable or not.
func (s *Spool) Position(stream [16]byte) (uint64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.positions[stream]
	return e.position, ok
}

// DurablePosition gives the highest position of a stream that is on disk.
func (s *Spool) DurablePosition(stream [16]byte) (uint64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.durable[stream]
	return e.position, ok
}

// Positions gives a copy of the positions of all known streams.
func (s *Spool) Positions() map[[16]byte]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[[16]byte]uint64, len(s.positions))
	for k, e := range s.positions {
		out[k] = e.position
	}
	return out
}

// Epoch is the highest epoch of any batch that the spool has held, 0 when it never held one.
func (s *Spool) Epoch() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.epoch
}

// Durable is the index up to which all records are on disk: records below it are.
func (s *Spool) Durable() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.synced
}

// Bytes is the size of all segments.
func (s *Spool) Bytes() int64 {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	return s.bytesLocked()
}

// bytesLocked needs wmu.
func (s *Spool) bytesLocked() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total() + s.unsynced()
}

// total is the readable size of all segments; it needs mu.
func (s *Spool) total() (n int64) {
	for _, g := range s.segs {
		n += g.size
	}
	return n
}

// unsynced is the size of the records that are written or waiting but not synced; it needs wmu.
func (s *Spool) unsynced() (n int64) {
	for _, p := range s.pending {
		n += int64(len(p.bytes))
	}
	return n
}

// Space is closed when a segment has gone away since the call, so that an append which gave ErrFull may do now.
func (s *Spool) Space() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.space
}

// SyncDue says how long the policy lets the unsynced records wait: 0 for sync now. ok is false when there are none.
func (s *Spool) SyncDue() (wait time.Duration, ok bool) {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	if len(s.pending) == 0 {
		return 0, false
	}
	if s.cfg.Sync == SyncAlways || s.unsynced() >= int64(s.cfg.SyncBytes) {
		return 0, true
	}
	return max(0, s.cfg.SyncInterval.D()-s.now().Sub(s.lastSync)), true
}
