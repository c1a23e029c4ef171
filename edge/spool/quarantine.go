package spool

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spate-io/spate/event/batch"
	"github.com/spate-io/spate/event/notice"
)

// Directories in a spool's directory.
const (
	cursorDir     = "cursors"
	quarantineDir = "quarantine"
	refusedDir    = "refused"
	idFile        = "id"
)

// Damage is a stretch of a segment that could not be read, or a whole file that did not belong.
type Damage struct {
	Segment uint64    `json:"segment"`
	Offset  int64     `json:"offset"`
	Length  int64     `json:"length"`
	File    string    `json:"file"` // copy in quarantine/, empty when the copy could not be made
	Reason  string    `json:"reason"`
	Time    time.Time `json:"time"`
}

// Damages lists what this process has found damaged, oldest first.
func (s *Spool) Damages() []Damage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Damage(nil), s.damages...)
}

// setAside copies a damaged stretch of a segment to quarantine and reports it, once however many cursors meet it. When
// the copy cannot be made the segment is kept as a whole when its time has come.
func (s *Spool) setAside(g *segment, f io.ReaderAt, from, to int64, cause error) {
	s.mu.Lock()
	for _, d := range s.damages {
		if d.Segment == g.num && d.Offset == from {
			s.mu.Unlock()
			return
		}
	}
	d := Damage{Segment: g.num, Offset: from, Length: to - from, Reason: cause.Error(), Time: s.now()}
	s.damages = append(s.damages, d)
	at := len(s.damages) - 1
	s.mu.Unlock()

	name := fmt.Sprintf("%016d-%d-%d.bad", g.num, from, to-from)
	err := errNothingToCopy
	if f != nil {
		err = s.copyOut(f, from, to, filepath.Join(s.cfg.Dir, quarantineDir, name))
	}
	s.mu.Lock()
	if err == nil {
		s.damages[at].File = name
	} else {
		g.keep = true
	}
	s.mu.Unlock()
	s.keepBelow(filepath.Join(s.cfg.Dir, quarantineDir))
	s.met.damages.Inc()
	s.met.damagedBytes.Add(float64(to - from))
	s.notify(notice.Notice{Kind: notice.Damaged, Source: segmentName(g.num), Reason: fmt.Sprintf("%d bytes from %d on: %v", to-from, from, cause), Sample: name})
	s.log.Error("spool is damaged, stretch set aside", "segment", g.num, "offset", from, "bytes", to-from, "reason", cause, "copy", name, "copy_err", err)
}

// keepBelow removes the oldest files of a directory of things set aside until it holds no more than AsideBytes; what was put
// there last stays, however large. Names without their ends grow with age: by length, then by letters.
func (s *Spool) keepBelow(dir string) {
	names, err := s.fs.List(dir)
	if err != nil {
		return
	}
	slices.SortFunc(names, func(a, b string) int {
		x, y := strings.TrimSuffix(a, filepath.Ext(a)), strings.TrimSuffix(b, filepath.Ext(b))
		return cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(x, y), strings.Compare(a, b))
	})
	sizes, total := make([]int64, len(names)), int64(0)
	for i, name := range names {
		if f, err := s.fs.Open(filepath.Join(dir, name)); err == nil {
			sizes[i], _ = f.Size()
			_ = f.Close()
		}
		total += sizes[i]
	}
	gone := 0
	for i := 0; i < len(names)-2 && total > int64(s.cfg.AsideBytes); i++ { // two files make one refusal
		if s.fs.Remove(filepath.Join(dir, names[i])) == nil {
			total -= sizes[i]
			gone++
		}
	}
	if gone > 0 {
		s.log.Warn("too much was set aside, the oldest is deleted", "dir", dir, "files", gone, "bytes_left", total)
	}
}

// notify tells whoever wants to know.
func (s *Spool) notify(n notice.Notice) {
	if s.tell != nil {
		n.Time = s.now()
		s.tell(n)
	}
}

var errNothingToCopy = errors.New("segment cannot be opened")

// copyOut copies a stretch of a file. A copy that is there already is left alone.
func (s *Spool) copyOut(f io.ReaderAt, from, to int64, name string) error {
	if old, err := s.fs.Open(name); err == nil {
		size, err := old.Size()
		if err = errors.Join(err, old.Close()); err == nil && size == to-from {
			return nil
		}
	}
	b := make([]byte, to-from)
	if err := readFull(f, b, from); err != nil {
		return fmt.Errorf("copy damaged bytes: %w", err)
	}
	return s.writeFile(name, b)
}

