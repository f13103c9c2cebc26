package obs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/DeRuina/timberjack"
)

// Files says where log files are written.
type Files struct {
	Dir           string           // made if needed, for its owner only
	MaxSize       int64            // a file of so many bytes is put aside; 0 means 10 MiB
	RetentionDays int              // files that were put aside longer ago are removed; 0 means never
	Now           func() time.Time // nil means time.Now
}

const (
	fileName   = "stoa.log"
	lockName   = ".lock"
	defaultMax = 10 << 20
	// maxRotated bounds the disk that a flood of lines can take, whatever the
	// retention: with the usual size, half a GiB.
	maxRotated = 50
	// day is how long a file is written to at most, so that lines leave with
	// their file not much later than the retention says.
	day = 24 * time.Hour
	// retryAfter is how long a folder that could not be written to is left alone.
	retryAfter = 30 * time.Second
	// lookEvery is how often to look whether somebody took the file away.
	lookEvery = 5 * time.Second
)

// file is the log file that is written, with those put aside. It never fails
// its writer: what went wrong is kept, and tried again later.
type file struct {
	o Files

	mu     sync.Mutex
	out    *timberjack.Logger // nil: not open
	lock   *os.File
	size   int64
	born   time.Time // of the first line in it
	torn   bool      // the last line has no end
	looked time.Time
	failed error // why nothing is written now
	retry  time.Time
	lost   int
	closed bool
}

func newFile(o Files) *file {
	if o.MaxSize <= 0 {
		o.MaxSize = defaultMax
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &file{o: o}
}

// turn is a change of fortune that should be told.
type turn struct {
	err  error // nil: all is well again
	lost int   // lines, while it was not
}

// write writes one line, and says if fortune has turned.
func (f *file) write(line []byte) *turn {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.o.Now()
	if f.closed {
		return nil
	}
	if f.out == nil && now.Before(f.retry) {
		f.lost++
		return nil
	}
	if err := f.put(line, now); err != nil {
		return f.fail(err, now)
	}
	if f.failed == nil {
		return nil
	}
	t := &turn{lost: f.lost}
	f.failed, f.lost = nil, 0
	return t
}

func (f *file) fail(err error, now time.Time) *turn {
	if f.out != nil {
		_ = f.out.Close() // the first error is the one to tell
		f.out = nil
	}
	first := f.failed == nil
	f.failed, f.retry = err, now.Add(retryAfter)
	f.lost++
	if first {
		return &turn{err: err}
	}
	return nil
}

func (f *file) put(line []byte, now time.Time) error {
	if f.out != nil && now.Sub(f.looked) >= lookEvery && !f.inPlace(now) {
		if err := f.out.Close(); err != nil {
			return err
		}
		f.out = nil
	}
	if f.out == nil {
		if err := f.open(now); err != nil {
			return err
		}
	}
	if f.size > 0 && (f.size+int64(len(line)) > f.o.MaxSize || now.Sub(f.born) >= day) {
		if err := f.out.RotateWithReason("rotated"); err != nil {
			return err
		}
		f.size, f.torn = 0, false
	}
	if f.size == 0 {
		f.born = now
	}
	if f.torn { // a line that was cut short must not take this one with it
		line = append([]byte{'\n'}, line...)
	}
	n, err := f.out.Write(line)
	f.size += int64(n)
	f.torn = err != nil && (n > 0 || f.torn)
	return err
}

// inPlace reports whether the file that is written is still the one that
// people see.
func (f *file) inPlace(now time.Time) bool {
	f.looked = now
	info, err := os.Stat(f.path())
	return err == nil && info.Size() >= f.size || err != nil && !errors.Is(err, fs.ErrNotExist)
}

func (f *file) path() string { return filepath.Join(f.o.Dir, fileName) }

func (f *file) open(now time.Time) error {
	if err := os.MkdirAll(f.o.Dir, 0o700); err != nil {
		return err
	}
	if err := f.own(); err != nil {
		return err
	}
	if err := f.inspect(); err != nil {
		return err
	}
	f.looked = now
	f.out = &timberjack.Logger{
		Filename: f.path(),
		MaxSize:  1 << 20, // it counts in MiB, we in bytes: when to rotate is decided here
		MaxAge:   f.o.RetentionDays, MaxBackups: maxRotated,
		FileMode: 0o600, Compression: "none",
	}
	return nil
}

// own makes sure that nobody else writes files here: each would put aside and
// cut what the other writes.
func (f *file) own() error {
	if f.lock != nil {
		return nil
	}
	lock, err := os.OpenFile(filepath.Join(f.o.Dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close()
		return fmt.Errorf("another hub writes its log to %s: give this one a folder of its own", f.o.Dir)
	}
	f.lock = lock
	return nil
}

// inspect finds out what is in the file already.
func (f *file) inspect() error {
	f.size, f.born, f.torn = 0, time.Time{}, false
	in, err := os.Open(f.path())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	f.size, f.born = info.Size(), info.ModTime()
	if f.size == 0 {
		return nil
	}
	first, _ := bufio.NewReader(io.LimitReader(in, maxLine)).ReadBytes('\n') // what there is of it is looked at
	if r, err := parseRecord(first); err == nil {
		f.born = r.Time
	}
	last := make([]byte, 1)
	if _, err := in.ReadAt(last, f.size-1); err != nil {
		return err
	}
	f.torn = last[0] != '\n'
	return nil
}

// trouble is why nothing is written now, or nil.
func (f *file) trouble() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

func (f *file) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	if f.out != nil {
		_ = f.out.Close() // what it held was written line by line
		f.out = nil
	}
	if f.lock != nil {
		f.lock.Close()
		f.lock = nil
	}
}
