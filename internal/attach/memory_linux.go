package attach

import (
	"os"

	"golang.org/x/sys/unix"
)

// inMemory opens a file that no disk holds; nil if there can be none.
func inMemory() *os.File {
	fd, err := unix.MemfdCreate("launch.log", unix.MFD_CLOEXEC)
	if err != nil {
		return nil
	}
	f := os.NewFile(uintptr(fd), "launch.log")
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETFL, unix.O_APPEND); err != nil {
		f.Close()
		return nil
	}
	return f
}
