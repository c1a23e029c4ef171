package forward

import (
	"sync"
	"time"

	"github.com/spate-io/spate/event/batch"
	"github.com/spate-io/spate/event/notice"
)

// news are notices that are not in a batch yet. Those of the last seconds before a crash are lost: they tell of things
// that are in a log or a directory too.
type news struct {
	mu   sync.Mutex
	open []notice.Notice
}

// maxNews is how many notices may wait; what comes when they do is left out.
const maxNews = 500

// Tell takes a notice, to be shipped like events within some seconds. It never blocks.
func (f *Forwarder) Tell(n notice.Notice) {
	if n.Time.IsZero() {
		n.Time = time.Now()
	}
	f.news.mu.Lock()
	defer f.news.mu.Unlock()
	if len(f.news.open) < maxNews {
		f.news.open = append(f.news.open, n)
	}
}

// sendNews makes a batch of the notices that wait and sends it on; false when there is no room for it now.
func (f *Forwarder) sendNews() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.news.mu.Lock()
	defer f.news.mu.Unlock()
	if len(f.news.open) == 0 {
		return true
	}
	if f.stopping || f.waiting >= cap(f.sealed) {
		return false
	}
	b := &sealed{typ: batch.Notices, begun: time.Now(), done: make(chan struct{})}
	for _, n := range f.news.open {
		at := n.Time.UnixNano()
		if b.events == 0 {
			b.first, b.last = at, at
		}
		b.first, b.last = min(b.first, at), max(b.last, at)
		b.raw = n.Append(b.raw)
		b.events++
		if len(b.raw) > batch.MaxNotices-notice.MaxLine {
			break
		}
	}
	f.news.open = append(f.news.open[:0], f.news.open[b.events:]...)
	f.send(b)
	return true
}

// flushNews sends all notices, waiting for room for a moment.
func (f *Forwarder) flushNews() {
	for range 50 {
		f.news.mu.Lock()
		left := len(f.news.open)
		f.news.mu.Unlock()
		if left == 0 {
			return
		}
		if !f.sendNews() {
			f.mu.Lock()
			room := f.room
			f.mu.Unlock()
			select {
			case <-room:
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
}
