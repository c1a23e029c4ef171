// Package batch is the unit in which events travel: a header that names the batch and says what is in it, and a payload of
// concatenated messages, compressed once. The same bytes lie in the spool, cross the wire, and are the value of one record
// on the bus; docs/format/batch.md gives them.
//
// Encoder seals a batch, ParseHeader reads what is needed to pass it on, Decoder checks it and unpacks it. What leaves a
// Decoder has been checked in full but for the messages themselves, which package event checks.
package batch

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"
)

const (
	// Version is the version of the format that Encode writes.
	Version = 1
	// HeaderSize is the length of a header in bytes without the name of the edge.
	HeaderSize = 64
	// MaxEdge is the length in bytes that the name of an edge may have.
	MaxEdge = 255
	// MaxRaw is the largest payload in bytes before compression.
	MaxRaw = 64 << 20
	// MaxPacked is the largest payload in bytes after compression: MaxRaw and what codecs add to bytes that do not shrink.
	MaxPacked = MaxRaw + MaxRaw/6 + 64<<10
	// MaxBatch is the largest batch in bytes.
	MaxBatch = HeaderSize + MaxEdge + MaxPacked

	// MaxNotices is the largest payload of notices before compression.
	MaxNotices = 1 << 20
	// minMessage is the length of the shortest message there can be.
	minMessage = 16
)

// What can be wrong with a batch. Errors of this package match one of these with errors.Is.
var (
	ErrShort    = errors.New("batch is cut short")
	ErrTrailing = errors.New("bytes after the end")
	ErrMagic    = errors.New("not a batch")
	ErrVersion  = errors.New("version is not known")
	ErrChecksum = errors.New("checksum does not match")
	ErrTooLarge = errors.New("larger than allowed")
	ErrValue    = errors.New("value is not allowed")
	ErrPayload  = errors.New("payload does not unpack to what the header says")
)

// Error says which field of a batch is wrong, where it lies, and how.
type Error struct {
	Field  string // as in docs/format/batch.md
	Offset int    // byte in the batch
	Err    error  // wraps one of the sentinels of this package
}

// Error returns field, offset and problem in one line.
func (e *Error) Error() string {
	return fmt.Sprintf("batch %s at byte %d: %v", e.Field, e.Offset, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func bad(field string, offset int, err error) error {
	return &Error{Field: field, Offset: offset, Err: err}
}

// Codec says how a payload is compressed. The numbers are those of Kafka.
type Codec uint8

// The codecs.
const (
	None Codec = iota
	Gzip
	Snappy // the block format
	LZ4    // the frame format
	Zstd
)

var codecNames = [...]string{"none", "gzip", "snappy", "lz4", "zstd"}

// String returns the name that ParseCodec takes.
func (c Codec) String() string {
	if int(c) < len(codecNames) {
		return codecNames[c]
	}
	return fmt.Sprintf("codec(%d)", uint8(c))
}

// ParseCodec returns the codec of that name: none, gzip, snappy, lz4 or zstd.
func ParseCodec(name string) (Codec, error) {
	for i, n := range codecNames {
		if n == name {
			return Codec(i), nil
		}
	}
	return None, fmt.Errorf("codec %q: want none, gzip, snappy, lz4 or zstd", name)
}

// Type says what kind of events a batch holds.
type Type uint8

// What a batch may hold.
const (
	// HTTPRequests are events of http.capnp.
	HTTPRequests Type = 1
	// Notices are what an edge has to tell besides, lines of package notice; Events, First and Last are about them. They
	// are not counted as events.
	Notices Type = 2
)

// String returns the name of the type, which is also that of the topic and the table.
func (t Type) String() string {
	switch t {
	case Notices:
		return "notices"
	case HTTPRequests:
		return "http_requests"
	}
	return fmt.Sprintf("type(%d)", uint8(t))
}

// Name is what a batch is known by. A batch that is sent again has the same name and the same bytes.
type Name struct {
	Edge            string // lower-case letters, digits, '.', '_', '-'; 1 to MaxEdge bytes
	Epoch, Sequence uint64 // Sequence counts from 1 in an epoch
}

// String returns edge/epoch/sequence.
func (n Name) String() string { return fmt.Sprintf("%s/%d/%d", n.Edge, n.Epoch, n.Sequence) }

// Partition returns the partition of a topic with that many partitions which the batch belongs in: the XXH64 of the
// edge's name followed by epoch and sequence as little-endian 64-bit numbers, modulo partitions. It returns 0 when there are none.
func (n Name) Partition(partitions int32) int32 {
	if partitions <= 0 {
		return 0
	}
	var buf [MaxEdge + 16]byte
	b := append(buf[:0], n.Edge...)
	b = binary.LittleEndian.AppendUint64(b, n.Epoch)
	b = binary.LittleEndian.AppendUint64(b, n.Sequence)
	return int32(xxhash.Sum64(b) % uint64(partitions))
}

// ValidEdge reports whether s may be the name of an edge.
func ValidEdge(s string) bool {
	if len(s) == 0 || len(s) > MaxEdge {
		return false
	}
	for _, c := range []byte(s) {
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-') {
			return false
		}
	}
	return true
}
