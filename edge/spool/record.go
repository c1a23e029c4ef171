package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// Sizes and marks of the files; docs/format/spool.md has the tables.
const (
	segmentMagic  = "SPSG"
	recordMagic   = "SPR\xa5"
	cursorMagic   = "SPCU"
	formatVersion = 1

	segmentHeader = 64
	recordHeader  = 36
	originSize    = 24
	streamSize    = 32
)

// recordType says what a record holds. Readers skip types that they do not know.
type recordType uint8

const (
	typeBatch     recordType = 1 // origins and a batch
	typeSnapshot  recordType = 2 // the positions of all live streams
	typePositions recordType = 3 // origins without a batch
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// What can be wrong with a record.
var (
	errShort  = errors.New("record is cut short")
	errMagic  = errors.New("record does not begin with its mark")
	errHeader = errors.New("record header does not match its checksum")
	errBody   = errors.New("record body does not match its checksum")
	errLayout = errors.New("record body has a wrong layout")
)

type recHeader struct {
	length uint32 // of the body
	typ    recordType
	crc    uint32 // of the body
	index  uint64
	time   int64 // when it was appended, ns
}

func appendRecordHeader(dst []byte, h recHeader) []byte {
	at := len(dst)
	dst = append(dst, recordMagic...)
	dst = binary.LittleEndian.AppendUint32(dst, h.length)
	dst = append(dst, byte(h.typ), 0, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, h.crc)
	dst = binary.LittleEndian.AppendUint64(dst, h.index)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(h.time))
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[at:], castagnoli))
}

// parseRecordHeader reads the header that b begins with.
func parseRecordHeader(b []byte) (recHeader, error) {
	if len(b) < recordHeader {
		return recHeader{}, errShort
	}
	if string(b[:4]) != recordMagic {
		return recHeader{}, errMagic
	}
	if binary.LittleEndian.Uint32(b[32:]) != crc32.Checksum(b[:32], castagnoli) {
		return recHeader{}, errHeader
	}
	return recHeader{
		length: binary.LittleEndian.Uint32(b[4:]),
		typ:    recordType(b[8]),
		crc:    binary.LittleEndian.Uint32(b[12:]),
		index:  binary.LittleEndian.Uint64(b[16:]),
		time:   int64(binary.LittleEndian.Uint64(b[24:])),
	}, nil
}

// appendRecord appends a whole record whose body is the origins and then the batch.
func appendRecord(dst []byte, typ recordType, index uint64, time int64, origins []Origin, batch []byte) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, recordHeader)...)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(origins)))
	for _, o := range origins {
		dst = append(dst, o.Stream[:]...)
		dst = binary.LittleEndian.AppendUint64(dst, o.Position)
	}
	dst = append(dst, batch...)
	sealRecord(dst[at:], typ, index, time)
	return dst
}

// appendSnapshot appends a record with the highest epoch and the positions of all streams.
func appendSnapshot(dst []byte, index uint64, time int64, epoch uint64, all streams) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, recordHeader)...)
	dst = binary.LittleEndian.AppendUint64(dst, epoch)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(all)))
	for _, k := range all.sorted() {
		dst = append(dst, k[:]...)
		dst = binary.LittleEndian.AppendUint64(dst, all[k].position)
		dst = binary.LittleEndian.AppendUint64(dst, uint64(all[k].updated))
	}
	sealRecord(dst[at:], typeSnapshot, index, time)
	return dst
}

func sealRecord(rec []byte, typ recordType, index uint64, time int64) {
	body := rec[recordHeader:]
	appendRecordHeader(rec[:0], recHeader{uint32(len(body)), typ, crc32.Checksum(body, castagnoli), index, time})
}

// parseBody splits the body of a batch or positions record. The batch aliases b.
func parseBody(b []byte) (origins []Origin, batch []byte, err error) {
	if len(b) < 4 {
		return nil, nil, errLayout
	}
	n := uint64(binary.LittleEndian.Uint32(b))
	b = b[4:]
	if n*originSize > uint64(len(b)) {
		return nil, nil, errLayout
	}
	origins = make([]Origin, n)
	for i := range origins {
		copy(origins[i].Stream[:], b)
		origins[i].Position = binary.LittleEndian.Uint64(b[16:])
		b = b[originSize:]
	}
	return origins, b, nil
}

// parseSnapshot reads a snapshot's body.
func parseSnapshot(b []byte) (epoch uint64, all streams, err error) {
	if len(b) < 12 {
		return 0, nil, errLayout
	}
	epoch = binary.LittleEndian.Uint64(b)
	n := uint64(binary.LittleEndian.Uint32(b[8:]))
	b = b[12:]
	if n*streamSize != uint64(len(b)) {
		return 0, nil, errLayout
	}
	all = make(streams, n)
	for ; len(b) > 0; b = b[streamSize:] {
		all[[16]byte(b[:16])] = streamState{binary.LittleEndian.Uint64(b[16:]), int64(binary.LittleEndian.Uint64(b[24:]))}
	}
	return epoch, all, nil
}

type segHeader struct {
	num     uint64
	id      [16]byte
	created int64
	first   uint64
}

func appendSegmentHeader(dst []byte, h segHeader) []byte {
	at := len(dst)
	dst = append(dst, segmentMagic...)
	dst = append(dst, formatVersion, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint64(dst, h.num)
	dst = append(dst, h.id[:]...)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(h.created))
	dst = binary.LittleEndian.AppendUint64(dst, h.first)
	dst = append(dst, make([]byte, 12)...)
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[at:], castagnoli))
}

// parseSegmentHeader gives ErrVersion for a whole header of another version and errHeader for a damaged one.
func parseSegmentHeader(b []byte) (segHeader, error) {
	if len(b) < segmentHeader {
		return segHeader{}, errShort
	}
	if string(b[:4]) != segmentMagic {
		return segHeader{}, errMagic
	}
	if binary.LittleEndian.Uint32(b[60:]) != crc32.Checksum(b[:60], castagnoli) {
		return segHeader{}, errHeader
	}
	if b[4] != formatVersion {
		return segHeader{}, fmt.Errorf("segment format %d: %w", b[4], ErrVersion)
	}
	return segHeader{
		num:     binary.LittleEndian.Uint64(b[8:]),
		id:      [16]byte(b[16:32]),
		created: int64(binary.LittleEndian.Uint64(b[32:])),
		first:   binary.LittleEndian.Uint64(b[40:]),
	}, nil
}
