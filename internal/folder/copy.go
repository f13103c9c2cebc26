package folder

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// copyPrefix is how the names of copies begin; halfSuffix how those end that are
// not whole.
const (
	copyPrefix = "copy-of-version-"
	halfSuffix = ".half"
)

// reserve is what stays free beside a copy: the hub goes on to write.
const reserve = 64 << 20

// deepest is how many folders may be in each other; links could make it endless.
const deepest = 32

// left is what a copy does not need: what tells of a hub that runs, and logs.
var left = []string{"hub.lock", "hub.json", "hub.json.tmp", "launch.lock", "clients.lock", "logs"}

// copier copies a data folder into a folder inside of it, which is on the same
// disk and belongs to the same user.
type copier struct {
	from   string
	begins func(version int, bytes uint64)
	room   func(path string) (free uint64, err error)
}

// run returns the folder of the copy.
func (c *copier) run(version int) (string, error) {
	size, err := c.size(c.from, 0)
	if err != nil {
		return "", err
	}
	to := c.name(version)
	half := to + halfSuffix
	if err := os.RemoveAll(half); err != nil { // begun by a start that did not come to its end
		return "", err
	}
	free, err := c.room(c.from)
	if err != nil {
		return "", fmt.Errorf("find out how much room the disk has: %w", err)
	}
	if need := size + reserve; free < need {
		return "", fmt.Errorf("it needs %s on the disk, which has %s (free some space; or copy the folder somewhere else yourself, then write %d into %s, and it is used without another copy); nothing was changed",
			inMB(need), inMB(free), Version, filepath.Join(c.from, versionFile))
	}
	c.begins(version, size)
	if err := c.tree(c.from, half, 0); err != nil {
		_ = os.RemoveAll(half) // it takes room, and is of no use
		return "", err
	}
	if err := os.Rename(half, to); err != nil {
		return "", err
	}
	return to, sync(c.from)
}

// inMB is a size that people can compare.
func inMB(bytes uint64) string { return fmt.Sprintf("%d MB", (bytes+1e6-1)/1e6) }

// name is that of the next copy. One that is there stays: who went back to the
// older program has changed the folder since.
func (c *copier) name(version int) string {
	first := filepath.Join(c.from, fmt.Sprintf("%s%d", copyPrefix, version))
	name := first
	for n := 2; ; n++ {
		if _, err := os.Lstat(name); err != nil {
			return name
		}
		name = fmt.Sprintf("%s-%d", first, n)
	}
}

// entries are what is to be copied of a folder. Links are followed: a copy that
// led to the files of the folder would change with them.
func (c *copier) entries(dir string, depth int) ([]fs.FileInfo, error) {
	if depth > deepest {
		return nil, fmt.Errorf("%s: more than %d folders are in each other", dir, deepest)
	}
	all, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var infos []fs.FileInfo
	for _, e := range all {
		name := e.Name()
		if depth == 0 && (slices.Contains(left, name) || strings.HasPrefix(name, copyPrefix) || strings.HasPrefix(name, "console-")) {
			continue
		}
		info, err := os.Stat(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it went just now, or leads nowhere
		}
		if err != nil {
			return nil, err
		}
		if info.IsDir() || info.Mode().IsRegular() {
			infos = append(infos, named{info, name})
		}
	}
	return infos, nil
}

// named is what is known of a file by the name that leads to it.
type named struct {
	fs.FileInfo
	name string
}

func (n named) Name() string { return n.name }

// size is how many bytes are to be copied.
func (c *copier) size(dir string, depth int) (uint64, error) {
	infos, err := c.entries(dir, depth)
	if err != nil {
		return 0, err
	}
	total := uint64(0)
	for _, info := range infos {
		const block = 4096 // what a small file takes, and a folder
		if !info.IsDir() {
			total += (uint64(info.Size()) + block - 1) / block * block
			continue
		}
		n, err := c.size(filepath.Join(dir, info.Name()), depth+1)
		if err != nil {
			return 0, err
		}
		total += n + block
	}
	return total, nil
}

// tree copies a folder with all that is in it.
func (c *copier) tree(from, to string, depth int) error {
	infos, err := c.entries(from, depth)
	if err != nil {
		return err
	}
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	for _, info := range infos {
		a, b := filepath.Join(from, info.Name()), filepath.Join(to, info.Name())
		if info.IsDir() {
			err = c.tree(a, b, depth+1)
		} else {
			err = file(a, b, info)
		}
		if err != nil {
			return err
		}
	}
	return sync(to)
}

// file copies one file, which nobody else can read then.
func file(from, to string, info fs.FileInfo) error {
	r, err := os.Open(from)
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, info.Mode().Perm()&0o700|0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	if err = errors.Join(err, w.Sync(), w.Close()); err != nil {
		return err
	}
	return os.Chtimes(to, info.ModTime(), info.ModTime())
}

// room is how many bytes may still be written to the disk of a folder.
func room(path string) (uint64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(path, &st); err != nil {
		return 0, err
	}
	return st.Bavail * uint64(st.Bsize), nil
}
