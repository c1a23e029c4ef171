package spool

import (
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var errBroken = errors.New("input/output error")

// stubborn is a disk that, while broken, writes what it is given, says that it did not, and cannot cut it off again.
type stubborn struct {
	FS
	broken bool
}

type stubbornFile struct {
	File
	fs *stubborn
}

func (s *stubborn) Create(name string) (File, error) {
	f, err := s.FS.Create(name)
	return &stubbornFile{f, s}, err
}

func (f *stubbornFile) WriteAt(b []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(b, off)
	if f.fs.broken {
		return 0, errBroken
	}
	return n, err
}

func (f *stubbornFile) Truncate(size int64) error {
	if f.fs.broken {
		return errBroken
	}
	return f.File.Truncate(size)
}

var _ io.WriterAt = (*stubbornFile)(nil)

// A record that the disk took although it said no is void: what was appended in its place, to a new segment, is what
// counts, now and after a restart.
func TestSpool_RecordsThatTheDiskKeptAgainstItsWordAreVoid(t *testing.T) {
	cfg := small(t.TempDir())
	disk := &stubborn{FS: OS{}}
	s := mustOpen(t, cfg, Deps{FS: disk}, "a", "late")
	put(t, s, 1, 3)
	disk.broken = true
	if _, err := s.Append([]Origin{{stream(1), 99}}, testBatch(t, 99, 500)); !errors.Is(err, errBroken) {
		t.Fatal(err)
	}
	disk.broken = false
	put(t, s, 4, 6)
	got, _ := read(t, s.Cursor("a"))
	want(t, got, 1, 6)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, cfg, Deps{FS: disk}, "a", "late")
	got, _ = read(t, s.Cursor("late"))
	want(t, got, 1, 6)
	if p, ok := s.DurablePosition(stream(1)); !ok || p != 6 {
		t.Errorf("position %d, want 6", p)
	}
	put(t, s, 7, 8)
	got, _ = read(t, s.Cursor("late"))
	want(t, got, 7, 8)
}

// What is set aside is bounded, too: the oldest goes, the newest stays.
func TestSpool_BoundsWhatIsSetAside(t *testing.T) {
	cfg := small(t.TempDir())
	cfg.AsideBytes = 6 << 10
	s := mustOpen(t, cfg, Deps{}, "a")
	put(t, s, 1, 40)
	c := s.Cursor("a")
	for range 40 {
		r, err := c.Next(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		c.Refuse(r.Start, 2, "no")
		if err := c.Commit(r.End); err != nil {
			t.Fatal(err)
		}
	}
	names, err := OS{}.List(filepath.Join(cfg.Dir, refusedDir, "a"))
	if err != nil {
		t.Fatal(err)
	}
	if len(names) < 6 || len(names) > 20 {
		t.Errorf("%d files are left: %v", len(names), names)
	}
	for _, end := range []string{"-40.batch", "-40.json"} {
		if !slices.ContainsFunc(names, func(n string) bool { return strings.HasSuffix(n, end) }) {
			t.Errorf("the newest, %s, is gone: %v", end, names)
		}
	}
}
