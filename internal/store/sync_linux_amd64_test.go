package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stoahub/stoa/internal/store"
)

// With SyncAlways the engine calls fsync on the block after each write to it;
// the blocks themselves are not opened with O_SYNC, which is for the small
// files beside them. So the calls can be counted, in a child that is traced:
// for each append that was acknowledged there is one fsync of the log's block
// between its write and the end of the append.
func TestSyncs(t *testing.T) {
	const appends = 50
	for _, tc := range []struct {
		name  string
		log   string
		check func(c *calls) bool
	}{
		{"synced", "evt", func(c *calls) bool { return c.syncs == appends && c.writes == appends && c.early == 0 }},
		{"async", "async", func(c *calls) bool { return c.syncs < appends/10 }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			calls, err := trace(tc.log, t.TempDir(), appends)
			if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSYS) {
				t.Skipf("this system lets nobody trace a child: %v", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			if !tc.check(calls) || calls.acked != appends {
				t.Errorf("%d appends were acknowledged, %d of them before their sync: %d writes and %d syncs of the log's blocks", calls.acked, calls.early, calls.writes, calls.syncs)
			}
		})
	}
}

// roleCount appends and says so after each one by a write to stdout.
func roleCount() {
	s := roleStore()
	name, n := os.Getenv("STOA_STORE_LOG"), must(strconv.Atoi(os.Getenv("STOA_STORE_COUNT")))
	l := must(s.Log(context.Background(), store.LogOptions{Name: name, Subjects: []string{name}, Async: name == "async"}))
	var last uint64
	for range n {
		last = must(l.Append(context.Background(), name, []byte("x"), last))
		fmt.Println("acked")
	}
	os.Exit(0) // without Close, which syncs too
}

// calls are what a traced child did to the blocks of its log.
type calls struct {
	writes, syncs, acked int
	early                int // acknowledged while fewer syncs than appends had ended
}

// trace runs the role "count" and follows its system calls.
func trace(log, dir string, appends int) (*calls, error) {
	runtime.LockOSThread() // the tracer is a thread
	defer runtime.UnlockOSThread()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "STOA_STORE_ROLE=count", "STOA_STORE_DIR="+dir, "STOA_STORE_LOG="+log, fmt.Sprint("STOA_STORE_COUNT=", appends))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = null, null, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	pid := cmd.Process.Pid
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &ws, syscall.WALL, nil); err != nil {
		return nil, err
	}
	const exitKill = 0x100000
	if err := syscall.PtraceSetOptions(pid, syscall.PTRACE_O_TRACECLONE|syscall.PTRACE_O_TRACESYSGOOD|exitKill); err != nil {
		return nil, errors.Join(err, cmd.Process.Kill())
	}
	tr := &tracer{pid: pid, blocks: filepath.Join("streams", log, "msgs"), inside: map[int]func(){}}
	err = tr.run()
	return &tr.calls, errors.Join(err, cmd.Process.Release())
}

type tracer struct {
	calls
	pid    int
	blocks string
	inside map[int]func() // threads within a system call, and what its end means
}

func (tr *tracer) run() error {
	if err := syscall.PtraceSyscall(tr.pid, 0); err != nil {
		return err
	}
	for {
		var ws syscall.WaitStatus
		tid, err := syscall.Wait4(-1, &ws, syscall.WALL|syscall.WNOTHREAD, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		if ws.Exited() || ws.Signaled() {
			if tid == tr.pid {
				if ws.ExitStatus() != 0 {
					return fmt.Errorf("the child ended with %d", ws.ExitStatus())
				}
				return nil
			}
			continue
		}
		signal := 0
		switch sig := ws.StopSignal(); {
		case sig == syscall.SIGTRAP|0x80:
			tr.call(tid)
		case sig == syscall.SIGTRAP, sig == syscall.SIGSTOP: // a new thread, and its birth
		default:
			signal = int(sig)
		}
		if err := syscall.PtraceSyscall(tid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
}

// call is told the begin and the end of each system call of a thread.
func (tr *tracer) call(tid int) {
	if end, ok := tr.inside[tid]; ok {
		delete(tr.inside, tid)
		end()
		return
	}
	var regs syscall.PtraceRegs
	end := func() {}
	if err := syscall.PtraceGetRegs(tid, &regs); err == nil {
		file, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", tr.pid, regs.Rdi))
		block := strings.Contains(file, tr.blocks) && strings.HasSuffix(file, ".blk")
		switch {
		case regs.Orig_rax == syscall.SYS_WRITE && regs.Rdi == 1:
			tr.acked++
			if tr.syncs < tr.acked {
				tr.early++
			}
		case block && (regs.Orig_rax == syscall.SYS_WRITE || regs.Orig_rax == syscall.SYS_PWRITE64):
			tr.writes++
		case block && (regs.Orig_rax == syscall.SYS_FSYNC || regs.Orig_rax == syscall.SYS_FDATASYNC):
			end = func() { tr.syncs++ }
		}
	}
	tr.inside[tid] = end
}
