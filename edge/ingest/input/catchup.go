package input

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spate-io/spate/edge/ingest/unpack"
)

// maxSiblings bounds how many rotated files are looked at.
const maxSiblings = 64

// catchUp reads what was written to a log and rotated away before it was read: known logs that have more than is known, and
// unknown ones that were written no earlier than the newest known one. When none is known, the log was never followed, and
// what was rotated is none of our business.
func (f *follower) catchUp(ctx context.Context, l *followed) error {
	all := f.lookAtSiblings(l)
	var known time.Time
	for i := range all {
		if all[i].known && all[i].info.ModTime().After(known) {
			known = all[i].info.ModTime()
		}
	}
	for _, t := range l.old { // its file may be gone
		if _, ok := f.position(t.stream); ok && t.first != nil && t.info.ModTime().After(known) {
			known = t.info.ModTime()
		}
	}
	if known.IsZero() {
		known = l.since
	}
	if known.IsZero() {
		return nil
	}
	l.again = known
	return f.readSiblings(ctx, l, all, known)
}

// catchUpAgain looks once more, at the poll after catchUp: a directory in which files are renamed while it is listed need not
// show them all.
func (f *follower) catchUpAgain(ctx context.Context, l *followed) error {
	if l.again.IsZero() {
		return nil
	}
	known := l.again
	l.again = time.Time{}
	return f.readSiblings(ctx, l, f.lookAtSiblings(l), known)
}

// lookAtSiblings gives the newest rotated files of a log, with their streams.
func (f *follower) lookAtSiblings(l *followed) []sibling {
	all := siblings(l.path)
	all = all[:min(len(all), maxSiblings)]
	for i := range all {
		s := &all[i]
		s.stream, s.ok, s.known = f.streamAt(l.path, s.path)
	}
	return all
}

// readSiblings reads what is new in rotated files: all of those that were written since, and the rest of known ones.
func (f *follower) readSiblings(ctx context.Context, l *followed, all []sibling, since time.Time) error {
	for i := len(all) - 1; i >= 0; i-- { // the oldest first
		s := &all[i]
		older := s.info.ModTime().Before(since)
		if !s.ok || older && !s.known || l.isOpen(s) {
			continue
		}
		if err := f.readSibling(ctx, l, s, older); err != nil {
			return err
		}
	}
	return nil
}

// isOpen tells whether a file, or one with the same log, is open already.
func (l *followed) isOpen(s *sibling) bool {
	if l.live != nil && (os.SameFile(l.live.info, s.info) || l.live.first != nil && l.live.stream == s.stream) {
		return true
	}
	return slices.ContainsFunc(l.old, func(t *tail) bool { return os.SameFile(t.info, s.info) })
}

// readSibling reads the rest of a rotated file. Plain ones are kept open for a while, because their writer may have them open
// still; packed ones are finished, and those that are older than the newest known log were read whole.
func (f *follower) readSibling(ctx context.Context, l *followed, s *sibling, older bool) error {
	if s.kind != unpack.Plain {
		if older {
			return nil
		}
		return f.readRotated(ctx, l.path, s.path)
	}
	if p, ok := f.position(s.stream); ok && p >= uint64(s.info.Size()) {
		return nil
	}
	file, err := os.Open(s.path)
	if err != nil {
		f.log.Warn("rotated log cannot be opened", "file", s.path, "err", err)
		return nil
	}
	t := &tail{f: file, info: s.info, idle: time.Now()}
	if err := f.identify(l.path, t); err != nil || t.first == nil {
		file.Close()
		return nil
	}
	l.old = append(l.old, t)
	return f.drain(ctx, t)
}

// streamAt gives the stream of a rotated file, and whether something of it was read.
func (f *follower) streamAt(path, file string) (stream [16]byte, ok, known bool) {
	r, done, err := openUnpacked(file)
	if err != nil {
		return stream, false, false
	}
	defer done()
	head, err := readHead(r)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return stream, false, false
	}
	first, ok := firstLine(head)
	if !ok {
		return stream, false, false
	}
	stream = streamOf(path, first, 0)
	_, known = f.position(stream)
	return stream, true, known
}

// readRotated reads a rotated file from where its log was left.
func (f *follower) readRotated(ctx context.Context, path, file string) error {
	r, done, err := openUnpacked(file)
	if err != nil {
		f.log.Warn("rotated log cannot be read", "file", file, "err", err)
		return nil
	}
	defer done()
	head, err := readHead(r)
	first, ok := firstLine(head)
	if err != nil || !ok {
		return nil
	}
	stream := streamOf(path, first, 0)
	from, _ := f.position(stream)
	feed := f.newFeed()
	feed.detect(headLines(head))
	rest := &skipReader{r: io.MultiReader(bytes.NewReader(head), r), feed: feed, left: from}
	if err := rest.skip(); err != nil {
		return nil // it has no more than what was read
	}
	at, lines := from, 0
	buf := make([]byte, 0, readSize)
	for ctx.Err() == nil {
		n, err := rest.r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		end := bytes.LastIndexByte(buf, '\n') + 1
		if err != nil || end == 0 && len(buf) == cap(buf) {
			end = len(buf) // the last line, or one that is no line
		}
		if end > 0 {
			text := buf[:end]
			if at == from && rest.open { // the rest of a line that was taken
				text = text[bytes.IndexByte(text, '\n')+1:]
			}
			if tail := eachLine(text, feed.line); len(tail) > 0 {
				feed.line(tail)
			}
			at += uint64(end)
			events, count := feed.take()
			lines += int(count)
			if err := f.put(ctx, stream, at, events, count); err != nil {
				return err
			}
			buf = buf[:copy(buf, buf[end:])]
		}
		if err != nil {
			break
		}
	}
	if lines > 0 {
		f.log.Info("rotated log caught up", "file", file, "events", lines)
	}
	return nil
}

// skipReader passes over what was read before; the parser still sees its directives.
type skipReader struct {
	r    io.Reader
	feed *feed
	left uint64
	open bool // the last byte passed over was no line end
}

func (s *skipReader) skip() error {
	buf := make([]byte, readSize)
	start := true // of a line
	for s.left > 0 {
		n, err := s.r.Read(buf[:min(uint64(len(buf)), s.left)])
		s.left -= uint64(n)
		if n > 0 {
			if start || bytes.Contains(buf[:n], []byte("\n#")) {
				eachLine(buf[:n], func(l []byte) {
					if l[0] == '#' {
						s.feed.line(l)
					}
				})
			}
			start = buf[n-1] == '\n'
			s.open = !start
		}
		if err != nil && s.left > 0 {
			return err
		}
	}
	return nil
}
