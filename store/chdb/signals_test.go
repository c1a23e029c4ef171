package chdb_test

import (
	"bytes"
	"context"
	"os"
	"os/signal"
	"runtime/pprof"
	"syscall"
	"testing"
	"time"

	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/chdb/chdbtest"
)

// The engine would take over handlers that Go cannot do without.
func TestOpen_LeavesGoItsSignals(t *testing.T) {
	var profile bytes.Buffer
	if err := pprof.StartCPUProfile(&profile); err != nil {
		t.Fatal(err)
	}
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(term)

	db := chdbtest.Open(t)
	check := func(when string) {
		t.Helper()
		for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
			if err := syscall.Kill(os.Getpid(), s); err != nil {
				t.Fatal(err)
			}
			select {
			case got := <-term:
				if got != s {
					t.Errorf("%s: got %s, want %s", when, got, s)
				}
			case <-time.After(5 * time.Second):
				t.Errorf("%s: %s did not arrive", when, s)
			}
		}
		if !recovered() {
			t.Errorf("%s: a nil dereference was no panic", when)
		}
	}
	check("after open")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = db.Exec(ctx, store.Query{SQL: "SELECT sum(sipHash64(number)) FROM numbers(100000000000)"})
	}()
	for range 20 {
		check("under load")
	}
	spin() // a loop without calls ends only when preemption works
	cancel()
	<-done
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	check("after close")
	pprof.StopCPUProfile()
	if profile.Len() == 0 {
		t.Error("the profile is empty")
	}
}

// recovered dereferences nil, which Go turns into a panic by way of SIGSEGV.
func recovered() (ok bool) {
	defer func() { ok = recover() != nil }()
	var p *struct{ n int }
	p.n++
	return false
}

// spin keeps this goroutine busy while another one needs to be scheduled by SIGURG.
func spin() {
	stop := time.Now().Add(50 * time.Millisecond)
	n := 0
	for time.Now().Before(stop) {
		for i := range 1_000_000 {
			n += i
		}
	}
	_ = n
}
