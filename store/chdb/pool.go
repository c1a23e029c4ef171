package chdb

import (
	"context"
	"sync"

	"github.com/spate-io/spate/store"
)

// pool holds at most size connections, made when first needed. A connection that is out belongs to whoever has it.
type pool struct {
	dial  func() (*conn, error)
	slots chan struct{}
	mu    sync.Mutex
	idle  []*conn
}

func newPool(size int, dial func() (*conn, error)) *pool {
	return &pool{dial: dial, slots: make(chan struct{}, size)}
}

// get waits for a connection until ctx or closing ends.
func (p *pool) get(ctx, closing context.Context) (*conn, error) {
	if closing.Err() != nil {
		return nil, store.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-closing.Done():
		return nil, store.ErrClosed
	}
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		c := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return c, nil
	}
	p.mu.Unlock()
	c, err := p.dial()
	if err != nil {
		<-p.slots
		return nil, err
	}
	return c, nil
}

// put gives a connection back.
func (p *pool) put(c *conn) {
	p.mu.Lock()
	p.idle = append(p.idle, c)
	p.mu.Unlock()
	<-p.slots
}

// drop closes a connection that cannot be used again.
func (p *pool) drop(c *conn) {
	c.close()
	<-p.slots
}

// close waits until every connection is back and closes them all. No get may follow.
func (p *pool) close() {
	for range cap(p.slots) {
		p.slots <- struct{}{}
	}
	for _, c := range p.idle {
		c.close()
	}
	p.idle = nil
}
