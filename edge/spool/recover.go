package spool

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spate-io/spate/event/batch"
	"github.com/spate-io/spate/event/notice"
)

// recover brings the spool's state back from the directory, mending what a crash has left.
func (s *Spool) recover(destinations []string) error {
	if err := s.listSegments(); err != nil {
		return err
	}
	if err := s.mendNewest(); err != nil {
		return err
	}
	for i := len(s.segs) - 2; i >= 0; i-- {
		s.segs[i].first = min(s.segs[i].first, s.segs[i+1].first) // also where damage hides a segment's own first index
	}
	if err := s.recoverPositions(); err != nil {
		return err
	}
	for _, d := range destinations {
		if err := s.openCursor(d); err != nil {
			return err
		}
	}
	s.synced = s.next
	for k, e := range s.positions {
		s.durable[k] = e
	}
	s.collect()
	return nil
}

// listSegments fills segs with the spool's own segments. Foreign ones go to quarantine; a newer version is an error.
func (s *Spool) listSegments() error {
	names, err := s.fs.List(s.cfg.Dir)
	if err != nil {
		return fmt.Errorf("list segments: %w", err)
	}
	old, err := s.fs.List(filepath.Join(s.cfg.Dir, quarantineDir))
	if err != nil {
		return fmt.Errorf("list quarantine: %w", err)
	}
	for _, n := range append(old, names...) { // a number is never used again
		if num, ok := segmentNumber(n); ok {
			s.nextNum = max(s.nextNum, num+1)
		}
	}
	s.nextNum = max(s.nextNum, 1)
	if err := s.readID(); err != nil {
		return err
	}
	type held struct {
		*segment
		id    [16]byte
		known bool
	}
	var all []held
	for _, n := range names {
		num, ok := segmentNumber(n)
		if !ok || segmentName(num) != n {
			continue
		}
		g, h, herr, err := s.openSegment(num)
		if err != nil {
			return err
		}
		if errors.Is(herr, ErrVersion) {
			return fmt.Errorf("segment %d: %w", num, herr)
		}
		all = append(all, held{g, h.id, herr == nil && h.num == num})
	}
	if s.id == ([16]byte{}) {
		for _, h := range all {
			if h.known {
				s.id = h.id // the newest one's in the end
			}
		}
		if err := s.writeID(); err != nil {
			return err
		}
	}
	for _, h := range all {
		if h.known && h.id != s.id {
			if err := s.quarantineSegment(h.num, "segment of another spool"); err != nil {
				return err
			}
			continue
		}
		s.segs = append(s.segs, h.segment)
	}
	return nil
}

func segmentNumber(name string) (uint64, bool) {
	digits, _, _ := strings.Cut(name, "-") // copies of stretches are named <number>-<offset>-<length>.bad
	digits = strings.TrimSuffix(digits, ".seg")
	n, err := strconv.ParseUint(digits, 10, 63)
	return n, err == nil
}

// openSegment reads a segment's size and header. herr says what is wrong with the header.
func (s *Spool) openSegment(num uint64) (g *segment, h segHeader, herr, err error) {
	f, err := s.fs.Open(s.segmentPath(num))
	if err != nil {
		return nil, h, nil, fmt.Errorf("open segment %d: %w", num, err)
	}
	defer f.Close() //nolint:errcheck // opened for reading
	size, err := f.Size()
	if err != nil {
		return nil, h, nil, fmt.Errorf("open segment %d: %w", num, err)
	}
	g = &segment{num: num, size: size}
	var buf [segmentHeader]byte
	if herr = readFull(f, buf[:], 0); herr == nil {
		h, herr = parseSegmentHeader(buf[:])
	}
	if herr != nil && !isDamage(herr) && !errors.Is(herr, ErrVersion) {
		return nil, h, nil, fmt.Errorf("read header of segment %d: %w", num, herr)
	}
	if herr == nil {
		g.first, g.created = h.first, h.created
		return g, h, nil, nil
	}
	// Without a header the first record says where the segment begins.
	g.first = math.MaxUint64
	serr := scan(f, min(segmentHeader, size), size, func(r found) error {
		if r.damage != nil {
			return nil
		}
		g.first = r.index
		return errStop
	})
	if serr != nil && !errors.Is(serr, errStop) {
		return nil, h, nil, fmt.Errorf("read segment %d: %w", num, serr)
	}
	return g, h, herr, nil
}

