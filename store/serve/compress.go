package serve

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/ClickHouse/ch-go/compress"
	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/spate-io/spate/store"
)

// maxWindow bounds the memory of a decompressor, whatever the sender's stream asks for.
const maxWindow = 128 << 20

// uncompress undoes a Content-Encoding, which may name several in the order they were applied. closing releases memory.
func uncompress(r io.Reader, encodings string) (plain io.Reader, closing func(), err error) {
	var closers []func()
	closing = func() {
		for _, c := range closers {
			c()
		}
	}
	names := strings.Split(encodings, ",")
	for i := len(names) - 1; i >= 0; i-- {
		switch name := strings.ToLower(strings.TrimSpace(names[i])); name {
		case "", "identity":
		case "gzip", "x-gzip":
			r, err = gzip.NewReader(r)
		case "deflate":
			r, err = zlib.NewReader(r)
		case "br":
			r = brotli.NewReader(r)
		case "lz4":
			r = lz4.NewReader(r)
		case "snappy":
			r = snappy.NewReader(r)
		case "zstd":
			var d *zstd.Decoder
			if d, err = zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxWindow)); err == nil {
				closers = append(closers, d.Close)
				r = d
			}
		default:
			err = &store.Error{Code: codeNotImplemented, Name: "NOT_IMPLEMENTED", Message: "Unknown compression method " + name}
		}
		if err != nil {
			closing()
			var e *store.Error
			if !errors.As(err, &e) {
				err = &store.Error{Code: codeIncorrectData, Name: "INCORRECT_DATA", Message: fmt.Sprintf("body is not %s: %v", names[i], err)}
			}
			return nil, nil, err
		}
	}
	return r, closing, nil
}

// blockReader undoes ClickHouse's own compression (decompress=1). ch-go's reader wraps a clean end; this one tells it.
type blockReader struct {
	src *bufio.Reader
	r   *compress.Reader
	err error // stays: ch-go's reader would give its last block again
}

func newBlockReader(r io.Reader) *blockReader {
	src := bufio.NewReaderSize(r, 64<<10)
	return &blockReader{src: src, r: compress.NewReader(src)}
}

// Read implements [io.Reader].
func (b *blockReader) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.r.Read(p)
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		b.err = io.EOF
	default:
		b.err = &store.Error{Code: 271, Name: "CANNOT_DECOMPRESS", Message: err.Error()}
	}
	return n, b.err
}

// encoder is a compressor of an answer. Flush sends what it holds.
type encoder interface {
	io.Writer
	Flush() error
	Close() error
}

// chooseEncoding picks from Accept-Encoding what ClickHouse would; empty means none.
func chooseEncoding(accept string) string {
	offered := map[string]bool{}
	for _, part := range strings.Split(accept, ",") {
		name, params, _ := strings.Cut(part, ";")
		q := strings.TrimPrefix(strings.ReplaceAll(params, " ", ""), "q=")
		if f, err := strconv.ParseFloat(q, 64); err == nil && f == 0 {
			continue
		}
		offered[strings.ToLower(strings.TrimSpace(name))] = true
	}
	for _, name := range []string{"br", "gzip", "deflate", "zstd", "lz4"} {
		if offered[name] {
			return name
		}
	}
	return ""
}

// newEncoder makes the compressor for an encoding of [chooseEncoding].
func newEncoder(w io.Writer, encoding string, level int) (encoder, error) {
	switch encoding {
	case "gzip":
		return gzip.NewWriterLevel(w, clamp(level, 1, 9, 3))
	case "deflate":
		return zlib.NewWriterLevel(w, clamp(level, 1, 9, 3))
	case "br":
		return brotli.NewWriterLevel(w, clamp(level, 1, 11, 3)), nil
	case "zstd":
		return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(clamp(level, 1, 19, 3))), zstd.WithWindowSize(1<<20))
	case "lz4":
		return lz4.NewWriter(w), nil
	}
	return nil, fmt.Errorf("encoding %q is not known", encoding)
}

func clamp(n, low, high, otherwise int) int {
	if n < low || n > high {
		return otherwise
	}
	return n
}

// blockSize is how much plain data one compressed block of an answer has.
const blockSize = 256 << 10

// blockWriter is ClickHouse's own compression (compress=1).
type blockWriter struct {
	dst io.Writer
	w   *compress.Writer
	buf bytes.Buffer
}

func newBlockWriter(dst io.Writer, method string) *blockWriter {
	m := compress.LZ4
	switch strings.ToUpper(method) {
	case "ZSTD":
		m = compress.ZSTD
	case "NONE":
		m = compress.None
	}
	return &blockWriter{dst: dst, w: compress.NewWriter(0, m)}
}

// Write implements [io.Writer].
func (b *blockWriter) Write(p []byte) (int, error) {
	total := len(p)
	for len(p) > 0 {
		n := min(len(p), blockSize-b.buf.Len())
		b.buf.Write(p[:n])
		p = p[n:]
		if b.buf.Len() == blockSize {
			if err := b.Flush(); err != nil {
				return 0, err
			}
		}
	}
	return total, nil
}

// Flush sends what was written as a block.
func (b *blockWriter) Flush() error {
	if b.buf.Len() == 0 {
		return nil
	}
	if err := b.w.Compress(b.buf.Bytes()); err != nil {
		return err
	}
	b.buf.Reset()
	_, err := b.dst.Write(b.w.Data)
	return err
}

// Close is Flush; what is below stays open.
func (b *blockWriter) Close() error { return b.Flush() }
