package chdb_test

import (
	"bytes"
	"context"
	"io"
	"os"
	osexec "os/exec"
	"path/filepath"
	"runtime"
	"slices"
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

// Background queries have threads with a nice value where the process may set one, others do not, and Go's own threads keep none of it.
func TestBackground_IsNiceAndNothingElseIs(t *testing.T) {
	background, interactive := 0, 0
	if chdb.MayNice() {
		background, interactive = 10, -1
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
	waitFor(t, "a thread of each query with its nice value", func() bool {
		pulling := map[int]int{}
		for _, th := range threads(t) {
			if strings.HasPrefix(th.name, "QueryPull") {
				pulling[th.nice]++
			}
		}
		return pulling[background] > 0 && pulling[interactive] > 0 && pulling[background]+pulling[interactive] >= 2
	})
	cancel()
	ended.Wait()
	own, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, "no Go thread with a nice value", func() bool {
		return !slices.ContainsFunc(threads(t), func(th osThread) bool { return th.name == strings.TrimSpace(string(own)) && th.nice > 0 })
	})
}

// The first table is made in the background, as by a migration. What the engine starts with it is not nice.
func TestBackground_MergesAreNotNice(t *testing.T) {
	db := chdbtest.Open(t)
	for _, sql := range []string{"CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a", "INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)", "OPTIMIZE TABLE t FINAL"} {
		if err := db.Exec(t.Context(), store.Query{SQL: sql, Priority: store.Background}); err != nil {
			t.Fatal(err)
		}
	}
	merging := 0
	for _, th := range threads(t) {
		if strings.HasPrefix(th.name, "MergeMutate") || th.name == "Common" {
			merging++
			if th.nice > 0 {
				t.Errorf("thread %s has nice value %d", th.name, th.nice)
			}
		}
	}
	if merging == 0 {
		t.Errorf("no thread merges: %v", threads(t))
	}
}

// Without the right to nice values, priorities do it. A process of its own loses the right, as threads that lost it alone would be used
// again by engines of other tests.
func TestBackground_WithoutTheRightHasAPriority(t *testing.T) {
	const inChild = "SPATE_TEST_WITHOUT_NICE"
	if os.Getenv(inChild) == "" {
		cmd := osexec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), inChild+"=1")
		var out []byte
		var err error
		ran := make(chan struct{})
		go func() {
			defer close(ran)
			runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
			// Where that is not allowed, the right is not there either.
			_ = unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_SYS_NICE, 0, 0, 0)
			out, err = cmd.CombinedOutput()
		}()
		<-ran
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	if chdb.MayNice() {
		t.Fatal("the process has the right: the test proves nothing")
	}
	db := chdbtest.Open(t)
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

type osThread struct {
	name string
	nice int
}

// threads gives the threads of this process.
func threads(t *testing.T) (list []osThread) {
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
			t.Fatalf("there is not %s: %v", what, threads(t))
		}
	}
}
