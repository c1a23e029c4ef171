// Package unpack reads files that may be compressed, told by their first bytes and not by their names: gzip (several
// members one after the other as well), zstd, bzip2, xz, or plain.
package unpack

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// Kind is how a file is compressed.
type Kind string

// The kinds that are known.
const (
	Plain Kind = "plain"
	Gzip  Kind = "gzip"
	Zstd  Kind = "zstd"
	Bzip2 Kind = "bzip2"
	Xz    Kind = "xz"
)

// maxWindow bounds the memory that a zstd file may make the decoder use.
const maxWindow = 128 << 20

// KindOf tells the kind from the first bytes of a file; six are enough.
func KindOf(head []byte) Kind {
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return Gzip
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}),
		len(head) >= 4 && head[0]&0xf0 == 0x50 && head[1] == 0x2a && head[2] == 0x4d && head[3] == 0x18: // skippable frame
		return Zstd
	case len(head) >= 4 && bytes.HasPrefix(head, []byte("BZh")) && head[3] >= '1' && head[3] <= '9':
		return Bzip2
	case bytes.HasPrefix(head, []byte{0xfd, '7', 'z', 'X', 'Z', 0}):
		return Xz
	}
	return Plain
}

// Reader gives the unpacked content of r. Close frees the decoder; it does not close r.
type Reader struct {
	Kind Kind
	io.Reader
	free func()
}

// NewReader looks at the first bytes of r and unpacks the rest accordingly.
func NewReader(r io.Reader) (*Reader, error) {
	b := bufio.NewReaderSize(r, 256<<10)
	head, err := b.Peek(6)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
		return nil, fmt.Errorf("read first bytes: %w", err)
	}
	out := &Reader{Kind: KindOf(head), Reader: b, free: func() {}}
	switch out.Kind {
	case Gzip:
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, fmt.Errorf("read gzip header: %w", err)
		}
		out.Reader = z
	case Zstd:
		z, err := zstd.NewReader(b, zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, fmt.Errorf("read zstd header: %w", err)
		}
		out.Reader, out.free = z, z.Close
	case Bzip2:
		out.Reader = bzip2.NewReader(b)
	case Xz:
		end := &footer{r: b}
		z, err := xz.ReaderConfig{DictCap: maxWindow}.NewReader(end)
		if err != nil {
			return nil, fmt.Errorf("read xz header: %w", err)
		}
		out.Reader = &xzReader{z, end}
	}
	return out, nil
}

// Close frees the decoder's memory.
func (r *Reader) Close() { r.free() }

// xzReader makes an error of the end of a file that was cut, which the decoder takes for the end of the content.
type xzReader struct {
	io.Reader
	end *footer
}

func (x *xzReader) Read(p []byte) (int, error) {
	n, err := x.Reader.Read(p)
	if err == io.EOF && string(x.end.last[:]) != "YZ" {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// footer remembers the last two bytes that were read, padding left out: those that an xz stream ends with.
type footer struct {
	r    io.Reader
	last [2]byte
}

func (f *footer) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	for _, c := range p[max(0, n-8):n] {
		if c != 0 {
			f.last = [2]byte{f.last[1], c}
		}
	}
	return n, err
}
