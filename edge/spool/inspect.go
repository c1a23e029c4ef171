package spool

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/spate-io/spate/event/batch"
)

// Listing says what lies in a spool's directory. It is made without the lock, so a running forwarder may change it
// meanwhile.
type Listing struct {
	Segments   []SegmentInfo `json:"segments"`
	Cursors    []CursorInfo  `json:"cursors"`
	Quarantine []FileInfo    `json:"quarantine"`
	Refused    []RefusedInfo `json:"refused"`
}

// SegmentInfo is one segment by its header.
type SegmentInfo struct {
	Number  uint64    `json:"number"`
	File    string    `json:"file"`
	Bytes   int64     `json:"bytes"`
	First   uint64    `json:"first_index"`
	Created time.Time `json:"created"`
	Problem string    `json:"problem,omitempty"` // of the header
}

// CursorInfo is the place of one destination.
type CursorInfo struct {
	Destination string   `json:"destination"`
	At          Position `json:"at"`
	Problem     string   `json:"problem,omitempty"`
}

// FileInfo is a file that was set aside.
type FileInfo struct {
	File  string `json:"file"`
	Bytes int64  `json:"bytes"`
}

// RefusedInfo is a batch that a destination refused.
type RefusedInfo struct {
	FileInfo
	Refusal
}

// List says what lies in dir.
func List(dir string) (Listing, error) {
	var l Listing
	names, err := segmentFiles(dir)
	if err != nil {
		return l, err
	}
	for _, n := range names {
		info, err := inspectSegment(filepath.Join(dir, n))
		if err != nil {
			return l, err
		}
		l.Segments = append(l.Segments, info)
	}
	if l.Cursors, err = listCursors(filepath.Join(dir, cursorDir)); err != nil {
		return l, err
	}
	if l.Quarantine, err = listFiles(filepath.Join(dir, quarantineDir)); err != nil {
		return l, err
	}
	l.Refused, err = listRefused(filepath.Join(dir, refusedDir))
	return l, err
}

// segmentFiles gives the names of the segments in dir; a directory without any is no spool.
func segmentFiles(dir string) ([]string, error) {
	if _, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("list spool: %w", err)
	}
	all, err := OS{}.List(dir)
	if err != nil {
		return nil, fmt.Errorf("list spool: %w", err)
	}
	var names []string
	for _, n := range all {
		if num, ok := segmentNumber(n); ok && segmentName(num) == n {
			names = append(names, n)
		}
	}
	return names, nil
}

func inspectSegment(name string) (SegmentInfo, error) {
	info := SegmentInfo{File: name}
	info.Number, _ = segmentNumber(filepath.Base(name))
	f, err := OS{}.Open(name)
	if err != nil {
		return info, fmt.Errorf("open segment: %w", err)
	}
	defer f.Close() //nolint:errcheck // opened for reading
	if info.Bytes, err = f.Size(); err != nil {
		return info, err
	}
	var buf [segmentHeader]byte
	var h segHeader
	if err = readFull(f, buf[:], 0); err == nil {
		h, err = parseSegmentHeader(buf[:])
	}
	if err != nil {
		info.Problem = err.Error()
		return info, nil
	}
	info.First, info.Created = h.first, time.Unix(0, h.created).UTC()
	return info, nil
}

func listCursors(dir string) (all []CursorInfo, err error) {
	names, err := OS{}.List(dir)
	if err != nil {
		return nil, fmt.Errorf("list cursors: %w", err)
	}
	for _, n := range names {
		c := CursorInfo{Destination: strings.TrimSuffix(n, ".cur")}
		f, err := OS{}.Open(filepath.Join(dir, n))
		if err != nil {
			return nil, fmt.Errorf("open cursor: %w", err)
		}
		v, ok, err := readSlots(f)
		_ = f.Close()
		switch {
		case err != nil:
			c.Problem = err.Error()
		case !ok:
			c.Problem = "no good slot"
		}
		c.At = v.at
		all = append(all, c)
	}
	return all, nil
}

func listFiles(dir string) (all []FileInfo, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("list %s: %w", dir, err)
	}
	for _, e := range entries {
		if st, err := e.Info(); err == nil && st.Mode().IsRegular() {
			all = append(all, FileInfo{filepath.Join(dir, e.Name()), st.Size()})
		}
	}
	return all, nil
}

func listRefused(dir string) (all []RefusedInfo, err error) {
	destinations, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("list refused batches: %w", err)
	}
	for _, d := range destinations {
		files, err := listFiles(filepath.Join(dir, d.Name()))
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			if !strings.HasSuffix(f.File, ".batch") {
				continue
			}
			v := RefusedInfo{FileInfo: f}
			if b, err := os.ReadFile(strings.TrimSuffix(f.File, ".batch") + ".json"); err == nil {
				_ = json.Unmarshal(b, &v.Refusal) // what cannot be read is left empty; the batch is listed all the same
			}
			all = append(all, v)
		}
	}
	return all, nil
}

// RecordInfo is one record, or one damaged stretch, of a segment.
type RecordInfo struct {
	File    string
	Offset  int64
	Length  int64 // with the record's header
	Index   uint64
	Time    time.Time
	Kind    string // batch, snapshot, positions, unknown, damage
	Origins []Origin
	Epoch   uint64        // of a snapshot
	Header  *batch.Header // of a batch whose header can be read
	Batch   []byte        // valid until the function given to Dump returns
	Problem string        // why it is damage, or what is wrong with the batch inside a good record
}

