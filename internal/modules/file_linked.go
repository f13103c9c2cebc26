package modules

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/stoahub/stoa/internal/fault"
)

// fileID is what a file is, whatever its names.
type fileID struct{ dev, ino uint64 }

// linked returns what a regular file is, and whether it has further names.
func linked(info fs.FileInfo) (id fileID, more bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.Mode().IsRegular() {
		return id, false
	}
	return fileID{uint64(s.Dev), uint64(s.Ino)}, s.Nlink > 1
}

// filesIn are the files in the folders among some paths that have further
// names: a hard link leads to one without passing the folder. What changes
// meanwhile may be missed, as a file that is removed from there is.
func filesIn(paths []string) (map[fileID]bool, error) {
	out, visited := map[fileID]bool{}, 0
	visit := func(_ string, d fs.DirEntry, err error) error {
		if visited++; visited > maxVisited {
			return fault.New(fault.Limit, "module file", "there are more than %d files in excluded folders", maxVisited)
		}
		if err != nil || !d.Type().IsRegular() {
			return nil // what we may not read, nobody reads by us
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		if id, more := linked(info); more {
			out[id] = true
		}
		return nil
	}
	for _, name := range paths {
		real, err := filepath.EvalSymlinks(name)
		if err != nil {
			continue
		}
		if info, err := os.Stat(real); err != nil || !info.IsDir() {
			continue
		}
		if err := filepath.WalkDir(real, visit); err != nil {
			return nil, err
		}
	}
	return out, nil
}
