package agentd

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
)

// A reaper is a helper process that outlives us if we are killed without a
// chance to end what we started. It hears of each process group that begins and
// ends, and when our end of its pipe closes it kills those that are left.
type reaper struct {
	mu  sync.Mutex
	in  *os.File
	cmd *exec.Cmd
}

// startReaper starts the helper; argv is a program that calls Reap. Without it
// there is none.
func startReaper(argv []string, log *slog.Logger) *reaper {
	if len(argv) == 0 {
		return &reaper{}
	}
	r, w, err := os.Pipe()
	if err != nil {
		log.Warn("commands would outlive a killed agent", "err", err)
		return &reaper{}
	}
	defer r.Close()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin = r
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C is not for it
	if err := cmd.Start(); err != nil {
		w.Close()
		log.Warn("commands would outlive a killed agent", "err", err)
		return &reaper{}
	}
	return &reaper{in: w, cmd: cmd}
}

func (r *reaper) hold(pid int)    { r.tell("+", pid) }
func (r *reaper) release(pid int) { r.tell("-", pid) }

func (r *reaper) tell(sign string, pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.in != nil {
		_, _ = fmt.Fprintf(r.in, "%s%d\n", sign, pid) // without a helper we go on
	}
}

func (r *reaper) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.in != nil {
		r.in.Close()
		_ = r.cmd.Wait() // it says nothing that matters
		r.in = nil
	}
}

// Reap is the helper: it reads from in until its end, and then kills the
// process groups that are left.
func Reap(in io.Reader) {
	groups := map[int]bool{}
	for s := bufio.NewScanner(in); s.Scan(); {
		line := s.Text()
		pid, err := strconv.Atoi(line[min(1, len(line)):])
		switch {
		case err != nil || pid < 2:
		case line[0] == '+':
			groups[pid] = true
		default:
			delete(groups, pid)
		}
	}
	for pid := range groups {
		_ = syscall.Kill(-pid, syscall.SIGKILL) // gone already is fine
	}
}
