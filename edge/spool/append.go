package spool

import (
	"errors"
	"fmt"
	"path/filepath"
	"syscall"

	"github.com/spate-io/spate/event/batch"
)

// Append writes a batch and the positions that it brings its sources to, as one record, and gives the record's index. The
// record is not durable before Sync (or Close) has succeeded. b and origins may be reused afterwards.
//
// ErrFull and ErrNoSpace leave the spool as it was; the append may be tried again, and the other errors of the disk too.
func (s *Spool) Append(origins []Origin, b []byte) (index uint64, err error) {
	h, _, err := batch.ParseHeader(b)
	if err != nil {
		return 0, fmt.Errorf("append to spool: %w", err)
	}
	return s.append(typeBatch, origins, b, h.Name.Epoch)
}

// AppendPositions writes positions without a batch, for sources that moved on without events. It counts as a record.
func (s *Spool) AppendPositions(origins []Origin) (index uint64, err error) {
	return s.append(typePositions, origins, nil, 0)
}

func (s *Spool) append(typ recordType, origins []Origin, b []byte, epoch uint64) (uint64, error) {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	size := int64(recordHeader + 4 + len(origins)*originSize + len(b))
	if size > int64(s.cfg.MaxBytes)/3 {
		return 0, fmt.Errorf("append %d bytes: %w", size, ErrTooLarge)
	}
	for {
		err := s.appendLocked(typ, origins, b, size)
		if errors.Is(err, ErrFull) || errors.Is(err, ErrNoSpace) {
			s.met.full.Inc()
			if s.cfg.WhenFull == FullDropOldest && s.dropOldest() {
				continue
			}
		}
		if err != nil {
			return 0, err
		}
		s.mu.Lock()
		index := s.next
		s.next++
		s.epoch = max(s.epoch, epoch)
		now := s.now().UnixNano()
		for _, o := range origins {
			s.positions.advance(o, now)
		}
		s.mu.Unlock()
		return index, nil
	}
}

// appendLocked writes the record at the tail of the active segment and keeps its bytes in pending.
func (s *Spool) appendLocked(typ recordType, origins []Origin, b []byte, size int64) error {
	s.mu.Lock()
	closed, used, index := s.closed, s.total(), s.next
	s.mu.Unlock()
	if closed {
		return ErrClosed
	}
	if s.active == nil || s.mustRoll(size) {
		used += segmentHeader + recordHeader + 12 + int64(len(s.durable))*streamSize
	}
	if used+s.unsynced()+size > int64(s.cfg.MaxBytes) {
		return ErrFull
	}
	if err := s.ensureActive(size); err != nil {
		return err
	}
	rec := appendRecord(s.buffer(), typ, index, s.now().UnixNano(), origins, b)
	if _, err := s.active.WriteAt(rec, s.tail); err != nil {
		s.free = append(s.free, rec)
		if terr := s.active.Truncate(s.tail); terr != nil {
			// What is behind the tail can be read back after a crash; a new segment makes it void.
			s.log.Warn("spool segment could not be cut, beginning another", "err", terr)
			s.abandon()
		}
		return diskError("write record", err)
	}
	s.tail += int64(len(rec))
	s.pending = append(s.pending, pending{rec, index, append([]Origin(nil), origins...)})
	s.met.appended(typ, len(rec))
	return nil
}

// mustRoll says whether a record of that size belongs in a new segment.
func (s *Spool) mustRoll(size int64) bool {
	return s.tail > s.start() && s.tail+size > int64(s.cfg.SegmentBytes)
}

// start is the offset of the first record behind the snapshot, as far as rolling is concerned.
func (s *Spool) start() int64 {
	return segmentHeader + recordHeader + 12 + int64(len(s.durable))*streamSize
}

// buffer gives an empty record buffer.
func (s *Spool) buffer() []byte {
	if n := len(s.free); n > 0 {
		b := s.free[n-1][:0]
		s.free = s.free[:n-1]
		return b
	}
	return nil
}

// ensureActive makes sure that there is a segment with room for a record of that size.
func (s *Spool) ensureActive(size int64) error {
	if s.active != nil && !s.mustRoll(size) {
		return nil
	}
	if s.active != nil {
		// Only the newest segment may have unsynced records, so that a torn tail can be nowhere else.
		if err := s.syncLocked(); err != nil {
			return err
		}
		if s.active != nil {
			if err := s.active.Close(); err != nil {
				s.log.Warn("close of a spool segment", "err", err)
			}
			s.active = nil
		}
	}
	return s.create()
}

