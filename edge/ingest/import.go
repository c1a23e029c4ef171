package ingest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spate-io/spate/edge/accesslog"
	"github.com/spate-io/spate/edge/forward"
)

// importer is one run of Import. Its methods are called by one goroutine.
type importer struct {
	o      Options
	d      Deps
	format accesslog.Format // when given
	known  map[Sum][]*Entry // families that were looked up, with what this run added
	sum    *Summary
	bad    *badLog
	// complaints tells of the refused lines of the file at hand.
	complaints *Complaints
	pool       *pool
	progress   *progress
	begun      time.Time
	tracked    []*tracker
}

// file imports one file. Its error is one that ends the import; what is wrong with the file goes to the summary.
func (im *importer) file(ctx context.Context, s source) error {
	im.progress.file(s.name)
	res := FileResult{Name: s.name}
	im.complaints = NewComplaints(s.name, im.d.Tell)
	err := im.read(ctx, s, &res)
	im.complaints.Flush()
	if ctx.Err() != nil {
		return fmt.Errorf("import %s: %w", s.name, ctx.Err())
	}
	var own *fileError
	switch {
	case errors.As(err, &own):
		res.Error = own.Error()
		im.d.Logger.Warn("file not imported whole", "file", s.name, "err", own.err)
	case err != nil:
		return fmt.Errorf("import %s: %w", s.name, err)
	}
	im.sum.Files = append(im.sum.Files, res)
	return nil
}

// fileError is something wrong with one file; the import goes on with the next one.
type fileError struct{ err error }

func (e *fileError) Error() string { return e.err.Error() }
func (e *fileError) Unwrap() error { return e.err }

// read imports one file.
func (im *importer) read(ctx context.Context, s source, res *FileResult) error {
	if s.path != "" && im.d.Claimed != nil && !im.o.DryRun {
		if why := im.d.Claimed(s.path); why != "" {
			return &fileError{fmt.Errorf("not imported, so that no line is counted twice: %s; --followed imports it all the same", why)}
		}
	}
	content, kind, done, err := s.open(im.d.Stdin, &im.progress.read)
	if err != nil {
		return &fileError{err}
	}
	defer done()
	res.Kind = string(kind)
	c := &chunker{r: content, newBuffer: im.pool.buffer}
	first, err := c.next()
	if err != nil {
		if errors.Is(err, io.EOF) {
			return nil // empty
		}
		return &fileError{fmt.Errorf("read: %w", err)}
	}
	format, family, err := im.look(first.text, res)
	if err != nil {
		return &fileError{err}
	}
	if format.HasDirectives() {
		c.track = true
		c.directives = lastDirectives(first.text, nil)
	}
	if im.o.DryRun {
		return im.chunks(ctx, c, first, nil, &format, res)
	}
	known, err := im.lookup(ctx, family)
	if err != nil {
		return err
	}
	if len(known) > 0 && s.path == "" { // what cannot be read twice is copied
		rest := io.MultiReader(bytes.NewReader(first.text), bytes.NewReader(c.carry), content)
		if s, err = spill(s, rest); err != nil {
			return err
		}
		defer os.Remove(s.path)
		copied, _, free, err := s.open(nil, nil)
		if err != nil {
			return err
		}
		defer free()
		content = copied
		c = &chunker{r: content, newBuffer: im.pool.buffer, track: c.track}
		if first, err = c.next(); err != nil {
			return err
		}
	}
	entry, all, err := im.identify(ctx, s, known)
	if err != nil {
		return err
	}
	renamed := entry != nil && !slices.Contains(entry.Names, s.name)
	if renamed {
		entry.Names = append(entry.Names, s.name)
	}
	if all {
		res.Known = true
		if renamed && !im.unsaved(entry) {
			return im.save(ctx, *entry)
		}
		return nil
	}
	if entry == nil {
		entry = im.begin(s, family, format, first)
	}
	return im.chunks(ctx, c, first, entry, &format, res)
}

// look finds the format and the family.
func (im *importer) look(text []byte, res *FileResult) (accesslog.Format, Sum, error) {
	lines, family, err := firstLines(text, accesslog.DetectLines)
	if err != nil {
		return accesslog.Format{}, family, err
	}
	format := im.format
	if !format.Valid() {
		d := accesslog.DetectAmong(accesslog.Formats(), lines, accesslog.Options{Zone: im.o.Zone})
		if !d.Format.Valid() {
			return format, family, fmt.Errorf("no format reads its first %d lines (say which with --format); combined: %w", len(lines), d.Reason("combined"))
		}
		format, res.Detected = d.Format, d.String()
	}
	res.Format = format.Name
	return format, family, nil
}

// lookup gives the known logs of a family: those of the ledger, and those of this run.
func (im *importer) lookup(ctx context.Context, family Sum) ([]*Entry, error) {
	if im.o.Force {
		return nil, nil
	}
	known, ok := im.known[family]
	if !ok {
		entries, err := im.d.Ledger.Lookup(ctx, family)
		if err != nil {
			return nil, fmt.Errorf("look into ledger: %w", err)
		}
		for i := range entries {
			known = append(known, &entries[i])
		}
		im.known[family] = known
	}
	return known, nil
}

