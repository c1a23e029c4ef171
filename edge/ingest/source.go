package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync/atomic"

	"github.com/spate-io/spate/edge/ingest/unpack"
)

// source is a file that is to be imported.
type source struct {
	name string
	path string // "" for standard input that was copied nowhere
	size int64  // bytes on disk, for the progress
}

// expand finds the files that the arguments mean: files, globs, folders (with all below, but hidden files), "-" for standard
// input. A file is there once.
func expand(args []string) ([]source, error) {
	var out []source
	seen := map[string]bool{}
	add := func(path string, size int64) {
		if abs, err := filepath.Abs(path); err == nil && !seen[abs] {
			seen[abs] = true
			out = append(out, source{name: path, path: path, size: size})
		}
	}
	for _, arg := range args {
		if arg == "-" {
			out = append(out, source{name: "-"})
			continue
		}
		paths := []string{arg}
		if _, err := os.Stat(arg); err != nil && strings.ContainsAny(arg, "*?[") {
			if paths, err = filepath.Glob(arg); err != nil {
				return nil, fmt.Errorf("pattern %q: %w", arg, err)
			}
			if len(paths) == 0 {
				return nil, fmt.Errorf("pattern %q: no file matches", arg)
			}
		}
		sort.Strings(paths)
		for _, path := range paths {
			if err := expandOne(path, add); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

func expandOne(path string, add func(string, int64)) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("look at %s: %w", path, err)
	}
	if !info.IsDir() {
		add(path, info.Size())
		return nil
	}
	return filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("read folder %s: %w", path, err)
		}
		if strings.HasPrefix(d.Name(), ".") && p != path {
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		if d.Type().IsRegular() {
			info, err := d.Info()
			if err != nil {
				return fmt.Errorf("look at %s: %w", p, err)
			}
			add(p, info.Size())
		}
		return nil
	})
}

// open gives the unpacked content; close closes file and decoder. read is told the bytes that were read from disk.
func (s source) open(stdin io.Reader, read *atomic.Int64) (content io.Reader, kind unpack.Kind, close func(), err error) {
	var f io.Reader = stdin
	done := func() {}
	if s.path != "" {
		file, err := os.Open(s.path)
		if err != nil {
			return nil, "", nil, fmt.Errorf("open %s: %w", s.path, err)
		}
		f, done = file, func() { _ = file.Close() }
	}
	if read != nil {
		f = &countingReader{f, read}
	}
	u, err := unpack.NewReader(f)
	if err != nil {
		done()
		return nil, "", nil, fmt.Errorf("unpack %s: %w", s.name, err)
	}
	return u, u.Kind, func() { u.Close(); done() }, nil
}

