package agentd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/stoahub/stoa/internal/fault"
)

// job is one run of a command.
type job struct {
	argv    []string
	env     []string
	dir     string
	stdin   []byte // nil for nothing to read
	timeout time.Duration
	max     time.Duration
	limit   int        // bytes of stdout
	told    func(step) // progress; may be nil
}

// outcome is how a command ended.
type outcome struct {
	stdout []byte
	stderr string // the last of it
	code   int    // the exit code; -1 where a signal ended it
	state  string // in words, as in "exit status 3"
}

// errStart means that a command could not be started.
type errStart struct{ err error }

func (e *errStart) Error() string { return e.err.Error() }
func (e *errStart) Unwrap() error { return e.err }

// termGrace is how long a command may take to end after TERM; lastWords is how
// long pipes are read that somebody holds who has left the group.
const (
	termGrace = 2 * time.Second
	lastWords = 200 * time.Millisecond
)

// run runs the command to its end. If ctx ends first, or the command takes too
// long or says too much, its whole group is ended and an error is returned. No
// callback is called after run has returned.
func (j *job) run(ctx context.Context, reaper *reaper) (*outcome, error) {
	p, err := j.start()
	if err != nil {
		return nil, err
	}
	pid := p.cmd.Process.Pid
	reaper.hold(pid)
	defer reaper.release(pid)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &clock{timeout: j.timeout, end: time.Now().Add(j.max), cancel: cancel}
	w.timer = time.AfterFunc(min(j.timeout, j.max), w.expire)
	defer w.timer.Stop()
	p.read(j, w)
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		err = p.cmd.Wait()
	}()
	select {
	case <-exited:
	case <-ctx.Done():
		p.end(exited)
	}
	p.signal(syscall.SIGKILL) // what it has left in its group
	p.finish()
	if cause := context.Cause(ctx); cause != nil {
		if f, ok := errors.AsType[*fault.Error](cause); ok && p.tail.String() != "" {
			f.With("stderr", p.tail.String())
		}
		return nil, cause
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return nil, fmt.Errorf("wait for %s: %w", j.argv[0], err)
	}
	return &outcome{p.out, p.tail.String(), p.cmd.ProcessState.ExitCode(), p.cmd.ProcessState.String()}, nil
}

// clock keeps a command's time: progress gives it more, up to the end.
type clock struct {
	timeout time.Duration
	end     time.Time
	cancel  context.CancelCauseFunc
	timer   *time.Timer
}

func (c *clock) expire() {
	c.cancel(fault.New(fault.Timeout, "", "the command did not end within %v, and was ended", c.timeout))
}

func (c *clock) more() { c.timer.Reset(min(c.timeout, max(time.Until(c.end), 0))) }

// process is a command that runs.
type process struct {
	cmd            *exec.Cmd
	stdin          *os.File // ours; nil where it reads nothing
	stdout, stderr *os.File // ours
	out            []byte   // guarded by readers
	tail           tail
	readers        sync.WaitGroup
	writer         sync.WaitGroup
}

// start starts the command in a group of its own.
func (j *job) start() (*process, error) {
	p := &process{cmd: exec.Command(j.argv[0], j.argv[1:]...)}
	p.cmd.Dir, p.cmd.Env = j.dir, j.env
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// Pipes of our own: exec's are read until their end, which somebody who has
	// left the group could put off for ever.
	var theirs, ours []*os.File
	pipe := func() (r, w *os.File, err error) {
		if r, w, err = os.Pipe(); err == nil {
			theirs, ours = append(theirs, w), append(ours, r)
		}
		return r, w, err
	}
	var err error
	var outW, errW *os.File
	if p.stdout, outW, err = pipe(); err == nil {
		p.stderr, errW, err = pipe()
	}
	if err == nil && j.stdin != nil {
		var r *os.File
		if r, p.stdin, err = os.Pipe(); err == nil {
			p.cmd.Stdin = r
			theirs, ours = append(theirs, r), append(ours, p.stdin)
		}
	}
	if err == nil {
		p.cmd.Stdout, p.cmd.Stderr = outW, errW
		if err = p.cmd.Start(); err != nil {
			err = &errStart{err}
		}
	}
	for _, f := range theirs {
		f.Close() // the child has its own
	}
	if err != nil {
		for _, f := range ours {
			f.Close()
		}
		return nil, err
	}
	return p, nil
}

// read begins to feed the command and to read what it says.
func (p *process) read(j *job, w *clock) {
	var mu sync.Mutex // progress may come on both streams
	told := func(s step) {
		mu.Lock()
		defer mu.Unlock()
		w.more()
		if j.told != nil {
			j.told(s)
		}
	}
	out := sieve{told: told, rest: func(b []byte) {
		if len(p.out)+len(b) > j.limit {
			b = b[:j.limit-len(p.out)]
			w.cancel(&tooMuch{j.limit})
		}
		p.out = append(p.out, b...)
	}}
	noise := sieve{told: told, rest: p.tail.write}
	p.readers.Go(func() { out.drain(p.stdout) })
	p.readers.Go(func() { noise.drain(p.stderr) })
	if p.stdin != nil {
		p.writer.Go(func() {
			_, _ = p.stdin.Write(j.stdin) // a command need not read it
			p.stdin.Close()
		})
	}
}

// tooMuch is the end of a command that says more than it may.
type tooMuch struct{ limit int }

func (t *tooMuch) Error() string {
	return fmt.Sprintf("the output is larger than %d bytes, and the command was ended", t.limit)
}

func (s *sieve) drain(r io.Reader) {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		s.write(buf[:n])
		if err != nil {
			s.end()
			return
		}
	}
}

func (p *process) signal(sig syscall.Signal) { _ = syscall.Kill(-p.cmd.Process.Pid, sig) } // gone already is fine

// end ends the group: by TERM, then by KILL.
func (p *process) end(exited <-chan struct{}) {
	p.signal(syscall.SIGTERM)
	t := time.NewTimer(termGrace)
	defer t.Stop()
	select {
	case <-exited:
	case <-t.C:
		p.signal(syscall.SIGKILL)
		<-exited
	}
}

// finish reads what is left in the pipes and closes them.
func (p *process) finish() {
	late := time.Now().Add(lastWords)
	_ = p.stdout.SetReadDeadline(late) // of a pipe: cannot fail
	_ = p.stderr.SetReadDeadline(late)
	p.readers.Wait()
	p.stdout.Close()
	p.stderr.Close()
	if p.stdin != nil {
		_ = p.stdin.SetWriteDeadline(time.Now()) // closed already is fine
		p.writer.Wait()
	}
}