// writeFile writes a file whole and durable or not at all.
func (s *Spool) writeFile(name string, b []byte) error {
	tmp := name + ".tmp"
	f, err := s.fs.Edit(tmp)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err = f.Truncate(0); err == nil {
		_, err = f.WriteAt(b, 0)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = s.fs.Rename(tmp, name)
	}
	if err == nil {
		err = s.fs.SyncDir(filepath.Dir(name))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// Refusal says why a destination would not have a batch.
type Refusal struct {
	Destination string    `json:"destination"`
	Batch       string    `json:"batch"` // edge/epoch/sequence, empty when the header could not be read
	Code        uint16    `json:"code"`
	Reason      string    `json:"reason"`
	Events      uint32    `json:"events"`
	Time        time.Time `json:"time"`
}

// Refuse sets a batch aside that a destination has refused: the batch as refused/<destination>/<name>.batch and why as
// <name>.json beside it. When the disk does not take them, the segment that holds the batch is kept instead and
// moves to quarantine later. Commit the record afterwards.
func (c *Cursor) Refuse(at Position, code uint16, reason string) {
	s := c.s
	b, err := c.Reread(at)
	v := Refusal{Destination: c.name, Code: code, Reason: reason, Time: s.now().UTC()}
	name := fmt.Sprintf("%016d-%d", at.Segment, at.Offset)
	h, _, herr := batch.ParseHeader(b)
	if err == nil && herr == nil {
		v.Batch, v.Events = h.Name.String(), h.Events
		name = strings.ReplaceAll(v.Batch, "/", "-")
	}
	if err == nil {
		dir := filepath.Join(s.cfg.Dir, refusedDir, c.name)
		err = s.fs.MkdirAll(dir)
		if err == nil {
			err = s.writeFile(filepath.Join(dir, name+".batch"), b)
		}
		if err == nil {
			why, jerr := json.MarshalIndent(v, "", "  ")
			err = errors.Join(jerr, s.writeFile(filepath.Join(dir, name+".json"), append(why, '\n')))
			s.keepBelow(dir)
		}
	}
	if err != nil {
		s.mu.Lock()
		for _, g := range s.segs {
			if g.num == at.Segment {
				g.keep = true
			}
		}
		s.mu.Unlock()
	}
	s.met.refused(c.name, v.Events)
	if herr == nil && h.Type != batch.Notices {
		s.notify(notice.Notice{Kind: notice.Refused, Source: c.name, Count: uint64(v.Events), Reason: reason, Sample: v.Batch})
	}
	s.log.Error("batch was refused and is set aside", "destination", c.name, "batch", v.Batch, "code", code, "reason", reason, "events", v.Events, "err", err)
}

// count gives the batches of a segment with an index in [from, to) and the events in them, reading headers only.
func (s *Spool) count(g *segment, from, to uint64) (batches, events uint64) {
	f, err := s.fs.Open(s.segmentPath(g.num))
	if err != nil {
		return to - from, 0
	}
	defer f.Close() //nolint:errcheck // opened for reading
	_ = headers(f, segmentHeader, g.size, func(h recHeader, off int64) error {
		if h.typ != typeBatch || h.index < from || h.index >= to {
			return nil
		}
		batches++
		if bh, err := batchHeader(f, h, off); err == nil {
			events += uint64(bh.Events)
		}
		return nil
	})
	return batches, events
}

// batchHeader reads the header of the batch in the record at off.
func batchHeader(f io.ReaderAt, h recHeader, off int64) (batch.Header, error) {
	var n [4]byte
	if err := readFull(f, n[:], off+recordHeader); err != nil {
		return batch.Header{}, err
	}
	skip := 4 + originSize*(int64(n[0])|int64(n[1])<<8|int64(n[2])<<16|int64(n[3])<<24)
	size := min(int64(h.length)-skip, batch.HeaderSize+255)
	if size <= 0 {
		return batch.Header{}, errLayout
	}
	b := make([]byte, size)
	if err := readFull(f, b, off+recordHeader+skip); err != nil {
		return batch.Header{}, err
	}
	bh, _, err := batch.ParseHeader(b)
	if err != nil {
		return batch.Header{}, fmt.Errorf("read batch header: %w", err)
	}
	return bh, nil
}
