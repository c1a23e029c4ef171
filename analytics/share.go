package analytics

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// sharing gives callers who ask the same at about the same time one answer: a page that a hundred people have open costs
// what one costs.
type sharing struct {
	mu    sync.Mutex
	calls map[string]*call
}

// call is a question under way or just answered. answer, err and until are written before done is closed.
type call struct {
	done   chan struct{}
	answer any
	err    error
	until  time.Time // answered: good up to then
}

// keepCalls is from how many calls on the old ones are swept out.
const keepCalls = 256

// shared asks once for all who ask for key while that is under way or up to keep after it. The one who came first asks
// with its own context; when that ends early, the next one asks again. With keep 0 nothing is shared.
func shared[T any](ctx context.Context, s *sharing, key string, keep time.Duration, ask func(context.Context) (*T, error)) (*T, error) {
	if keep <= 0 {
		return ask(ctx)
	}
	for {
		c, first := s.join(key)
		if first {
			return lead(ctx, s, key, c, keep, ask)
		}
		select {
		case <-c.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if errors.Is(c.err, context.Canceled) || errors.Is(c.err, context.DeadlineExceeded) {
			if ctx.Err() == nil {
				continue // the leader gave up, we did not
			}
		}
		if c.err != nil {
			return nil, c.err
		}
		return c.answer.(*T), nil
	}
}

// lead asks and hands the answer to all who wait. Errors are not kept.
func lead[T any](ctx context.Context, s *sharing, key string, c *call, keep time.Duration, ask func(context.Context) (*T, error)) (*T, error) {
	c.err = errors.New("the question was not finished")
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if c.err != nil && s.calls[key] == c {
			delete(s.calls, key)
		}
		c.until = time.Now().Add(keep)
		close(c.done)
	}()
	answer, err := ask(ctx)
	c.answer, c.err = answer, err
	return answer, err
}

// join gives the call for key, and whether the caller has to answer it.
func (s *sharing) join(key string) (c *call, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c = s.calls[key]; c != nil && !c.stale() {
		return c, false
	}
	if s.calls == nil {
		s.calls = map[string]*call{}
	}
	if len(s.calls) >= keepCalls {
		for k, old := range s.calls {
			if old.stale() {
				delete(s.calls, k)
			}
		}
	}
	c = &call{done: make(chan struct{})}
	s.calls[key] = c
	return c, true
}

// stale says whether c was answered too long ago. The caller holds the lock.
func (c *call) stale() bool {
	select {
	case <-c.done:
		return time.Now().After(c.until)
	default:
		return false
	}
}

// key names a question about a zone and window.
func (w Window) key(question, zone string, more ...any) string {
	return fmt.Sprintf("%s|%s|%d|%d|%d|%q", question, zone, w.Since.Unix(), w.Until.Unix(), w.Delta, more)
}
