package embedded

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/spate-io/spate/internal/config"
)

func benchBroker(b *testing.B, sync bool, partitions int32) *kgo.Client {
	b.Helper()
	cfg := DefaultConfig()
	cfg.Dir, cfg.Listen, cfg.Sync, cfg.MinFree, cfg.RetentionBytes = b.TempDir(), "127.0.0.1:0", sync, 0, 64*config.MiB
	cfg.Hold = nil
	br, err := New(cfg, Deps{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- br.Run(ctx) }()
	b.Cleanup(func() { cancel(); <-done })
	for br.Ready() != nil {
		time.Sleep(time.Millisecond)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(br.Addr()), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(2*time.Millisecond),
		kgo.ProducerBatchMaxBytes(16<<20), kgo.MaxBufferedBytes(64<<20), kgo.ConsumeTopics("t"), kgo.DisableFetchSessions())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(cl.Close)
	size := "67108864"
	if _, err := kadm.NewClient(cl).CreateTopic(ctx, partitions, -1, map[string]*string{"max.message.bytes": &size}, "t"); err != nil {
		b.Fatal(err)
	}
	return cl
}

// BenchmarkBroker_Produce is acks=all with fsync, records of the size of batches.
func BenchmarkBroker_Produce(b *testing.B) {
	for _, sync := range []bool{true, false} {
		for _, size := range []int{16 << 10, 256 << 10} {
			b.Run(fmt.Sprintf("sync_%v/%dKiB", sync, size>>10), func(b *testing.B) {
				cl := benchBroker(b, sync, 4)
				value := make([]byte, size)
				for i := range value {
					value[i] = byte(rand.IntN(256))
				}
				b.SetBytes(int64(size))
				b.ResetTimer()
				for range b.N {
					cl.Produce(context.Background(), &kgo.Record{Topic: "t", Value: value}, func(_ *kgo.Record, err error) {
						if err != nil {
							b.Error(err)
						}
					})
				}
				if err := cl.Flush(context.Background()); err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}

// BenchmarkBroker_Fetch reads the same records back.
func BenchmarkBroker_Fetch(b *testing.B) {
	const size = 256 << 10
	cl := benchBroker(b, false, 1)
	value := make([]byte, size)
	b.SetBytes(size)
	for range b.N {
		cl.Produce(context.Background(), &kgo.Record{Topic: "t", Value: value}, nil)
	}
	if err := cl.Flush(context.Background()); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for n := 0; n < b.N; {
		n += cl.PollFetches(context.Background()).NumRecords()
	}
}

// TestBroker_OpensLargeLogsFast measures memory and the time to open after a kill; SPATE_TEST_LARGE sets the number of
// record batches (100,000 for the figures in ADR 0001).
func TestBroker_OpensLargeLogsFast(t *testing.T) {
	n, size := 5_000, 1000
	if v := os.Getenv("SPATE_TEST_LARGE"); v != "" {
		if _, err := fmt.Sscanf(v, "%d,%d", &n, &size); err != nil {
			t.Fatal(err)
		}
	}
	p := newProcess(t)
	empty := p.start()
	cl := p.client(kgo.ProducerBatchMaxBytes(int32(size)+200), kgo.MaxBufferedRecords(10_000))
	createTopic(t, cl, "t", 4, nil)
	value := make([]byte, size)
	start := time.Now()
	for i := range n {
		cl.Produce(t.Context(), &kgo.Record{Topic: "t", Partition: int32(i % 4), Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	if err := cl.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	took := time.Since(start)
	full := p.memory()
	p.kill()
	killed := p.start()
	t.Logf("%d batches of %d bytes in %s; memory %d MiB; start: empty %s, after kill %s with peak %d MiB (%d CPUs)",
		n, size, took.Round(time.Millisecond), full>>20, empty.Round(time.Millisecond), killed.Round(time.Millisecond), p.memory()>>20, runtime.NumCPU())
	if killed > 10*time.Second {
		t.Errorf("opening took %s", killed)
	}
}

// memory returns the most memory that the process has had resident.
func (p *process) memory() int64 {
	p.t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.t.Skipf("memory: %v", err)
	}
	return statusKB(string(raw), "VmHWM") << 10
}
