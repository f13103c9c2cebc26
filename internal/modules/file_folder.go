package modules

import (
	"errors"
	"os"
	"path"
	"syscall"

	"golang.org/x/sys/unix"
)

// folder is where a place is: held open, and the one that was checked. What is
// done by it needs no further look at the way there, and follows no symbolic
// link that somebody puts in the place meanwhile.
type folder struct {
	root *os.Root
	file *os.File // the same, for what os.Root cannot do
	base string   // the name of the place in it
}

// enter opens the folder that p is in.
func (p place) enter() (*folder, error) {
	root, err := p.fs.OpenRoot(path.Dir(p.name))
	if err != nil {
		return nil, err
	}
	d := &folder{root: root, base: path.Base(p.name)}
	if d.file, err = root.Open("."); err != nil {
		root.Close()
		return nil, err
	}
	info, err := d.file.Stat()
	if err == nil && (p.parent == nil || !os.SameFile(info, p.parent)) {
		err = errMoved
	}
	if err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

func (d *folder) close() {
	d.file.Close()
	d.root.Close()
}

// open opens what has the name, if it is no symbolic link.
func (d *folder) open(flags int) (*os.File, error) {
	for {
		fd, err := unix.Openat(int(d.file.Fd()), d.base, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.ELOOP):
			return nil, errMoved
		case err != nil:
			return nil, &os.PathError{Op: "open", Path: d.base, Err: err}
		}
		return os.NewFile(uintptr(fd), d.base), nil
	}
}

// link gives a file a further name, which must be free.
func (d *folder) link(to *folder) error {
	return unix.Linkat(int(d.file.Fd()), d.base, int(to.file.Fd()), to.base, 0)
}

// rename moves what has the name, whatever it is.
func (d *folder) rename(to *folder) error {
	return unix.Renameat(int(d.file.Fd()), d.base, int(to.file.Fd()), to.base)
}
