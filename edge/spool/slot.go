package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// A cursor file has two slots, far enough apart that no torn write harms both; they are written in turn.
const (
	slotSize   = 64
	slotSecond = 4096
)

// slot is what a cursor file holds twice.
type slot struct {
	serial uint64
	at     Position
	id     [16]byte
}

func appendSlot(dst []byte, v slot) []byte {
	at := len(dst)
	dst = append(dst, cursorMagic...)
	dst = append(dst, formatVersion, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint64(dst, v.serial)
	dst = binary.LittleEndian.AppendUint64(dst, v.at.Segment)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(v.at.Offset))
	dst = binary.LittleEndian.AppendUint64(dst, v.at.Index)
	dst = append(dst, v.id[:]...)
	dst = append(dst, 0, 0, 0, 0)
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[at:], castagnoli))
}

func parseSlot(b []byte) (slot, error) {
	switch {
	case len(b) < slotSize:
		return slot{}, errShort
	case string(b[:4]) != cursorMagic:
		return slot{}, errMagic
	case binary.LittleEndian.Uint32(b[60:]) != crc32.Checksum(b[:60], castagnoli):
		return slot{}, errHeader
	case b[4] != formatVersion:
		return slot{}, fmt.Errorf("cursor format %d: %w", b[4], ErrVersion)
	}
	return slot{
		serial: binary.LittleEndian.Uint64(b[8:]),
		at: Position{
			Segment: binary.LittleEndian.Uint64(b[16:]),
			Offset:  int64(binary.LittleEndian.Uint64(b[24:])),
			Index:   binary.LittleEndian.Uint64(b[32:]),
		},
		id: [16]byte(b[40:56]),
	}, nil
}

// readSlots gives the newest good slot; ok is false when the file holds none.
func readSlots(f File) (v slot, ok bool, err error) {
	var buf [slotSize]byte
	for _, off := range []int64{0, slotSecond} {
		if rerr := readFull(f, buf[:], off); rerr != nil {
			if !isDamage(rerr) {
				return slot{}, false, rerr
			}
			continue
		}
		p, perr := parseSlot(buf[:])
		if errors.Is(perr, ErrVersion) {
			return slot{}, false, perr
		}
		if perr == nil && (!ok || p.serial > v.serial) {
			v, ok = p, true
		}
	}
	return v, ok, nil
}
