// Package asndb is a compact table from address to autonomous system: sorted ranges in one file that is read into memory and
// searched by halving. Command build makes it from CSV files.
//
// The file, all integers little-endian: magic "SPAS", version 1, three zero bytes, the numbers of IPv4 and of IPv6 ranges as
// 32 bit; the starts of the IPv4 ranges (32 bit each) and their systems (32 bit each); the starts of the IPv6 ranges (two 64 bit
// halves each, the upper first) and their systems; CRC-32C of all before. A range ends where the next begins; system 0 is none.
package asndb

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"net/netip"
	"os"
	"sort"
)

const (
	magic      = "SPAS\x01\x00\x00\x00"
	headerSize = len(magic) + 8
)

// ErrFormat says that a file is not one that this package reads, or is damaged.
var ErrFormat = errors.New("not a table of autonomous systems")

// DB is a table. It never changes and may be used by any number of goroutines.
type DB struct {
	start4, asn4 []uint32
	start6       [][2]uint64
	asn6         []uint32
}

// Open reads the file at path.
func Open(path string) (*DB, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("open table of autonomous systems: %w", err)
	}
	db, err := Parse(b)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return db, nil
}

// IsFile reports whether the bytes begin as a file of this package does.
func IsFile(b []byte) bool { return len(b) >= len(magic) && string(b[:4]) == magic[:4] }

// Parse reads a table from the bytes of a file, which it does not keep.
func Parse(b []byte) (*DB, error) {
	if len(b) < headerSize+4 || string(b[:len(magic)]) != magic {
		return nil, ErrFormat
	}
	le := binary.LittleEndian
	n4, n6 := int(le.Uint32(b[8:])), int(le.Uint32(b[12:]))
	if n4 > math.MaxInt32 || n6 > math.MaxInt32 || headerSize+n4*8+n6*20+4 != len(b) {
		return nil, fmt.Errorf("%w: %d bytes for %d and %d ranges", ErrFormat, len(b), n4, n6)
	}
	body := b[:len(b)-4]
	if crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)) != le.Uint32(b[len(body):]) {
		return nil, fmt.Errorf("%w: checksum does not match", ErrFormat)
	}
	db := &DB{}
	body = body[headerSize:]
	db.start4, body = words(body, n4)
	db.asn4, body = words(body, n4)
	db.start6 = make([][2]uint64, n6)
	for i := range db.start6 {
		db.start6[i] = [2]uint64{le.Uint64(body[i*16:]), le.Uint64(body[i*16+8:])}
	}
	db.asn6, _ = words(body[n6*16:], n6)
	return db, nil
}

// words returns n 32-bit numbers from the start of b, and what follows.
func words(b []byte, n int) ([]uint32, []byte) {
	w := make([]uint32, n)
	for i := range w {
		w[i] = binary.LittleEndian.Uint32(b[i*4:])
	}
	return w, b[n*4:]
}

// Lookup returns the autonomous system that announces a, 0 when none does.
func (db *DB) Lookup(a netip.Addr) uint32 {
	a = a.Unmap()
	switch {
	case a.Is4():
		v := a.As4()
		x := binary.BigEndian.Uint32(v[:])
		if i := sort.Search(len(db.start4), func(i int) bool { return db.start4[i] > x }); i > 0 {
			return db.asn4[i-1]
		}
	case a.Is6():
		x := halves(a)
		if i := sort.Search(len(db.start6), func(i int) bool { return less(x, db.start6[i]) }); i > 0 {
			return db.asn6[i-1]
		}
	}
	return 0
}

// Ranges returns how many ranges of each version the table has.
func (db *DB) Ranges() (v4, v6 int) { return len(db.start4), len(db.start6) }

func halves(a netip.Addr) [2]uint64 {
	v := a.As16()
	return [2]uint64{binary.BigEndian.Uint64(v[:8]), binary.BigEndian.Uint64(v[8:])}
}

func less(a, b [2]uint64) bool { return a[0] < b[0] || a[0] == b[0] && a[1] < b[1] }
