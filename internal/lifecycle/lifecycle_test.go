package lifecycle

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// journal records what parts do, in order.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(s string) { j.mu.Lock(); j.lines = append(j.lines, s); j.mu.Unlock() }

type part struct {
	name       string
	j          *journal
	readyAfter time.Duration
	drain      time.Duration
	failAfter  time.Duration
	err        error
	mu         sync.Mutex
	ready      bool
}

func (p *part) Run(ctx context.Context) error {
	p.j.add("start " + p.name)
	defer p.j.add("end " + p.name)
	time.Sleep(p.readyAfter)
	p.mu.Lock()
	p.ready = true
	p.mu.Unlock()
	if p.failAfter > 0 {
		time.Sleep(p.failAfter)
		return p.err
	}
	<-ctx.Done()
	time.Sleep(p.drain)
	return p.err
}

func (p *part) Ready() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ready {
		return errors.New("opening")
	}
	return nil
}

func TestGroup_StartsInOrderAndStopsInReverse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &journal{}
		a, b := &part{name: "a", j: j, readyAfter: time.Second}, &part{name: "b", j: j, drain: time.Second}
		g := New(slog.New(slog.DiscardHandler), Options{}, Named{"a", a}, Named{"b", b})
		ctx, cancel := context.WithCancel(t.Context())
		if err := g.Run(ctx, nil, func() {
			j.add("ready")
			if err := g.Ready(); err != nil {
				t.Error(err)
			}
			cancel()
		}); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]string{"start a", "start b", "ready", "end b", "end a"}, j.lines); d != "" {
			t.Fatal(d)
		}
		if err := g.Ready(); err == nil {
			t.Fatal("a stopped group says it is ready")
		}
	})
}

func TestGroup_FailureStopsWhatStarted(t *testing.T) {
	for name, c := range map[string]struct {
		b    *part
		want string
	}{
		"fails_while_running": {&part{failAfter: time.Second, err: errors.New("disk gone")}, "b: disk gone"},
		"ends_by_itself":      {&part{failAfter: time.Second}, "b: ended by itself"},
		"never_ready":         {&part{readyAfter: time.Hour}, "start b: not ready after 1m0s: opening"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := &journal{}
				c.b.name, c.b.j = "b", j
				g := New(slog.New(slog.DiscardHandler), Options{}, Named{"a", &part{name: "a", j: j}}, Named{"b", c.b})
				err := g.Run(t.Context(), nil, nil)
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Fatalf("got %v, want %q", err, c.want)
				}
				if !strings.Contains(strings.Join(j.lines, ","), "end a") {
					t.Fatalf("a was not stopped: %v", j.lines)
				}
				time.Sleep(2 * time.Hour) // let the part that never got ready end
			})
		})
	}
}

func TestGroup_AbortEndsASlowDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &journal{}
		g := New(slog.New(slog.DiscardHandler), Options{DrainTimeout: time.Hour}, Named{"a", &part{name: "a", j: j, drain: 30 * time.Minute}})
		abort := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		err := g.Run(ctx, abort, func() { cancel(); close(abort) })
		if !errors.Is(err, ErrAborted) {
			t.Fatalf("got %v, want ErrAborted", err)
		}
		time.Sleep(time.Hour)
	})
}