// Dump calls f for each record of a file in order: a segment, a copy of a damaged stretch, or a batch that was refused. Of
// every batch the checksums and the unpacking are checked too.
func Dump(file string, f func(RecordInfo) error) error {
	if strings.HasSuffix(file, ".batch") {
		b, err := os.ReadFile(file) //nolint:gosec // the operator names it
		if err != nil {
			return fmt.Errorf("dump: %w", err)
		}
		return f(withBatch(RecordInfo{File: file, Length: int64(len(b)), Kind: "batch"}, batch.NewDecoder(0), b))
	}
	r, err := OS{}.Open(file)
	if err != nil {
		return fmt.Errorf("dump: %w", err)
	}
	defer r.Close() //nolint:errcheck // opened for reading
	size, err := r.Size()
	if err != nil {
		return fmt.Errorf("dump: %w", err)
	}
	start := int64(0)
	if strings.HasSuffix(file, ".seg") {
		start = min(segmentHeader, size)
	}
	d := batch.NewDecoder(0)
	return scan(r, start, size, func(v found) error { return f(describe(file, d, v)) })
}

func describe(file string, d *batch.Decoder, v found) RecordInfo {
	info := RecordInfo{File: file, Offset: v.offset, Length: v.next - v.offset, Index: v.index, Time: time.Unix(0, v.time).UTC()}
	if v.damage != nil {
		info.Kind, info.Problem, info.Time = "damage", v.damage.Error(), time.Time{}
		return info
	}
	var err error
	switch v.typ {
	case typeSnapshot:
		var all streams
		info.Kind = "snapshot"
		if info.Epoch, all, err = parseSnapshot(v.body); err == nil {
			for _, k := range all.sorted() {
				info.Origins = append(info.Origins, Origin{k, all[k].position})
			}
		}
	case typeBatch, typePositions:
		var b []byte
		info.Kind = "positions"
		if info.Origins, b, err = parseBody(v.body); err == nil && v.typ == typeBatch {
			info.Kind = "batch"
			info = withBatch(info, d, b)
		}
	default:
		info.Kind = "unknown"
	}
	if err != nil {
		info.Problem = err.Error()
	}
	return info
}

func withBatch(info RecordInfo, d *batch.Decoder, b []byte) RecordInfo {
	info.Batch = b
	if h, _, err := batch.ParseHeader(b); err == nil {
		info.Header = &h
	}
	if _, _, err := d.Decode(b); err != nil {
		info.Problem = err.Error()
	}
	return info
}

// SegmentReport is what Verify finds in one segment.
type SegmentReport struct {
	SegmentInfo
	Batches  int          `json:"batches"`
	Events   uint64       `json:"events"`
	Damaged  int64        `json:"damaged_bytes"`
	Problems []RecordInfo `json:"-"`
}

// Good says whether nothing is wrong with the segment. A torn tail of the newest segment of a stopped spool counts as damage
// here; the next start cuts it off.
func (r *SegmentReport) Good() bool { return r.Problem == "" && len(r.Problems) == 0 }

// Verify reads all segments of the spool in dir.
func Verify(dir string) ([]SegmentReport, error) {
	names, err := segmentFiles(dir)
	if err != nil {
		return nil, err
	}
	var all []SegmentReport
	for _, n := range names {
		name := filepath.Join(dir, n)
		info, err := inspectSegment(name)
		if err != nil {
			return nil, err
		}
		r := SegmentReport{SegmentInfo: info}
		err = Dump(name, func(v RecordInfo) error {
			if v.Header != nil {
				r.Batches++
				r.Events += uint64(v.Header.Events)
			}
			if v.Kind == "damage" {
				r.Damaged += v.Length
			}
			if v.Problem != "" {
				v.Batch = nil
				r.Problems = append(r.Problems, v)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// RescueReport says what Rescue did.
type RescueReport struct {
	Batches int    // appended
	Events  uint64 // in them
	Bad     int    // batches and stretches that cannot be used
}

// Rescue appends all good batches of a file that Dump can read to an open spool, under the names that they have, and syncs.
// Batches that a destination has already are recognised there by their names. Positions are not taken over: they may be
// another spool's.
func Rescue(s *Spool, file string) (RescueReport, error) {
	var r RescueReport
	err := Dump(file, func(v RecordInfo) error {
		switch {
		case v.Kind == "damage" || v.Kind == "batch" && v.Problem != "":
			r.Bad++
		case v.Kind == "batch":
			if _, err := s.Append(nil, v.Batch); err != nil {
				return err
			}
			r.Batches++
			r.Events += uint64(v.Header.Events)
		}
		return nil
	})
	return r, errors.Join(err, s.Sync())
}

// CursorNames gives the destinations that have a cursor in dir, for opening a spool without a configuration.
func CursorNames(dir string) ([]string, error) {
	all, err := listCursors(filepath.Join(dir, cursorDir))
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(all))
	for _, c := range all {
		names = append(names, c.Destination)
	}
	sort.Strings(names)
	return names, nil
}
