package embedded

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/spate-io/spate/internal/config"
)

// process is a broker in a process of its own.
type process struct {
	t      *testing.T
	dir    string
	listen string
	cmd    *exec.Cmd
}

// start returns when the broker is ready, and how long that took.
func (p *process) start() time.Duration {
	p.t.Helper()
	began := time.Now()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "SPATE_TEST_BROKER_DIR="+p.dir, "SPATE_TEST_BROKER_LISTEN="+p.listen)
	if testing.Verbose() {
		cmd.Stderr = os.Stderr
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.cmd = cmd
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "ready") {
		p.t.Fatalf("broker does not start: %q %v", line, err)
	}
	return time.Since(began)
}

func (p *process) end(sig os.Signal) {
	if p.cmd != nil {
		_ = p.cmd.Process.Signal(sig)
		_ = p.cmd.Wait()
		p.cmd = nil
	}
}

func (p *process) kill() { p.end(syscall.SIGKILL) }

func client(t *testing.T, addr string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(addr), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerLinger(time.Millisecond), kgo.UnknownTopicRetries(-1), kgo.MetadataMinAge(20 * time.Millisecond), kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// place is where the broker said that a record lies.
type place struct {
	partition int32
	offset    int64
}

func TestBroker_KeepsAcknowledgedRecordsThroughKill(t *testing.T) {
	const topic, partitions, kills = "http_requests", 3, 8
	p := newProcess(t)
	p.start()
	cl := p.client()
	createTopic(t, cl, topic, partitions, nil)

	var (
		mu     sync.Mutex
		acked  = make(map[string]place)
		failed int
		quit   = make(chan struct{})
		work   sync.WaitGroup
		rnd    = rand.New(rand.NewPCG(1, uint64(os.Getpid())))
		filler = strings.Repeat("x", 2000)
	)
	for part := range int32(partitions) {
		work.Go(func() {
			var open sync.WaitGroup
			defer open.Wait()
			window := make(chan struct{}, 16)
			for i := 0; ; i++ {
				select {
				case <-quit:
					return
				case window <- struct{}{}:
				}
				open.Add(1)
				cl.Produce(context.Background(), &kgo.Record{Topic: topic, Partition: part, Value: fmt.Appendf(nil, "%d-%d-%s", part, i, filler)}, func(r *kgo.Record, err error) {
					defer open.Done()
					<-window
					mu.Lock()
					defer mu.Unlock()
					if err != nil {
						failed++
						return
					}
					acked[string(r.Value)] = place{r.Partition, r.Offset}
				})
			}
		})
	}
	adm := kadm.NewClient(p.client())
	for round := range kills {
		var committed kadm.Offsets
		deadline := time.Now().Add(time.Duration(50+rnd.IntN(250)) * time.Millisecond)
		for time.Now().Before(deadline) { // commits go on until the kill; the last acknowledged one must be there
			next := make(kadm.Offsets)
			next.Add(kadm.Offset{Topic: topic, Partition: 1, At: int64(round*1000) + rnd.Int64N(1000), LeaderEpoch: -1, Metadata: fmt.Sprintf("spate1 %d-%d", round, rnd.Int64())})
			if err := adm.CommitAllOffsets(t.Context(), "g", next); err != nil {
				t.Fatal(err)
			}
			committed = next
		}
		p.kill()
		p.start()
		got, err := adm.FetchOffsets(t.Context(), "g")
		if err != nil {
			t.Fatal(err)
		}
		want, _ := committed.Lookup(topic, 1)
		if o, _ := got.Lookup(topic, 1); o.At != want.At || o.Metadata != want.Metadata {
			t.Fatalf("kill %d: group has %d %q, committed were %d %q", round, o.At, o.Metadata, want.At, want.Metadata)
		}
	}
	close(quit)
	work.Wait()
	p.end(syscall.SIGTERM) // and through a clean stop
	p.start()
	there := readAll(t, p.listen, topic, partitions)
	lost, moved, doubled := 0, 0, 0
	for v, at := range acked {
		switch got := there[v]; {
		case len(got) == 0:
			lost++
		case len(got) > 1:
			doubled++
		case got[0] != at:
			moved++
		}
	}
	t.Logf("%d kills, %d records acknowledged, %d failed, %d lost, %d moved, %d doubled", kills, len(acked), failed, lost, moved, doubled)
	if len(acked) < 100 || lost+moved+doubled+failed > 0 {
		t.Errorf("%d acknowledged: %d lost, %d moved, %d doubled, %d failed", len(acked), lost, moved, doubled, failed)
	}
}

func TestBroker_CutsTornTailsAndKeepsThem(t *testing.T) {
	const topic = "http_requests"
	p := newProcess(t)
	p.start()
	cl := p.client()
	createTopic(t, cl, topic, 1, nil)
	put := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: fmt.Appendf(nil, "r%d", i)}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	commit := func(at int64, metadata string) {
		t.Helper()
		o := make(kadm.Offsets)
		o.Add(kadm.Offset{Topic: topic, At: at, LeaderEpoch: -1, Metadata: metadata})
		if err := kadm.NewClient(cl).CommitAllOffsets(t.Context(), "g", o); err != nil {
			t.Fatal(err)
		}
	}
	put(0, 20)
	commit(5, "first")
	p.kill()
	segment := filepath.Join(p.dir, "partitions", topic+"-0", "0.dat")
	whole, err := os.ReadFile(segment)
	if err != nil {
		t.Fatal(err)
	}
	// Half of a record batch, and half of a group's entry, as a power cut leaves them.
	appendTo(t, segment, whole[:len(whole)/40])
	appendTo(t, filepath.Join(p.dir, "groups.log"), []byte{40, 0, 0, 0, 1, 2, 3, 4, 1, 0, '{'})
	p.start()
	put(20, 30)
	commit(25, "second")
	p.kill()
	p.start()
	there := readAll(t, p.listen, topic, 1)
	for i := range 30 {
		if got := there[fmt.Sprintf("r%d", i)]; len(got) != 1 || got[0].offset != int64(i) {
			t.Errorf("record %d lies at %v", i, got)
		}
	}
	got, err := kadm.NewClient(cl).FetchOffsets(t.Context(), "g")
	if err != nil {
		t.Fatal(err)
	}
	if o, _ := got.Lookup(topic, 0); o.At != 25 || o.Metadata != "second" {
		t.Errorf("group has %d %q, want 25 second: what came after the torn entry is lost", o.At, o.Metadata)
	}
	tails, err := filepath.Glob(filepath.Join(p.dir, "quarantine", "*.tail"))
	if err != nil || len(tails) != 2 {
		t.Errorf("quarantine has %v, want two tails (%v)", tails, err)
	}
}

