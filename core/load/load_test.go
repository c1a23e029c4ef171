package load

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/spate-io/spate/bus"
	"github.com/spate-io/spate/internal/config"
	"github.com/spate-io/spate/internal/kafkatest"
	"github.com/spate-io/spate/store"
)

// busOf gives a fresh topic with that many partitions.
type busOf func(t testing.TB, partitions int32) bus.Config

// guarantee is one thing that a loader promises, on any bus.
type guarantee struct {
	name  string
	check func(*testing.T, busOf)
}

func guarantees() []guarantee {
	return []guarantee{
		{"stores_every_event_once", storesEveryEventOnce},
		{"crash_at_each_step_keeps_exactly_once", crashAtEachStepKeepsExactlyOnce},
		{"repeats_an_insert_until_it_succeeds", repeatsAnInsertUntilItSucceeds},
		{"drops_batches_that_come_again", dropsBatchesThatComeAgain},
		{"drops_batches_that_the_bus_no_longer_has", dropsBatchesThatTheBusNoLongerHas},
		{"repeats_an_announced_range_with_its_token", repeatsAnAnnouncedRangeWithItsToken},
		{"sets_aside_what_the_store_refuses", setsAsideWhatTheStoreRefuses},
		{"keeps_trying_when_the_store_refuses_everything", keepsTryingWhenTheStoreRefusesEverything},
		{"sets_aside_what_is_no_batch", setsAsideWhatIsNoBatch},
		{"rebalance_keeps_exactly_once", rebalanceKeepsExactlyOnce},
		{"cannot_commit_after_its_partitions_went_to_another", cannotCommitAfterItsPartitionsWentToAnother},
		{"a_loader_taken_for_dead_changes_nothing", aLoaderTakenForDeadChangesNothing},
	}
}

func TestLoader_OnEmbeddedBroker(t *testing.T) {
	for _, g := range guarantees() {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			g.check(t, startBus)
		})
	}
}

// TestLoader_OnApacheKafka is the same on a real broker.
func TestLoader_OnApacheKafka(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a JVM")
	}
	kafka := kafkatest.Start(t, 1)
	var topics atomic.Int32
	fresh := func(_ testing.TB, partitions int32) bus.Config {
		cfg := bus.DefaultConfig()
		cfg.Address, cfg.Partitions, cfg.TopicPrefix = "kafka://"+kafka.Addr(), partitions, fmt.Sprintf("t%d.", topics.Add(1))
		return cfg
	}
	for _, g := range guarantees() {
		t.Run(g.name, func(t *testing.T) { g.check(t, fresh) })
	}
}

func storesEveryEventOnce(t *testing.T, startBus busOf) {
	cfg := startBus(t, 3)
	e := newEdge(t, cfg, "fra1")
	for i := range 60 {
		e.put(int32(i%3), e.seal(i%7))
	}
	db := newMemory()
	l := newLoader(t, testConfig(), cfg, db)
	stop := background(t, l.Run)
	waitFor(t, "events in the store", func() error { return db.holds(e) })
	waitFor(t, "ready", l.Ready)
	stop()
	if got, want := position(t, cfg, 0)+position(t, cfg, 1)+position(t, cfg, 2), int64(60); got != want {
		t.Errorf("committed %d records, want %d", got, want)
	}
}

// position returns what is committed for a partition.
func position(t *testing.T, cfg bus.Config, partition int32) int64 {
	t.Helper()
	lags, err := bus.ReadLag(context.Background(), cfg, bus.Deps{}, DefaultConfig().Group, cfg.RequestsTopic())
	if err != nil {
		t.Fatal(err)
	}
	return lags[partition].Committed
}

