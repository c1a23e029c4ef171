package chdb_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/chdb"
	"github.com/spate-io/spate/store/chdb/chdbtest"
)

const endless = "SELECT sum(sipHash64(number)) FROM numbers_mt(1000000000000)"

// Background queries have threads with a nice value, others do not, and Go's own threads keep none of it.
func TestBackground_IsNiceAndNothingElseIs(t *testing.T) {
	if !chdb.MayNice() {
		t.Skip("this process lacks CAP_SYS_NICE")
	}
	db := chdbtest.Open(t)
	ctx, cancel := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	for _, priority := range []store.Priority{store.Background, store.Interactive} {
		ended.Go(func() {
			if _, err := db.Stream(ctx, store.Query{SQL: endless, Priority: priority, Settings: map[string]string{"max_threads": "2"}}, io.Discard); ctx.Err() == nil {
				t.Errorf("the query ended by itself: %v", err)
			}
		})
	}
	waitFor(t, "both nice values among the engine's threads", func() bool { return threads(t, engineThread)[10] > 0 && threads(t, engineThread)[-1] > 0 })
	cancel()
	ended.Wait()
	for range 6 { // an answer in pieces is many calls, which Go makes from wherever the goroutine is
		ended.Go(func() {
			q := store.Query{SQL: "SELECT number FROM numbers(1000000)", Priority: store.Background}
			if _, err := db.Stream(t.Context(), q, slowly{}); err != nil {
				t.Error(err)
			}
		})
	}
	ended.Wait()
	waitFor(t, "no Go thread with the nice value", func() bool { return threads(t, goThread)[10] == 0 })
}

// The first table is made in the background, as by a migration. What the engine starts with it is not nice.
func TestBackground_MergesAreNotNice(t *testing.T) {
	if !chdb.MayNice() {
		t.Skip("this process lacks CAP_SYS_NICE")
	}
	db := chdbtest.Open(t)
	for _, sql := range []string{"CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a", "INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)", "OPTIMIZE TABLE t FINAL"} {
		if err := db.Exec(t.Context(), store.Query{SQL: sql, Priority: store.Background}); err != nil {
			t.Fatal(err)
		}
	}
	merging := 0
	for _, th := range allThreads(t) {
		if strings.HasPrefix(th.name, "MergeMutate") || th.name == "Common" {
			merging++
			if th.nice > 0 {
				t.Errorf("thread %s has nice value %d", th.name, th.nice)
			}
		}
	}
	if merging == 0 {
		t.Errorf("no thread merges: %v", allThreads(t))
	}
}

// Without the right to nice values, priorities do it.
func TestBackground_WithoutTheRightHasAPriority(t *testing.T) {
	cfg := chdb.DefaultConfig()
	cfg.Path = t.TempDir()
	opened := make(chan *chdb.DB)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread that lost the right ends with this goroutine
		if err := dropNice(); err != nil {
			t.Error(err)
		}
		db, err := chdb.Open(context.Background(), cfg, chdb.Deps{})
		if err != nil {
			t.Error(err)
		}
		opened <- db
	}()
	db := <-opened
	if db == nil {
		t.FailNow()
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	for priority, want := range map[store.Priority]string{store.Interactive: "0", store.Scan: "2", store.Background: "2"} {
		var got bytes.Buffer
		_, err := db.Stream(t.Context(), store.Query{SQL: "SELECT getSetting('priority')", Priority: priority}, &got)
		if err != nil || strings.TrimSpace(got.String()) != want {
			t.Errorf("%v: priority %q, %v, want %s", priority, got.String(), err, want)
		}
	}
	if err := db.Exec(t.Context(), store.Query{SQL: "CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a"}); err != nil {
		t.Fatal(err)
	}
	raw := store.Query{SQL: "INSERT INTO t (a)", Format: "CSV", Settings: map[string]string{"insert_deduplication_token": "x"}}
	if _, err := db.InsertRaw(t.Context(), raw, strings.NewReader("1\n")); err != nil {
		t.Error(err)
	}
}

func dropNice() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err
	}
	data[0].Effective &^= 1 << unix.CAP_SYS_NICE
	return unix.Capset(&header, &data[0])
}

// slowly is a reader that lets other goroutines run.
type slowly struct{}

func (slowly) Write(b []byte) (int, error) {
	time.Sleep(time.Millisecond)
	return len(b), nil
}

const (
	goThread     = true
	engineThread = false
)

// threads counts the threads of this process by nice value, those with the name of the process or the others.
func threads(t *testing.T, ofGo bool) map[int]int {
	t.Helper()
	own, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	counts := map[int]int{}
	for _, th := range allThreads(t) {
		if (th.name == strings.TrimSpace(string(own))) == ofGo {
			counts[th.nice]++
		}
	}
	return counts
}

type osThread struct {
	name string
	nice int
}

func allThreads(t *testing.T) (list []osThread) {
	t.Helper()
	files, err := filepath.Glob("/proc/self/task/*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		stat, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		end := bytes.LastIndexByte(stat, ')')
		nice, err := strconv.Atoi(strings.Fields(string(stat[end+1:]))[16]) // field 19 in proc_pid_stat(5)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, osThread{string(stat[bytes.IndexByte(stat, '(')+1 : end]), nice})
	}
	return list
}

func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("there is not %s: of Go %v, of the engine %v", what, threads(t, goThread), threads(t, engineThread))
		}
	}
}
