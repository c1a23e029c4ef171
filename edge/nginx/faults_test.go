package nginx_test

import (
	"fmt"
	"regexp"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/spate-io/spate/edge/forward/forwardtest"
	"github.com/spate-io/spate/edge/nginx"
)

const oneWorker = "worker_processes 1;\nevents { worker_connections 256; }"

// simple is one server that answers everything with a small file.
func simple(port int) string {
	return fmt.Sprintf(`
keepalive_requests 100000;
access_log off;
server { listen 127.0.0.1:%d; root html; include {{dir}}/spate/conf/spate_log.conf; }`, port)
}

func auto() *forwardtest.Sink {
	s := forwardtest.New()
	s.Auto = true
	return s
}

func wait(t *testing.T, sink *forwardtest.Sink, want int) {
	t.Helper()
	eventually(t, "all events are there", func() error {
		if n, d := count(sink); n+d != want {
			return fmt.Errorf("%d events and %d dropped of %d", n, d, want)
		}
		return nil
	})
}

func TestModule_KeepsEventsWhileForwarderIsAway(t *testing.T) {
	port := ports(t, 1)[0]
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	s := start(t, oneWorker, simple(port), nginx.Options{})
	s.run(t, addr)
	get(t, addr, 2000) // nobody listens yet

	lazy := forwardtest.New() // takes frames and never says that they are on disk
	stop := s.listen(t, lazy)
	wait(t, lazy, 2000)
	get(t, addr, 500)
	wait(t, lazy, 2500)
	stop()
	get(t, addr, 500) // away again

	// A forwarder that had lost all: every frame is sent again.
	fresh := forwardtest.New()
	stop = s.listen(t, fresh)
	wait(t, fresh, 3000)
	stop()

	// One that still has all: nothing is sent again, and what it has on disk is acknowledged.
	fresh.Sync()
	s.listen(t, fresh)
	get(t, addr, 1)
	wait(t, fresh, 3001)
	if _, duplicates := fresh.Chunks(); duplicates != 0 {
		t.Errorf("%d frames were sent again to a forwarder that had them", duplicates)
	}
	if _, d := count(fresh); d != 0 {
		t.Errorf("%d events dropped", d)
	}
}

func TestModule_FullBufferCountsWhatItDrops(t *testing.T) {
	port := ports(t, 1)[0]
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	s := start(t, oneWorker, simple(port), nginx.Options{Buffer: "1m"})
	s.run(t, addr)
	get(t, addr, 5000)
	sink := auto()
	s.listen(t, sink)
	wait(t, sink, 5000)
	kept, dropped := count(sink)
	if dropped == 0 || kept < 1500 {
		t.Errorf("kept %d, dropped %d: want a full megabyte kept and the rest dropped", kept, dropped)
	}
	for n := 5500; n <= 8000; n += 500 { // in portions that the buffer holds
		get(t, addr, 500)
		wait(t, sink, n)
	}
	if _, d := count(sink); d != dropped {
		t.Errorf("%d more dropped though the buffer was empty", d-dropped)
	}
}

func TestModule_ReloadAndQuitLoseNothing(t *testing.T) {
	port := ports(t, 1)[0]
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	s := start(t, "worker_processes 2;\nevents { worker_connections 256; }", simple(port), nginx.Options{})
	sink := auto()
	s.listen(t, sink)
	s.run(t, addr)
	var sent atomic.Int64
	var clients sync.WaitGroup
	stop := make(chan struct{})
	for range 3 {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := request(addr, 50); err != nil {
					t.Error(err)
					return
				}
				sent.Add(50)
			}
		})
	}
	for i := range 3 {
		before := sent.Load()
		eventually(t, "some requests pass", func() error {
			if sent.Load() < before+500 {
				return fmt.Errorf("round %d: %d requests", i, sent.Load())
			}
			return nil
		})
		s.signal(syscall.SIGHUP)
	}
	close(stop)
	clients.Wait()
	get(t, addr, 7)
	s.quit(t)
	if n, d := count(sink); n != int(sent.Load())+7 || d != 0 {
		t.Errorf("%d events and %d dropped after quit, %d requests were answered", n, d, sent.Load()+7)
	}
}

func TestModule_KilledWorkerLosesOnlyItsMemory(t *testing.T) {
	port := ports(t, 1)[0]
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	s := start(t, oneWorker, simple(port), nginx.Options{})
	sink := auto()
	s.listen(t, sink)
	s.run(t, addr)
	get(t, addr, 1000)
	wait(t, sink, 1000)
	workers := s.workers(t)
	if len(workers) != 1 {
		t.Fatalf("workers: %v", workers)
	}
	if err := syscall.Kill(workers[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a new worker is there", func() error {
		if now := s.workers(t); len(now) != 1 || now[0] == workers[0] {
			return fmt.Errorf("workers %v", now)
		}
		return nil
	})
	get(t, addr, 1000)
	wait(t, sink, 2000)
	streams := map[[16]byte]bool{}
	chunks, duplicates := sink.Chunks()
	for _, c := range chunks {
		streams[c.Origin.Stream] = true
	}
	if len(streams) != 2 || duplicates != 0 {
		t.Errorf("%d streams and %d duplicates, want 2 and 0", len(streams), duplicates)
	}
}

func TestModule_GivesEveryRequestAnIDOfItsOwn(t *testing.T) {
	port := ports(t, 1)[0]
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	s := start(t, "worker_processes 2;\nevents { worker_connections 256; }", simple(port), nginx.Options{})
	sink := auto()
	s.listen(t, sink)
	s.run(t, addr)
	for range 4 {
		get(t, addr, 700)
	}
	wait(t, sink, 2800)
	seen := map[string]bool{}
	events, _ := received(t, sink)
	for _, e := range events {
		seen[string(e.RayID)] = true
		if !hexID.Match(e.RayID) {
			t.Fatalf("id %q", e.RayID)
		}
	}
	if len(seen) != len(events) {
		t.Errorf("%d ids for %d requests", len(seen), len(events))
	}
}

var hexID = regexp.MustCompile("^[0-9a-f]{32}$")

func TestModule_ServesWithoutItsFilesAndWithWrongOptions(t *testing.T) {
	for name, o := range map[string]nginx.Options{
		"wrong_edge":   {Edge: "Not An Edge"},
		"wrong_buffer": {Buffer: "lots"},
	} {
		t.Run(name, func(t *testing.T) {
			port := ports(t, 1)[0]
			addr := fmt.Sprintf("127.0.0.1:%d", port)
			s := start(t, oneWorker, simple(port), o)
			sink := auto()
			s.listen(t, sink)
			s.run(t, addr)
			get(t, addr, 10)
			s.quit(t)
			if n, _ := count(sink); n != 0 {
				t.Errorf("%d events with options that are wrong", n)
			}
		})
	}
	t.Run("no_files", func(t *testing.T) {
		port := ports(t, 1)[0]
		addr := fmt.Sprintf("127.0.0.1:%d", port)
		s := start(t, oneWorker, simple(port), nginx.Options{})
		s.write(t, "spate/lua/spate.lua", "error('damaged')")
		s.run(t, addr)
		get(t, addr, 10)
	})
}
