package clickhouse

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestHosts_Order(t *testing.T) {
	h := newHosts([]string{"a", "b", "c"}, time.Second)
	now := time.Unix(0, 0)
	h.now = func() time.Time { return now }
	want := func(addrs ...string) {
		t.Helper()
		if diff := cmp.Diff(addrs, h.order()); diff != "" {
			t.Error(diff)
		}
	}
	want("a", "b", "c")
	h.failed("a")
	want("b", "c", "a")
	h.failed("a") // for twice as long
	h.failed("b")
	want("c", "b", "a")
	now = now.Add(1500 * time.Millisecond)
	want("b", "c", "a")
	now = now.Add(time.Second)
	want("a", "b", "c")
	for range 100 {
		h.failed("c")
	}
	now = now.Add(33 * time.Second)
	want("a", "b", "c")
	h.failed("a")
	h.worked("a")
	want("a", "b", "c")
	if h.bad() != 0 {
		t.Errorf("%d in quarantine", h.bad())
	}
}
