package load

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/spate-io/spate/bus"
	"github.com/spate-io/spate/store"
)

func setsAsideWhatTheStoreRefuses(t *testing.T, startBus busOf) {
	cfg := startBus(t, 1)
	e := newEdge(t, cfg, "fra1")
	var values [][]byte
	for range 20 {
		values = append(values, e.seal(2))
	}
	bad := []int{3, 11, 12, 19}
	for _, i := range bad {
		e.forget(values[i])
	}
	e.put(0, values...)
	db := newMemory()
	db.fault = func(_ int, in store.Insert, stored bool) error {
		for _, i := range bad {
			if !stored && strings.Contains("\n"+string(in.Block), fmt.Sprintf("\nfra1-%d-0", i+1)) {
				return &store.Error{Code: 117, Name: "INCORRECT_DATA", Message: "bad row"}
			}
		}
		return nil
	}
	ledger := newBook()
	background(t, newLoader(t, testConfig(), cfg, db, func(d *Deps) { d.Ledger = ledger }).Run)
	waitFor(t, "position", func() error {
		if n := position(t, cfg, 0); n != 20 {
			return fmt.Errorf("%d of 20 committed", n)
		}
		return nil
	})
	if err := db.holds(e); err != nil {
		t.Error(err)
	}
	want := []string{"store " + cfg.RequestsTopic() + "/0/11", "store " + cfg.RequestsTopic() + "/0/12", "store " + cfg.RequestsTopic() + "/0/19", "store " + cfg.RequestsTopic() + "/0/3"}
	if diff := cmp.Diff(want, refusedRecords(t, cfg, 4)); diff != "" {
		t.Errorf("refused records (-want +got):\n%s", diff)
	}
	if got := ledger.sum(); got.Refused != 4 || got.Events != 32 {
		t.Errorf("ledger has %d refused, %d events, want 4 and 32", got.Refused, got.Events)
	}
}

func keepsTryingWhenTheStoreRefusesEverything(t *testing.T, startBus busOf) {
	cfg := startBus(t, 1)
	e := newEdge(t, cfg, "fra1")
	for range 30 {
		e.put(0, e.seal(1))
	}
	db := newMemory()
	var broken atomic.Bool
	broken.Store(true)
	db.fault = func(_ int, _ store.Insert, stored bool) error {
		if broken.Load() && !stored {
			return &store.Error{Code: 53, Name: "TYPE_MISMATCH", Message: "the table is another one"}
		}
		return nil
	}
	lc := testConfig()
	lc.Retry.MaxRefused = 2
	l := newLoader(t, lc, cfg, db)
	background(t, l.Run)
	waitFor(t, "give up on setting aside", func() error {
		if n := l.inRow.Load(); n < 2 {
			return fmt.Errorf("%d refused", n)
		}
		return nil
	})
	broken.Store(false)
	waitFor(t, "position", func() error {
		if n := position(t, cfg, 0); n != 30 {
			return fmt.Errorf("%d of 30 committed", n)
		}
		return nil
	})
	if got := len(refusedRecords(t, cfg, 2)); got != 2 {
		t.Errorf("%d set aside, want 2", got)
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if len(db.rows) != 28 {
		t.Errorf("%d events stored, want 28", len(db.rows))
	}
}

func setsAsideWhatIsNoBatch(t *testing.T, startBus busOf) {
	cfg := startBus(t, 1)
	e := newEdge(t, cfg, "fra1")
	good := e.seal(3)
	broken := append([]byte(nil), good...)
	broken[len(broken)-1] ^= 1
	// The damaged copy comes first: it must not make the good one look like a duplicate.
	e.put(0, broken, []byte("not a batch"), good, nil, e.seal(2))
	db := newMemory()
	background(t, newLoader(t, testConfig(), cfg, db).Run)
	waitFor(t, "events in the store", func() error { return db.holds(e) })
	want := []string{"batch " + cfg.RequestsTopic() + "/0/0", "batch " + cfg.RequestsTopic() + "/0/1", "batch " + cfg.RequestsTopic() + "/0/3"}
	if diff := cmp.Diff(want, refusedRecords(t, cfg, 3)); diff != "" {
		t.Errorf("refused records (-want +got):\n%s", diff)
	}
}

// refusedRecords reads n refused records and returns their reason and source, sorted.
func refusedRecords(t *testing.T, cfg bus.Config, n int) []string {
	t.Helper()
	cl, err := bus.NewClient(cfg, bus.Deps{}, kgo.ConsumeTopics(cfg.RefusedTopic()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var out []string
	for len(out) < n && ctx.Err() == nil {
		cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			h := make(map[string]string)
			for _, x := range r.Headers {
				h[x.Key] = string(x.Value)
			}
			if h[HeaderError] == "" {
				t.Errorf("record of %s has no error", h[HeaderSource])
			}
			out = append(out, h[HeaderReason]+" "+h[HeaderSource])
		})
	}
	sortStrings(out)
	return out
}
