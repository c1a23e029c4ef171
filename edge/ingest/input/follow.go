package input

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spate-io/spate/edge/forward"
)

// follower follows the logs that match a path. One goroutine does it all.
type follower struct {
	base
	logs map[string]*followed
	pos  map[[16]byte]uint64 // of the streams that this run has put to
	up   bool                // every log was looked at once
}

// followed is one log: the file that is written now, and files that were it until lately.
type followed struct {
	path string
	live *tail
	old  []*tail
	seen bool // the path had a file at some time of this run
	// since is when the path was first looked at and had no file: what is rotated later was written under our eyes.
	since time.Time
	// again is since when rotated files are looked for once more, at the next poll; zero: they are not.
	again time.Time
}

// tail is an open file of a log.
type tail struct {
	f      *os.File
	info   os.FileInfo
	feed   *feed
	stream [16]byte
	first  []byte // its beginning up to the end of the first line; nil until that is there
	at     uint64 // bytes that were read
	idle   time.Time
}

func newFollower(b base) *follower {
	return &follower{base: b, logs: map[string]*followed{}, pos: map[[16]byte]uint64{}}
}

// readSize is how much of a file is read at once, and the longest line.
const readSize = 256 << 10

// lingers is how long a file that was rotated away is still watched: the writer keeps it open until it is told.
const lingers = 10 * time.Second

// clockTick is how much the times of files may lag behind the clock.
const clockTick = 10 * time.Millisecond

func (f *follower) run(ctx context.Context, up func()) error {
	defer f.closeAll()
	if err := f.poll(ctx); err != nil {
		return err
	}
	f.up = true
	up()
	t := time.NewTicker(f.cfg.Poll.D())
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
			if err := f.poll(ctx); err != nil {
				return err
			}
		}
	}
}

// poll looks at every log once and reads what is new. Its error is the sink's.
func (f *follower) poll(ctx context.Context) error {
	paths, err := filepath.Glob(f.cfg.Path)
	if err != nil || len(paths) == 0 {
		paths = []string{f.cfg.Path}
	}
	for _, p := range paths {
		if f.logs[p] == nil {
			f.logs[p] = &followed{path: p}
		}
	}
	n := 0
	for _, l := range f.logs {
		if err := f.visit(ctx, l); err != nil {
			return err
		}
		n += len(l.old)
		if l.live != nil {
			n++
		}
	}
	f.metrics.files.Set(float64(n))
	return nil
}

// visit brings one log up to date.
func (f *follower) visit(ctx context.Context, l *followed) error {
	info, err := os.Stat(l.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		info = nil
		if !l.seen && l.since.IsZero() {
			l.since = time.Now().Add(-clockTick)
		}
	case err != nil:
		f.log.Warn("log cannot be looked at", "file", l.path, "err", err)
		return nil
	case !info.Mode().IsRegular():
		return nil
	}
	if l.live != nil && (info == nil || !os.SameFile(info, l.live.info)) { // renamed, removed or replaced
		f.metrics.rotations.WithLabelValues("rename").Inc()
		l.live.idle = time.Now()
		l.old = append(l.old, l.live)
		l.live = nil
		if err := f.drain(ctx, l.old[len(l.old)-1]); err != nil {
			return err
		}
	}
	if l.live != nil && f.truncated(l.live) { // copied, then cut to nothing
		f.metrics.rotations.WithLabelValues("truncate").Inc()
		l.live.first, l.live.at, l.live.feed = nil, 0, nil
		if err := f.catchUp(ctx, l); err != nil {
			return err
		}
	}
	if l.live == nil && info != nil {
		if err := f.open(ctx, l); err != nil {
			return err
		}
	} else if err := f.catchUpAgain(ctx, l); err != nil {
		return err
	}
	if err := f.visitOld(ctx, l); err != nil {
		return err
	}
	if l.live == nil {
		return nil
	}
	return f.drain(ctx, l.live)
}

// visitOld reads what is still written to files that were rotated away, and closes those that are finished.
func (f *follower) visitOld(ctx context.Context, l *followed) error {
	left := l.old[:0]
	for _, t := range l.old {
		before := t.at
		if err := f.drain(ctx, t); err != nil {
			return err
		}
		if t.at != before {
			t.idle = time.Now()
		}
		if time.Since(t.idle) < lingers {
			left = append(left, t)
			continue
		}
		if err := f.finish(ctx, t); err != nil {
			return err
		}
		t.f.Close()
	}
	l.old = left
	return nil
}

// open opens the file of a log, and then reads what was rotated since the last one was open: at the start by anyone, later
// between two polls, or between the look at the path and the opening. In this order no file falls between the two.
func (f *follower) open(ctx context.Context, l *followed) error {
	file, err := os.Open(l.path)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			f.log.Warn("log cannot be opened", "file", l.path, "err", err)
		}
		return nil
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return nil
	}
	t := &tail{f: file, info: info}
	first := !l.seen
	l.seen, l.live = true, t
	if err := f.identify(l.path, t); err != nil {
		f.log.Warn("log cannot be read yet", "err", err) // drain tries again
	}
	_, known := f.position(t.stream)
	if err := f.catchUp(ctx, l); err != nil {
		return err
	}
	if first && !known && !f.up && f.cfg.From == "end" && t.first != nil && !f.anyKnown(l) {
		return f.skipTo(ctx, t, uint64(info.Size()))
	}
	return nil
}

// anyKnown tells whether some rotated copy of a log was read before.
func (f *follower) anyKnown(l *followed) bool {
	for _, s := range siblings(l.path) {
		if _, _, known := f.streamAt(l.path, s.path); known {
			return true
		}
	}
	return false
}

