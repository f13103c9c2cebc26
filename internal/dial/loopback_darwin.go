package dial

import "syscall"

// Loopback names what loopback addresses lead to from this process: the machine
// since it was started. Processes for which it is the same text share them. It
// is empty where that cannot be known.
func Loopback() string { return Boot() }

// Boot names the machine since it was started. It is empty where that cannot be
// known.
func Boot() string {
	boot, err := syscall.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return boot
}
