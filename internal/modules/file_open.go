package modules

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/stoahub/stoa/internal/fault"
)

var (
	errEscapes = errors.New("path escapes from the root")
	errLinks   = errors.New("too many symbolic links")
	errHidden  = errors.New("it is excluded")
	errKept    = errors.New("a server runs it")
	errMoved   = errors.New("it is not what was checked any more")
)

// escapes reports whether os.Root refused to leave the root. Its error has no
// name, but its text is tested to be this one.
func escapes(err error) bool {
	return errors.Is(err, errEscapes) || strings.HasSuffix(err.Error(), "path escapes from parent")
}

// why is an error without the path in it, which the message has already.
func why(err error) error {
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		switch e {
		case syscall.ENOENT:
			return errors.New("it does not exist")
		case syscall.EACCES, syscall.EPERM:
			return errors.New("the user that the hub runs as may not open it")
		}
		return e
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// refusals say what the system's answers mean to a caller.
var refusals = []struct {
	errs []error
	kind fault.Kind
	text string
	hint string
}{
	{[]error{fs.ErrNotExist}, fault.ResourceNotFound, "there is no such file or folder", "file_list shows what there is."},
	{[]error{syscall.EROFS}, fault.Denied, "it is on a disk that cannot be written to", "Use another folder."},
	{[]error{fs.ErrPermission}, fault.Denied, "the user that the hub runs as may not do that", "Change the permissions, or use another path."},
	{[]error{fs.ErrExist}, fault.InvalidArguments, "there is something of that name already", "Use another name, or ask to overwrite it."},
	{[]error{syscall.ENOTEMPTY}, fault.InvalidArguments, "the folder is not empty", "Say recursive to remove what is in it too."},
	{[]error{syscall.ENOTDIR}, fault.InvalidArguments, "a part of the path is not a folder", "file_list shows what there is."},
	{[]error{syscall.EISDIR}, fault.InvalidArguments, "it is a folder", "Name a file."},
	{[]error{syscall.ENAMETOOLONG}, fault.InvalidArguments, "the name is too long", "Use a shorter one."},
	{[]error{syscall.ELOOP, errLinks}, fault.InvalidArguments, "there are too many symbolic links on the way", "Name the file itself."},
	{[]error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG}, fault.Limit, "there is no room for it; what was there is unchanged", "Make room on the disk, then call again."},
	{[]error{os.ErrClosed, errMoved}, fault.Unreachable, "the file or its folder was replaced during the call", "Call again."},
}

// fail says what could not be done to p, in words that tell nothing of what is
// outside of the roots.
func (f *files) fail(doing string, p place, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*fault.Error](err); ok || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if errors.Is(err, errHidden) {
		return private(p.given)
	}
	if errors.Is(err, errKept) {
		return kept(p.given)
	}
	if escapes(err) {
		e := fault.New(fault.Denied, p.given, "a symbolic link on the way leads out of the folder %s", p.root.label)
		e.Hint = "Use a path inside of a folder that the tools may use: " + f.labels() + "."
		return e
	}
	for _, r := range refusals {
		for _, is := range r.errs {
			if errors.Is(err, is) {
				e := fault.New(r.kind, p.given, "%s", r.text)
				e.Hint = r.hint
				return e.Because(err)
			}
		}
	}
	e := fault.New(fault.Internal, p.given, "%s: %v", doing, why(err))
	e.Hint = "Look at the disk and at the hub's log."
	return e.Because(err)
}

// kindOf is the word for what an entry is.
func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return "file"
	case mode.IsDir():
		return "folder"
	case mode&fs.ModeSymlink != 0:
		return "link"
	}
	return "other"
}

// notRegular refuses what is no file. Devices and pipes are never opened: it
// could block for ever, or do something.
func notRegular(p place, mode fs.FileMode) error {
	switch {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		return syscall.EISDIR
	case mode&fs.ModeSymlink != 0: // those that were there were followed
		return errMoved
	}
	e := fault.New(fault.InvalidArguments, p.given, "it is neither a file nor a folder but a pipe, socket or device")
	e.Hint = "Name a file."
	return e
}

// openRegular opens a file to be read.
func openRegular(p place) (*os.File, fs.FileInfo, error) {
	dir, err := p.enter()
	if err != nil {
		return nil, nil, err
	}
	defer dir.close()
	info, err := dir.root.Lstat(dir.base)
	if err != nil {
		return nil, nil, err
	}
	if err := notRegular(p, info.Mode()); err != nil {
		return nil, nil, err
	}
	// What it is may change meanwhile: the flag keeps a pipe from blocking.
	file, err := dir.open(os.O_RDONLY | syscall.O_NONBLOCK)
	if err != nil {
		return nil, nil, err
	}
	if info, err = file.Stat(); err == nil {
		err = notRegular(p, info.Mode())
	}
	if err == nil {
		err = p.guard.hides(info)
	}
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	return file, info, nil
}

// patient is a reader that ends with its context.
type patient struct {
	ctx context.Context
	r   io.Reader
}

func (p patient) Read(b []byte) (int, error) {
	if err := p.ctx.Err(); err != nil {
		return 0, err
	}
	return p.r.Read(b)
}

// whole reads a file that must not be larger than MaxBytes.
func (f *files) whole(ctx context.Context, p place) ([]byte, fs.FileInfo, error) {
	file, info, err := openRegular(p)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	if info.Size() > f.opts.MaxBytes {
		return nil, nil, f.tooLarge(p.given, info.Size())
	}
	b, err := io.ReadAll(io.LimitReader(patient{ctx, file}, f.opts.MaxBytes+1))
	if err != nil {
		return nil, nil, err
	}
	if int64(len(b)) > f.opts.MaxBytes {
		return nil, nil, f.tooLarge(p.given, int64(len(b)))
	}
	return b, info, nil
}

func hashOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// unchanged reports whether two looks saw the same version of a file.
func unchanged(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
