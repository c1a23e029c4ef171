package chdb

import (
	"syscall"
	"unsafe"
)

// maxSignal is the highest signal number of Linux.
const maxSignal = 64

// sigaction is the kernel's struct, taken and given back as it is. It is never larger than this.
type sigaction [64]byte

// keepSignals remembers how this process handles every signal and returns a function that makes it so again. The engine
// resets the handlers of some signals when it is told to install none of its own, and Go needs its handlers: for nil
// dereferences, for preemption, for profiling. The kernel is asked directly: what libc returns is not what Go installed.
func keepSignals() (restore func()) {
	var saved [maxSignal + 1]sigaction
	var ok [maxSignal + 1]bool
	for sig := 1; sig <= maxSignal; sig++ {
		ok[sig] = readSignal(sig, &saved[sig])
	}
	return func() {
		for sig := 1; sig <= maxSignal; sig++ {
			var now sigaction
			if ok[sig] && readSignal(sig, &now) && now != saved[sig] {
				writeSignal(sig, &saved[sig])
			}
		}
	}
}

const maskBytes = 8 // of the kernel's sigset_t

func readSignal(sig int, to *sigaction) bool {
	_, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig), 0, uintptr(unsafe.Pointer(to)), maskBytes, 0, 0)
	return errno == 0
}

func writeSignal(sig int, from *sigaction) bool {
	_, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(from)), 0, maskBytes, 0, 0)
	return errno == 0
}
