package attach

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// crowd is a client's membership among those of one data folder: a shared lock
// of a file, which ends with the process however that ends.
type crowd struct {
	file *os.File
	once sync.Once
}

const crowdFile = "clients.lock"

func openCrowd(folder string) (*os.File, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("make the data folder: %w (choose another with --data)", err)
	}
	f, err := os.OpenFile(filepath.Join(folder, crowdFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the data folder: %w (choose another with --data)", err)
	}
	return f, nil
}

// join waits for a hub that ends because nobody was there: it holds the lock
// alone until it is gone.
func join(ctx context.Context, folder string) (*crowd, error) {
	f, err := openCrowd(folder)
	if err != nil {
		return nil, err
	}
	for syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) != nil {
		if err := wait(ctx, glance); err != nil {
			f.Close()
			return nil, err
		}
	}
	return &crowd{file: f}, nil
}

// alone reports whether there is no other member; if so, none can join until
// leave.
func (c *crowd) alone() bool {
	return c != nil && syscall.Flock(int(c.file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}

func (c *crowd) leave() {
	if c != nil {
		c.once.Do(func() { c.file.Close() })
	}
}

// locked reports whether a process has locked a file.
func locked(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) != nil
}

// Leashed is for a hub that was launched not to outlive its clients: its ctx
// ends when in, which its launcher holds, has ended and no client of the data
// folder is left. Whoever joins after that waits until release, which belongs
// after the hub's end.
func Leashed(ctx context.Context, in io.Reader, folder string) (_ context.Context, release func(), err error) {
	f, err := openCrowd(folder)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, in) // an error is an end, too
		tick := time.NewTicker(glance)
		defer tick.Stop()
		for syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
		cancel()
	}()
	return ctx, func() {
		cancel()
		f.Close()
	}, nil
}
