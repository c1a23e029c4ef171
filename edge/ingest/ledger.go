package ingest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Entry is what is known of one log that was imported, whatever files it was in.
type Entry struct {
	Stream   Stream    `json:"stream"`
	Family   Sum       `json:"family"`   // of the first line; logs of one family may be the same
	Position uint64    `json:"position"` // unpacked bytes that were imported
	Tail     Sum       `json:"tail"`     // sum of all up to Position
	Marks    []Mark    `json:"-"`        // at and before Position; when Position is 0, those of the first chunk
	Names    []string  `json:"names"`    // files it was seen in, the last one last
	Format   string    `json:"format"`
	Lines    uint64    `json:"lines"`
	Events   uint64    `json:"events"`
	Bad      uint64    `json:"bad"`
	First    time.Time `json:"first"` // span of the events
	Last     time.Time `json:"last"`
	Begun    time.Time `json:"begun"`
	Updated  time.Time `json:"updated"`
}

// Stream names a log to the forwarder.
type Stream [16]byte

// MarshalText gives hexadecimal digits.
func (s Stream) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(s[:])), nil }

// UnmarshalText reads what MarshalText wrote.
func (s *Stream) UnmarshalText(b []byte) error { return unhex(s[:], b) }

// MarshalText gives hexadecimal digits.
func (s Sum) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(s[:])), nil }

// UnmarshalText reads what MarshalText wrote.
func (s *Sum) UnmarshalText(b []byte) error { return unhex(s[:], b) }

func unhex(to, b []byte) error {
	if hex.DecodedLen(len(b)) != len(to) {
		return fmt.Errorf("want %d hexadecimal digits, have %d", hex.EncodedLen(len(to)), len(b))
	}
	_, err := hex.Decode(to, b)
	return err
}

// Ledger remembers, durably, what was imported. Its methods may be called from any goroutine.
type Ledger interface {
	// Lookup gives all logs of a family.
	Lookup(ctx context.Context, family Sum) ([]Entry, error)
	// Save replaces what is known of e.Stream; it is on disk when Save returns. Marks only grow.
	Save(ctx context.Context, e Entry) error
	// List gives everything, the oldest first.
	List(ctx context.Context) ([]Entry, error)
}

var _ Ledger = (*FileLedger)(nil)

// FileLedger is a Ledger in one file that is only appended to: a line for each Save, "CRC JSON\n", with the marks that are
// new since the line before. A torn last line is dropped when it is opened.
type FileLedger struct {
	mu      sync.Mutex
	f       *os.File
	entries map[Stream]*Entry
	order   []Stream
}

// ledgerLine is the JSON of a line.
type ledgerLine struct {
	Version int `json:"v"`
	Entry
	NewMarks []byte `json:"marks,omitempty"` // 24 bytes each: offset, little-endian, and sum
}

var crcTable = crc32.MakeTable(crc32.Castagnoli)

// ErrLocked is returned by OpenLedger while another process has the ledger open.
var ErrLocked = errors.New("another import is running")

// OpenLedger opens or makes the ledger file, and locks it, so that two imports cannot take the same lines. Close it when done.
func OpenLedger(path string) (*FileLedger, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("make folder of the ledger: %w", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = ErrLocked
		}
		return nil, errors.Join(fmt.Errorf("lock ledger %s: %w", path, err), f.Close())
	}
	l := &FileLedger{f: f, entries: map[Stream]*Entry{}}
	good, err := l.load()
	if err == nil {
		err = l.truncate(good)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read ledger %s: %w", path, err), f.Close())
	}
	return l, nil
}

// ReadLedger gives all entries of a ledger file, the oldest first, also while an import writes to it. No file is no entry.
func ReadLedger(path string) ([]Entry, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	defer f.Close()
	l := &FileLedger{f: f, entries: map[Stream]*Entry{}}
	if _, err := l.load(); err != nil {
		return nil, fmt.Errorf("read ledger %s: %w", path, err)
	}
	return l.List(context.Background())
}

