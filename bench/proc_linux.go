package main

import (
	"fmt"
	"syscall"
)

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