// unsaved tells whether the ledger lacks something of a log.
func (im *importer) unsaved(e *Entry) bool {
	return slices.ContainsFunc(im.tracked, func(t *tracker) bool { return t.entry == e && len(t.pending) > 0 })
}

// identify reads the file to see which known log it is.
func (im *importer) identify(ctx context.Context, s source, known []*Entry) (*Entry, bool, error) {
	if len(known) == 0 {
		return nil, false, nil
	}
	content, _, done, err := s.open(nil, nil)
	if err != nil {
		return nil, false, &fileError{err}
	}
	defer done()
	e, all, err := identify(ctx, content, known)
	if err != nil {
		return nil, false, &fileError{fmt.Errorf("read: %w", err)}
	}
	return e, all, nil
}

// begin makes the entry of a log that is new. Its stream follows from its first chunk, so that a run that is killed before
// anything is in the ledger leaves nothing that the next one could take for another log.
func (im *importer) begin(s source, family Sum, format accesslog.Format, first chunk) *Entry {
	h := sha256.New()
	fmt.Fprintf(h, "spate import 1 %d ", len(first.text))
	h.Write(first.text)
	if im.o.Force {
		fmt.Fprintf(h, " %d", im.begun.UnixNano())
	}
	e := &Entry{Stream: Stream(h.Sum(nil)[:16]), Family: family, Names: []string{s.name}, Format: format.Name, Begun: im.begun}
	im.known[family] = append(im.known[family], e)
	return e
}

// spill copies what comes from r into a file of its own.
func spill(s source, r io.Reader) (source, error) {
	f, err := os.CreateTemp("", "spate-import-")
	if err != nil {
		return s, fmt.Errorf("copy standard input: %w", err)
	}
	_, err = io.Copy(f, r)
	if err = errors.Join(err, f.Close()); err != nil {
		os.Remove(f.Name())
		return s, fmt.Errorf("copy standard input: %w", err)
	}
	return source{name: s.name, path: f.Name()}, nil
}

// chunks sends the chunks of a log through the pool and takes them in order. entry is nil in a dry run.
func (im *importer) chunks(ctx context.Context, c *chunker, first chunk, entry *Entry, format *accesslog.Format, res *FileResult) error {
	ctx, cancel := context.WithCancel(ctx)
	order := make(chan *job, im.o.Workers*2)
	var readErr error
	var countFrom, encodeFrom uint64
	if entry != nil {
		countFrom = entry.Position
		encodeFrom = entry.Position
		if p, ok := im.d.Sink.Position(entry.Stream); ok {
			encodeFrom = max(encodeFrom, p)
		}
	}
	go func() {
		defer close(order)
		for ch, err := first, error(nil); ; ch, err = c.next() {
			if err != nil {
				if !errors.Is(err, io.EOF) {
					readErr = &fileError{fmt.Errorf("read: %w", err)}
				}
				return
			}
			j := im.pool.get()
			j.chunk, j.format, j.countFrom, j.encodeFrom = ch, format, countFrom, encodeFrom
			select {
			case order <- j:
				im.pool.work <- j
			case <-ctx.Done():
				return
			}
		}
	}()
	var err error
	t := im.track(entry)
	for j := range order {
		<-j.done
		if err == nil && ctx.Err() == nil {
			err = im.take(ctx, j, t, encodeFrom, res)
		}
		if err != nil {
			cancel()
		}
		im.pool.put(j)
	}
	cancel()
	if err != nil {
		return err
	}
	return readErr
}

// take does what must be done in order: bad lines, sums, ledger, forwarder.
func (im *importer) take(ctx context.Context, j *job, t *tracker, encodeFrom uint64, res *FileResult) error {
	for _, b := range j.bad {
		res.Bad++
		im.sum.Reasons[reason(b.err)]++
		if err := im.bad.add(res.Name, res.Lines+b.line, b.err, b.text); err != nil {
			return err
		}
		im.complaints.Bad(res.Lines+b.line, b.err, b.text)
	}
	res.Lines += j.allLines
	res.NewLines += j.newLines
	res.Events += j.st.events
	im.sum.add(j, len(j.bad))
	im.progress.lines.Add(int64(j.newLines))
	if t == nil {
		return nil
	}
	e := t.entry
	end := j.at + uint64(j.end)
	sum, marks := t.sums(j)
	if e.Position == 0 && len(e.Marks) == 0 && !t.saved { // the ledger names the log before the forwarder gets any of it
		e.Marks = marks
		if err := im.save(ctx, *e); err != nil {
			return err
		}
		t.saved = true
	}
	if end > encodeFrom {
		err := im.d.Sink.Put(ctx, forward.Chunk{Events: j.events, Count: j.encoded, Origin: forward.Origin{Stream: e.Stream, Position: end}})
		if err != nil {
			return fmt.Errorf("hand over events: %w", err)
		}
	}
	if end > e.Position {
		t.advance(j, end, sum, marks)
	}
	return im.saveSome(ctx)
}

func (im *importer) save(ctx context.Context, e Entry) error {
	e.Updated = time.Now()
	if err := im.d.Ledger.Save(ctx, e); err != nil {
		return fmt.Errorf("save in ledger: %w", err)
	}
	return nil
}
