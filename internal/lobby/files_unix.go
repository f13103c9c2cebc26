//go:build unix

package lobby

import "golang.org/x/sys/unix"

// openFiles is how many files this process may have open.
func openFiles() int {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return 1024 // what is usual where nothing was said
	}
	return int(min(uint64(r.Cur), 1<<30))
}
