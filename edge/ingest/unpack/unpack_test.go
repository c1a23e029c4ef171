package unpack

import (
	"bytes"
	"compress/gzip"
	"io"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// bzip2Hello is "hello\n" made by bzip2.
var bzip2Hello = []byte("BZh91AY&SY\xc1\xc0\x80\xe2\x00\x00\x01\x41\x00\x00\x10\x02\x44\xa0\x00\x30\xcd\x00\xc3\x46\x29\x97\x17\x72\x45\x38\x50\x90\xc1\xc0\x80\xe2")

func packed(t testing.TB, kind Kind, content []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	var w io.WriteCloser
	var err error
	switch kind {
	case Plain:
		return content
	case Bzip2:
		return bzip2Hello
	case Gzip:
		w = gzip.NewWriter(&buf)
	case Zstd:
		w, err = zstd.NewWriter(&buf)
	case Xz:
		w, err = xz.NewWriter(&buf)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestReader_EveryKind(t *testing.T) {
	content := []byte("hello\n")
	for _, kind := range []Kind{Plain, Gzip, Zstd, Bzip2, Xz} {
		t.Run(string(kind), func(t *testing.T) {
			r, err := NewReader(bytes.NewReader(packed(t, kind, content)))
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			got, err := io.ReadAll(r)
			if err != nil || !bytes.Equal(got, content) || r.Kind != kind {
				t.Errorf("%s: %q, %v", r.Kind, got, err)
			}
		})
	}
}

func TestReader_CutFileIsAnError(t *testing.T) {
	for _, kind := range []Kind{Gzip, Zstd, Bzip2, Xz} {
		t.Run(string(kind), func(t *testing.T) {
			whole := packed(t, kind, []byte("hello\n"))
			for n := 6; n < len(whole)-1; n++ {
				r, err := NewReader(bytes.NewReader(whole[:n]))
				if err != nil {
					continue
				}
				_, err = io.ReadAll(r)
				r.Close()
				if err == nil {
					t.Errorf("%d of %d bytes: no error", n, len(whole))
				}
			}
		})
	}
}

func TestReader_Empty(t *testing.T) {
	r, err := NewReader(bytes.NewReader(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || len(got) != 0 {
		t.Errorf("%q, %v", got, err)
	}
}

// FuzzReader gives any bytes: an error or content, no panic, and never without end.
func FuzzReader(f *testing.F) {
	for _, kind := range []Kind{Plain, Gzip, Zstd, Bzip2, Xz} {
		f.Add(packed(f, kind, []byte("hello\n")))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := NewReader(bytes.NewReader(b))
		if err != nil {
			return
		}
		defer r.Close()
		_, _ = io.Copy(io.Discard, io.LimitReader(r, 1<<20))
	})
}
