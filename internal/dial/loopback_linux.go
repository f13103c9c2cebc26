package dial

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Loopback names what loopback addresses lead to from this process: the network
// namespace of a kernel that was started once. Processes for which it is the same
// text share them. It is empty where that cannot be known. Machines that were
// cloned while they ran cannot be told apart.
func Loopback() string {
	boot := Boot()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	// Unlike the number of its inode, a cookie is never used again.
	cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil || boot == "" {
		return ""
	}
	return fmt.Sprintf("%s %d", boot, cookie)
}

// Boot names the machine since it was started. It is empty where that cannot be
// known.
func Boot() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(boot))
}
