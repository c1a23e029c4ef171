package ingest

import (
	"bytes"
	"context"
	"errors"
	"sync"

	"github.com/spate-io/spate/edge/accesslog"
	"github.com/spate-io/spate/event"
)

// job is a chunk on its way through a worker. The worker fills the second part and closes done.
type job struct {
	chunk
	format     *accesslog.Format
	countFrom  uint64 // lines that start before it were imported and counted
	encodeFrom uint64 // lines that start before it were imported
	cuts       []int
	done       chan struct{}

	events   []byte
	encoded  uint32
	end      int // bytes of text that are taken; less than all when the log ends in a line that is cut and bad
	blocks   []Sum
	tail     Sum // of what follows the last cut, up to end
	newLines uint64
	allLines uint64
	st       tally
	bad      []badLine
}

// badLine is a refused line.
type badLine struct {
	line uint64 // in the chunk, from 1
	text []byte // aliases the chunk
	err  error
}

// pool parses chunks.
type pool struct {
	work    chan *job
	free    sync.Pool
	buffers sync.Pool
	dry     bool
}

// newPool starts the workers; stop ends them.
func newPool(ctx context.Context, o Options) (*pool, func()) {
	p := &pool{work: make(chan *job, o.Workers), dry: o.DryRun}
	p.buffers.New = func() any { b := make([]byte, 0, chunkSize+256<<10); return &b }
	p.free.New = func() any { return &job{} }
	var wg sync.WaitGroup
	texts := o.Texts()
	for range o.Workers {
		wg.Go(func() {
			parsers := map[*accesslog.Format]accesslog.Parser{}
			for j := range p.work {
				if ctx.Err() == nil {
					parser := parsers[j.format]
					if parser == nil {
						parser = j.format.New(accesslog.Options{Zone: o.Zone})
						parsers[j.format] = parser
					}
					j.run(parser, texts, p.dry)
				}
				close(j.done)
			}
		})
	}
	return p, func() { close(p.work); wg.Wait() }
}

// get gives a job with a buffer for its text.
func (p *pool) get() *job {
	j := p.free.Get().(*job)
	j.done = make(chan struct{})
	j.events, j.encoded, j.newLines, j.allLines = j.events[:0], 0, 0, 0
	j.bad, j.blocks, j.cuts = j.bad[:0], j.blocks[:0], j.cuts[:0]
	j.tail = Sum{}
	j.st.reset()
	return j
}

func (p *pool) put(j *job) {
	text := j.text[:0]
	p.buffers.Put(&text)
	j.chunk = chunk{}
	p.free.Put(j)
}

// buffer gives memory for a chunk's text.
func (p *pool) buffer() []byte { return *p.buffers.Get().(*[]byte) }

// run parses the chunk, and sums it up.
func (j *job) run(parser accesslog.Parser, texts *DefaultTexts, dry bool) {
	var e event.HTTP
	if len(j.directives) > 0 {
		_ = parser.Parse(j.directives, &e) // gives ErrNoRequest
	}
	text := j.text
	j.end = len(text)
	for i := 0; i < len(text); {
		line, whole := text[i:], false
		if n := bytes.IndexByte(line, '\n'); n >= 0 {
			line, whole = line[:n+1], true
		}
		at := j.at + uint64(i)
		i += len(line)
		j.allLines++
		if at < j.countFrom {
			if len(line) > 0 && line[0] == '#' {
				_ = parser.Parse(line, &e)
			}
			continue
		}
		err := parser.Parse(line, &e)
		if errors.Is(err, accesslog.ErrNoRequest) {
			continue
		}
		j.newLines++
		if err != nil {
			j.bad = append(j.bad, badLine{j.allLines, line, err})
			if !whole && j.last {
				j.end = i - len(line) // the rest of this line may come yet
			}
			continue
		}
		j.st.add(&e)
		if !dry && at >= j.encodeFrom {
			texts.Apply(&e)
			j.events = e.Append(j.events)
			j.encoded++
		}
	}
	if !dry {
		j.sum()
	}
}

// sum hashes the blocks between the marks.
func (j *job) sum() {
	from := 0
	j.cuts = cuts(j.text, j.at, !j.last, j.cuts[:0])
	for _, to := range j.cuts {
		j.blocks = append(j.blocks, sumOf(j.text[from:to]))
		from = to
	}
	if from < j.end {
		j.tail = sumOf(j.text[from:j.end])
	}
}