func crashAtEachStepKeepsExactlyOnce(t *testing.T, startBus busOf) {
	for _, at := range []step{stepGathered, stepBuilt, stepIntent, stepPartly, stepInserted, stepLedger, stepDone} {
		t.Run(string(at), func(t *testing.T) {
			t.Parallel()
			cfg := startBus(t, 2)
			e := newEdge(t, cfg, "fra1")
			db := newMemory()
			ledger := newBook()
			for i := range 40 {
				e.put(int32(i%2), e.seal(10))
			}
			for round := range 4 { // crash in the first rounds, then go on to the end
				l := newLoader(t, testConfig(), cfg, db, func(d *Deps) { d.Ledger = ledger })
				crashed := make(chan struct{})
				var steps atomic.Int32
				l.step = func(w *worker, s step) {
					if s == at && round < 3 && steps.Add(1) == 2 {
						l.crash()
						<-w.ctx.Done()
						close(crashed)
					}
				}
				stop := background(t, l.Run)
				if round < 3 {
					waitFor(t, "crash", func() error {
						select {
						case <-crashed:
							return nil
						default:
							return errors.New("not yet")
						}
					})
					stop()
					continue
				}
				waitFor(t, "events in the store", func() error { return db.holds(e) })
				waitFor(t, "positions", func() error {
					if n := position(t, cfg, 0) + position(t, cfg, 1); n != 40 {
						return fmt.Errorf("%d of 40 committed", n)
					}
					return nil
				})
				stop()
			}
			if err := db.holds(e); err != nil {
				t.Error(err)
			}
			if got := ledger.events(); got != 400 {
				t.Errorf("ledger has %d events, want 400", got)
			}
		})
	}
}

// book is a ledger that knows tokens.
type book struct {
	mu   sync.Mutex
	rows map[string][]Account
}

func newBook() *book { return &book{rows: make(map[string][]Account)} }

func (b *book) Record(_ context.Context, token string, rows []Account) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.rows[token]; !ok {
		b.rows[token] = append([]Account(nil), rows...)
	}
	return nil
}

func (b *book) sum() (total Account) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, rows := range b.rows {
		for _, r := range rows {
			total.Events += r.Events
			total.Batches += r.Batches
			total.Dropped += r.Dropped
			total.Duplicates += r.Duplicates
			total.Refused += r.Refused
		}
	}
	return total
}

func (b *book) events() uint64 { return b.sum().Events }

func repeatsAnInsertUntilItSucceeds(t *testing.T, startBus busOf) {
	cases := map[string]func(call int, in store.Insert, stored bool) error{
		"error_before": func(call int, _ store.Insert, stored bool) error {
			if !stored && call%3 != 0 {
				return errBoom
			}
			return nil
		},
		"error_after_having_stored": func(call int, _ store.Insert, stored bool) error {
			if stored && call%2 == 1 {
				return errBoom
			}
			return nil
		},
		"engine_error": func(call int, _ store.Insert, stored bool) error {
			if !stored && call%2 == 1 {
				return &store.Error{Code: store.CodeTooManyParts, Message: "too many parts"}
			}
			return nil
		},
		"timeout_after_success": func(call int, _ store.Insert, stored bool) error {
			if stored && call%2 == 1 {
				return context.DeadlineExceeded
			}
			return nil
		},
	}
	for name, fault := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := startBus(t, 1)
			e := newEdge(t, cfg, "fra1")
			db := newMemory()
			db.fault = fault
			background(t, newLoader(t, testConfig(), cfg, db).Run)
			for range 30 {
				e.put(0, e.seal(5))
			}
			waitFor(t, "position", func() error {
				if n := position(t, cfg, 0); n != 30 {
					return fmt.Errorf("%d of 30 committed", n)
				}
				return nil
			})
			if err := db.holds(e); err != nil {
				t.Error(err)
			}
			db.mu.Lock()
			defer db.mu.Unlock()
			blocks := make(map[string]string)
			for _, c := range db.calls {
				if had, ok := blocks[c.Token]; ok && had != string(c.Block) {
					t.Errorf("token %s came with two contents", c.Token)
				}
				blocks[c.Token] = string(c.Block)
			}
		})
	}
}

