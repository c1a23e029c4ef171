package spool

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// flip changes a byte of a segment.
func flip(t testing.TB, dir string, num uint64, off int64) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, segmentName(num)), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], off); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x40
	if _, err := f.WriteAt(b[:], off); err != nil {
		t.Fatal(err)
	}
}

func offsets(t testing.TB, dir string, num uint64) (all []RecordInfo) {
	t.Helper()
	if err := Dump(filepath.Join(dir, segmentName(num)), func(v RecordInfo) error {
		all = append(all, v)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestSpool_SetsDamageAsideAndGoesOn(t *testing.T) {
	for name, at := range map[string]func(RecordInfo) int64{
		"body":           func(r RecordInfo) int64 { return r.Offset + recordHeader + 30 },
		"record_header":  func(r RecordInfo) int64 { return r.Offset + 5 },
		"segment_header": func(RecordInfo) int64 { return 20 },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := small(t.TempDir())
			s := mustOpen(t, cfg, Deps{}, "a", "b")
			put(t, s, 1, 30)
			_ = s.Close()
			recs := offsets(t, cfg.Dir, 2)
			hit := recs[2]
			flip(t, cfg.Dir, 2, at(hit))

			s = mustOpen(t, cfg, Deps{}, "a", "b")
			for _, d := range []string{"a", "b"} {
				got, last := read(t, s.Cursor(d))
				var all []uint64
				for n := uint64(1); n <= 30; n++ {
					if name == "segment_header" || n != hit.Header.Name.Sequence {
						all = append(all, n)
					}
				}
				if diff := cmp.Diff(all, got); diff != "" {
					t.Fatal(diff)
				}
				if err := s.Cursor(d).Commit(last.End); err != nil {
					t.Fatal(err)
				}
			}
			if name == "segment_header" {
				return
			}
			ds := s.Damages()
			if len(ds) != 1 || ds[0].Segment != 2 || ds[0].Offset != hit.Offset || ds[0].File == "" {
				t.Fatalf("reported %+v, want one of segment 2 at %d", ds, hit.Offset)
			}
			saved, err := os.ReadFile(filepath.Join(cfg.Dir, quarantineDir, ds[0].File))
			if err != nil || int64(len(saved)) != hit.Length {
				t.Fatalf("%d bytes kept of %d: %v", len(saved), hit.Length, err)
			}
			if lost := metric(t, s.met.lostBatches.WithLabelValues("b")); lost != 1 {
				t.Fatalf("%v lost, want 1", lost)
			}
		})
	}
}

func TestSpool_CutsTornTailAtEveryByte(t *testing.T) {
	cfg, fs := small("/spool"), newMemFS()
	s := mustOpen(t, cfg, Deps{FS: fs}, "a")
	put(t, s, 1, 3)
	_ = s.Close()
	name := s.segmentPath(1)
	whole := fs.live[name].live
	var ends []int64 // of the batches
	if err := scan(&memFile{fs, fs.live[name]}, segmentHeader, int64(len(whole)), func(v found) error {
		if v.typ == typeBatch {
			ends = append(ends, v.next)
		}
		return nil
	}); err != nil || len(ends) != 3 {
		t.Fatal(ends, err)
	}
	for n := range len(whole) {
		fs := newMemFS()
		fs.live[name] = &memNode{live: whole[:n]}
		s, err := Open(cfg, []string{"a"}, Deps{FS: fs})
		if err != nil {
			t.Fatalf("cut at %d: %v", n, err)
		}
		left := uint64(0)
		for left < 3 && ends[left] <= int64(n) {
			left++
		}
		got := []uint64{}
		for range left {
			r, err := s.Cursor("a").Next(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, sequence(t, r.Batch))
		}
		want(t, got, 1, left)
		p, _ := s.Position(stream(1))
		if rest, _, _ := s.Backlog("a"); p != left || rest != left || len(s.Damages()) != 0 {
			t.Fatalf("cut at %d: position %d and %d records, want %d; damages %v", n, p, rest, left, s.Damages())
		}
		_ = s.Close()
	}
}

func TestSpool_ForeignAndNewerSegments(t *testing.T) {
	other := small(t.TempDir())
	o := mustOpen(t, other, Deps{}, "a")
	put(t, o, 500, 501)
	_ = o.Close()
	foreign, err := os.ReadFile(filepath.Join(other.Dir, segmentName(1)))
	if err != nil {
		t.Fatal(err)
	}

	cfg := small(t.TempDir())
	s := mustOpen(t, cfg, Deps{}, "a")
	put(t, s, 1, 2)
	_ = s.Close()
	h, _ := parseSegmentHeader(foreign)
	h.num = 9
	copy(foreign, appendSegmentHeader(nil, h))
	if err := os.WriteFile(filepath.Join(cfg.Dir, segmentName(9)), foreign, 0o640); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, cfg, Deps{}, "a")
	got, _ := read(t, s.Cursor("a"))
	want(t, got, 1, 2)
	r, err := Rescue(s, filepath.Join(cfg.Dir, quarantineDir, segmentName(9)))
	if err != nil || r != (RescueReport{Batches: 2, Events: 2}) {
		t.Fatalf("rescued %+v: %v", r, err)
	}
	got, _ = read(t, s.Cursor("a"))
	want(t, got, 500, 501)
	if _, ok := s.Position(stream(1)); !ok {
		t.Fatal("own position lost")
	}
	_ = s.Close()

	foreign[4] = 2
	copy(foreign[60:64], appendSegmentHeaderCRC(foreign))
	if err := os.WriteFile(filepath.Join(cfg.Dir, segmentName(77)), foreign, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(cfg, []string{"a"}, Deps{}); !errors.Is(err, ErrVersion) {
		t.Fatalf("a newer segment was opened: %v", err)
	}
}

func TestSpool_LostCursorBeginsAtTheOldest(t *testing.T) {
	cfg := small(t.TempDir())
	s := mustOpen(t, cfg, Deps{}, "a", "b")
	put(t, s, 1, 30)
	_, last := read(t, s.Cursor("a"))
	_ = s.Cursor("a").Commit(last.End)
	_ = s.Close()
	name := s.cursorPath("a")
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, bytes.Repeat([]byte{7}, len(b)), 0o640); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, cfg, Deps{}, "a", "b")
	got, _ := read(t, s.Cursor("a"))
	want(t, got, 1, 30)
}