type countingReader struct {
	io.Reader
	n *atomic.Int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// chunk is a run of content that ends behind a line, or with the log.
type chunk struct {
	at         uint64 // where it starts: at a mark
	text       []byte
	last       bool   // the log ends with it
	directives []byte // lines starting with '#' that govern its first line
}

// chunker cuts content into chunks.
type chunker struct {
	r     io.Reader
	at    uint64
	carry []byte // read behind the end of the chunk before
	err   error

	track      bool // of directives
	directives []byte
	newBuffer  func() []byte
}

// next gives the next chunk; io.EOF when there is none. After a read error the chunks are those of the whole lines before it,
// then that error.
func (c *chunker) next() (chunk, error) {
	if c.err != nil && len(c.carry) == 0 {
		return chunk{}, c.err
	}
	buf := append(c.newBuffer()[:0], c.carry...)
	want := int((c.at/chunkSize+1)*chunkSize-c.at) - 1
	end := -1
	for {
		if len(buf) > want {
			if j := bytes.IndexByte(buf[want:], '\n'); j >= 0 {
				end = want + j + 1
				break
			}
			if len(buf) >= want+maxLine {
				end = want + maxLine
				break
			}
		}
		if c.err != nil {
			break
		}
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := c.r.Read(buf[len(buf):min(cap(buf), len(buf)+256<<10)])
		buf = buf[:len(buf)+n]
		if err != nil {
			c.err = err
		}
	}
	out := chunk{at: c.at, text: buf, directives: c.directives}
	if end >= 0 {
		out.text, c.carry = buf[:end], append(c.carry[:0], buf[end:]...)
	} else {
		c.carry = c.carry[:0]
		if !errors.Is(c.err, io.EOF) { // the file is broken: what came before the last line end is not
			out.text = buf[:bytes.LastIndexByte(buf, '\n')+1]
		}
		if len(out.text) == 0 {
			return chunk{}, c.err
		}
		out.last = true
	}
	c.at += uint64(len(out.text))
	if c.track {
		c.directives = lastDirectives(out.text, c.directives)
	}
	return out, nil
}

// lastDirectives gives the directive that is in force after text: the last #Fields line.
func lastDirectives(text, before []byte) []byte {
	out := before
	for i := 0; i < len(text); {
		if text[i] == '#' {
			line := text[i:]
			if end := bytes.IndexByte(line, '\n'); end >= 0 {
				line = line[:end+1]
			}
			if bytes.HasPrefix(line, []byte("#Fields:")) && len(line) < 64<<10 {
				out = bytes.Clone(line)
			}
			i += len(line)
			continue
		}
		j := bytes.Index(text[i:], []byte("\n#"))
		if j < 0 {
			break
		}
		i += j + 1
	}
	return out
}

// errNoText is for files with nothing but white space and directives.
var errNoText = errors.New("no line with text")

// firstLines gives the first lines of a log for detection, and the sum of the first one that is no directive.
func firstLines(text []byte, n int) (lines [][]byte, family Sum, err error) {
	found := false
	for len(text) > 0 && len(lines) < n {
		line := text
		if i := bytes.IndexByte(text, '\n'); i >= 0 {
			line = text[:i+1]
		}
		text = text[len(line):]
		lines = append(lines, line)
		if bare := bytes.TrimSpace(line); !found && len(bare) > 0 && bare[0] != '#' {
			found, family = true, sumOf(bytes.TrimRight(line, "\r\n"))
		}
	}
	if !found {
		return nil, family, errNoText
	}
	return lines, family, nil
}

// identify says which of the known logs a file is: the entry that it continues or repeats, the place up to which its content
// is known, and whether all of it is. It reads as far as is needed for that.
func identify(ctx context.Context, content io.Reader, known []*Entry) (e *Entry, all bool, err error) {
	c := &chunker{r: content, newBuffer: func() []byte { return make([]byte, 0, chunkSize+256<<10) }}
	alive := make([]candidate, 0, len(known))
	for _, k := range known {
		alive = append(alive, candidate{Entry: k})
	}
	var sum Sum
	var at []int
	for len(alive) > 0 && ctx.Err() == nil {
		ch, err := c.next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				break
			}
			return nil, false, err
		}
		from := 0
		at = cuts(ch.text, ch.at, !ch.last, at[:0])
		for i := 0; i <= len(at); i++ {
			to := len(ch.text)
			if i < len(at) {
				to = at[i]
			}
			end := ch.at + uint64(to)
			for k := range alive { // ends of known logs between two marks
				if p := alive[k].Position; p > ch.at+uint64(from) && (p < end || p == end && i == len(at)) {
					alive[k].probe(chain(sum, sumOf(ch.text[from:p-ch.at])))
				}
			}
			if i < len(at) {
				sum = chain(sum, sumOf(ch.text[from:to]))
				alive = survivors(alive, Mark{end, sum})
				from = to
			}
		}
		if !needMore(alive, ch.at+uint64(len(ch.text))) {
			break
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	var best *candidate
	for k := range alive {
		if a := &alive[k]; !a.dead && a.agreed > 0 && (best == nil || a.Position > best.Position) {
			best = a
		}
	}
	if best == nil {
		return nil, false, nil
	}
	if c.err == nil && c.at == best.Position {
		_, _ = c.next() // is there more?
	}
	return best.Entry, best.Position > 0 && c.err != nil && c.at <= best.Position, nil
}

// candidate is a known log that a file may be.
type candidate struct {
	*Entry
	next    int  // the mark to compare next
	agreed  int  // marks that did
	reached bool // the file has all that was imported
	dead    bool
}

// probe compares at the end of what was imported.
func (c *candidate) probe(s Sum) {
	if s == c.Tail {
		c.reached = true
		c.agreed++
	} else {
		c.dead = true
	}
}

// survivors keeps the candidates that agree with a mark, or end before it.
func survivors(alive []candidate, m Mark) []candidate {
	out := alive[:0]
	for _, c := range alive {
		if c.next < len(c.Marks) {
			if c.Marks[c.next] != m {
				c.dead = true
			}
			c.next++
			c.agreed++
		} else if !c.reached && c.Position > 0 && m.At > c.Position {
			c.dead = true
		}
		if m.At == c.Position && m.Sum == c.Tail {
			c.reached = true
		}
		if !c.dead {
			out = append(out, c)
		}
	}
	return out
}

// needMore tells whether reading behind at can decide anything.
func needMore(alive []candidate, at uint64) bool {
	for _, c := range alive {
		if !c.dead && (c.next < len(c.Marks) || c.Position > at) {
			return true
		}
	}
	return false
}
