// Package owned owns the question whether what is on disk is this user's, before
// it is believed: a folder that another user made, or can write to, may hold a
// token that the other user knows.
//
// It promises that what it lets pass belongs to this user or to root, and that
// nobody else can change it. It says what is wrong, with which path, and what to
// do about it.
package owned

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

const (
	writable = 0o022 // by others
	open     = 0o077 // to others in any way
	maxBytes = 1 << 20
)

// Folder returns nil if a folder is ours and nobody else can put anything into
// it, or else why it cannot be used.
func Folder(path string) error {
	info, err := ours(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a folder: remove it, or choose another folder with --data", path)
	}
	if mode := info.Mode().Perm(); mode&writable != 0 {
		return fmt.Errorf("other users can write to the folder %s (mode %04o), so what is in it cannot be trusted: run `chmod 700 %s` if you know everything in it to be yours", path, mode, path)
	}
	return nil
}

// Tighten makes a folder of ours one that nobody else can write to, if all that
// is in it is ours too, and reports whether it had to.
func Tighten(path string) (bool, error) {
	info, err := ours(path)
	if err != nil {
		return false, err
	}
	if !info.IsDir() || info.Mode().Perm()&writable == 0 {
		return false, Folder(path)
	}
	if err := os.Chmod(path, info.Mode().Perm()&^open); err != nil {
		return false, fmt.Errorf("keep other users out of the folder %s: %w", path, err)
	}
	// Nothing can be put into it any more, but something may have been.
	entries, err := os.ReadDir(path)
	if err != nil {
		return true, fmt.Errorf("look into the folder %s: %w", path, err)
	}
	for _, e := range entries {
		if _, err := ours(filepath.Join(path, e.Name())); err != nil {
			return true, fmt.Errorf("other users could write to the folder %s: %w", path, err)
		}
	}
	return true, Folder(path)
}

// Read returns what is in a file of ours that nobody else can read or write, in
// a folder of ours.
func Read(path string) ([]byte, error) {
	if err := Folder(filepath.Dir(path)); err != nil {
		return nil, err
	}
	if _, err := ours(path); err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat() // of the open file: it may be replaced in between
	if err != nil {
		return nil, err
	}
	if err := Owner(path, info); err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a plain file: remove it", path)
	}
	if mode := info.Mode().Perm(); mode&open != 0 {
		return nil, fmt.Errorf("other users can read or write %s (mode %04o), so it is no secret: remove it, and a new one is made when the hub starts; or run `chmod 600 %s` if nobody can have used it", path, mode, path)
	}
	if info.Size() > maxBytes {
		return nil, fmt.Errorf("%s has %d bytes, and may have %d", path, info.Size(), maxBytes)
	}
	return io.ReadAll(io.LimitReader(f, maxBytes))
}

// ours returns what is at a path. A link counts only if it is ours, and so does
// what it leads to.
func ours(path string) (os.FileInfo, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if err := Owner(path, info); err != nil {
		return nil, err
	}
	if info.Mode()&os.ModeSymlink == 0 {
		return info, nil
	}
	if info, err = os.Stat(path); err != nil {
		return nil, err
	}
	return info, Owner(path, info)
}

// Owner refuses what belongs to somebody else than this user or root.
func Owner(path string, info os.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("whose %s is cannot be found out: %w", path, errors.ErrUnsupported)
	}
	if self := os.Geteuid(); st.Uid != 0 && int(st.Uid) != self {
		return fmt.Errorf("%s belongs to the user with the id %d, and this is %d: choose another folder with --data, or, if you trust that user, run `chown -R %d` on it", path, st.Uid, self, self)
	}
	return nil
}
