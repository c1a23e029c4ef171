package analytics

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestShared_OneAnswerForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s sharing
		var asked atomic.Int64
		ask := func(context.Context) (*int64, error) {
			time.Sleep(100 * time.Millisecond)
			n := asked.Add(1)
			return &n, nil
		}
		get := func(key string, want int64) {
			if n, err := shared(t.Context(), &s, key, time.Second, ask); err != nil || *n != want {
				t.Errorf("%s: %v %v, want %d", key, *n, err, want)
			}
		}
		for range 50 {
			go get("a", 1)
		}
		time.Sleep(time.Second)
		get("a", 1) // kept
		time.Sleep(time.Second)
		get("a", 2)
		get("b", 3)
		if _, err := shared(t.Context(), &s, "b", 0, ask); err != nil || asked.Load() != 4 {
			t.Errorf("not to be shared: %d %v", asked.Load(), err)
		}
	})
}

func TestShared_LeaderGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s sharing
		leader, leave := context.WithCancel(t.Context())
		ask := func(ctx context.Context) (*int, error) {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(time.Second):
				n := 7
				return &n, nil
			}
		}
		go func() {
			if _, err := shared(leader, &s, "a", time.Second, ask); !errors.Is(err, context.Canceled) {
				t.Errorf("leader: %v", err)
			}
		}()
		synctest.Wait()
		for range 3 {
			go func() {
				if n, err := shared(t.Context(), &s, "a", time.Second, ask); err != nil || *n != 7 {
					t.Errorf("the others: %v %v", n, err)
				}
			}()
		}
		time.Sleep(100 * time.Millisecond)
		leave()
		time.Sleep(5 * time.Second)
	})
}

func TestShared_ErrorsAreNotKept(t *testing.T) {
	var s sharing
	n, broken := 1, errors.New("broken")
	if _, err := shared(t.Context(), &s, "a", time.Hour, func(context.Context) (*int, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
	if got, err := shared(t.Context(), &s, "a", time.Hour, func(context.Context) (*int, error) { return &n, nil }); err != nil || *got != 1 {
		t.Error(err)
	}
	for range 10 * keepCalls { // none of which lasts
		if _, err := shared(t.Context(), &s, time.Now().String(), time.Nanosecond, func(context.Context) (*int, error) { return &n, nil }); err != nil {
			t.Error(err)
		}
	}
	if len(s.calls) > keepCalls+1 {
		t.Errorf("%d calls kept", len(s.calls))
	}
}