// create begins a segment: header, snapshot of the durable positions, and whatever still waits to be synced. All of it is
// durable when create succeeds.
func (s *Spool) create() error {
	now := s.now().UnixNano()
	num := s.nextNum
	s.nextNum++
	s.mu.Lock()
	if gone := s.durable.forget(s.cfg.MaxStreams); gone > 0 {
		s.positions.forget(s.cfg.MaxStreams)
		s.met.forgotten.Add(float64(gone))
	}
	first := s.next
	if len(s.pending) > 0 {
		first = s.pending[0].index
	}
	buf := appendSegmentHeader(s.buffer(), segHeader{num, s.id, now, first})
	buf = appendSnapshot(buf, first, now, s.epoch, s.durable)
	s.mu.Unlock()
	for _, p := range s.pending {
		buf = append(buf, p.bytes...)
	}
	defer func() { s.free = append(s.free, buf) }()

	name := s.segmentPath(num)
	f, err := s.fs.Create(name)
	if err != nil {
		return diskError("create segment", err)
	}
	if _, err = f.WriteAt(buf, 0); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = s.fs.SyncDir(s.cfg.Dir)
	}
	if err != nil {
		// What may stay behind of it is void once a segment with a higher number begins at the same index.
		err = errors.Join(err, f.Close(), s.fs.Remove(name))
		return diskError("begin segment", err)
	}
	s.active, s.tail = f, int64(len(buf))
	s.mu.Lock()
	s.segs = append(s.segs, &segment{num: num, first: first, created: now})
	s.mu.Unlock()
	s.markSynced()
	s.collect()
	return nil
}

// abandon leaves the active segment; what was not synced goes into the next one.
func (s *Spool) abandon() {
	if err := s.active.Close(); err != nil {
		s.log.Warn("close of a spool segment", "err", err)
	}
	s.active = nil
}

// Sync makes all records appended so far durable and lets the cursors have them. When it gives an error nothing was lost:
// the records are kept in memory and the next Sync or Append writes them again, into a new segment.
func (s *Spool) Sync() error {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	return s.syncLocked()
}

func (s *Spool) syncLocked() error {
	if len(s.pending) == 0 {
		return nil
	}
	begin := s.now()
	defer func() { s.met.sync.Observe(s.now().Sub(begin).Seconds()) }()
	if s.active == nil {
		return s.create()
	}
	err := s.active.Sync()
	if err == nil {
		s.markSynced()
		return nil
	}
	// After a failed sync the kernel may take the pages for clean: what they hold is unknown, so they are written again.
	s.met.syncErrors.Inc()
	s.log.Warn("sync of a spool segment, writing its records again", "err", err)
	s.mu.Lock()
	size := s.segs[len(s.segs)-1].size
	s.mu.Unlock()
	if terr := s.active.Truncate(size); terr != nil {
		s.log.Warn("spool segment could not be cut", "err", terr)
	}
	s.abandon()
	return s.create()
}

// markSynced notes that the active segment is on disk up to its tail, and wakes the readers.
func (s *Spool) markSynced() {
	now := s.now()
	s.lastSync = now
	s.mu.Lock()
	for _, p := range s.pending {
		for _, o := range p.origins {
			s.durable.advance(o, now.UnixNano())
		}
	}
	s.synced = s.next
	s.segs[len(s.segs)-1].size = s.tail
	close(s.wake)
	s.wake = make(chan struct{})
	s.mu.Unlock()
	for _, p := range s.pending {
		if len(s.free) < 8 {
			s.free = append(s.free, p.bytes)
		}
	}
	clear(s.pending)
	s.pending = s.pending[:0]
}

// dropOldest removes the oldest segment but the newest, counting what each destination loses by it. It needs wmu.
func (s *Spool) dropOldest() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.segs) < 2 {
		return false
	}
	g, end := s.segs[0], Position{Segment: s.segs[1].num, Offset: segmentHeader, Index: s.segs[1].first}
	for _, c := range s.cursors {
		if c.committed.Index >= end.Index {
			continue
		}
		batches, events := s.count(g, max(c.committed.Index, g.first), end.Index)
		s.met.dropped(c.name, batches, events)
		s.log.Warn("spool is full, oldest batches dropped", "destination", c.name, "segment", g.num, "batches", batches, "events", events)
		c.skip(end)
	}
	return s.removeFirst()
}

// collect removes the segments that every cursor has passed, but for the newest, which holds the positions.
func (s *Spool) collect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.collectLocked()
}

func (s *Spool) collectLocked() {
	for len(s.cursors) > 0 && len(s.segs) > 1 {
		end := s.segs[1].first
		for _, c := range s.cursors {
			if c.committed.Index < end {
				return
			}
		}
		for _, c := range s.cursors {
			// A cursor that falls back after a crash must not look like one that was ahead of a missing segment.
			if err := c.sync(); err != nil {
				s.log.Warn("sync of a spool cursor", "destination", c.name, "err", err)
				return
			}
		}
		if !s.removeFirst() {
			return
		}
	}
}

// removeFirst deletes the oldest segment, or moves it to quarantine when damage in it could not be copied.
func (s *Spool) removeFirst() bool {
	g := s.segs[0]
	var err error
	if g.keep {
		err = s.fs.Rename(s.segmentPath(g.num), filepath.Join(s.cfg.Dir, quarantineDir, segmentName(g.num)))
	} else {
		err = s.fs.Remove(s.segmentPath(g.num))
	}
	if err != nil {
		s.met.removeErrors.Inc()
		s.log.Warn("remove of a spool segment", "segment", g.num, "err", err)
		return false
	}
	s.segs = s.segs[1:]
	close(s.space)
	s.space = make(chan struct{})
	return true
}

// diskError names the step and marks a full disk.
func diskError(step string, err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%s: %w: %w", step, ErrNoSpace, err)
	}
	return fmt.Errorf("%s: %w", step, err)
}

func segmentName(num uint64) string { return fmt.Sprintf("%016d.seg", num) }

func (s *Spool) segmentPath(num uint64) string { return filepath.Join(s.cfg.Dir, segmentName(num)) }
