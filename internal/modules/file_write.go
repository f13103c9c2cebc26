package modules

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/stoahub/stoa/internal/fault"
)

var writeTool = Tool{
	Name: "file_write", Title: "Write a file", Destructive: true,
	Description: "Writes a file. Mode create (default) makes a new one and never replaces, overwrite makes or replaces it as a whole, append adds to its end. " +
		"A reader and a crash see the old content or the new one, never a part.",
	Input: `{"type":"object","additionalProperties":false,"required":["path","content"],"properties":{
		"path":{"type":"string"},
		"content":{"type":"string"},
		"encoding":{"enum":["text","base64"],"description":"What content is. Default text."},
		"mode":{"enum":["create","overwrite","append"],"description":"Default create."},
		"parents":{"type":"boolean","description":"Make the folders on the way that are missing."},
		"expectHash":{"type":"string","pattern":"^[0-9a-fA-F]{64}$","description":"Write only if the file has this SHA-256, as file_read told it."}}}`,
}

type writeArgs struct {
	Path       string `json:"path"`
	Content    string `json:"content"`
	Encoding   string `json:"encoding"`
	Mode       string `json:"mode"`
	Parents    bool   `json:"parents"`
	ExpectHash string `json:"expectHash"`
}

type written struct {
	Path    string `json:"path"`
	Size    int    `json:"size"`
	Hash    string `json:"hash"`
	Created bool   `json:"created"`
}

func (f *files) write(ctx context.Context, a writeArgs) (any, error) {
	content := []byte(a.Content)
	if a.Encoding == "base64" {
		b, err := base64.StdEncoding.DecodeString(a.Content)
		if err != nil {
			e := fault.New(fault.InvalidArguments, "content", "it is not base64: %v", err)
			e.Hint = "Encode it as base64 with padding, or leave encoding out."
			return nil, e
		}
		content = b
	}
	if int64(len(content)) > f.opts.MaxBytes {
		return nil, f.tooLarge(a.Path, int64(len(content)))
	}
	p, err := f.findChange(a.Path, true)
	if err != nil {
		return nil, err
	}
	unlock, err := f.lock(ctx, p)
	if err != nil {
		return nil, err
	}
	defer unlock()
	old, err := f.before(ctx, p, a)
	if err != nil {
		return nil, f.fail("write", p, err)
	}
	if a.Mode == "append" && old.info != nil {
		content = append(old.content[:len(old.content):len(old.content)], content...)
		if int64(len(content)) > f.opts.MaxBytes {
			return nil, f.tooLarge(a.Path, int64(len(content)))
		}
	}
	if a.Parents {
		if err := f.makeParents(&p); err != nil {
			return nil, f.fail("make the folders", p, err)
		}
	}
	if err := f.replace(ctx, p, old.change, bytesOf(content)); err != nil {
		return nil, f.fail("write", p, err)
	}
	return written{Path: p.short, Size: len(content), Hash: hashOf(content), Created: old.info == nil}, nil
}

// makeParents makes the folders that lead to p. What is in them now was not
// looked at before, so p is checked again.
func (f *files) makeParents(p *place) error {
	if err := p.fs.MkdirAll(path.Dir(p.name), 0o777); err != nil || p.parent != nil {
		return err
	}
	now, err := p.resolve(p.name, false)
	if err == nil && now != p.name {
		err = errMoved
	}
	if err != nil {
		return err
	}
	return p.check()
}

// former is what is there before a write.
type former struct {
	change
	content []byte // where it is needed
}

// before looks at what a write would change, and refuses what must not be.
func (f *files) before(ctx context.Context, p place, a writeArgs) (former, error) {
	var old former
	info, err := p.fs.Stat(p.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if a.ExpectHash != "" {
			return old, conflict(a.Path, "the file is gone")
		}
		old.fresh = a.Mode != "overwrite"
		return old, nil
	case err != nil:
		return old, err
	}
	if err := notRegular(p, info.Mode()); err != nil {
		return old, err
	}
	if a.Mode == "" || a.Mode == "create" {
		return old, fs.ErrExist
	}
	if err := writable(p); err != nil {
		return old, err
	}
	old.info = info
	if a.ExpectHash == "" && a.Mode != "append" {
		return old, nil
	}
	if old.content, old.info, err = f.whole(ctx, p); err != nil {
		return old, err
	}
	old.same = true
	return old, expect(a.Path, old.content, a.ExpectHash)
}

