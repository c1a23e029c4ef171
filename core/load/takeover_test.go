package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/spate-io/spate/bus"
	"github.com/spate-io/spate/event/batch"
	"github.com/spate-io/spate/internal/config"
	"github.com/spate-io/spate/internal/kafkatest"
)

// A loader that the group takes for dead goes on where it was interrupted: between its intent and its insert. By then
// another one has repeated the range. Neither the late insert nor the late commit may change anything.
func aLoaderTakenForDeadChangesNothing(t *testing.T, startBus busOf) {
	cfg := startBus(t, 1)
	e := newEdge(t, cfg, "fra1")
	for range 20 {
		e.put(0, e.seal(5))
	}
	db := newMemory()
	dead := newLoader(t, testConfig(), cfg, db)
	reached, wake := make(chan struct{}), make(chan struct{})
	var once atomic.Bool
	dead.step = func(_ *worker, s step) {
		if s == stepIntent && once.CompareAndSwap(false, true) {
			close(reached)
			<-wake
		}
	}
	background(t, dead.Run)
	<-reached
	member, _ := dead.state().cl.GroupMetadata()
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Group, leave.MemberID = DefaultConfig().Group, member
	m := kmsg.NewLeaveGroupRequestMember()
	m.MemberID = member
	leave.Members = append(leave.Members, m)
	if _, err := leave.RequestWith(t.Context(), e.cl); err != nil {
		t.Fatal(err)
	}
	background(t, newLoader(t, testConfig(), cfg, db).Run)
	waitFor(t, "the other loader", func() error { return db.holds(e) })
	close(wake)
	for range 20 {
		e.put(0, e.seal(5))
	}
	waitFor(t, "all positions", func() error {
		if n := position(t, cfg, 0); n != 40 {
			return fmt.Errorf("%d of 40 committed", n)
		}
		return db.holds(e)
	})
}

func TestLoader_KeepsExactlyOnceWhenAKafkaBrokerIsKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three JVMs")
	}
	kafka := kafkatest.Start(t, 3)
	cfg := bus.DefaultConfig()
	cfg.Address, cfg.Partitions, cfg.Replication, cfg.MinInsync = "kafka://"+kafka.Addr(), 3, 3, 2
	e := newEdge(t, cfg, "fra1")
	db := newMemory()
	background(t, newLoader(t, testConfig(), cfg, db).Run)
	p, err := bus.NewProducer(cfg, bus.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	background(t, p.Run)
	const n = 1500
	var acked, failed atomic.Int32
	var longest atomic.Int64
	put := func(v []byte) {
		h, _, err := batch.ParseHeader(v)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		p.Produce(context.Background(), h.Name, v, func(err error) {
			if err != nil {
				failed.Add(1)
				return
			}
			acked.Add(1)
			longest.Store(max(longest.Load(), int64(time.Since(start))))
		})
	}
	for i := range n {
		switch i {
		case n / 3:
			waitFor(t, "first events", func() error { // so that the group is at work when its broker goes
				if acked.Load() < n/6 {
					return errors.New("too few")
				}
				return nil
			})
			kafka.Kill(1)
		case 2 * n / 3:
			kafka.Start(1)
		}
		v := e.seal(3)
		put(v)
		if i%50 == 0 {
			put(v)
		}
	}
	waitFor(t, "events in the store", func() error { return db.holds(e) })
	if failed.Load() > 0 {
		t.Errorf("%d records failed", failed.Load())
	}
	t.Logf("%d records acknowledged, %d events stored once, longest wait %s", acked.Load(), len(db.rows), time.Duration(longest.Load()).Round(time.Millisecond))
}

func rebalanceKeepsExactlyOnce(t *testing.T, startBus busOf) {
	const partitions = 6
	cfg := startBus(t, partitions)
	e := newEdge(t, cfg, "fra1")
	db := newMemory()
	lc := testConfig()
	lc.Stall = config.Duration(20 * time.Second)
	var produced sync.WaitGroup
	quit := make(chan struct{})
	produced.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-quit:
				return
			default:
			}
			v := e.seal(3)
			e.put(int32(i%partitions), v)
			if i%5 == 0 {
				e.put(int32(i%partitions), v) // and once more
			}
		}
	})
	first := newLoader(t, lc, cfg, db)
	stops := []func(){background(t, first.Run)}
	loaders := []*Loader{first}
	owned := func() (total int) {
		for _, l := range loaders {
			total += len(l.owned())
		}
		return total
	}
	settled := func(want int) func() error {
		return func() error {
			with := 0
			for _, l := range loaders {
				if len(l.owned()) > 0 {
					with++
				}
				if err := l.Live(); err != nil {
					return fmt.Errorf("not live: %w", err)
				}
			}
			if owned() != partitions || with != want {
				return fmt.Errorf("%d partitions with %d loaders", owned(), with)
			}
			return nil
		}
	}
	waitFor(t, "first loader", settled(1))
	for n := 2; n <= 3; n++ {
		l := newLoader(t, lc, cfg, db)
		loaders = append(loaders, l)
		stops = append(stops, background(t, l.Run))
		waitFor(t, fmt.Sprintf("%d loaders", n), settled(n))
	}
	for n := 2; n >= 1; n-- {
		stops[n]()
		loaders = loaders[:n]
		waitFor(t, fmt.Sprintf("back to %d loaders", n), settled(n))
	}
	close(quit)
	produced.Wait()
	waitFor(t, "events in the store", func() error { return db.holds(e) })
	if err := loaders[0].Live(); err != nil {
		t.Error(err)
	}
}

func cannotCommitAfterItsPartitionsWentToAnother(t *testing.T, startBus busOf) {
	cfg := startBus(t, 1)
	e := newEdge(t, cfg, "fra1")
	e.put(0, e.seal(1))
	db := newMemory()
	l := newLoader(t, testConfig(), cfg, db)
	stop := background(t, l.Run)
	waitFor(t, "events in the store", func() error { return db.holds(e) })
	s := l.state()
	member, generation := s.cl.GroupMetadata()
	stop()
	other := newLoader(t, testConfig(), cfg, db)
	background(t, other.Run)
	waitFor(t, "other loader", func() error {
		if len(other.owned()) == 0 {
			return errors.New("owns nothing")
		}
		return other.Ready()
	})
	// The first loader's identity, on a connection that works.
	err := l.commitOnce(context.Background(), &session{cl: other.state().cl, topicID: s.topicID}, member, generation, 0, 99, "")
	if err == nil {
		t.Fatal("a loader that is no longer in the group could commit")
	}
	if n := position(t, cfg, 0); n != 1 {
		t.Errorf("position is %d, want 1", n)
	}
}
