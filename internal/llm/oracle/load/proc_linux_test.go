package load

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// cpuTime reads the CPU clock of a whole process.
func cpuTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	const processSchedClock = 2 // CPUCLOCK_SCHED of the kernel's clock ids
	clock := int32(^pid)<<3 | processSchedClock
	var ts syscall.Timespec
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, uintptr(clock), uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		t.Fatalf("read the CPU clock of process %d: %v", pid, errno)
	}
	return time.Duration(ts.Nano())
}

// resident reads how much memory a process has that no file stands for: a
// larger program is not a larger session.
func resident(t *testing.T, pid int) (n int64) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(b), "RssAnon:")
	if _, err := fmt.Sscanf(rest, "%d kB", &n); !ok || err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	return n << 10
}