// skipTo makes the position durable without reading what is before it.
func (f *follower) skipTo(ctx context.Context, t *tail, at uint64) error {
	t.at = at
	return f.put(ctx, t.stream, at, nil, 0)
}

// identify finds the name of the log in an open file, once its first line is there, and where to go on.
func (f *follower) identify(path string, t *tail) error {
	head, err := readHead(io.NewSectionReader(t.f, 0, maxHead))
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	first, ok := firstLine(head)
	if !ok {
		return nil
	}
	info, err := t.f.Stat()
	if err != nil {
		return fmt.Errorf("look at %s: %w", path, err)
	}
	t.stream, t.at = f.name(path, first, uint64(info.Size()))
	t.first = bytes.Clone(first)
	t.feed = f.newFeed()
	t.feed.detect(headLines(head))
	return f.directives(t)
}

// name gives the stream of a log of some size and its position. A log that is shorter than what is known under its name
// is another one.
func (f *follower) name(path string, first []byte, size uint64) (stream [16]byte, at uint64) {
	for gen := range 16 {
		stream = streamOf(path, first, gen)
		p, known := f.position(stream)
		if !known || p <= size {
			return stream, p
		}
	}
	return stream, 0
}

// position is the highest position of a stream that is known.
func (f *follower) position(stream [16]byte) (uint64, bool) {
	own, known := f.pos[stream]
	if p, ok := f.deps.Sink.Position(stream); ok {
		return max(own, p), true
	}
	return own, known
}

// directives tells the parser what stands before the position.
func (f *follower) directives(t *tail) error {
	if t.feed.parser == nil || t.at == 0 || len(t.first) == 0 || t.first[0] != '#' {
		return nil
	}
	r := io.NewSectionReader(t.f, 0, int64(t.at))
	buf := make([]byte, 0, readSize)
	for {
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		rest := eachLine(buf, func(l []byte) {
			if l[0] == '#' {
				t.feed.line(l)
			}
		})
		buf = buf[:copy(buf, rest)]
		if err != nil || n == 0 || len(buf) == cap(buf) {
			return nil
		}
	}
}

// truncated tells whether a file has lost what was read of it.
func (f *follower) truncated(t *tail) bool {
	info, err := t.f.Stat()
	if err != nil {
		return false
	}
	if uint64(info.Size()) < t.at {
		return true
	}
	t.info = info
	return t.first != nil && !t.sameHead()
}

// sameHead tells whether a file still begins with its first line.
func (t *tail) sameHead() bool {
	head := make([]byte, len(t.first))
	n, err := t.f.ReadAt(head, 0)
	return (err == nil || err == io.EOF) && bytes.Equal(head[:n], t.first)
}

// drain reads all whole lines that are new in an open file.
func (f *follower) drain(ctx context.Context, t *tail) error {
	if t.first == nil {
		if f.identify(t.f.Name(), t) != nil || t.first == nil {
			return nil
		}
	}
	if p, ok := f.position(t.stream); ok && p > t.at { // a rotated copy was read further
		t.at = p
	}
	buf := make([]byte, readSize)
	for ctx.Err() == nil {
		n, err := t.f.ReadAt(buf, int64(t.at))
		text := buf[:n]
		end := bytes.LastIndexByte(text, '\n') + 1
		if end == 0 {
			if n < len(buf) {
				return nil // part of a line, or nothing
			}
			end = n // no line is that long
		}
		if !t.sameHead() { // cut and written anew before it was read: that is not what follows t.at
			return nil
		}
		if err := f.lines(ctx, t, text[:end]); err != nil {
			return err
		}
		if err != nil && err != io.EOF {
			f.log.Warn("log cannot be read", "file", t.f.Name(), "err", err)
			return nil
		}
	}
	return nil
}

// lines parses text, which is at t.at and ends with a line, and hands the events over.
func (f *follower) lines(ctx context.Context, t *tail, text []byte) error {
	skip := 0
	if t.at > 0 { // a line that was taken before it was whole
		var last [1]byte
		if n, _ := t.f.ReadAt(last[:], int64(t.at)-1); n == 1 && last[0] != '\n' {
			skip = bytes.IndexByte(text, '\n') + 1
		}
	}
	rest := eachLine(text[skip:], t.feed.line)
	if len(rest) > 0 {
		t.feed.line(rest)
	}
	t.at += uint64(len(text))
	events, count := t.feed.take()
	return f.put(ctx, t.stream, t.at, events, count)
}

// finish takes the last line of a file that gets no more, though it has no line end.
func (f *follower) finish(ctx context.Context, t *tail) error {
	if t.first == nil {
		return nil
	}
	if p, ok := f.position(t.stream); ok && p > t.at {
		t.at = p
	}
	buf := make([]byte, readSize)
	n, _ := t.f.ReadAt(buf, int64(t.at))
	if n == 0 {
		return nil
	}
	return f.lines(ctx, t, buf[:n])
}

// put hands a chunk over.
func (f *follower) put(ctx context.Context, stream [16]byte, at uint64, events []byte, count uint32) error {
	err := f.deps.Sink.Put(ctx, forward.Chunk{Events: events, Count: count, Origin: forward.Origin{Stream: stream, Position: at}})
	if err != nil {
		return fmt.Errorf("hand over events: %w", err)
	}
	f.pos[stream] = max(f.pos[stream], at)
	return nil
}

func (f *follower) closeAll() {
	for _, l := range f.logs {
		if l.live != nil {
			l.live.f.Close()
		}
		for _, t := range l.old {
			t.f.Close()
		}
	}
}
