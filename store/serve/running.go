package serve

import (
	"context"
	"fmt"
	"sync"

	"github.com/spate-io/spate/store"
)

// running are the statements under way, by id.
type running struct {
	mu    sync.Mutex
	byID  map[string]*run
	slots chan struct{}
	ended sync.WaitGroup
}

// run is one statement under way.
type run struct {
	user   string
	sql    string
	cancel context.CancelFunc
}

func newRunning(limit int) *running {
	return &running{byID: map[string]*run{}, slots: make(chan struct{}, limit)}
}

// begin takes a slot of the server and one of the user for a statement; end gives them back.
func (r *running) begin(ctx context.Context, q *request) (_ context.Context, end func(), err error) {
	if err := take(r.slots); err != nil {
		return nil, nil, err
	}
	if err := take(q.user.slots); err != nil {
		<-r.slots
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if old, ok := r.byID[q.id]; ok {
		if !isTrue(q.args, "replace_running_query") || old.user != q.user.Name {
			cancel()
			<-r.slots
			give(q.user.slots)
			return nil, nil, &store.Error{Code: codeSameQuery, Name: "QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING", Message: fmt.Sprintf("Query with id = %s is already running", q.id)}
		}
		old.cancel()
	}
	me := &run{user: q.user.Name, sql: q.stmt.sql, cancel: cancel}
	r.byID[q.id] = me
	r.ended.Add(1)
	return ctx, func() {
		cancel()
		r.mu.Lock()
		if r.byID[q.id] == me {
			delete(r.byID, q.id)
		}
		r.mu.Unlock()
		<-r.slots
		give(q.user.slots)
		r.ended.Done()
	}, nil
}

func take(slots chan struct{}) error {
	if slots == nil {
		return nil
	}
	select {
	case slots <- struct{}{}:
		return nil
	default:
		return &store.Error{Code: store.CodeTooManyQueries, Name: "TOO_MANY_SIMULTANEOUS_QUERIES", Message: fmt.Sprintf("Too many simultaneous queries. Maximum: %d", cap(slots))}
	}
}

func give(slots chan struct{}) {
	if slots != nil {
		<-slots
	}
}

// kill cancels the statement with that id if u may, and gives whose it was and what it is.
func (r *running) kill(id string, u *User) (user, sql string, found bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one, ok := r.byID[id]
	if !ok || one.user != u.Name && !u.Admin {
		return "", "", false
	}
	one.cancel()
	return one.user, one.sql, true
}

func (r *running) cancelAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.byID {
		one.cancel()
	}
}

// wait returns when no statement runs.
func (r *running) wait() { r.ended.Wait() }
