package input

import (
	"bytes"
	"errors"
	"log/slog"
	"time"

	"github.com/spate-io/spate/edge/accesslog"
	"github.com/spate-io/spate/edge/ingest"
	"github.com/spate-io/spate/event"
)

// base is what every input has.
type base struct {
	cfg     Config
	deps    Deps
	metrics *metrics
	texts   *ingest.DefaultTexts
	log     *slog.Logger
	bad     *ingest.Complaints
}

// chunkEvents is how many bytes of events are handed over as one, about.
const chunkEvents = 256 << 10

// feed turns lines into events. It belongs to one goroutine at a time.
type feed struct {
	*base
	parser accesslog.Parser
	format string
	events []byte
	count  uint32
	row    int // refused lines in a row
	quiet  time.Time
	muted  int
}

func (b *base) newFeed() *feed { return &feed{base: b} }

// detectAgain is after how many refused lines in a row the format is looked for again.
const detectAgain = 20

// detect chooses the parser: the configured format, or what the lines look like.
func (f *feed) detect(lines [][]byte) bool {
	if f.cfg.Format != "" {
		format, err := accesslog.Resolve(f.cfg.Format)
		if err != nil { // Validate has tried
			return false
		}
		f.use(format)
		return true
	}
	d := accesslog.Detect(lines)
	if !d.Format.Valid() {
		return false
	}
	if d.Format.Name != f.format {
		f.log.Info("format detected", "format", d.Format.Name, "why", d.String())
		f.use(d.Format)
	}
	return true
}

func (f *feed) use(format accesslog.Format) {
	f.parser, f.format, f.row = format.New(accesslog.Options{}), format.Name, 0
}

// line takes one line.
func (f *feed) line(line []byte) {
	var e event.HTTP
	f.metrics.bytes.WithLabelValues(f.cfg.Type).Add(float64(len(line)))
	if f.parser == nil && !f.detect([][]byte{line}) {
		if len(bytes.TrimSpace(line)) > 0 {
			f.refuse(line, errNoFormat)
		}
		return
	}
	err := f.parser.Parse(line, &e)
	if errors.Is(err, accesslog.ErrNoRequest) {
		return
	}
	if err != nil && f.cfg.Format == "" {
		if f.row++; f.row >= detectAgain && f.detect([][]byte{line}) {
			err = f.parser.Parse(line, &e)
		}
	}
	if err != nil {
		f.refuse(line, err)
		return
	}
	f.row = 0
	f.metrics.lines.WithLabelValues(f.cfg.Type).Inc()
	f.metrics.events.WithLabelValues(f.cfg.Type).Inc()
	f.texts.Apply(&e)
	f.events = e.Append(f.events)
	f.count++
}

var errNoFormat = errors.New("no format reads it")

// refuseEvery is how often a refused line is logged, so that a flood of them does not fill the disk.
const refuseEvery = 10 * time.Second

// refuse counts a bad line, and logs one now and then.
func (f *feed) refuse(line []byte, err error) {
	f.metrics.lines.WithLabelValues(f.cfg.Type).Inc()
	f.metrics.bad.WithLabelValues(f.cfg.Type).Inc()
	f.bad.Bad(0, err, line)
	now := time.Now()
	if now.Sub(f.quiet) < refuseEvery {
		f.muted++
		return
	}
	f.log.Warn("line refused", "err", err, "line", string(line[:min(len(line), 300)]), "more", f.muted)
	f.quiet, f.muted = now, 0
}

// take gives the events gathered so far and starts anew. They are valid until the next call of line.
func (f *feed) take() (events []byte, count uint32) {
	events, count = f.events, f.count
	f.events, f.count = f.events[:0], 0
	return events, count
}

// eachLine calls fn for each line of text, with its end, and gives what is left after the last line end.
func eachLine(text []byte, fn func([]byte)) []byte {
	for {
		i := bytes.IndexByte(text, '\n')
		if i < 0 {
			return text
		}
		fn(text[:i+1])
		text = text[i+1:]
	}
}
