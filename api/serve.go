package api

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
)

// gzipFrom is the size from which answers are compressed.
const gzipFrom = 1024

// slotWait is how long a question waits for its turn before it is refused.
const slotWait = 2 * time.Second

// guard wraps everything: a request's id, limits on its form, and a record in the log.
func (a *API) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get("X-Request-Id")
		if !validRequestID(id) {
			id = newRequestID()
		}
		h := w.Header()
		h.Set("X-Request-Id", id)
		h.Set("X-Content-Type-Options", "nosniff")
		if len(r.URL.RawQuery) > 4096 {
			a.write(w, r, http.StatusRequestURITooLong, envelope{Errors: []apiError{{Code: 1004, Message: "Query too long"}}})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// serve makes the handler of a route: who asks, may they, is there room, what is the answer.
func (a *API) serve(rt route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := a.deps.Now()
		status := a.respond(w, r, rt)
		took := a.deps.Now().Sub(start)
		a.metrics.requests.WithLabelValues(rt.name, strconv.Itoa(status)).Inc()
		if rt.stream == nil {
			a.metrics.duration.WithLabelValues(rt.name).Observe(took.Seconds())
		}
		a.log.LogAttrs(r.Context(), slog.LevelDebug, "request", slog.String("route", rt.name), slog.String("method", r.Method),
			slog.String("path", r.URL.Path), slog.Int("status", status), slog.Duration("took", took),
			slog.String("request_id", w.Header().Get("X-Request-Id")))
	})
}

func (a *API) respond(w http.ResponseWriter, r *http.Request, rt route) (status int) {
	who, flt := a.tokens.identify(r)
	switch {
	case flt != nil:
		if flt.status == http.StatusUnauthorized && r.Header.Get("Sec-Fetch-Site") == "same-origin" {
			w.Header().Set("WWW-Authenticate", `Basic realm="spate: any name, and a token as password", charset="UTF-8"`)
		}
		a.metrics.refused.WithLabelValues("identity").Inc()
		return a.fail(w, r, flt)
	case !who.has(rt.scope):
		a.metrics.refused.WithLabelValues("scope").Inc()
		return a.fail(w, r, errForbidden())
	}
	if rt.stream != nil {
		if err := rt.stream(a, w, r, who); err != nil {
			return a.fail(w, r, err)
		}
		return http.StatusOK
	}
	ctx, cancel := context.WithTimeout(r.Context(), a.cfg.QueryTimeout.D())
	defer cancel()
	r = r.WithContext(ctx)
	if !rt.free {
		release, ok := a.slots.take(ctx, who)
		if !ok {
			a.metrics.refused.WithLabelValues("busy").Inc()
			w.Header().Set("Retry-After", "1")
			return a.fail(w, r, errBusy())
		}
		defer release()
	}
	rep, err := rt.answer(a, r, who)
	if err != nil {
		return a.fail(w, r, err)
	}
	if rep.messages == nil {
		rep.messages = []apiError{}
	}
	return a.write(w, r, http.StatusOK, envelope{
		Success: true, Query: rep.query, Errors: []apiError{}, Messages: rep.messages, Result: rep.result, Info: rep.info,
	})
}

// fail writes the envelope of an error and logs what the caller is not told.
func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) int {
	flt, hidden := faultOf(err)
	if hidden && !errors.Is(r.Context().Err(), context.Canceled) {
		a.log.Warn("question not answered", "path", r.URL.Path, "request_id", w.Header().Get("X-Request-Id"), "err", err)
	}
	return a.write(w, r, flt.status, envelope{Errors: flt.errs})
}

// write sends an envelope, compressed when that is of use and wanted.
func (a *API) write(w http.ResponseWriter, r *http.Request, status int, e envelope) int {
	if e.Messages == nil {
		e.Messages = []apiError{}
	}
	body, err := json.Marshal(e)
	if err != nil {
		a.log.Error("answer cannot be encoded", "path", r.URL.Path, "err", err)
		status, body = http.StatusInternalServerError, []byte(`{"success":false,"errors":[{"code":1000,"message":"Internal error"}],"messages":[],"result":null}`)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("Cache-Control", "private, no-store")
	h.Add("Vary", "Accept-Encoding")
	if len(body) < gzipFrom || !acceptsGzip(r.Header.Get("Accept-Encoding")) {
		h.Set("Content-Length", strconv.Itoa(len(body)))
		w.WriteHeader(status)
		_, _ = w.Write(body) // the client is gone: nobody is left to tell
		return status
	}
	h.Set("Content-Encoding", "gzip")
	w.WriteHeader(status)
	z := gzipWriters.Get().(*gzip.Writer)
	z.Reset(w)
	_, _ = z.Write(body)
	_ = z.Close()
	gzipWriters.Put(z)
	return status
}

var gzipWriters = sync.Pool{New: func() any {
	z, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	return z
}}

// acceptsGzip reads an Accept-Encoding header: gzip or * named, and not with q=0.
func acceptsGzip(header string) bool {
	for item := range strings.SplitSeq(header, ",") {
		name, weight, _ := strings.Cut(strings.TrimSpace(item), ";")
		if name = strings.ToLower(strings.TrimSpace(name)); name != "gzip" && name != "*" {
			continue
		}
		q, ok := strings.CutPrefix(strings.ReplaceAll(weight, " ", ""), "q=")
		v, err := strconv.ParseFloat(q, 64)
		return !ok || err == nil && v > 0
	}
	return false
}

func newRequestID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

func validRequestID(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

// slots bounds the questions under way, in all and by caller.
type slots struct {
	all    chan struct{}
	perOne int
	mu     sync.Mutex
	byName map[string]chan struct{}
}

func newSlots(all, perOne int) *slots {
	return &slots{all: make(chan struct{}, all), perOne: perOne, byName: map[string]chan struct{}{}}
}

// take waits a moment for a place; release gives it back.
func (s *slots) take(ctx context.Context, who *caller) (release func(), ok bool) {
	s.mu.Lock()
	own := s.byName[who.name]
	if own == nil {
		own = make(chan struct{}, s.perOne)
		s.byName[who.name] = own
	}
	s.mu.Unlock()
	late := time.NewTimer(slotWait)
	defer late.Stop()
	for i, c := range []chan struct{}{own, s.all} {
		select {
		case c <- struct{}{}:
			continue
		case <-late.C:
		case <-ctx.Done():
		}
		if i == 1 {
			<-own
		}
		return nil, false
	}
	return func() { <-s.all; <-own }, true
}
