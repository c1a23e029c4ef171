package serve

import (
	"container/list"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/spate-io/spate/store"
)

// session is what SET left behind for later requests with the same session_id. Temporary tables are not kept: a session
// has no connection of its own to the engine.
type session struct {
	key      string
	settings map[string]string
	params   map[string]string
	timeout  time.Duration
	expires  time.Time
}

// sessions keeps the most recently used of them.
type sessions struct {
	mu    sync.Mutex
	max   int
	limit time.Duration
	byKey map[string]*list.Element
	used  *list.List // most recent first
	now   func() time.Time
}

func newSessions(limit int, timeout time.Duration) *sessions {
	return &sessions{max: limit, limit: timeout, byKey: map[string]*list.Element{}, used: list.New(), now: time.Now}
}

// of gives a copy of the request's session, made when it is not there; nil when the request names none.
func (s *sessions) of(q *request) (*session, error) {
	id := q.args.Get("session_id")
	if id == "" {
		return nil, nil
	}
	timeout := min(time.Minute, s.limit)
	if v := q.args.Get("session_timeout"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n <= 0 || time.Duration(n)*time.Second > s.limit {
			return nil, badArgument("Invalid session timeout: %q (maximum is %d)", v, int(s.limit.Seconds()))
		}
		timeout = time.Duration(n) * time.Second
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := q.user.Name + "\x00" + id
	now := s.now()
	e, found := s.byKey[key]
	if found && now.After(e.Value.(*session).expires) {
		s.remove(e)
		found = false
	}
	if !found {
		if isTrue(q.args, "session_check") {
			return nil, &store.Error{Code: codeNoSession, Name: "SESSION_NOT_FOUND", Message: fmt.Sprintf("Session %s not found", id)}
		}
		for s.used.Len() >= max(1, s.max) {
			s.remove(s.used.Back())
		}
		e = s.used.PushFront(&session{key: key, settings: map[string]string{}, params: map[string]string{}})
		s.byKey[key] = e
	}
	s.used.MoveToFront(e)
	held := e.Value.(*session)
	held.timeout, held.expires = timeout, now.Add(timeout)
	if isTrue(q.args, "close_session") {
		s.remove(e)
	}
	for name, value := range held.params {
		if _, ok := q.params[name]; !ok {
			q.params[name] = value
		}
	}
	return &session{key: key, settings: maps.Clone(held.settings)}, nil
}

func (s *sessions) remove(e *list.Element) {
	delete(s.byKey, e.Value.(*session).key)
	s.used.Remove(e)
}

// set keeps settings and parameters in the session, if it is still there.
func (s *sessions) set(key string, settings, params map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.byKey[key]; ok {
		maps.Copy(e.Value.(*session).settings, settings)
		maps.Copy(e.Value.(*session).params, params)
	}
}
