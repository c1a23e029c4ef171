package ingest

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// progress shows how far an import is: a bar on a terminal, a line every few seconds elsewhere.
type progress struct {
	read, lines atomic.Int64 // bytes read from disk, lines parsed

	w     io.Writer
	total int64
	begun time.Time
	name  atomic.Value
	stop  chan struct{}
	wg    sync.WaitGroup
	bars  *mpb.Progress
	bar   *mpb.Bar
}

// How often a bar and plain lines are written.
const (
	barEvery  = 200 * time.Millisecond
	lineEvery = 5 * time.Second
)

func newProgress(w io.Writer, terminal bool, total int64) *progress {
	p := &progress{w: w, total: total, begun: time.Now(), stop: make(chan struct{})}
	p.name.Store("")
	if w == nil {
		return p
	}
	every := lineEvery
	if terminal {
		every = barEvery
		p.bars = mpb.New(mpb.WithOutput(w), mpb.WithRefreshRate(barEvery), mpb.WithWidth(40), mpb.WithAutoRefresh())
		p.bar = p.bars.AddBar(max(total, 1),
			mpb.PrependDecorators(decor.Any(func(decor.Statistics) string { return p.left() + " " })),
			mpb.AppendDecorators(decor.Percentage(decor.WCSyncSpace), decor.Any(func(decor.Statistics) string { return " " + p.remaining() })),
			mpb.BarRemoveOnComplete())
	}
	p.wg.Go(func() {
		t := time.NewTicker(every)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				p.show()
			case <-p.stop:
				return
			}
		}
	})
	return p
}

func (p *progress) file(name string) { p.name.Store(name) }
func (p *progress) phase(s string)   { p.name.Store(s) }

// left is what stands before the bar.
func (p *progress) left() string {
	n := p.lines.Load()
	rate := float64(n) / max(time.Since(p.begun).Seconds(), 1e-3)
	return fmt.Sprintf("%v: %s lines, %s/s", p.name.Load(), count(uint64(n)), count(uint64(rate)))
}

// remaining is the time that is left at the speed so far; empty when nobody knows.
func (p *progress) remaining() string {
	read := p.read.Load()
	if p.total <= 0 || read <= 0 {
		return ""
	}
	share := min(float64(read)/float64(p.total), 1)
	took := time.Since(p.begun).Seconds()
	return time.Duration(took*(1-share)/share*float64(time.Second)).Round(time.Second).String() + " left"
}

// show writes the state once.
func (p *progress) show() {
	read := p.read.Load()
	if p.bar != nil {
		p.bar.SetCurrent(min(read, max(p.total-1, 0)))
		return
	}
	text := p.left()
	if rest := p.remaining(); rest != "" {
		text += fmt.Sprintf(", %.0f %%, %s", min(float64(read)/float64(p.total), 1)*100, rest)
	}
	_, _ = fmt.Fprintln(p.w, text)
}

func (p *progress) close() {
	close(p.stop)
	p.wg.Wait()
	if p.bar != nil {
		p.bar.SetTotal(-1, true)
		p.bars.Wait()
	}
}
