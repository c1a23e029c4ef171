package chdb

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"
)

// killEvery is how often a cancellation is repeated until the statement has ended: it may not have begun when the first
// one is sent.
const killEvery = 50 * time.Millisecond

// A tag is a comment at the start of a statement. The engine's list of running statements has their text, so a statement
// is found by its tag; the C interface has no call that may cancel a statement another thread waits for.
const tagPrefix = "/*spate-"

type tagger struct{ n atomic.Uint64 }

func (t *tagger) next() string {
	return tagPrefix + strconv.FormatUint(t.n.Add(1), 10) + "*/ "
}

// killOnDone cancels the tagged statement when ctx ends. The caller calls release when the statement has ended, which
// waits until no cancellation is under way.
func (db *DB) killOnDone(ctx context.Context, tag string) (release func()) {
	if ctx.Done() == nil {
		return func() {}
	}
	ended, idle := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(idle)
		for {
			db.kill("'" + tag + "'")
			select {
			case <-ended:
				return
			case <-time.After(killEvery):
			}
		}
	})
	return func() {
		close(ended)
		if !stop() {
			<-idle
		}
	}
}

// kill cancels the statements that begin with the quoted prefix.
func (db *DB) kill(prefix string) {
	db.controlMu.Lock()
	defer db.controlMu.Unlock()
	if db.control != nil {
		// A statement that has just ended is no longer there: nothing to report either way.
		_, _, _ = db.control.exec(nil, "KILL QUERY WHERE startsWith(query, "+prefix+") ASYNC", "Null", nil)
	}
}

// killUntil cancels all statements, again and again until release is called: one that has its connection may not have
// begun when Close does.
func (db *DB) killUntil() (release func()) {
	ended, idle := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(idle)
		for {
			db.kill("'" + tagPrefix + "'")
			select {
			case <-ended:
				return
			case <-time.After(killEvery):
			}
		}
	}()
	return func() {
		close(ended)
		<-idle
	}
}