// quarantineSegment moves a whole segment away.
func (s *Spool) quarantineSegment(num uint64, reason string) error {
	name := segmentName(num)
	if err := s.fs.Rename(s.segmentPath(num), filepath.Join(s.cfg.Dir, quarantineDir, name)); err != nil {
		return fmt.Errorf("quarantine segment %d: %w", num, err)
	}
	s.damages = append(s.damages, Damage{Segment: num, File: name, Reason: reason, Time: s.now()})
	s.met.damages.Inc()
	s.notify(notice.Notice{Kind: notice.Damaged, Source: name, Reason: reason, Sample: name})
	s.log.Error("spool segment set aside", "segment", num, "reason", reason)
	return nil
}

// mendNewest cuts the torn tail off the newest segment and syncs it, so that all in it is durable. A newest segment that a
// crash left before its first record is removed, and the one before it is the newest.
func (s *Spool) mendNewest() error {
	for len(s.segs) > 0 {
		g := s.segs[len(s.segs)-1]
		f, err := s.fs.Edit(s.segmentPath(g.num))
		if err != nil {
			return fmt.Errorf("open newest segment %d: %w", g.num, err)
		}
		end, records, snapshot, err := s.soundEnd(f, g)
		born := snapshot || records > 0
		if err == nil && born && end < g.size {
			err = s.cutTail(f, g, end)
		}
		if err == nil && born {
			err = f.Sync()
		}
		torn := !born && unborn(f, g.size)
		if err = errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("mend newest segment %d: %w", g.num, err)
		}
		switch {
		case born:
			return nil
		case torn: // its creation was never reported, and nothing was appended to it
			if err := s.fs.Remove(s.segmentPath(g.num)); err != nil {
				return fmt.Errorf("remove unborn segment %d: %w", g.num, err)
			}
		default:
			if err := s.quarantineSegment(g.num, "nothing in it can be read"); err != nil {
				return err
			}
		}
		s.segs = s.segs[:len(s.segs)-1]
	}
	return nil
}

// unborn says whether a segment without any good record looks like one that a crash met while it was made: it has less than
// its header, or only zeros, or a good header and less than a snapshot behind it.
func unborn(f File, size int64) bool {
	if size < segmentHeader+recordHeader {
		return true
	}
	var head [segmentHeader + recordHeader]byte
	if err := readFull(f, head[:], 0); err != nil {
		return false
	}
	if head == ([len(head)]byte{}) {
		return true
	}
	if _, err := parseSegmentHeader(head[:]); err != nil {
		return false
	}
	h, err := parseRecordHeader(head[segmentHeader:])
	return err != nil && size < 1<<20 || err == nil && h.typ == typeSnapshot
}

// soundEnd scans the newest segment: the end of its last good record, how many it has, and whether its header and snapshot
// are good.
func (s *Spool) soundEnd(f File, g *segment) (end int64, records int, snapshot bool, err error) {
	end = min(g.size, segmentHeader)
	err = scan(f, end, g.size, func(r found) error {
		if r.damage != nil {
			return nil
		}
		end = r.next
		if r.typ == typeSnapshot {
			snapshot = r.offset == segmentHeader
		} else {
			records++
		}
		return nil
	})
	return end, records, snapshot, err
}

// cutTail cuts a segment at end. A record that is there in its full length may be more than a torn write: it is copied to
// quarantine first, and left where it is when that cannot be done.
func (s *Spool) cutTail(f File, g *segment, end int64) error {
	size := g.size
	g.size = end
	if _, err := readRecord(f, end, size, nil); errors.Is(err, errBody) {
		s.setAside(g, f, end, size, err)
		if g.keep {
			return nil
		}
	}
	s.met.tornBytes.Add(float64(size - end))
	s.log.Warn("torn tail of the spool cut off", "segment", g.num, "offset", end, "bytes", size-end)
	if err := f.Truncate(end); err != nil {
		return fmt.Errorf("cut tail at %d: %w", end, err)
	}
	return nil
}

