package schema_test

import (
	"syscall"
	"time"
)

// cpuTime is what this process has used, all its threads together.
func cpuTime() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