// truncate cuts a torn line off the end.
func (l *FileLedger) truncate(good int64) error {
	if err := l.f.Truncate(good); err != nil {
		return err
	}
	_, err := l.f.Seek(good, io.SeekStart)
	return err
}

// load reads all lines, and gives the length of those that are whole.
func (l *FileLedger) load() (good int64, err error) {
	r := bufio.NewReaderSize(l.f, 1<<20)
	for n := 1; ; n++ {
		line, err := r.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return good, err
		}
		if len(line) == 0 {
			break
		}
		rec, bad := parseLedgerLine(line)
		if bad != nil {
			if err == io.EOF { // the write that a crash interrupted
				break
			}
			return good, fmt.Errorf("line %d: %w", n, bad)
		}
		l.apply(rec)
		good += int64(len(line))
	}
	return good, nil
}

func parseLedgerLine(line []byte) (rec ledgerLine, err error) {
	text, ok := bytes.CutSuffix(line, []byte("\n"))
	if !ok {
		return rec, errors.New("line is cut")
	}
	crc, text, ok := bytes.Cut(text, []byte(" "))
	if !ok || fmt.Sprintf("%08x", crc32.Checksum(text, crcTable)) != string(crc) {
		return rec, errors.New("checksum does not match")
	}
	if err := json.Unmarshal(text, &rec); err != nil {
		return rec, err
	}
	if rec.Version != 1 {
		return rec, fmt.Errorf("version %d is not known", rec.Version)
	}
	if len(rec.NewMarks)%24 != 0 {
		return rec, errors.New("marks are cut")
	}
	return rec, nil
}

// apply takes over a line.
func (l *FileLedger) apply(rec ledgerLine) {
	rec.Marks = nil
	if old := l.entries[rec.Stream]; old != nil {
		rec.Marks = old.Marks
	} else {
		l.order = append(l.order, rec.Stream)
	}
	for b := rec.NewMarks; len(b) > 0; b = b[24:] {
		rec.Marks = append(rec.Marks, Mark{le64(b), Sum(b[8:24])})
	}
	e := rec.Entry
	l.entries[e.Stream] = &e
}

// Lookup implements [Ledger].
func (l *FileLedger) Lookup(_ context.Context, family Sum) ([]Entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []Entry
	for _, s := range l.order {
		if e := l.entries[s]; e.Family == family {
			out = append(out, clone(e))
		}
	}
	return out, nil
}

// List implements [Ledger].
func (l *FileLedger) List(context.Context) ([]Entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]Entry, 0, len(l.order))
	for _, s := range l.order {
		out = append(out, clone(l.entries[s]))
	}
	return out, nil
}

func clone(e *Entry) Entry {
	c := *e
	c.Marks, c.Names = slices.Clone(e.Marks), slices.Clone(e.Names)
	return c
}

// Save implements [Ledger].
func (l *FileLedger) Save(_ context.Context, e Entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := 0
	if old := l.entries[e.Stream]; old != nil {
		known = min(len(old.Marks), len(e.Marks))
	}
	rec := ledgerLine{Version: 1, Entry: e}
	for _, m := range e.Marks[known:] {
		rec.NewMarks = append(put64(rec.NewMarks, m.At), m.Sum[:]...)
	}
	text, err := json.Marshal(rec)
	if err != nil {
		return fmt.Errorf("encode ledger entry: %w", err)
	}
	line := append(fmt.Appendf(nil, "%08x ", crc32.Checksum(text, crcTable)), text...)
	if _, err := l.f.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write ledger: %w", err)
	}
	if err := l.f.Sync(); err != nil {
		return fmt.Errorf("sync ledger: %w", err)
	}
	l.apply(rec)
	return nil
}

// Close closes the file.
func (l *FileLedger) Close() error { return l.f.Close() }

func put64(b []byte, v uint64) []byte {
	return append(b, byte(v), byte(v>>8), byte(v>>16), byte(v>>24), byte(v>>32), byte(v>>40), byte(v>>48), byte(v>>56))
}

func le64(b []byte) uint64 {
	return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
}
