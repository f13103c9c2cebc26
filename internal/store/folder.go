package store

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// schemaVersion is that of a folder, and of what hubs keep on a server that they
// share: the engine's files and our use of them.
//
//   - 1: the first releases.
//   - 2: removals are entries of their own, and buckets hold nothing that was
//     replaced.
const schemaVersion = 2

// ErrLocked means that another process uses the folder.
var ErrLocked = errors.New("another process uses this folder")

// folder is the embedded engine's folder. The engine's own files are below
// jetstream/.
type folder struct {
	dir  string
	log  *slog.Logger
	lock *os.File

	mu      sync.Mutex
	damages []Damage // as in damaged/report.json
}

func openFolder(dir string, log *slog.Logger) (*folder, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the store's folder: %w (choose another, or let us write there)", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the store's folder: %w (choose another, or let us write there)", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer lock.Close()
		return nil, lockedBy(dir, lock)
	}
	f := &folder{dir: dir, log: log, lock: lock}
	if err := f.prepare(); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

func lockedBy(dir string, lock *os.File) error {
	b, _ := io.ReadAll(io.LimitReader(lock, 32))
	if pid, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil {
		return fmt.Errorf("store %s: %w: process %d (stop it, or use another folder)", dir, ErrLocked, pid)
	}
	return fmt.Errorf("store %s: %w (stop it, or use another folder)", dir, ErrLocked)
}

// prepare makes the folder ours: of a version we know, writable, and checked.
func (f *folder) prepare() error {
	v, err := folderVersion(f.dir)
	if err != nil {
		return err
	}
	if err := f.note(); err != nil {
		return fmt.Errorf("write to the store's folder %s: %w (free some space, or let us write there)", f.dir, err)
	}
	if err := f.check(); err != nil {
		return err
	}
	if v == schemaVersion {
		return nil
	}
	if v == 1 {
		if err := f.settle(); err != nil {
			return err
		}
	}
	if err := writeFile(filepath.Join(f.dir, versionFile), []byte(strconv.Itoa(schemaVersion)+"\n")); err != nil {
		return fmt.Errorf("write the store's version: %w", err)
	}
	return nil
}

// note writes our process id into the lock, which also shows that we can
// write.
func (f *folder) note() error {
	if err := f.lock.Truncate(0); err != nil {
		return err
	}
	_, err := f.lock.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

const versionFile = "VERSION"

// CheckFolder returns why the store in a folder cannot be used by this program,
// as far as its version says. It changes nothing.
func CheckFolder(dir string) error {
	_, err := folderVersion(dir)
	return err
}

// folderVersion returns the version of a folder; 0 means that it is new.
func folderVersion(dir string) (int, error) {
	name := filepath.Join(dir, versionFile)
	b, err := os.ReadFile(name)
	if os.IsNotExist(err) {
		if _, err := os.Stat(filepath.Join(dir, streamsDir)); err == nil {
			return 1, nil // somebody has removed the file, or not copied it
		}
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the store's version: %w", err)
	}
	text := strings.TrimSpace(string(b))
	v, err := strconv.Atoi(text)
	switch {
	case err != nil || v < 1:
		return 0, fmt.Errorf("store %s: %s is damaged: it says %.40q; if this program made the folder, write %d into it", dir, name, text, schemaVersion)
	case v > schemaVersion:
		return 0, fmt.Errorf("store %s has version %d, this program knows versions up to %d: use the release that wrote it or a later one, or another folder; nothing was changed", dir, v, schemaVersion)
	}
	return v, nil
}

func (f *folder) close() { f.lock.Close() }

// writeFile replaces a file as a whole, or not at all.
func writeFile(name string, b []byte) error {
	tmp := name + ".tmp"
	w, err := os.OpenFile(tmp, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	err = errors.Join(err, w.Sync(), w.Close())
	if err == nil {
		err = os.Rename(tmp, name)
	}
	if err != nil {
		_ = os.Remove(tmp) // it is of no use
		return err
	}
	d, err := os.Open(filepath.Dir(name))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
