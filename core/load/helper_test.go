package load

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/spate-io/spate/bus"
	"github.com/spate-io/spate/bus/embedded"
	"github.com/spate-io/spate/event"
	"github.com/spate-io/spate/event/batch"
	"github.com/spate-io/spate/internal/config"
	"github.com/spate-io/spate/store"
)

// testLog prints when tests run with -v and SPATE_TEST_LOG=1.
func testLog() *slog.Logger {
	if os.Getenv("SPATE_TEST_LOG") == "" {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(os.Stderr, nil))
}

// startBus runs an embedded broker for the test and returns a configuration that reaches it.
func startBus(t testing.TB, partitions int32) bus.Config {
	t.Helper()
	cfg := embedded.DefaultConfig()
	cfg.Dir, cfg.Listen, cfg.Sync, cfg.MinFree = t.TempDir(), "127.0.0.1:0", false, 0
	b, err := embedded.New(cfg, embedded.Deps{Logger: testLog()})
	if err != nil {
		t.Fatal(err)
	}
	background(t, b.Run)
	waitFor(t, "broker", b.Ready)
	out := bus.DefaultConfig()
	out.Address, out.Partitions = "kafka://"+b.Addr(), partitions
	return out
}

// background runs a part until the end of the test, or until stop is called, which waits for it.
func background(t testing.TB, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			select {
			case err := <-done:
				if err != nil {
					t.Errorf("part ended with: %v", err)
				}
			case <-time.After(30 * time.Second):
				t.Error("part does not end")
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

// waitFor polls until check gives nil.
func waitFor(t testing.TB, what string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(40 * time.Second)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// edge produces batches of numbered events, as a gateway does, into partitions of the test's choice.
type edge struct {
	t    testing.TB
	cfg  bus.Config
	cl   *kgo.Client
	enc  *batch.Encoder
	name string

	mu   sync.Mutex
	seq  uint64
	sent map[string]int // event id -> times it must be stored
}

func newEdge(t testing.TB, cfg bus.Config, name string) *edge {
	t.Helper()
	enc, err := batch.NewEncoder(batch.Zstd, 1)
	if err != nil {
		t.Fatal(err)
	}
	cl, err := bus.NewClient(cfg, bus.Deps{}, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	if _, err := bus.EnsureTopics(context.Background(), cl, cfg.Topics()); err != nil {
		t.Fatal(err)
	}
	return &edge{t: t, cfg: cfg, cl: cl, enc: enc, name: name, sent: make(map[string]int)}
}

// seal makes the next batch with n events.
func (e *edge) seal(n int) []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seq++
	h := batch.Header{Type: batch.HTTPRequests, Codec: batch.Zstd, Name: batch.Name{Edge: e.name, Epoch: 1, Sequence: e.seq}, Events: uint32(n), Dropped: 1}
	var raw []byte
	for i := range n {
		id := fmt.Sprintf("%s-%d-%d", e.name, e.seq, i)
		at := time.Now().UnixNano()
		if i == 0 {
			h.First = at
		}
		h.Last = at
		ev := event.HTTP{EdgeStartTimestamp: at, RayID: []byte(id), ClientRequestPath: []byte("/")}
		raw = ev.Append(raw)
		e.sent[id] = 1
	}
	b, err := e.enc.Encode(nil, h, raw)
	if err != nil {
		e.t.Fatal(err)
	}
	return b
}

// put produces values into a partition and returns when they are durable.
func (e *edge) put(partition int32, values ...[]byte) {
	e.t.Helper()
	for _, v := range values {
		err := e.cl.ProduceSync(context.Background(), &kgo.Record{Topic: e.cfg.RequestsTopic(), Partition: partition, Value: v}).FirstErr()
		if err != nil {
			e.t.Fatal(err)
		}
	}
}

// forget takes the events of a batch out of what must be stored.
func (e *edge) forget(value []byte) {
	h, _, err := batch.ParseHeader(value)
	if err != nil {
		e.t.Fatal(err)
	}
	for i := range h.Events {
		delete(e.sent, fmt.Sprintf("%s-%d-%d", e.name, h.Name.Sequence, i))
	}
}

// sumsTable is the second table that the blocks of ids go to.
const sumsTable = "sums"

// ids is a Builder whose block is the list of its events' ids, which goes to two tables.
type ids struct {
	list []string
}

func (b *ids) Reset() { b.list = b.list[:0] }

func (b *ids) Add(h *batch.Header, raw []byte) error {
	mark := len(b.list)
	n, err := event.Walk(raw, func(v event.View) error {
		b.list = append(b.list, string(v.RayID()))
		return nil
	})
	if err == nil && n != int(h.Events) {
		err = fmt.Errorf("%d events, header says %d", n, h.Events)
	}
	if err != nil {
		b.list = b.list[:mark]
	}
	return err
}

func (b *ids) Rows() int { return len(b.list) }

func (b *ids) Inserts(token string) []store.Insert {
	block := []byte(strings.Join(b.list, "\n"))
	sums := store.Insert{Table: sumsTable, Block: block}
	if token != "" {
		sums.Token = token + "/sums"
	}
	return []store.Insert{{Table: "events", Block: block, Token: token}, sums}
}

// memory is a store that remembers tokens as ClickHouse does, and fails as it is told to.
type memory struct {
	mu     sync.Mutex
	tokens map[string]bool
	rows   map[string]int
	sums   map[string]int
	calls  []store.Insert
	// fault is asked before (stored false) and after (stored true) each insert.
	fault func(call int, in store.Insert, stored bool) error
}

func newMemory() *memory {
	return &memory{tokens: make(map[string]bool), rows: make(map[string]int), sums: make(map[string]int)}
}

func (m *memory) Insert(ctx context.Context, in store.Insert) error {
	in.Block = append([]byte(nil), in.Block...)
	m.mu.Lock()
	m.calls = append(m.calls, in)
	call, fault := len(m.calls), m.fault
	m.mu.Unlock()
	if fault != nil {
		if err := fault(call, in, false); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	if in.Token == "" || !m.tokens[in.Token] {
		m.tokens[in.Token] = true
		rows := m.rows
		if in.Table == sumsTable {
			rows = m.sums
		}
		for id := range strings.SplitSeq(string(in.Block), "\n") {
			rows[id]++
		}
	}
	m.mu.Unlock()
	if fault != nil {
		return fault(call, in, true)
	}
	return nil
}

// holds says how the stored rows differ from what must be there.
func (m *memory) holds(edges ...*edge) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	missing, doubled, strange, want := 0, 0, 0, 0
	example := ""
	for _, e := range edges {
		e.mu.Lock()
		want += len(e.sent)
		for id := range e.sent {
			rows, sums := m.rows[id], m.sums[id]
			switch {
			case rows == 0 || sums == 0:
				missing++
				example = id
			case rows > 1 || sums > 1:
				doubled++
				example = id
			}
		}
		e.mu.Unlock()
	}
	strange = max(len(m.rows)-want+missing, 0)
	if missing+doubled+strange == 0 {
		return nil
	}
	return fmt.Errorf("of %d events %d missing, %d doubled, %d not asked for (%s)", want, missing, doubled, strange, example)
}

// testConfig is quick.
func testConfig() Config {
	cfg := DefaultConfig()
	cfg.Parallel = 2
	cfg.Block.MaxEvents = 40
	cfg.Block.MaxDelay = config.Duration(10 * time.Millisecond)
	cfg.Retry.Min, cfg.Retry.Max = config.Duration(time.Millisecond), config.Duration(20*time.Millisecond)
	cfg.SessionTimeout = config.Duration(6 * time.Second)
	cfg.Drain = config.Duration(2 * time.Second)
	cfg.Window.SaveEvery = config.Duration(20 * time.Millisecond)
	return cfg
}

func newLoader(t testing.TB, cfg Config, busCfg bus.Config, db Store, change ...func(*Deps)) *Loader {
	t.Helper()
	deps := Deps{Logger: testLog(), Bus: busCfg, Store: db, Builder: func() (Builder, error) { return &ids{}, nil }}
	for _, f := range change {
		f(&deps)
	}
	l, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// crash leaves all of the loader's work where it is, as a kill does, but for leaving the group, so that tests need not
// wait for a session to time out.
func (l *Loader) crash() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.workers {
		w.cancel()
	}
}

var errBoom = errors.New("boom")

func sortStrings(s []string) { slices.Sort(s) }
