package embedded

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The engine recovers from a crash by itself, with four flaws that recoverDir removes before the engine sees the files:
//
//   - it appends to groups.log and pids.log behind a torn entry, and does not read past that entry the next time;
//   - it loads all retained records of a partition into memory at once, unless a snapshot.json fits the segments;
//   - it takes the sequence numbers of producers from the last clean stop as if nothing had been produced since, or
//     forgets them, so that a producer's retry after the crash is stored a second time (sequences.go);
//   - it cuts a damaged tail off without a trace.
//
// Formats are those of kfake, version 1 of its persistence.

const engineVersion = 1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// recoverDir makes dir fit to be opened. crashed says that the last run did not end cleanly.
func recoverDir(dir string, crashed bool, log *slog.Logger) error {
	raw, err := os.ReadFile(filepath.Join(dir, "meta.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // nothing was ever written
	}
	if err != nil {
		return err
	}
	var meta struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(raw, &meta); err != nil {
		return fmt.Errorf("meta.json: %w", err)
	}
	if meta.Version != engineVersion {
		return fmt.Errorf("data has version %d, this program knows version %d", meta.Version, engineVersion)
	}
	if !crashed {
		return nil
	}
	log.Info("last run of the broker did not stop cleanly, recovering", "dir", dir)
	for _, name := range []string{"seq_windows.json", "session_state.json"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, name := range []string{"groups.log", "pids.log"} {
		if err := cutStateLog(dir, name, log); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	parts, err := os.ReadDir(filepath.Join(dir, "partitions"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var windows sequenceWindows
	for _, p := range parts {
		if !p.IsDir() {
			continue
		}
		if err := recoverPartition(dir, p.Name(), &windows, log); err != nil {
			return fmt.Errorf("partition %s: %w", p.Name(), err)
		}
	}
	return windows.write(dir)
}

// cutStateLog cuts a torn tail off a log of entries: length, CRC-32C, version and data, little-endian.
func cutStateLog(dir, name string, log *slog.Logger) error {
	path := filepath.Join(dir, name)
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	good := 0
	for good+10 <= len(raw) {
		n := int(binary.LittleEndian.Uint32(raw[good:]))
		if n < 2 || n > len(raw)-good-8 {
			break
		}
		if crc32.Checksum(raw[good+8:good+8+n], castagnoli) != binary.LittleEndian.Uint32(raw[good+4:]) {
			break
		}
		good += 8 + n
	}
	return cutTail(dir, path, name, int64(good), int64(len(raw)), log)
}

// cutTail shortens path to good bytes and keeps what it cuts in quarantine/.
func cutTail(dir, path, label string, good, size int64, log *slog.Logger) error {
	if good == size {
		return nil
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	quarantine := filepath.Join(dir, "quarantine")
	if err := os.MkdirAll(quarantine, 0o750); err != nil {
		return err
	}
	tail, err := io.ReadAll(io.NewSectionReader(f, good, size-good))
	if err != nil {
		return err
	}
	kept := filepath.Join(quarantine, fmt.Sprintf("%s.%d.tail", label, good))
	if err := writeSynced(kept, tail); err != nil {
		return err
	}
	log.Warn("cut a torn tail", "file", path, "bytes", size-good, "kept_in", kept)
	if err := f.Truncate(good); err != nil {
		return err
	}
	return f.Sync()
}

// snapshot is the engine's snapshot.json, as far as it matters here.
type snapshot struct {
	Version          int               `json:"version"`
	HighWatermark    int64             `json:"high_watermark"`
	LastStableOffset int64             `json:"last_stable_offset"`
	LogStartOffset   int64             `json:"log_start_offset"`
	Epoch            int32             `json:"epoch"`
	LeaderNode       int32             `json:"leader_node,omitempty"`
	MaxTimestamp     int64             `json:"max_timestamp"`
	CreatedAt        json.RawMessage   `json:"created_at,omitempty"`
	AbortedTxns      json.RawMessage   `json:"aborted_txns,omitempty"`
	Segments         []snapshotSegment `json:"segments"`
}

type snapshotSegment struct {
	BaseOffset int64 `json:"base_offset"`
	Size       int64 `json:"size"`
	MinEpoch   int32 `json:"min_epoch,omitempty"`
	MaxEpoch   int32 `json:"max_epoch,omitempty"`
}

// segment is one log file of a partition.
type segment struct {
	base int64
	size int64
	mod  int64 // last write, ms since 1970
}

func (s segment) file() string { return strconv.FormatInt(s.base, 10) + ".dat" }

// listSegments returns the segments in a partition's folder, oldest first.
func listSegments(pdir string) ([]segment, error) {
	entries, err := os.ReadDir(pdir)
	if err != nil {
		return nil, err
	}
	var segs []segment
	for _, e := range entries {
		text, ok := strings.CutSuffix(e.Name(), ".dat")
		if !ok {
			continue
		}
		base, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted between the two calls
		}
		if err != nil {
			return nil, err
		}
		segs = append(segs, segment{base: base, size: info.Size(), mod: info.ModTime().UnixMilli()})
	}
	slices.SortFunc(segs, func(a, b segment) int { return int(min(max(a.base-b.base, -1), 1)) })
	return segs, nil
}

// recoverPartition cuts the torn tail of the newest segment and writes a snapshot that fits, from which the engine
// loads segment by segment.
func recoverPartition(dir, name string, windows *sequenceWindows, log *slog.Logger) error {
	pdir := filepath.Join(dir, "partitions", name)
	segs, err := listSegments(pdir)
	if err != nil || len(segs) == 0 {
		return err
	}
	last := &segs[len(segs)-1]
	path := filepath.Join(pdir, last.file())
	producers, err := windows.of(name)
	if err != nil {
		return err
	}
	if len(segs) > 1 { // a producer's last batches may lie before the last roll
		before := segs[len(segs)-2]
		if _, err := scanSegment(filepath.Join(pdir, before.file()), before.base, producers.see); err != nil {
			return err
		}
	}
	good, err := scanSegment(path, last.base, producers.see)
	if err != nil {
		return err
	}
	if err := cutTail(dir, path, name+"."+strconv.FormatInt(last.base, 10), good, last.size, log); err != nil {
		return err
	}
	last.size = good
	snap := snapshot{Version: engineVersion, LogStartOffset: segs[0].base}
	old, err := os.ReadFile(filepath.Join(pdir, "snapshot.json"))
	if err == nil {
		var prev snapshot
		if json.Unmarshal(old, &prev) == nil && prev.Version == engineVersion {
			snap.CreatedAt, snap.AbortedTxns, snap.Epoch = prev.CreatedAt, prev.AbortedTxns, prev.Epoch
			snap.LogStartOffset = max(snap.LogStartOffset, prev.LogStartOffset)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(segs) > 1 && last.size == 0 {
		// The roll was the last thing that happened. The engine would take the empty file for the end of the log.
		if err := os.Remove(path); err != nil {
			return err
		}
		segs = segs[:len(segs)-1]
	}
	if transactional(pdir, segs) {
		return nil // only the engine's full replay can tell which transactions were open
	}
	for _, s := range segs {
		snap.Segments = append(snap.Segments, snapshotSegment{BaseOffset: s.base, Size: s.size, MinEpoch: snap.Epoch, MaxEpoch: snap.Epoch})
	}
	// The engine lowers both to the end of what it finds.
	snap.HighWatermark, snap.LastStableOffset = 1<<62, 1<<62
	snap.LogStartOffset = min(snap.LogStartOffset, segs[len(segs)-1].base)
	if segs[len(segs)-1].size == 0 {
		snap.LogStartOffset = segs[0].base // with no records at all the log starts and ends here
	}
	out, err := json.Marshal(snap)
	if err != nil {
		return err
	}
	return writeSynced(filepath.Join(pdir, "snapshot.json"), out)
}

// batchHeader is the fixed part of a Kafka record batch.
type batchHeader [61]byte

func (h *batchHeader) first() int64     { return int64(binary.BigEndian.Uint64(h[0:])) }
func (h *batchHeader) length() int64    { return int64(binary.BigEndian.Uint32(h[8:])) } // after this field
func (h *batchHeader) crc() uint32      { return binary.BigEndian.Uint32(h[17:]) }
func (h *batchHeader) lastDelta() int32 { return int32(binary.BigEndian.Uint32(h[23:])) }
func (h *batchHeader) producer() int64  { return int64(binary.BigEndian.Uint64(h[43:])) }
func (h *batchHeader) epoch() int16     { return int16(binary.BigEndian.Uint16(h[51:])) }
func (h *batchHeader) sequence() int32  { return int32(binary.BigEndian.Uint32(h[53:])) }
func (h *batchHeader) records() int32   { return int32(binary.BigEndian.Uint32(h[57:])) }

// scanSegment calls see for each whole record batch with a right checksum and a rising offset, up to the first that is
// not, and returns how many bytes those are.
func scanSegment(path string, base int64, see func(*batchHeader)) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var (
		good int64
		head batchHeader
		buf  []byte
		r    = bufio.NewReaderSize(f, 1<<20)
	)
	const after = len(head) - 12 // of the header, behind the length field
	for {
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return good, endOfFile(err)
		}
		if head.first() < base || head.length() < int64(after) || head.length() > 1<<30 || head[16] != 2 {
			return good, nil
		}
		rest := int(head.length()) - after
		buf = slices.Grow(buf[:0], rest)[:rest]
		if _, err := io.ReadFull(r, buf); err != nil {
			return good, endOfFile(err)
		}
		if crc32.Update(crc32.Checksum(head[21:], castagnoli), castagnoli, buf) != head.crc() {
			return good, nil
		}
		good += int64(len(head) + rest)
		base = head.first() + int64(head.lastDelta()) + 1
		see(&head)
	}
}

func endOfFile(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// transactional says whether an index of the partition marks a batch as part of a transaction.
func transactional(pdir string, segs []segment) bool {
	const entry = 15
	for _, s := range segs {
		raw, err := os.ReadFile(filepath.Join(pdir, strconv.FormatInt(s.base, 10)+".idx"))
		if err != nil {
			continue
		}
		for ; len(raw) >= entry; raw = raw[entry:] {
			if raw[entry-1]&1 != 0 && !bytes.Equal(raw[:entry], make([]byte, entry)) {
				return true
			}
		}
	}
	return false
}
