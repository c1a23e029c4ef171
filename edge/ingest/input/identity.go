package input

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/spate-io/spate/edge/accesslog"
	"github.com/spate-io/spate/edge/ingest/unpack"
)

// maxHead is how much of a log is read for its first line; a longer one counts as it is.
const maxHead = 64 << 10

// firstLine gives the first line of a log that is no directive, and everything before it; ok is false while it is not whole.
func firstLine(head []byte) (line []byte, ok bool) {
	for i := 0; i < len(head); {
		n := bytes.IndexByte(head[i:], '\n')
		if n < 0 {
			break
		}
		if bare := bytes.TrimSpace(head[i : i+n]); len(bare) > 0 && bare[0] != '#' {
			return head[:i+n+1], true
		}
		i += n + 1
	}
	return head, len(head) >= maxHead
}

// streamOf names a log: by the path under which it is written and its first line. gen tells logs apart that have both in
// common.
func streamOf(path string, first []byte, gen int) [16]byte {
	h := sha256.New()
	fmt.Fprintf(h, "spate follow 1 %d %q ", gen, path)
	h.Write(first)
	return [16]byte(h.Sum(nil)[:16])
}

// readHead reads the beginning of a file, unpacked.
func readHead(r io.Reader) ([]byte, error) {
	head, err := io.ReadAll(io.LimitReader(r, maxHead))
	return head, err
}

// sibling is a rotated copy of a log.
type sibling struct {
	path string
	info os.FileInfo
	kind unpack.Kind

	stream [16]byte
	ok     bool // it has a first line
	known  bool // some of it was read
}

// siblings finds the files that rotation made of a log: its name with something behind it (.1, -20240301, .2.gz), or between
// name and extension (access-20240301.log), the newest first.
func siblings(path string) []sibling {
	ext := filepath.Ext(path)
	names, _ := filepath.Glob(escapeGlob(path) + "?*")
	if ext != "" {
		more, _ := filepath.Glob(escapeGlob(strings.TrimSuffix(path, ext)) + "[-._]*" + escapeGlob(ext) + "*")
		names = append(names, more...)
	}
	var out []sibling
	seen := map[string]bool{path: true}
	for _, n := range names {
		info, err := os.Stat(n)
		if err != nil || seen[n] || !info.Mode().IsRegular() {
			continue
		}
		seen[n] = true
		out = append(out, sibling{path: n, info: info, kind: kindOf(n)})
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].info.ModTime().After(out[j].info.ModTime()) })
	return out
}

// kindOf tells how a file is packed.
func kindOf(path string) unpack.Kind {
	f, err := os.Open(path)
	if err != nil {
		return unpack.Plain
	}
	defer f.Close()
	var head [6]byte
	n, _ := f.ReadAt(head[:], 0)
	return unpack.KindOf(head[:n])
}

func escapeGlob(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(s)
}

// openUnpacked opens a file and unpacks it.
func openUnpacked(path string) (io.Reader, func(), error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("open rotated log: %w", err)
	}
	u, err := unpack.NewReader(f)
	if err != nil {
		f.Close()
		return nil, nil, fmt.Errorf("unpack %s: %w", path, err)
	}
	return u, func() { u.Close(); f.Close() }, nil
}

// headLines gives the lines of a head for detection, without a last one that is cut.
func headLines(head []byte) [][]byte {
	var out [][]byte
	eachLine(head, func(l []byte) {
		if len(out) < accesslog.DetectLines {
			out = append(out, l)
		}
	})
	return out
}
