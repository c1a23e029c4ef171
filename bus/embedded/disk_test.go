package embedded

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A disk that is full although MinFree should have prevented it: what the broker has acknowledged is there, what it
// refused may be sent again, and after space is made it goes on.
func TestBroker_FullDiskLosesNothingAcknowledged(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=6m"); err != nil {
		t.Skipf("cannot mount a small file system here: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 3<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	p := newProcess(t)
	p.dir = filepath.Join(dir, "bus")
	p.start()
	cl := p.client(kgo.RecordRetries(3))
	createTopic(t, cl, "t", 1, nil)
	acked := make(map[string]place)
	put := func(i int) error {
		r := &kgo.Record{Topic: "t", Value: []byte(fmt.Sprintf("%d-", i) + strings.Repeat("x", 50_000))}
		err := cl.ProduceSync(t.Context(), r).FirstErr()
		if err == nil {
			acked[string(r.Value)] = place{r.Partition, r.Offset}
		}
		return err
	}
	failed := 0
	for i := 0; failed < 5 && i < 1000; i++ {
		if put(i) != nil {
			failed++
		}
	}
	if failed == 0 {
		t.Fatal("the disk never got full")
	}
	commit := func(at int64) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		o := make(kadm.Offsets)
		o.AddOffset("t", 0, at, -1)
		return kadm.NewClient(cl).CommitAllOffsets(ctx, "g", o)
	}
	if err := commit(7); err == nil {
		t.Error("a commit is acknowledged that cannot be written")
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for i := 2000; put(i) != nil; i++ {
		if time.Now().After(deadline) {
			t.Fatal("no record is taken although there is space")
		}
	}
	check := func(when string) {
		t.Helper()
		there := readAll(t, p.listen, "t", 1)
		for v, at := range acked {
			if got := there[v]; len(got) != 1 || got[0] != at {
				t.Errorf("%s: record %s was acknowledged at %v and lies at %v", when, v[:6], at, got)
			}
		}
	}
	for err := commit(8); err != nil; err = commit(8) {
		if time.Now().After(deadline) {
			t.Fatalf("no commit is taken although there is space: %v", err)
		}
	}
	check("before the restart")
	p.kill()
	p.start()
	check("after a kill")
	got, err := kadm.NewClient(cl).FetchOffsets(t.Context(), "g")
	if o, _ := got.Lookup("t", 0); err != nil || o.At != 8 {
		t.Errorf("group has %d, committed were 8 (%v)", o.At, err)
	}
}
