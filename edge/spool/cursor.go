package spool

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// Record is a batch as a cursor gives it.
type Record struct {
	Index uint64
	Time  time.Time // when it was appended
	Batch []byte    // aliases the buffer given to Next
	Start Position  // where it lies
	End   Position  // what to commit when it is done
}

// Cursor is the place of one destination in the spool. Next, Rewind and Reread are for one goroutine at a time; Commit may
// be called from another.
type Cursor struct {
	s    *Spool
	name string

	file   File   // of the reading goroutine
	fileOf uint64 // segment that file is of
	tries  int    // reads of one record that the disk refused

	// The rest is guarded by s.mu.
	committed Position
	read      Position
	given     uint64 // index behind the last batch given out
	serial    uint64
	dirty     bool
	slots     File
}

// Cursor gives the cursor of a destination that Open was given, nil for another.
func (s *Spool) Cursor(destination string) *Cursor { return s.cursors[destination] }

// Destinations gives the names of the cursors.
func (s *Spool) Destinations() []string {
	names := make([]string, 0, len(s.cursors))
	for n := range s.cursors {
		names = append(names, n)
	}
	return names
}

// Committed is the place up to which all is done.
func (c *Cursor) Committed() Position {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.committed
}

// Rewind makes Next begin again behind what is committed.
func (c *Cursor) Rewind() {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.read, c.given = c.committed, c.committed.Index
}

// Next gives the next durable batch, waiting for one until ctx ends. Its bytes are read into buf when they fit. Damaged
// stretches are set aside and passed over.
func (c *Cursor) Next(ctx context.Context, buf []byte) (Record, error) {
	for {
		g, at, limit, below, wake, err := c.place()
		if err != nil {
			return Record{}, err
		}
		if g == nil {
			select {
			case <-ctx.Done():
				return Record{}, ctx.Err()
			case <-wake:
			}
			continue
		}
		if err := ctx.Err(); err != nil {
			return Record{}, err
		}
		rec, ok, err := c.step(g, at, limit, below, buf)
		if err != nil {
			return Record{}, err
		}
		if ok {
			return rec, nil
		}
	}
}

// place settles where and in which segment the cursor reads on, up to which offset, and below which index. g is nil when there is
// nothing to be read before wake is closed.
func (c *Cursor) place() (g *segment, at Position, limit int64, below uint64, wake <-chan struct{}, err error) {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, at, 0, 0, nil, ErrClosed
	}
	segs := s.segs
	for i, g := range segs {
		below := s.next
		if i+1 < len(segs) {
			below = segs[i+1].first
		}
		switch {
		case g.num < c.read.Segment:
			continue
		case g.num > c.read.Segment:
			if g.first > c.read.Index {
				s.met.lostBatches.WithLabelValues(c.name).Add(float64(g.first - c.read.Index))
			}
			c.read = Position{Segment: g.num, Offset: segmentHeader, Index: max(c.read.Index, g.first)}
			c.followIdle() // may remove segments, but none from g on
		}
		if c.read.Offset < g.size {
			return g, c.read, g.size, below, nil, nil
		}
	}
	return nil, at, 0, 0, s.wake, nil
}

