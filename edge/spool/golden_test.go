package spool

import (
	"bytes"
	"context"
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares b with testdata/<name>.bin; <name>.hex beside it is for people.
func golden(t *testing.T, name string, b []byte) {
	t.Helper()
	bin := filepath.Join("testdata", name+".bin")
	if *update {
		if err := os.MkdirAll("testdata", 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(bin, b, 0o640); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join("testdata", name+".hex"), []byte(hex.Dump(b)), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(bin)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, b) {
		t.Fatalf("%s has changed; the format is fixed:\n%s", name, hex.Dump(b))
	}
}

var (
	goldenID = [16]byte{0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xab, 0xac, 0xad, 0xae, 0xaf}
	goldenAt = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC).UnixNano()
)

func goldenSegment(t testing.TB) []byte {
	b := appendSegmentHeader(nil, segHeader{num: 3, id: goldenID, created: goldenAt, first: 41})
	b = appendSnapshot(b, 41, goldenAt, 7, streams{stream(1): {position: 99, updated: goldenAt - 1}, stream(2): {position: 5, updated: goldenAt - 2}})
	b = appendRecord(b, typeBatch, 41, goldenAt+1, []Origin{{stream(1), 100}}, testBatch(t, 1, 3))
	return appendRecord(b, typePositions, 42, goldenAt+2, []Origin{{stream(2), 6}}, nil)
}

func TestGolden_Segment(t *testing.T) { golden(t, "segment", goldenSegment(t)) }

func TestGolden_Cursor(t *testing.T) {
	b := make([]byte, slotSecond+slotSize)
	copy(b, appendSlot(nil, slot{serial: 8, at: Position{Segment: 3, Offset: 64, Index: 41}, id: goldenID}))
	copy(b[slotSecond:], appendSlot(nil, slot{serial: 9, at: Position{Segment: 3, Offset: 500, Index: 42}, id: goldenID}))
	golden(t, "cursor", b)
}

// TestGolden_SegmentIsRead opens a spool that is made of the golden files alone.
func TestGolden_SegmentIsRead(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("testdata", "segment.bin"))
	if err != nil {
		t.Fatal(err)
	}
	cfg, fs := small("/spool"), newMemFS()
	fs.live["/spool/"+segmentName(3)] = &memNode{live: b}
	s := mustOpen(t, cfg, Deps{FS: fs}, "a")
	r, err := s.Cursor("a").Next(t.Context(), nil)
	if err != nil || r.Index != 41 || sequence(t, r.Batch) != 1 || r.Time.UnixNano() != goldenAt+1 {
		t.Fatalf("%+v %v", r, err)
	}
	one, _ := s.Position(stream(1))
	two, _ := s.Position(stream(2))
	if s.Epoch() != 7 || one != 100 || two != 6 || s.Durable() != 43 || s.nextNum != 4 {
		t.Fatal(s.Epoch(), one, two, s.Durable(), s.nextNum)
	}
}

func FuzzSegment(f *testing.F) {
	f.Add(goldenSegment(f)[segmentHeader:])
	f.Add([]byte{})
	f.Add([]byte(recordMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		cfg, fs := small("/spool"), newMemFS()
		head := appendSegmentHeader(nil, segHeader{num: 1, id: goldenID, first: 0})
		fs.live["/spool/"+segmentName(1)] = &memNode{live: append(head, b...)}
		s, err := Open(cfg, []string{"a"}, Deps{FS: fs})
		if err != nil {
			t.Fatalf("bytes of a segment keep the spool shut: %v", err)
		}
		defer s.Close() //nolint:errcheck // not what is tested
		// Reading ends, and what is appended behind comes out whatever was there before.
		if _, err := s.Append(nil, testBatch(t, 77, 1)); err != nil {
			t.Fatal(err)
		}
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		for {
			r, err := s.Cursor("a").Next(ctx, nil)
			if err != nil {
				t.Fatalf("%v with the cursor at %+v", err, s.Cursor("a").read)
			}
			if bytes.Equal(r.Batch, testBatch(t, 77, 1)) {
				return
			}
		}
	})
}

func FuzzCursorSlot(f *testing.F) {
	f.Add(appendSlot(nil, slot{serial: 8, at: Position{Segment: 3, Offset: 64, Index: 41}, id: goldenID}))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := parseSlot(b)
		if err == nil && !bytes.Equal(appendSlot(nil, v)[:4], b[:4]) {
			t.Fatal("a slot without its mark was read")
		}
	})
}