func TestCursor_RefuseSetsAside(t *testing.T) {
	cfg := small(t.TempDir())
	s := mustOpen(t, cfg, Deps{}, "a")
	put(t, s, 1, 2)
	c := s.Cursor("a")
	r, err := c.Next(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Refuse(r.Start, 6, "event 0 is malformed")
	l, err := List(cfg.Dir)
	if err != nil || len(l.Refused) != 1 {
		t.Fatalf("%+v %v", l, err)
	}
	got := l.Refused[0]
	if got.Batch != "e1/7/1" || got.Code != 6 || got.Reason != "event 0 is malformed" || got.Destination != "a" {
		t.Fatalf("%+v", got)
	}
	kept, err := os.ReadFile(got.File)
	if err != nil || !bytes.Equal(kept, testBatch(t, 1, 500)) {
		t.Fatal("the batch is not kept as it was", err)
	}
}

func TestVerify_FindsWhatIsWrong(t *testing.T) {
	cfg := small(t.TempDir())
	s := mustOpen(t, cfg, Deps{}, "a")
	put(t, s, 1, 30)
	_ = s.Close()
	all, err := Verify(cfg.Dir)
	if err != nil {
		t.Fatal(err)
	}
	events := uint64(0)
	for _, r := range all {
		if !r.Good() {
			t.Fatalf("%+v", r)
		}
		events += r.Events
	}
	if events != 30 {
		t.Fatal(events)
	}
	flip(t, cfg.Dir, 2, 1000)
	all, err = Verify(cfg.Dir)
	if err != nil || all[1].Good() || all[1].Damaged == 0 || !all[0].Good() {
		t.Fatalf("%+v %v", all, err)
	}
}
