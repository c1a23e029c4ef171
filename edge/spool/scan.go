package spool

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// record is one record as read from a segment.
type record struct {
	recHeader
	offset int64
	body   []byte
}

func (r *record) end() int64 { return r.offset + recordHeader + int64(r.length) }

// readRecord reads the record at off of a segment that may be read up to limit, putting the body into dst[:0]. Errors that
// match isDamage say that the bytes are wrong; others come from the disk.
func readRecord(f io.ReaderAt, off, limit int64, dst []byte) (record, error) {
	var head [recordHeader]byte
	h, err := readHeader(f, off, limit, head[:])
	if err != nil {
		return record{}, err
	}
	if cap(dst) < int(h.length) {
		dst = make([]byte, h.length)
	}
	dst = dst[:h.length]
	if err := readFull(f, dst, off+recordHeader); err != nil {
		return record{}, err
	}
	if crc32.Checksum(dst, castagnoli) != h.crc {
		return record{}, errBody
	}
	return record{h, off, dst}, nil
}

// readHeader reads and checks the header at off; buf has room for it.
func readHeader(f io.ReaderAt, off, limit int64, buf []byte) (recHeader, error) {
	if limit-off < recordHeader {
		return recHeader{}, errShort
	}
	if err := readFull(f, buf[:recordHeader], off); err != nil {
		return recHeader{}, err
	}
	h, err := parseRecordHeader(buf)
	if err != nil {
		return recHeader{}, err
	}
	if int64(h.length) > limit-off-recordHeader {
		return recHeader{}, errShort
	}
	return h, nil
}

// readFull reads all of b; a file that ends early is damage, not an end.
func readFull(f io.ReaderAt, b []byte, off int64) error {
	n, err := f.ReadAt(b, off)
	switch {
	case n == len(b):
		return nil
	case err == nil || errors.Is(err, io.EOF):
		return errShort
	}
	return fmt.Errorf("read at %d: %w", off, err)
}

// isDamage tells wrong bytes from a disk that does not answer.
func isDamage(err error) bool {
	return errors.Is(err, errShort) || errors.Is(err, errMagic) || errors.Is(err, errHeader) ||
		errors.Is(err, errBody) || errors.Is(err, errLayout)
}

// nextGood looks from off on for the next record that is whole. ok is false when there is none before limit.
func nextGood(f io.ReaderAt, off, limit int64) (at int64, ok bool, err error) {
	const window = 1 << 20
	buf := make([]byte, window)
	for off+recordHeader <= limit {
		n := int(min(window, limit-off))
		if err := readFull(f, buf[:n], off); err != nil {
			return 0, false, err
		}
		from := 0
		for {
			i := bytes.Index(buf[from:n], []byte(recordMagic))
			if i < 0 {
				break
			}
			at := off + int64(from+i)
			if _, err := readRecord(f, at, limit, nil); err == nil {
				return at, true, nil
			} else if !isDamage(err) {
				return 0, false, err
			}
			from += i + 1
		}
		off += int64(max(1, n-len(recordMagic)+1))
	}
	return 0, false, nil
}

// found is what a scan meets: a good record, or a stretch of bytes that is none.
type found struct {
	record
	damage error // not nil for a stretch from offset to next
	next   int64
}

// scan goes over a segment from off to limit. With skipBodies it reads headers only and trusts them. The body of a record
// is valid during f only.
func scan(file io.ReaderAt, off, limit int64, f func(found) error) error {
	var buf []byte
	for off < limit {
		r, err := readRecord(file, off, limit, buf)
		if err == nil {
			buf = r.body
			if err := f(found{record: r, next: r.end()}); err != nil {
				return err
			}
			off = r.end()
			continue
		}
		if !isDamage(err) {
			return err
		}
		next, ok, serr := nextGood(file, off+1, limit)
		if serr != nil {
			return serr
		}
		if !ok {
			next = limit
		}
		if err := f(found{record: record{offset: off}, damage: err, next: next}); err != nil {
			return err
		}
		off = next
	}
	return nil
}

// headers goes over the headers of the records from off to limit, until one is damaged.
func headers(file io.ReaderAt, off, limit int64, f func(recHeader, int64) error) error {
	buf := make([]byte, recordHeader)
	for off < limit {
		h, err := readHeader(file, off, limit, buf)
		if isDamage(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := f(h, off); err != nil {
			return err
		}
		off += recordHeader + int64(h.length)
	}
	return nil
}
