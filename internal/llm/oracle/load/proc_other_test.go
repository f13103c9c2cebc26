//go:build !linux

package load

import (
	"testing"
	"time"
)

func cpuTime(t *testing.T, _ int) time.Duration {
	t.Skip("CPU time and memory of processes are read on Linux only")
	return 0
}

func resident(t *testing.T, _ int) int64 {
	t.Skip("CPU time and memory of processes are read on Linux only")
	return 0
}
