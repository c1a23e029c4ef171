package chdb

import (
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// Inserts and dashboards come before background queries in processor time too. The engine can give the threads of a query a nice
// value of their own (os_threads_nice_value_query), for which the process needs CAP_SYS_NICE; without it, background queries
// wait a little at each block they read while an insert runs (priority), which slows only queries that read many blocks.

const (
	// backgroundNice is the nice value of background queries: the kernel gives such a thread a ninth of what it gives another.
	backgroundNice = 10
	// foregroundNice is that of inserts and dashboards. It is there so that a thread that has kept the value of a background query,
	// as one of the engine's pool that was started by it does, loses it: 0 would mean to leave the thread as it is.
	foregroundNice = -1
	// backgroundWait is how many milliseconds a background query waits for inserts at each block, where there are no nice values.
	backgroundWait = 20
)

// yielding gives the settings by which inserts, dashboards and background queries share the processors, to go with those of every
// session. Of the engine's priorities a smaller number comes first, and 0 takes no part.
func yielding(nice bool) (inserts, interactive, background map[string]string) {
	if nice {
		front := map[string]string{niceSetting: strconv.Itoa(foregroundNice)}
		return front, front, map[string]string{niceSetting: strconv.Itoa(backgroundNice)}
	}
	return map[string]string{"priority": "1"}, nil, map[string]string{
		"priority": "2", "low_priority_query_wait_time_ms": strconv.Itoa(backgroundWait),
	}
}

const niceSetting = "os_threads_nice_value_query"

// mayNice says whether this process may set the nice values of its threads as it likes.
func mayNice() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&header, &data[0]) == nil && data[0].Effective&(1<<unix.CAP_SYS_NICE) != 0
}

// unlockNice gives a thread that was locked for a query that yields back to Go. The engine sets the nice value of the calling thread too, and
// takes it back from the thread of the query's last call; so all calls are made on one, and what may be left is taken back here.
func unlockNice() {
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, 0) // fails where it may not be set, and then nothing was
	runtime.UnlockOSThread()
}

// resetNice takes the nice value from threads that have kept it from an engine that this process had open before, which are used again.
func resetNice() {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return
	}
	for _, task := range tasks {
		id, err := strconv.Atoi(task.Name())
		if err != nil {
			continue
		}
		if prio, err := unix.Getpriority(unix.PRIO_PROCESS, id); err == nil && 20-prio == backgroundNice { // the kernel says 20 - nice
			_ = unix.Setpriority(unix.PRIO_PROCESS, id, 0)
		}
	}
}

// startPools makes the engine start the threads that merge and clean up, which it does with its first table. They take over the nice
// value of the thread that starts them: were that a background query, a migration for example, merges would have it for good.
func (c *conn) startPools() error {
	if err := c.set("CREATE TEMPORARY TABLE spate_first (a UInt8) ENGINE = MergeTree ORDER BY a"); err != nil {
		return fmt.Errorf("start background threads: %w", err)
	}
	if err := c.set("DROP TEMPORARY TABLE spate_first"); err != nil {
		return fmt.Errorf("start background threads: %w", err)
	}
	return nil
}
