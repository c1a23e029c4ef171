package embedded

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/spate-io/spate/internal/config"
)

// TestMain lets the test binary be a broker process that tests can kill.
func TestMain(m *testing.M) {
	if dir := os.Getenv("SPATE_TEST_BROKER_DIR"); dir != "" {
		os.Exit(brokerProcess(dir, os.Getenv("SPATE_TEST_BROKER_LISTEN")))
	}
	os.Exit(m.Run())
}

func brokerProcess(dir, listen string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	cfg := DefaultConfig()
	cfg.Dir, cfg.Listen, cfg.SegmentSize, cfg.MinFree = dir, listen, 256*config.KiB, 0
	cfg.RetentionBytes = 0
	b, err := New(cfg, Deps{Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	go func() {
		for b.Ready() != nil {
			time.Sleep(time.Millisecond)
		}
		fmt.Println("ready", b.Addr())
	}()
	if err := b.Run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// newProcess picks a directory and a port that stay the same through restarts.
func newProcess(t *testing.T) *process {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	p := &process{t: t, dir: t.TempDir(), listen: ln.Addr().String()}
	t.Cleanup(p.kill)
	return p
}

func (p *process) client(opts ...kgo.Opt) *kgo.Client {
	p.t.Helper()
	return client(p.t, p.listen, opts...)
}

func createTopic(t *testing.T, cl *kgo.Client, topic string, partitions int32, configs map[string]*string) {
	t.Helper()
	if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), partitions, -1, configs, topic); err != nil {
		t.Fatal(err)
	}
}

// readAll returns, by value, where each record of a topic lies.
func readAll(t *testing.T, addr, topic string, partitions int32) map[string][]place {
	t.Helper()
	cl := client(t, addr)
	adm := kadm.NewClient(cl)
	ends, err := adm.ListEndOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	starts, err := adm.ListStartOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	from := make(map[int32]kgo.Offset)
	left := 0
	for p := range partitions {
		s, _ := starts.Lookup(topic, p)
		e, _ := ends.Lookup(topic, p)
		if e.Offset > s.Offset {
			from[p] = kgo.NewOffset().At(s.Offset)
			left += int(e.Offset - s.Offset)
		}
	}
	out := make(map[string][]place)
	if left == 0 {
		return out
	}
	reader := client(t, addr, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for left > 0 {
		f := reader.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("%d records cannot be read", left)
		}
		f.EachRecord(func(r *kgo.Record) {
			out[string(r.Value)] = append(out[string(r.Value)], place{r.Partition, r.Offset})
			left--
		})
	}
	return out
}

// inProcess runs a broker in this process until stop is called.
func inProcess(t *testing.T, change func(*Config)) (b *Broker, stop func()) {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Listen, cfg.MinFree, cfg.Sync, cfg.CheckEvery = "127.0.0.1:0", 0, false, config.Duration(20*time.Millisecond)
	cfg.SegmentSize = 64 * config.KiB
	change(&cfg)
	b, err := New(cfg, Deps{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("broker ended with: %v", err)
			}
		})
	}
	t.Cleanup(stop)
	waitFor(t, func() error { return b.Ready() })
	return b, stop
}

func waitFor(t *testing.T, check func() error) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
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

func fill(t *testing.T, cl *kgo.Client, topic string, n int) {
	t.Helper()
	value := []byte(strings.Repeat("v", 10_000))
	for range n {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: value}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

func offsets(t *testing.T, cl *kgo.Client, topic string) (start, end int64) {
	t.Helper()
	adm := kadm.NewClient(cl)
	s, err := adm.ListStartOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	e, err := adm.ListEndOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	so, _ := s.Lookup(topic, 0)
	eo, _ := e.Lookup(topic, 0)
	return so.Offset, eo.Offset
}

// statusKB returns a line of /proc/PID/status that is in kB.
func statusKB(status, key string) int64 {
	for line := range strings.Lines(status) {
		if rest, ok := strings.CutPrefix(line, key+":"); ok {
			var n int64
			if _, err := fmt.Sscan(rest, &n); err == nil {
				return n
			}
		}
	}
	return 0
}

func appendTo(t *testing.T, path string, b []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(b); err != nil {
		t.Fatal(err)
	}
}
