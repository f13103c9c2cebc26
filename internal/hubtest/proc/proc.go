// Package proc owns what tests and benchmarks do with processes other than
// their own: start one that talks over pipes, ask whether one still runs, and
// read what one takes of the machine. It promises nothing about how a process
// ends: whoever starts one waits for it.
package proc

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// Start starts a command and returns what writes to its stdin and what reads
// from its stdout. All has to be read before the command is waited for.
func Start(cmd *exec.Cmd) (stdin io.WriteCloser, stdout *bufio.Reader, err error) {
	if stdin, err = cmd.StdinPipe(); err != nil {
		return nil, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	return stdin, bufio.NewReader(out), nil
}

// Alive reports whether a process runs. One that has ended and was left to
// another to reap does not.
func Alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) || !procfs()
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}

func procfs() bool {
	_, err := os.Stat("/proc/self/stat")
	return err == nil
}

// Resident returns how many bytes of memory a process has.
func Resident(pid int) (int64, error) { return memory(pid, "VmRSS") }

// Anonymous returns how many bytes of memory a process has that no file stands
// for: a larger program does not have more of it.
func Anonymous(pid int) (int64, error) { return memory(pid, "RssAnon") }

func memory(pid int, kind string) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err == nil {
		var n int64
		if n, err = parseStatus(b, kind); err == nil {
			return n, nil
		}
	}
	return 0, fmt.Errorf("read the memory of process %d: %w", pid, err)
}

// parseStatus finds a kind of memory, in bytes, in /proc/PID/status.
func parseStatus(b []byte, kind string) (int64, error) {
	for line := range bytes.Lines(b) {
		rest, ok := bytes.CutPrefix(line, []byte(kind+":"))
		if !ok {
			continue
		}
		fields := bytes.Fields(rest)
		if len(fields) != 2 || string(fields[1]) != "kB" {
			return 0, fmt.Errorf("%s is %q, want a number of kB", kind, bytes.TrimSpace(rest))
		}
		n, err := strconv.ParseInt(string(fields[0]), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", kind, err)
		}
		return n << 10, nil
	}
	return 0, fmt.Errorf("no %s line: the process has no memory of its own, it has ended", kind)
}