func TestBroker_RetentionBoundsDiskAndNeverRewindsOffsets(t *testing.T) {
	dir := t.TempDir()
	change := func(c *Config) { c.Dir, c.RetentionBytes, c.Hold = dir, 128*config.KiB, nil }
	b, stop := inProcess(t, change)
	cl := client(t, b.Addr())
	createTopic(t, cl, "bytes", 1, nil)
	ms := "1"
	createTopic(t, cl, "age", 1, map[string]*string{"retention.ms": &ms})
	fill(t, cl, "bytes", 60)
	fill(t, cl, "age", 30)
	waitFor(t, func() error {
		for topic, limit := range map[string]int64{"bytes": 200_000, "age": 140_000} {
			segs, err := listSegments(filepath.Join(dir, "partitions", topic+"-0"))
			if err != nil {
				return err
			}
			var n int64
			for _, s := range segs {
				n += s.size
			}
			if n > limit {
				return fmt.Errorf("%s has %d bytes in %d segments", topic, n, len(segs))
			}
		}
		return nil
	})
	stop()
	b, _ = inProcess(t, change)
	cl = client(t, b.Addr())
	for topic, want := range map[string]int64{"bytes": 60, "age": 30} {
		if start, end := offsets(t, cl, topic); end != want || start == 0 {
			t.Errorf("%s goes from %d to %d after a restart, want an end of %d", topic, start, end, want)
		}
	}
}

func TestBroker_KeepsWhatAGroupHasNotRead(t *testing.T) {
	dir := t.TempDir()
	b, _ := inProcess(t, func(c *Config) {
		c.Dir, c.RetentionBytes, c.MaxBytes = dir, 64*config.KiB, 400*config.KiB
		c.Hold = map[string][]string{"http_requests": {"spate-load"}}
	})
	cl := client(t, b.Addr())
	createTopic(t, cl, "http_requests", 1, nil)
	fill(t, cl, "http_requests", 45)
	// The disk bound is reached with nothing read: new records must wait, not push old ones out.
	waitFor(t, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		err := client(t, b.Addr()).ProduceSync(ctx, &kgo.Record{Topic: "http_requests", Value: []byte("late")}).FirstErr()
		if err == nil {
			return errors.New("the broker still takes records")
		}
		return nil
	})
	start, end := offsets(t, cl, "http_requests")
	if start != 0 {
		t.Fatalf("records up to %d are gone that nobody has read", start)
	}
	o := make(kadm.Offsets)
	o.AddOffset("http_requests", 0, end, -1)
	if err := kadm.NewClient(cl).CommitAllOffsets(t.Context(), "spate-load", o); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() error {
		if start, _ := offsets(t, cl, "http_requests"); start == 0 {
			return errors.New("nothing deleted after the group has read all")
		}
		return nil
	})
	fill(t, cl, "http_requests", 1) // and there is room again
}

func TestBroker_DeletingAllRecordsDoesNotRewindOffsets(t *testing.T) {
	p := newProcess(t)
	p.start()
	cl := p.client()
	createTopic(t, cl, "t", 1, nil)
	fill(t, cl, "t", 40)
	all := make(kadm.Offsets)
	all.AddOffset("t", 0, -1, -1)
	resp, err := kadm.NewClient(cl).DeleteRecords(t.Context(), all)
	if err == nil {
		err = resp.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, sig := range []os.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		p.end(sig)
		p.start()
		if start, end := offsets(t, cl, "t"); end != 40 || start == 0 {
			t.Errorf("after %v the log goes from %d to %d, want an end of 40", sig, start, end)
		}
	}
}

func TestBroker_OneProcessPerDirectory(t *testing.T) {
	dir := t.TempDir()
	inProcess(t, func(c *Config) { c.Dir = dir })
	cfg := DefaultConfig()
	cfg.Dir, cfg.Listen = dir, "127.0.0.1:0"
	second, err := New(cfg, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("second broker on the directory: %v", err)
	}
}
