package main

import (
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// cpuTime reads the CPU clock of a whole process, threads that have ended
// included, in nanoseconds; /proc/PID/stat counts in ticks of 10 ms.
func cpuTime(pid int) (time.Duration, error) {
	const processSchedClock = 2 // CPUCLOCK_SCHED of the kernel's clock ids
	clock := int32(^pid)<<3 | processSchedClock
	var ts syscall.Timespec
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, uintptr(clock), uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		return 0, fmt.Errorf("read the CPU clock of process %d: %w", pid, errno)
	}
	return time.Duration(ts.Nano()), nil
}

// residentBytes reads VmRSS of a process.
func residentBytes(pid int) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("read the memory of process %d: %w", pid, err)
	}
	return parseStatus(b)
}

// raiseFileLimit lets a process hold the idle connections: the soft limit is
// raised to the hard one.
func raiseFileLimit() error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("read the limit of open files: %w", err)
	}
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("raise the limit of open files to %d: %w", limit.Max, err)
	}
	return nil
}
