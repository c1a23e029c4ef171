package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/spate-io/spate/bus/embedded"
	"github.com/spate-io/spate/event/batch"
	"github.com/spate-io/spate/internal/config"
	"github.com/spate-io/spate/internal/kafkatest"
)

// startEmbedded runs a broker in this process and returns what reaches it by the name "embedded".
func startEmbedded(t *testing.T, change ...func(*Config)) (Config, Deps) {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Embedded.Dir, cfg.Embedded.Listen, cfg.Embedded.Sync, cfg.Embedded.MinFree = t.TempDir(), "127.0.0.1:0", false, 0
	cfg.Embedded.CheckEvery = config.Duration(20 * time.Millisecond)
	for _, f := range change {
		f(&cfg)
	}
	b, err := embedded.New(cfg.Embedded, embedded.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	run(t, b.Run)
	return cfg, Deps{Embedded: b.Addr}
}

// run runs a part until the end of the test.
func run(t *testing.T, part func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- part(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("part ended with: %v", err)
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

func eventually(t *testing.T, check func() error) {
	t.Helper()
	deadline := time.Now().Add(40 * time.Second)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func name(i int) batch.Name { return batch.Name{Edge: "fra1", Epoch: 1, Sequence: uint64(i)} }

func newProducer(t *testing.T, cfg Config, deps Deps) *Producer {
	t.Helper()
	p, err := NewProducer(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestProducer_PutsABatchWhereItsNameSays(t *testing.T) {
	cfg, deps := startEmbedded(t) // the producer may be there before the broker is
	cfg.Partitions = 5
	p := newProducer(t, cfg, deps)
	run(t, p.Run)
	const n = 200
	var calls, failed atomic.Int32
	for i := range n {
		p.Produce(t.Context(), name(i), fmt.Appendf(nil, "%d", i), func(err error) {
			calls.Add(1)
			if err != nil {
				failed.Add(1)
			}
		})
	}
	eventually(t, func() error {
		if calls.Load() < n {
			return fmt.Errorf("%d acknowledged", calls.Load())
		}
		return p.Ready()
	})
	if failed.Load() > 0 || calls.Load() != n {
		t.Errorf("%d calls of done, %d with an error", calls.Load(), failed.Load())
	}
	cl, err := NewClient(cfg, deps, kgo.ConsumeTopics(cfg.RequestsTopic()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for got := 0; got < n; {
		cl.PollFetches(t.Context()).EachRecord(func(r *kgo.Record) {
			got++
			var i int
			if _, err := fmt.Sscan(string(r.Value), &i); err != nil || name(i).Partition(5) != r.Partition {
				t.Errorf("batch %q lies in partition %d", r.Value, r.Partition)
			}
		})
	}
}

func TestProducer_CallsDoneOnceWhateverHappens(t *testing.T) {
	cfg, deps := startEmbedded(t)
	p := newProducer(t, cfg, deps)
	call := func(ctx context.Context, value []byte) error {
		got := make(chan error, 2)
		p.Produce(ctx, name(1), value, func(err error) { got <- err })
		err := <-got
		select {
		case <-got:
			t.Error("done was called twice")
		default:
		}
		return err
	}
	early, cancel := context.WithCancel(t.Context())
	cancel()
	if err := call(early, []byte("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("before Run, with a cancelled context: %v", err)
	}
	stop := run(t, p.Run)
	var p2 interface{ Permanent() bool }
	if err := call(t.Context(), make([]byte, cfg.MaxMessage+1)); !errors.Is(err, ErrTooLarge) || !errors.As(err, &p2) || !p2.Permanent() {
		t.Errorf("too large: %v, want a permanent error", err)
	}
	if err := call(t.Context(), make([]byte, cfg.MaxMessage)); err != nil {
		t.Errorf("as large as allowed: %v", err)
	}
	stop()
	if err := call(t.Context(), []byte("x")); !errors.Is(err, ErrStopped) {
		t.Errorf("after the end: %v", err)
	}
	if err := p.Ready(); !errors.Is(err, ErrStopped) {
		t.Errorf("ready after the end: %v", err)
	}
}

func TestProducer_BlocksWhileTheBusTakesNothing(t *testing.T) {
	cfg, deps := startEmbedded(t, func(c *Config) {
		c.Embedded.MaxBytes = 1 // refuses from the first record on
		c.MaxMessage, c.MaxBuffered = 64*config.KiB, 128*config.KiB
	})
	p := newProducer(t, cfg, deps)
	run(t, p.Run)
	value := make([]byte, 32<<10)
	var handed, acked atomic.Int32
	ctx, cancel := context.WithCancel(t.Context())
	blocked := make(chan struct{})
	go func() {
		defer close(blocked)
		for ctx.Err() == nil {
			p.Produce(ctx, name(int(handed.Load())), value, func(err error) {
				if err == nil {
					acked.Add(1)
				}
			})
			handed.Add(1)
		}
	}()
	// It takes what fits and no more, however long it is asked.
	var last int32 = -1
	eventually(t, func() error {
		time.Sleep(100 * time.Millisecond)
		n := handed.Load() - acked.Load()
		if n != last {
			last = n
			return errors.New("still taking")
		}
		return nil
	})
	if last > 8 {
		t.Errorf("%d records of 32 KiB wait, the bound is 128 KiB", last)
	}
	cancel()
	<-blocked
}

func TestEnsureTopics_SaysWhatIsWrong(t *testing.T) {
	cfg, deps := startEmbedded(t)
	cfg.Partitions = 4
	var cl *kgo.Client
	eventually(t, func() (err error) { cl, err = NewClient(cfg, deps); return err })
	defer cl.Close()
	topics := cfg.Topics()
	got, err := EnsureTopics(t.Context(), cl, topics)
	if err != nil || got["http_requests"].Partitions != 4 || got["http_requests.refused"].Partitions != 1 {
		t.Errorf("created %v, %v", got, err)
	}
	topics[0].Partitions = 9
	if got, err := EnsureTopics(t.Context(), cl, topics); err != nil || got["http_requests"].Partitions != 4 {
		t.Errorf("second time: %v, %v, want the four that are there", got, err)
	}
	_, err = EnsureTopics(t.Context(), cl, []Topic{{Name: "bad name", Partitions: 1}})
	if err == nil || !strings.Contains(err.Error(), "bad name") {
		t.Errorf("invalid name: %v", err)
	}
}

func TestReadLag_RisesWithoutAConsumer(t *testing.T) {
	cfg, deps := startEmbedded(t)
	cfg.Partitions = 4
	p := newProducer(t, cfg, deps)
	run(t, p.Run)
	eventually(t, p.Ready)
	lag := func() PartitionLag {
		t.Helper()
		l, err := ReadLag(t.Context(), cfg, deps, "g", cfg.RequestsTopic())
		if err != nil {
			t.Fatal(err)
		}
		if len(l) != 4 {
			t.Fatalf("lag of %d partitions", len(l))
		}
		return l[name(1).Partition(4)]
	}
	if l := lag(); l.Messages != 0 || l.Seconds != 0 || l.Committed != -1 {
		t.Errorf("empty topic: %+v", l)
	}
	put := func() {
		t.Helper()
		got := make(chan error, 1)
		p.Produce(t.Context(), name(1), []byte("x"), func(err error) { got <- err })
		if err := <-got; err != nil {
			t.Fatal(err)
		}
	}
	put()
	put()
	first := lag()
	if first.Messages != 2 || first.Seconds <= 0 {
		t.Errorf("two records, nobody reads: %+v", first)
	}
	if later := lag(); later.Seconds <= first.Seconds {
		t.Errorf("lag went from %f to %f seconds", first.Seconds, later.Seconds)
	}
	cl, err := NewClient(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	o := make(kadm.Offsets)
	o.AddOffset(cfg.RequestsTopic(), first.Partition, 2, -1)
	if err := kadm.NewClient(cl).CommitAllOffsets(t.Context(), "g", o); err != nil {
		t.Fatal(err)
	}
	if l := lag(); l.Messages != 0 || l.Seconds != 0 || l.Committed != 2 {
		t.Errorf("all committed: %+v", l)
	}
	m, err := NewLagMonitor(cfg, deps, "g", 10*time.Millisecond, cfg.RequestsTopic())
	if err != nil {
		t.Fatal(err)
	}
	run(t, m.Run)
	eventually(t, m.Ready)
	put()
	eventually(t, func() error {
		for _, l := range m.Last() {
			if l.Messages == 1 {
				return nil
			}
		}
		return errors.New("monitor does not see the record")
	})
}

func TestConfig_SeedsAndRules(t *testing.T) {
	good := func(address string, want ...string) {
		t.Helper()
		c := DefaultConfig()
		c.Address = address
		var p config.Problems
		c.Validate(&p)
		got, err := c.seeds(nil)
		if p.Err() != nil || err != nil || strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%s: %v %v %v", address, got, err, p.Err())
		}
	}
	good("embedded", "127.0.0.1:9092")
	good("kafka://a:1", "a:1")
	good("kafka://a:1,b:2", "a:1", "b:2")
	for _, address := range []string{"", "kafka://", "http://a:1", "kafka://a:1,,b:2", "kafka://a/b"} {
		c := DefaultConfig()
		c.Address = address
		var p config.Problems
		c.Validate(&p)
		if err := p.Err(); err == nil || !strings.Contains(err.Error(), "address") {
			t.Errorf("%q: %v", address, err)
		}
	}
	c := DefaultConfig()
	c.SASL = SASL{Mechanism: "plain", User: "u", Password: "secret"}
	var p config.Problems
	c.Validate(&p)
	if err := p.Err(); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("sasl on the embedded broker: %v", err)
	}
}

func TestProducer_SpeaksTLSAndSCRAMToKafka(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a JVM")
	}
	kafka, secure := kafkatest.StartSecure(t, 1)
	cfg := DefaultConfig()
	cfg.Address = "kafka://" + kafka.Addr()
	cfg.TLS = TLS{Enabled: true, CA: secure.CA}
	cfg.SASL = SASL{Mechanism: "scram-sha-512", User: secure.User, Password: config.Secret(secure.Password)}
	p := newProducer(t, cfg, Deps{})
	run(t, p.Run)
	got := make(chan error, 1)
	p.Produce(t.Context(), name(1), []byte("x"), func(err error) { got <- err })
	if err := <-got; err != nil {
		t.Error(err)
	}
	cfg.SASL.Password = "wrong"
	wrong := newProducer(t, cfg, Deps{})
	run(t, wrong.Run)
	eventually(t, func() error {
		if err := wrong.Ready(); err == nil || !strings.Contains(err.Error(), "SASL") {
			return fmt.Errorf("ready with a wrong password: %w", err)
		}
		return nil
	})
}