// expect refuses a change of a file that is not as the caller knew it.
func expect(given string, content []byte, hash string) error {
	if hash == "" {
		return nil
	}
	want := strings.ToLower(hash)
	if got := hashOf(content); got != want {
		return conflict(given, "the file has changed: its hash is "+got)
	}
	return nil
}

func conflict(given, text string) error {
	e := fault.New(fault.InvalidArguments, given, "%s", text)
	e.Hint = "Read it again and decide anew."
	return e
}

// writable refuses a file that the hub's user may not write to: replacing it
// would need no right to the file itself.
func writable(p place) error {
	dir, err := p.enter()
	if err != nil {
		return err
	}
	defer dir.close()
	file, err := dir.open(os.O_WRONLY | syscall.O_NONBLOCK)
	if errors.Is(err, syscall.ETXTBSY) {
		return nil // a program that runs keeps its old content
	}
	if err != nil {
		return err
	}
	return file.Close()
}

// change says what replace may do.
type change struct {
	fresh bool        // there must be nothing of that name
	same  bool        // what is there must still be as info says
	info  fs.FileInfo // of what is replaced; nil if there was nothing
}

func bytesOf(b []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	}
}

// replace puts a file in the place of p: written beside it under another name,
// on the disk as a whole, and only then given the name. Whatever fails before
// leaves what was there.
func (f *files) replace(ctx context.Context, p place, c change, body func(io.Writer) error) error {
	// The folder is held, so that all of it happens in the same one.
	held, err := p.enter()
	if err != nil {
		return err
	}
	defer held.close()
	dir := held.root
	perm := fs.FileMode(0o666)
	if c.info != nil {
		perm = 0o600 // nobody else reads it before it has the rights of the old one
	}
	temp := ".stoa-" + rand.Text() + ".tmp"
	file, err := dir.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	defer dir.Remove(temp) // once it has its name, there is none of this
	err = body(file)
	if err == nil && c.info != nil {
		err = keepRights(file, c.info)
	}
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := c.name(dir, temp, held.base, p.given); err != nil {
		return err
	}
	return syncFolder(dir)
}

// name gives the new file its name.
func (c change) name(dir *os.Root, temp, base, given string) error {
	if c.fresh {
		err := dir.Link(temp, base) // unlike a rename it replaces nothing
		if !noLinks(err) {
			return err
		}
		if _, err := dir.Lstat(base); !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(err, fs.ErrExist)
		}
		return dir.Rename(temp, base)
	}
	if c.same {
		if now, err := dir.Lstat(base); err != nil || !unchanged(now, c.info) {
			return conflict(given, "the file was changed by somebody else meanwhile")
		}
	}
	return dir.Rename(temp, base)
}

// noLinks reports whether a disk knows no hard links.
func noLinks(err error) bool {
	return errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOTSUP) || errors.Is(err, syscall.EMLINK) || errors.Is(err, syscall.ENOSYS)
}

// keepRights gives a file the owner and the permissions of another. Only the
// superuser can give files away, so the owner is tried.
func keepRights(file *os.File, like fs.FileInfo) error {
	if s, ok := like.Sys().(*syscall.Stat_t); ok {
		_ = file.Chown(int(s.Uid), int(s.Gid))
	}
	const kept = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky
	return file.Chmod(like.Mode() & kept)
}

// syncFolder makes a new name last. Not every disk can; the file itself is safe.
func syncFolder(dir *os.Root) error {
	d, err := dir.Open(".")
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil
	}
	return errors.Join(err, d.Close())
}