// step reads the record at a place; ok is false when it was none to give. A drop may move the cursor meanwhile: then the
// record is still given, if it could be read, and the next place is the one behind what was dropped.
func (c *Cursor) step(g *segment, at Position, limit int64, below uint64, buf []byte) (Record, bool, error) {
	if c.file == nil || c.fileOf != g.num {
		c.closeFile()
		f, err := c.s.fs.Open(c.s.segmentPath(g.num))
		if err != nil {
			return Record{}, false, c.giveUp(g, at, limit, fmt.Errorf("open segment %d: %w", g.num, err))
		}
		c.file, c.fileOf = f, g.num
	}
	r, err := readRecord(c.file, at.Offset, limit, buf)
	if err != nil {
		return Record{}, false, c.giveUp(g, at, limit, err)
	}
	c.tries = 0
	next := Position{Segment: g.num, Offset: r.end(), Index: r.index + 1}
	switch {
	case r.typ == typeSnapshot:
		next.Index = at.Index
	case r.index < at.Index:
		next.Index = at.Index // written again after a failed sync, and read before
	case r.index >= below:
		next.Offset, next.Index = limit, at.Index // void: the segment after begins with this index
	case r.index > at.Index:
		c.s.met.lostBatches.WithLabelValues(c.name).Add(float64(r.index - at.Index))
	}
	if r.typ != typeBatch || r.index < at.Index || r.index >= below {
		c.moveTo(at, next, false)
		return Record{}, false, nil
	}
	_, b, err := parseBody(r.body)
	if err != nil {
		return Record{}, false, c.giveUp(g, at, limit, err)
	}
	c.moveTo(at, next, true)
	return Record{Index: r.index, Time: time.Unix(0, r.time), Batch: b, Start: at, End: next}, true, nil
}

// moveTo moves the reading place unless it was moved by a drop meanwhile. given says that the record before the new place
// was given out and will be committed; otherwise there was nothing to give.
func (c *Cursor) moveTo(from, to Position, given bool) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.read != from {
		return
	}
	c.read = to
	if given {
		c.given = to.Index
	}
	c.followIdle()
}

// followIdle commits what there was nothing to give of, when nothing given is left to be committed. It needs mu.
func (c *Cursor) followIdle() {
	if c.committed.Index < c.given || c.read.Index <= c.committed.Index {
		return
	}
	c.committed = c.read
	if err := c.write(); err != nil {
		c.s.log.Warn("write of a spool cursor", "destination", c.name, "err", err)
	}
	c.s.collectLocked()
}

// giveUp decides what happens with a record that could not be read: a disk that does not answer is asked again by the
// caller, three times; then, and with wrong bytes at once, the stretch is set aside and passed over.
func (c *Cursor) giveUp(g *segment, at Position, limit int64, err error) error {
	s := c.s
	s.mu.Lock()
	here := c.read == at && len(s.segs) > 0 && s.segs[0].num <= g.num
	s.mu.Unlock()
	if !here {
		return nil // the segment was dropped under the reader
	}
	if c.tries++; !isDamage(err) && c.tries < 3 {
		c.closeFile()
		return fmt.Errorf("read spool at segment %d offset %d: %w", g.num, at.Offset, err)
	}
	c.tries = 0
	next := limit
	if c.file != nil {
		if n, ok, serr := nextGood(c.file, at.Offset+1, limit); serr == nil && ok {
			next = n
		}
	}
	s.setAside(g, c.file, at.Offset, next, err)
	c.moveTo(at, Position{Segment: g.num, Offset: next, Index: at.Index}, false)
	return nil
}

// Reread reads the record that lies at a place Next has given, as long as its segment is there. The bytes are the
// caller's.
func (c *Cursor) Reread(at Position) ([]byte, error) {
	f, err := c.s.fs.Open(c.s.segmentPath(at.Segment))
	if err != nil {
		return nil, fmt.Errorf("open segment %d: %w", at.Segment, err)
	}
	defer f.Close() //nolint:errcheck // opened for reading
	size, err := f.Size()
	if err != nil {
		return nil, fmt.Errorf("open segment %d: %w", at.Segment, err)
	}
	r, err := readRecord(f, at.Offset, size, nil)
	if err != nil {
		return nil, fmt.Errorf("read segment %d at %d: %w", at.Segment, at.Offset, err)
	}
	_, b, err := parseBody(r.body)
	return b, err
}

// Commit says that everything before p is done for this destination. It never moves back. Segments that all cursors have
// passed are deleted. An error says that the place could not be written down: after a crash some batches are given again.
func (c *Cursor) Commit(p Position) error {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	if p.Index <= c.committed.Index {
		return nil
	}
	c.committed = p
	if p.Index >= c.given && c.read.Index > p.Index {
		c.committed = c.read // nothing was given between the two
	}
	err := c.write()
	if len(s.segs) > 1 && p.Index >= s.segs[1].first {
		s.collectLocked()
	}
	return err
}