func dropsBatchesThatComeAgain(t *testing.T, startBus busOf) {
	cfg := startBus(t, 1)
	e := newEdge(t, cfg, "fra1")
	var sent [][]byte
	for range 20 {
		sent = append(sent, e.seal(3))
	}
	e.put(0, sent...)
	e.put(0, sent[4], sent[4], sent[19])
	db, ledger := newMemory(), newBook()
	stop := background(t, newLoader(t, testConfig(), cfg, db, func(d *Deps) { d.Ledger = ledger }).Run)
	waitFor(t, "events in the store", func() error { return db.holds(e) })
	stop()

	// A loader that knows nothing reads the names back from the bus.
	e.put(0, sent[0], sent[19], sent[7])
	last := e.seal(1)
	e.put(0, last)
	background(t, newLoader(t, testConfig(), cfg, db, func(d *Deps) { d.Ledger = ledger }).Run)
	waitFor(t, "position", func() error {
		if n := position(t, cfg, 0); n != 27 {
			return fmt.Errorf("%d of 27 committed", n)
		}
		return nil
	})
	if err := db.holds(e); err != nil {
		t.Error(err)
	}
	want := Account{Events: 61, Batches: 21, Dropped: 21, Duplicates: 6}
	if diff := cmp.Diff(want, ledger.sum()); diff != "" {
		t.Errorf("ledger (-want +got):\n%s", diff)
	}
}

// An edge that was cut off comes back after the bus has long dropped what it had sent, and sends it again.
func dropsBatchesThatTheBusNoLongerHas(t *testing.T, startBus busOf) {
	cfg := startBus(t, 1)
	e := newEdge(t, cfg, "fra1")
	quiet := e.seal(3)
	e.put(0, quiet)
	for range 30 {
		e.put(0, e.seal(3))
	}
	db := newMemory()
	stop := background(t, newLoader(t, testConfig(), cfg, db).Run)
	waitFor(t, "position", func() error {
		if n := position(t, cfg, 0); n != 31 {
			return fmt.Errorf("%d of 31 committed", n)
		}
		return nil
	})
	stop()
	cut := make(kadm.Offsets)
	cut.AddOffset(cfg.RequestsTopic(), 0, 20, -1)
	if _, err := kadm.NewClient(e.cl).DeleteRecords(t.Context(), cut); err != nil {
		t.Fatal(err)
	}
	lc := testConfig()
	lc.Window.ReadBack = 1 * config.KiB // nor would it be read back that far
	background(t, newLoader(t, lc, cfg, db).Run)
	e.put(0, quiet, e.seal(1))
	waitFor(t, "position", func() error {
		if n := position(t, cfg, 0); n != 33 {
			return fmt.Errorf("%d of 33 committed", n)
		}
		return nil
	})
	if err := db.holds(e); err != nil {
		t.Error(err)
	}
}

func repeatsAnAnnouncedRangeWithItsToken(t *testing.T, startBus busOf) {
	cfg := startBus(t, 1)
	e := newEdge(t, cfg, "fra1")
	for range 10 {
		e.put(0, e.seal(2))
	}
	db := newMemory()
	db.fault = func(_ int, in store.Insert, stored bool) error {
		if stored && in.Table == sumsTable {
			return errBoom // the client never learns that it was stored
		}
		return nil
	}
	l := newLoader(t, testConfig(), cfg, db)
	stop := background(t, l.Run)
	waitFor(t, "first insert", func() error { return db.holds(e) })
	stop()
	if n := position(t, cfg, 0); n != 0 {
		t.Fatalf("position is %d before any insert was acknowledged", n)
	}
	db.mu.Lock()
	db.fault = nil
	tokens := len(db.tokens)
	db.mu.Unlock()

	// More records are there by now, and blocks may be larger: the range stays what it was.
	for range 10 {
		e.put(0, e.seal(2))
	}
	bigger := testConfig()
	bigger.Block.MaxEvents = 1000
	background(t, newLoader(t, bigger, cfg, db).Run)
	waitFor(t, "all events", func() error { return db.holds(e) })
	db.mu.Lock()
	defer db.mu.Unlock()
	if tokens != 2 || len(db.tokens) != 4 {
		t.Errorf("%d tokens before, %d after, want 2 and 4: %v", tokens, len(db.tokens), db.tokens)
	}
	for token := range db.tokens {
		if !strings.HasPrefix(token, cfg.RequestsTopic()+":") || !strings.Contains(token, "/0/") {
			t.Errorf("token %q", token)
		}
	}
}
