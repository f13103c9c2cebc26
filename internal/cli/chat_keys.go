package cli

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// keyboard reads the keys of a terminal, one reader for all that wants them:
// the line that is being edited, Ctrl-C while an answer comes, and editors,
// which have the terminal to themselves while they run.
type keyboard struct {
	tty   *os.File
	keys  chan []byte // what was pressed; nil when the terminal has gone
	state *term.State // of the terminal before it was ours
	wg    sync.WaitGroup

	stop  chan struct{}
	wakeR *os.File // becomes readable with stop
	wakeW *os.File
}

// openKeyboard takes the terminal over, until give.
func openKeyboard(tty *os.File) (*keyboard, error) {
	k := &keyboard{tty: tty, keys: make(chan []byte)}
	return k, k.take()
}

// take makes the terminal tell each key, and begins to read.
func (k *keyboard) take() (err error) {
	if k.wakeR, k.wakeW, err = os.Pipe(); err != nil {
		return err
	}
	if k.state, err = term.MakeRaw(int(k.tty.Fd())); err != nil {
		k.wakeR.Close()
		k.wakeW.Close()
		return err
	}
	k.stop = make(chan struct{})
	k.wg.Go(k.read)
	return nil
}

// give hands the terminal back as it was. It may be taken again.
func (k *keyboard) give() {
	close(k.stop)
	k.wakeW.Close()
	k.wg.Wait()
	k.wakeR.Close()
	_ = term.Restore(int(k.tty.Fd()), k.state) // it may be gone
}

// read passes keys on until give. It waits before it reads, so that a key that
// is pressed later belongs to whoever has the terminal then.
func (k *keyboard) read() {
	buf := make([]byte, 1024)
	for {
		if !k.await() {
			return
		}
		n, err := unix.Read(int(k.tty.Fd()), buf)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) {
			continue
		}
		var pressed []byte
		if n > 0 {
			pressed = append(pressed, buf[:n]...)
		}
		select {
		case k.keys <- pressed:
		case <-k.stop:
			return
		}
		if pressed == nil {
			return
		}
	}
}

// await waits for a key; false means that it was given up.
func (k *keyboard) await() bool {
	tty, wake := int(k.tty.Fd()), int(k.wakeR.Fd())
	for {
		var set unix.FdSet
		set.Set(tty)
		set.Set(wake)
		if _, err := unix.Select(max(tty, wake)+1, &set, nil, nil, nil); err != nil && !errors.Is(err, unix.EINTR) {
			return false
		} else if err == nil {
			return !set.IsSet(wake)
		}
	}
}

// feed is what a line editor reads: keys as they are handed to it, until it is
// ended.
type feed struct {
	mu    sync.Mutex
	ready *sync.Cond
	keys  []byte
	err   error
}

func newFeed() *feed {
	f := &feed{}
	f.ready = sync.NewCond(&f.mu)
	return f
}

func (f *feed) press(keys []byte) {
	f.mu.Lock()
	f.keys = append(f.keys, keys...)
	f.mu.Unlock()
	f.ready.Broadcast()
}

// end makes the editor's next read fail.
func (f *feed) end(err error) {
	f.mu.Lock()
	f.err = err
	f.mu.Unlock()
	f.ready.Broadcast()
}

func (f *feed) Read(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.keys) == 0 && f.err == nil {
		f.ready.Wait()
	}
	if f.err != nil {
		return 0, f.err
	}
	end := len(f.keys)
	if i := bytes.IndexAny(f.keys, "\r\n"); i >= 0 {
		end = i + 1 // what comes after a line may be for another question
	}
	n := copy(b, f.keys[:end])
	f.keys = f.keys[n:]
	return n, nil
}

// rest is what nobody has read.
func (f *feed) rest() []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.keys
}

var _ io.Reader = (*feed)(nil)

// lineHistory is what was typed before, newest last.
type lineHistory struct{ lines []string }

const keptLines = 500

// Add remembers a line, once if it is said again.
func (h *lineHistory) Add(line string) {
	if line == "" || len(h.lines) > 0 && h.lines[len(h.lines)-1] == line {
		return
	}
	h.lines = append(h.lines, line)
	if len(h.lines) > keptLines {
		h.lines = h.lines[1:]
	}
}

func (h *lineHistory) Len() int        { return len(h.lines) }
func (h *lineHistory) At(i int) string { return h.lines[len(h.lines)-1-i] }

var _ term.History = (*lineHistory)(nil)
