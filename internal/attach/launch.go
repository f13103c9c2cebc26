package attach

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Launch says how a hub is started.
type Launch struct {
	Command func() *exec.Cmd // its streams and process attributes are set here
	Log     string           // the file of what the hub prints, begun anew by each launch; memory if it cannot be written
	Lock    string           // the file that a running hub has locked
	Timeout time.Duration    // for it to answer; 0 means 30 s
	// Leash gives the hub a stdin that ends with us; see Leashed.
	Leash bool
	// Stop ends the hub that was launched when Run returns, unless other
	// clients of the folder are attached.
	Stop bool
}

// glance is the pause between two looks at something that is about to happen.
const glance = 50 * time.Millisecond

// launcher starts hubs, one at a time, and remembers the last.
type launcher struct {
	opts  *Options
	child *child
	said  *os.File // what the last one prints; nil if there was none
}

// child is a hub that we have started.
type child struct {
	process *os.Process
	leash   io.Closer     // nil if it has none
	done    chan struct{} // closed when it has ended
	state   string        // how; set before done is closed
}

// launch starts a hub unless another client does so first, and waits for it.
// Of those that come at once only the holder of the lock starts one; the others
// wait for the hub, and for the lock in case that the holder fails.
func (l *launcher) launch(ctx context.Context) (*Target, error) {
	timeout := l.opts.Launch.Timeout
	if timeout == 0 {
		timeout = 30 * time.Second
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("launch a hub: it does not answer within %v", timeout))
	defer cancel()
	lock, err := os.OpenFile(filepath.Join(l.opts.Folder, "launch.lock"), os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("launch a hub: %w", err)
	}
	defer lock.Close()
	for {
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			return l.start(ctx)
		}
		if t, err := l.opts.Find(ctx); err == nil && t != nil {
			return t, nil
		}
		if err := wait(ctx, glance); err != nil {
			return nil, err
		}
	}
}

// start is called with the launch lock held.
func (l *launcher) start(ctx context.Context) (*Target, error) {
	if t, err := l.opts.Find(ctx); err == nil && t != nil {
		return t, nil // it came while we waited for the lock
	}
	if err := l.spawn(); err != nil {
		return nil, fmt.Errorf("launch a hub: %w", err)
	}
	for {
		if t, err := l.opts.Find(ctx); err == nil && t != nil {
			return t, nil
		}
		select {
		case <-l.child.done:
			if !locked(l.opts.Launch.Lock) {
				return nil, l.explain("launch a hub: it ended at once: " + l.child.state)
			}
			if t, err := l.outwait(ctx); t != nil || err != nil {
				return t, err
			}
			if err := l.spawn(); err != nil {
				return nil, fmt.Errorf("launch a hub: %w", err)
			}
		case <-ctx.Done():
			l.child.end() // nobody would find it
			return nil, l.explain(context.Cause(ctx).Error())
		case <-time.After(glance):
		}
	}
}

// outwait waits while another hub has the folder: one that is ending, or one
// that was started by hand at the same time and will be found.
func (l *launcher) outwait(ctx context.Context) (*Target, error) {
	for locked(l.opts.Launch.Lock) {
		if t, err := l.opts.Find(ctx); err == nil && t != nil {
			return t, nil
		}
		if err := wait(ctx, 5*glance); err != nil {
			return nil, l.explain(err.Error())
		}
	}
	return nil, nil
}

// spawn starts the process, in a session of its own, so that no signal to the
// client's reaches it.
func (l *launcher) spawn() error {
	launch := l.opts.Launch
	log, err := openLog(launch.Log)
	if err != nil {
		return err
	}
	if l.said != nil {
		l.said.Close()
	}
	l.said = log
	cmd := launch.Command()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = nil, nil, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	c := &child{done: make(chan struct{})}
	if launch.Leash {
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		defer r.Close()
		cmd.Stdin, c.leash = r, w
	}
	if err := cmd.Start(); err != nil {
		if c.leash != nil {
			c.leash.Close()
		}
		return err
	}
	c.process = cmd.Process
	go func() {
		defer close(c.done)
		_ = cmd.Wait() // how it ended is in its state
		c.state = cmd.ProcessState.String()
	}()
	l.child = c
	l.opts.Logger.Info("hub launched", "pid", c.process.Pid)
	return nil
}

// openLog opens what the hub prints to. On a full disk that is memory: else what
// the hub says of the disk would be lost, and a pipe would break under a hub that
// outlives us.
func openLog(path string) (*os.File, error) {
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		var f *os.File
		f, err = os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_TRUNC|os.O_APPEND, 0o600)
		if err == nil {
			if _, err = f.WriteString("\n"); err == nil {
				return f, nil
			}
			f.Close()
		}
	}
	if f := inMemory(); f != nil {
		return f, nil
	}
	return nil, err
}

func (c *child) end() {
	if c.leash != nil {
		c.leash.Close()
	}
	_ = c.process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-c.done:
	case <-time.After(5 * time.Second):
	}
}

// close stops the hub that was launched, if it is to end with us.
func (l *launcher) close(all *crowd) {
	if l.said != nil {
		defer l.said.Close()
	}
	if l.child == nil {
		return
	}
	if l.opts.Launch.Stop && all.alone() {
		l.child.end()
	}
	if l.child.leash != nil {
		all.leave() // or the hub would wait for us
		l.child.leash.Close()
	}
}

// explain adds the last lines of what the hub has printed.
func (l *launcher) explain(what string) error {
	if said := lastLines(l.said, 8, 2<<10); said != "" {
		return fmt.Errorf("%s; it says: %s", what, said)
	}
	return errors.New(what)
}

func lastLines(f *os.File, lines, most int) string {
	if f == nil {
		return ""
	}
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	start := max(0, info.Size()-64<<10)
	b, err := io.ReadAll(io.NewSectionReader(f, start, info.Size()-start))
	if err != nil {
		return ""
	}
	all := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
	text := bytes.Join(all[max(0, len(all)-lines):], []byte("\n"))
	return strings.ToValidUTF8(string(text[max(0, len(text)-most):]), "")
}

// wait pauses, unless ctx ends before.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