// SyncCursors makes the commits so far durable. Without it a crash of the machine may bring some batches again; segments
// are never deleted before it.
func (s *Spool) SyncCursors() error {
	s.mu.Lock()
	cs := make([]*Cursor, 0, len(s.cursors))
	for _, c := range s.cursors {
		if c.dirty {
			c.dirty = false
			cs = append(cs, c)
		}
	}
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return ErrClosed
	}
	var err error
	for _, c := range cs {
		if serr := c.slots.Sync(); serr != nil { // not under mu: Next and Commit go on
			s.mu.Lock()
			c.dirty = true
			s.mu.Unlock()
			err = errors.Join(err, fmt.Errorf("sync cursor %s: %w", c.name, serr))
		}
	}
	return err
}

// skip moves the cursor over what was dropped; it needs mu.
func (c *Cursor) skip(p Position) {
	c.committed = p
	if c.read.Index < p.Index || c.read.Segment < p.Segment {
		c.read = p
	}
	c.given = max(c.given, p.Index)
	if err := c.write(); err != nil {
		c.s.log.Warn("write of a spool cursor", "destination", c.name, "err", err)
	}
}

// write puts the committed place into the slot whose turn it is; it needs mu.
func (c *Cursor) write() error {
	c.serial++
	b := appendSlot(nil, slot{c.serial, c.committed, c.s.id})
	c.dirty = true
	if _, err := c.slots.WriteAt(b, int64(c.serial%2)*slotSecond); err != nil {
		return diskError("write cursor "+c.name, err)
	}
	return nil
}

func (c *Cursor) sync() error {
	if !c.dirty {
		return nil
	}
	if err := c.slots.Sync(); err != nil {
		return fmt.Errorf("sync cursor %s: %w", c.name, err)
	}
	c.dirty = false
	return nil
}

// close needs mu. The reading goroutine's file is left to it: it finds the spool closed at its next step.
func (c *Cursor) close() error { return errors.Join(c.sync(), c.slots.Close()) }

func (c *Cursor) closeFile() {
	if c.file != nil {
		_ = c.file.Close()
		c.file = nil
	}
}

// Close lets go of the open file of the reading goroutine. Next opens it again.
func (c *Cursor) Close() { c.closeFile() }

// Backlog says how many records the destination has not committed, how many bytes they take, and when the oldest was
// appended (zero with none).
func (s *Spool) Backlog(destination string) (records uint64, bytes int64, oldest time.Time) {
	s.mu.Lock()
	c := s.cursors[destination]
	if c == nil || c.committed.Index >= s.synced {
		s.mu.Unlock()
		return 0, 0, time.Time{}
	}
	at, limit := c.committed, int64(0)
	records = s.synced - at.Index
	for _, g := range s.segs {
		switch {
		case g.num == at.Segment:
			bytes += g.size - at.Offset
			limit = g.size
		case g.num > at.Segment:
			bytes += g.size
			if limit == 0 || at.Offset >= limit {
				at, limit = Position{Segment: g.num, Offset: segmentHeader, Index: at.Index}, g.size
			}
		}
	}
	s.mu.Unlock()
	f, err := s.fs.Open(s.segmentPath(at.Segment))
	if err != nil {
		return records, bytes, time.Time{}
	}
	defer f.Close() //nolint:errcheck // opened for reading
	_ = headers(f, at.Offset, limit, func(h recHeader, _ int64) error {
		if h.typ == typeSnapshot || h.index < at.Index {
			return nil
		}
		oldest = time.Unix(0, h.time)
		return errStop
	})
	return records, bytes, oldest
}

var errStop = errors.New("stop")

// validName says whether a destination's name can be a file's.
func validName(s string) bool {
	return s != "" && len(s) <= 64 && s[0] != '.' && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789._-") == ""
}

func (s *Spool) cursorPath(name string) string {
	return filepath.Join(s.cfg.Dir, cursorDir, name+".cur")
}
