package ingest

import (
	"bytes"
	"sync"
	"time"

	"github.com/spate-io/spate/event/notice"
)

// Complaints tells of the lines of one source that were refused: of the first in each minute with text and reason, of the
// others as a number, so that a file of nonsense costs no more than a few notices. Its methods may be called from any
// goroutine.
type Complaints struct {
	source string
	tell   func(notice.Notice)

	mu    sync.Mutex
	since time.Time // of the minute
	told  int
	more  uint64
	last  string
}

// toldPerMinute is how many lines of a source are told with their text.
const toldPerMinute = 10

// NewComplaints makes one for a source, which a notice names; tell may be nil.
func NewComplaints(source string, tell func(notice.Notice)) *Complaints {
	return &Complaints{source: source, tell: tell}
}

// Bad takes a refused line; number is 0 where lines have none. The text is not kept.
func (c *Complaints) Bad(number uint64, reason error, text []byte) {
	if c.tell == nil {
		return
	}
	now := time.Now()
	text = bytes.TrimRight(text, "\r\n")
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.since) > time.Minute {
		c.flush(now)
		c.since, c.told = now, 0
	}
	if c.told >= toldPerMinute {
		c.more++
		c.last = reason.Error()
		return
	}
	c.told++
	c.tell(notice.Notice{
		Time: now, Kind: notice.BadLine, Source: c.source, Line: number, Count: 1, Reason: reason.Error(), Sample: string(text[:min(len(text), notice.MaxText)]),
	})
}

// Flush tells how many lines were refused and not told one by one.
func (c *Complaints) Flush() {
	if c.tell == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flush(time.Now())
}

func (c *Complaints) flush(now time.Time) {
	if c.more == 0 {
		return
	}
	c.tell(notice.Notice{Time: now, Kind: notice.BadLine, Source: c.source, Count: c.more, Reason: c.last})
	c.more = 0
}
