package analytics

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"

	"github.com/ClickHouse/ch-go/proto"
)

// uniques is the set behind the engine's aggregate function uniq: 32-bit hashes of what was seen, of which, when they
// become too many, only those are kept that end in skip zero bits. Merging states here and in the engine gives the same
// numbers. The zero value is empty.
type uniques struct {
	// first is the only state so far: most points of a dashboard have one row, whose hashes need no table to be counted.
	first []byte
	skip  uint8
	zero  bool // the hash 0 is in the set
	size  int  // of table, in use
	table []uint32
}

// maxUniques is how many hashes a set keeps.
const maxUniques = 1 << 16

// merge adds a state: its hashes, all different, and how many bits they skip. The set keeps hashes, which must not change.
func (u *uniques) merge(skip uint8, hashes []byte) {
	if u.first == nil && u.table == nil && len(hashes) > 0 {
		u.skip, u.first = skip, hashes
		return
	}
	if first := u.first; first != nil {
		u.first = nil
		u.add(u.skip, first)
	}
	u.add(skip, hashes)
}

func (u *uniques) add(skip uint8, hashes []byte) {
	if skip > u.skip {
		u.raise(skip)
	}
	u.reserve(u.size + len(hashes)/4)
	for ; len(hashes) >= 4; hashes = hashes[4:] {
		u.addHash(binary.LittleEndian.Uint32(hashes))
	}
}

func (u *uniques) addHash(h uint32) {
	if h&(1<<u.skip-1) != 0 {
		return
	}
	if h == 0 {
		u.zero = true
	} else if !u.put(h) {
		return
	}
	for u.count() > maxUniques {
		u.raise(u.skip + 1)
	}
}

func (u *uniques) count() int {
	if u.first != nil {
		return len(u.first) / 4
	}
	if u.zero {
		return u.size + 1
	}
	return u.size
}

// put says whether h is new. There is room.
func (u *uniques) put(h uint32) bool {
	mask := uint32(len(u.table) - 1)
	at := (h * 0x9e3779b1 >> 7) & mask
	for u.table[at] != 0 {
		if u.table[at] == h {
			return false
		}
		at = (at + 1) & mask
	}
	u.table[at] = h
	u.size++
	return true
}

// reserve makes room for n hashes. More than maxUniques and one are never there.
func (u *uniques) reserve(n int) {
	n = 2 * min(n, maxUniques+1)
	if n <= len(u.table) && len(u.table) > 0 {
		return
	}
	size := 64
	for size < n {
		size *= 2
	}
	u.rebuild(size)
}

// raise drops the hashes that do not end in skip zero bits.
func (u *uniques) raise(skip uint8) {
	u.skip = skip
	u.rebuild(len(u.table))
}

func (u *uniques) rebuild(size int) {
	old := u.table
	u.table, u.size = make([]uint32, size), 0
	for _, h := range old {
		if h != 0 && h&(1<<u.skip-1) == 0 {
			u.put(h)
		}
	}
}

// number is how many different values were seen: exact while no bits are skipped.
func (u *uniques) number() uint64 { return uniquesNumber(u.skip, u.count()) }

// uniquesNumber is the number for a set that skips so many bits and has so many hashes, as the engine computes it.
func uniquesNumber(skip uint8, count int) uint64 {
	if skip == 0 {
		return uint64(count)
	}
	n := uint64(count) << skip
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(count))
	// So that it does not look like a power of two times something.
	n += uint64(^crc32.Checksum(b[:], castagnoli())) & (1<<skip - 1)
	const all = float64(1 << 32)
	if n >= 1<<32 {
		return n
	}
	// Some values had the same hash.
	return uint64(math.Round(all * (math.Log(all) - math.Log(all-float64(n)))))
}

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// uniquesColumn receives states of uniq. The hashes of a row stay as they are for as long as somebody has them, over Reset too.
type uniquesColumn struct {
	anyType
	skips  []uint8
	hashes [][]byte
	free   []byte // what is left of the memory that hashes are cut from
}

// uniquesChunk is the least that a uniquesColumn asks memory for.
const uniquesChunk = 64 << 10

var errUniques = errors.New("state of uniq cannot be read")

// DecodeColumn implements proto.ColResult: for each row a byte, the number of hashes, and the hashes.
func (c *uniquesColumn) DecodeColumn(r *proto.Reader, rows int) error {
	for range rows {
		skip, err := r.UInt8()
		if err != nil {
			return err
		}
		n, err := r.UVarInt()
		if err != nil {
			return err
		}
		if n > maxUniques || skip > 31 {
			return errUniques
		}
		size := int(4 * n)
		if size > len(c.free) {
			c.free = make([]byte, max(size, uniquesChunk))
		}
		hashes := c.free[:size:size]
		c.free = c.free[size:]
		if err := r.ReadFull(hashes); err != nil {
			return err
		}
		c.skips, c.hashes = append(c.skips, skip), append(c.hashes, hashes)
	}
	return nil
}

// Rows implements proto.ColResult.
func (c *uniquesColumn) Rows() int { return len(c.hashes) }

// Reset implements proto.ColResult.
func (c *uniquesColumn) Reset() { c.skips, c.hashes = c.skips[:0], c.hashes[:0] }

// anyType lets a column receive values of types that differ in name alone: those of a rollup say how they are merged.
type anyType struct{ name proto.ColumnType }

// Infer implements proto.Inferable.
func (t *anyType) Infer(name proto.ColumnType) error {
	t.name = name
	return nil
}

// Type implements proto.ColResult.
func (t *anyType) Type() proto.ColumnType { return t.name }
