package upstream

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stoahub/stoa/internal/fault"
)

// A process is a server on stdio, in a process group of its own.
type process struct {
	cmd    *exec.Cmd
	stdin  *os.File
	stdout *os.File
	exited chan struct{} // closed when it has ended and its group is gone
	err    error         // how it ended; valid after exited
}

// How long a process may take to end after its stdin closed, and after TERM.
const (
	closeGrace = 2 * time.Second
	termGrace  = 2 * time.Second
)

func startProcess(o *Options, tail *tail) (*process, error) {
	if err := checkDir(o); err != nil {
		return nil, err
	}
	cmd := exec.Command(o.Command, o.Args...)
	cmd.Env = o.Env
	cmd.Dir = o.Dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p := &process{cmd: cmd, exited: make(chan struct{})}
	// Pipes of our own: those of exec are closed by Wait, which would lose
	// what the server said last.
	files, err := p.pipes()
	if err != nil {
		return nil, err
	}
	childErr := files[2]
	if err := cmd.Start(); err != nil {
		for _, f := range append(files, p.stdin, p.stdout) {
			f.Close()
		}
		return nil, fmt.Errorf("start %s: %w", o.Command, err)
	}
	for _, f := range []*os.File{files[0], files[1], files[3]} {
		f.Close() // the child has its own
	}
	noise := make(chan struct{})
	go func() {
		defer close(noise)
		tail.read(childErr)
	}()
	go p.wait(childErr, noise)
	return p, nil
}

// checkDir looks at the folder that the program is to run in. The system's own
// error for it is that of a missing program.
func checkDir(o *Options) error {
	if o.Dir == "" {
		return nil
	}
	wrong := func(format string) error {
		f := fault.New(fault.Misconfigured, o.Name, "cannot start %s: "+format, o.Command, o.Dir)
		f.Hint = "Make the folder, or correct cwd in the config."
		return f
	}
	info, err := os.Stat(o.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return wrong("there is no folder %s")
	case err != nil: // starting it says why
		return nil
	case !info.IsDir():
		return wrong("%s is no folder")
	}
	return nil
}

// pipes returns the child's stdin and stdout, our end of stderr and the
// child's end of it.
func (p *process) pipes() (files []*os.File, err error) {
	defer func() {
		if err != nil {
			for _, f := range append(files, p.stdin, p.stdout) {
				f.Close()
			}
			err = fmt.Errorf("make pipes: %w", err)
		}
	}()
	var inR, outW, errR, errW *os.File
	if inR, p.stdin, err = os.Pipe(); err != nil {
		return nil, err
	}
	files = append(files, inR)
	if p.stdout, outW, err = os.Pipe(); err != nil {
		return files, err
	}
	files = append(files, outW)
	if errR, errW, err = os.Pipe(); err != nil {
		return files, err
	}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = inR, outW, errW
	return append(files, errR, errW), nil
}

// wait reaps the process, then ends what it left in its group. Only then can
// the pipes be closed for certain: a grandchild may hold their other ends.
func (p *process) wait(stderr *os.File, noise <-chan struct{}) {
	p.err = p.cmd.Wait()
	p.signal(syscall.SIGKILL)
	select {
	case <-noise:
	case <-time.After(200 * time.Millisecond): // held by someone who left the group
	}
	stderr.Close()
	<-noise
	// The reader of stdout gets what is in the pipe first, then the end.
	p.stdout.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	close(p.exited)
}

func (p *process) signal(sig syscall.Signal) { _ = syscall.Kill(-p.cmd.Process.Pid, sig) } // gone already is fine

// stop ends the process after its stdin has been closed: by itself, by TERM,
// by KILL.
func (p *process) stop() {
	select {
	case <-p.exited:
		return
	case <-time.After(closeGrace):
	}
	p.signal(syscall.SIGTERM)
	select {
	case <-p.exited:
		return
	case <-time.After(termGrace):
	}
	p.signal(syscall.SIGKILL)
	<-p.exited
}

// tail keeps the last lines of stderr.
type tail struct {
	mu    sync.Mutex
	lines []string
}

const (
	tailLines = 50
	tailWidth = 500
)

func (t *tail) read(r io.Reader) {
	in := bufio.NewReaderSize(r, 4096)
	for {
		line, err := in.ReadSlice('\n')
		if len(line) > 0 {
			t.add(string(line[:min(len(line), tailWidth)]))
		}
		for err == bufio.ErrBufferFull {
			_, err = in.ReadSlice('\n')
		}
		if err != nil {
			return
		}
	}
}

func (t *tail) add(line string) {
	line = strings.ToValidUTF8(strings.TrimRight(line, "\r\n"), "\ufffd")
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) >= tailLines {
		t.lines = append(t.lines[:0], t.lines[1:]...)
	}
	t.lines = append(t.lines, line)
}

func (t *tail) last() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string(nil), t.lines...)
}
