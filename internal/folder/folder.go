package folder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Version is that of the folders that this program writes.
//
//   - 1: the first releases.
//   - 2: removals are entries of their own, which programs that know version 1
//     alone pass over: to them what was removed would be there.
const Version = 2

const versionFile = "VERSION"

// storeFolder is there in every folder in which a hub has run.
const storeFolder = "js"

// Check returns why a folder cannot be used by this program. One that is not
// there can. It changes nothing.
func Check(path string) error {
	_, err := read(path)
	return err
}

// read returns the version of a folder; 0 means that it is new.
func read(path string) (int, error) {
	file := filepath.Join(path, versionFile)
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Join(path, storeFolder)); err == nil {
			return 1, nil // somebody has removed the file, or not copied it
		}
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the data folder's version: %w", err)
	}
	text := strings.TrimSpace(string(b))
	v, err := strconv.Atoi(text)
	switch {
	case err != nil || v < 1:
		return 0, fmt.Errorf("data folder %s: %s is damaged: it says %.40q (put back the file of your backup; if no backup is there and a program of this release made the folder, write %d into it)", path, file, text, Version)
	case v > Version:
		return 0, fmt.Errorf("data folder %s has version %d, and this program knows versions up to %d: use the release that wrote it or a later one, or choose another folder with --data; nothing was changed", path, v, Version)
	}
	return v, nil
}

// Upgraded says what was done to an older folder.
type Upgraded struct {
	From, To int
	Copy     string // the folder as it was
}

// Upgrade makes a folder one of this program's version, after it has made a copy
// of an older one. It returns nil if nothing had to be copied. The caller holds
// the folder's lock, and is told before what is copied, which may take a while.
func Upgrade(path string, begins func(version int, bytes uint64)) (*Upgraded, error) {
	return upgrade(path, begins, room)
}

func upgrade(path string, begins func(int, uint64), room func(string) (uint64, error)) (*Upgraded, error) {
	v, err := read(path)
	if err != nil || v == Version {
		return nil, err
	}
	var done *Upgraded
	if v != 0 {
		c := copier{from: path, begins: begins, room: room}
		to, err := c.run(v)
		if err != nil {
			return nil, fmt.Errorf("data folder %s has version %d, this program writes version %d, and the copy of it that is made before could not be made: %w", path, v, Version, err)
		}
		done = &Upgraded{From: v, To: Version, Copy: to}
	}
	if err := write(filepath.Join(path, versionFile), []byte(strconv.Itoa(Version)+"\n")); err != nil {
		return nil, fmt.Errorf("write the data folder's version: %w", err)
	}
	return done, nil
}

// write replaces a file as a whole, or not at all.
func write(name string, b []byte) error {
	tmp := name + ".tmp"
	w, err := os.OpenFile(tmp, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	if err = errors.Join(err, w.Sync(), w.Close()); err == nil {
		err = os.Rename(tmp, name)
	}
	if err != nil {
		_ = os.Remove(tmp) // it is of no use
		return err
	}
	return sync(filepath.Dir(name))
}

// sync has the disk know what is in a folder.
func sync(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