// recoverPositions reads the snapshot of the newest segment that has a good one and all records from there on.
func (s *Spool) recoverPositions() error {
	for i := len(s.segs) - 1; i >= 0; i-- {
		below := s.next
		if i+1 < len(s.segs) {
			below = s.segs[i+1].first
		}
		sound, err := s.readPositions(s.segs[i], below, i+1 == len(s.segs))
		if err != nil {
			return err
		}
		if sound {
			break
		}
	}
	return nil
}

// readPositions merges a segment's positions; sound says that its snapshot was good.
func (s *Spool) readPositions(g *segment, below uint64, newest bool) (sound bool, err error) {
	f, err := s.fs.Open(s.segmentPath(g.num))
	if err != nil {
		return false, fmt.Errorf("open segment %d: %w", g.num, err)
	}
	defer f.Close() //nolint:errcheck // opened for reading
	s.next = max(s.next, g.first)
	err = scan(f, min(segmentHeader, g.size), g.size, func(r found) error {
		if r.damage != nil || (!newest && r.index >= below) {
			return nil // what is damaged is reported when it is read to be sent
		}
		if r.typ == typeSnapshot {
			epoch, all, err := parseSnapshot(r.body)
			if err != nil {
				return nil //nolint:nilerr // as if the snapshot were damaged
			}
			sound = sound || r.offset == segmentHeader
			s.epoch = max(s.epoch, epoch)
			for k, e := range all {
				s.positions.advance(Origin{k, e.position}, e.updated)
			}
			return nil
		}
		s.next = max(s.next, r.index+1)
		s.readRecordPositions(r.record)
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("read segment %d: %w", g.num, err)
	}
	return sound, nil
}

func (s *Spool) readRecordPositions(r record) {
	if r.typ != typeBatch && r.typ != typePositions {
		return
	}
	origins, b, err := parseBody(r.body)
	if err != nil {
		return
	}
	for _, o := range origins {
		s.positions.advance(o, r.time)
	}
	if r.typ == typeBatch {
		s.epoch = max(s.epoch, epochOf(b))
	}
}

// openCursor opens a destination's cursor, which begins at the oldest record when it is new or cannot be read.
func (s *Spool) openCursor(name string) error {
	if !validName(name) {
		return fmt.Errorf("destination %q: name must be of a-z, 0-9, '.', '_' and '-'", name)
	}
	f, err := s.fs.Edit(s.cursorPath(name))
	if err != nil {
		return diskError("open cursor "+name, err)
	}
	c := &Cursor{s: s, name: name, slots: f}
	v, ok, err := readSlots(f)
	if err != nil {
		return errors.Join(fmt.Errorf("read cursor %s: %w", name, err), f.Close())
	}
	oldest := Position{Index: s.next}
	if len(s.segs) > 0 {
		oldest = Position{Segment: s.segs[0].num, Offset: segmentHeader, Index: s.segs[0].first}
	}
	c.committed, c.serial = oldest, v.serial
	switch {
	case !ok || v.id != s.id:
		size, err := f.Size()
		if err != nil {
			return errors.Join(fmt.Errorf("read cursor %s: %w", name, err), f.Close())
		}
		if err := s.fs.SyncDir(filepath.Join(s.cfg.Dir, cursorDir)); err != nil {
			s.log.Warn("sync of the cursors' directory", "err", err)
		}
		if size > 0 {
			s.log.Warn("spool cursor cannot be used, beginning at the oldest batch", "destination", name)
		}
	case v.at.Index > s.next:
		// It had passed records that are gone now: what is appended next must not get their numbers.
		s.next = v.at.Index
		c.committed = v.at
	case v.at.Index >= oldest.Index:
		c.committed = v.at
	}
	c.read, c.given = c.committed, c.committed.Index
	s.cursors[name] = c
	return nil
}

// epochOf is the epoch of a batch, 0 when its header cannot be read.
func epochOf(b []byte) uint64 {
	h, _, err := batch.ParseHeader(b)
	if err != nil {
		return 0
	}
	return h.Name.Epoch
}
