package modules

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"

	"github.com/stoahub/stoa/internal/fault"
)

var moveTool = Tool{
	Name: "file_move", Title: "Move or rename", Destructive: true,
	Description: "Gives a file or folder another name or place. What has that name already is replaced only with overwrite, and only if it is a file. Of a symbolic link, the link is moved. Folders cannot be moved from one root to another.",
	Input: `{"type":"object","additionalProperties":false,"required":["from","to"],"properties":{
		"from":{"type":"string"},
		"to":{"type":"string","description":"The new path itself, not the folder to put it into."},
		"overwrite":{"type":"boolean"},
		"parents":{"type":"boolean","description":"Make the folders on the way that are missing."}}}`,
}

var removeTool = Tool{
	Name: "file_remove", Title: "Remove", Destructive: true,
	Description: "Removes a file, a symbolic link (not what it leads to) or an empty folder; with recursive a folder with all that is in it. It cannot be undone. A root itself is never removed.",
	Input: `{"type":"object","additionalProperties":false,"required":["path"],"properties":{
		"path":{"type":"string"},
		"recursive":{"type":"boolean"}}}`,
}

type moveArgs struct {
	From      string `json:"from"`
	To        string `json:"to"`
	Overwrite bool   `json:"overwrite"`
	Parents   bool   `json:"parents"`
}

func (f *files) move(ctx context.Context, a moveArgs) (any, error) {
	from, err := f.findEntry(ctx, a.From)
	if err != nil {
		return nil, err
	}
	to, err := f.findTarget(a.To)
	if err != nil {
		return nil, err
	}
	unlock, err := f.lock(ctx, from, to)
	if err != nil {
		return nil, err
	}
	defer unlock()
	info, err := from.fs.Lstat(from.name)
	if err != nil {
		return nil, f.fail("move", from, err)
	}
	if err := f.free(from, to, info, a.Overwrite); err != nil {
		return nil, f.fail("move", to, err)
	}
	if a.Parents {
		if err := f.makeParents(&to); err != nil {
			return nil, f.fail("make the folders", to, err)
		}
	}
	if from.root == to.root {
		err = rename(from, to, info, a.Overwrite)
	} else {
		err = f.carry(ctx, from, to, info, a.Overwrite)
	}
	if err != nil {
		return nil, f.fail("move", to, err)
	}
	return map[string]any{"from": from.short, "to": to.short, "type": kindOf(info.Mode())}, nil
}

// findEntry finds what a path itself names, which must not be a root, nor have
// one or what is excluded in it, nor lead there.
func (f *files) findEntry(ctx context.Context, given string) (place, error) {
	p, err := f.findChange(given, false)
	if err != nil {
		return p, err
	}
	info, err := p.fs.Lstat(p.name)
	if p.name == "." || err == nil && f.leads(p, info) {
		return p, mustStay(given)
	}
	if err != nil || !info.IsDir() {
		return p, nil // who uses it will see that it is missing
	}
	dir, err := p.enter()
	if err == nil {
		err = p.guard.scan(ctx, dir.root, dir.base, 0)
		dir.close()
	}
	if errors.Is(err, errHidden) || errors.Is(err, errKept) {
		return p, mustStay(given)
	}
	return p, f.fail("look into", p, err)
}

// findTarget finds where something may be moved to. At and above what is
// excluded nothing may come to be: with a folder, all that is in it would.
func (f *files) findTarget(given string) (place, error) {
	p, err := f.findChange(given, false)
	if err != nil {
		return p, err
	}
	if info, err := p.fs.Lstat(p.name); p.name == "." || err == nil && f.leads(p, info) {
		return p, mustStay(given)
	}
	names := elements(p.name)
	for i := range names {
		info, err := p.fs.Lstat(path.Join(append([]string{"."}, names[:i]...)...))
		if err != nil {
			break
		}
		if err := p.guard.reserves(info, names[i:], true); err != nil {
			return p, f.fail("move", p, err)
		}
	}
	return p, nil
}

func mustStay(given string) error {
	e := fault.New(fault.Denied, given, "it is a root, or it holds or leads to one or to a part of the hub's configuration, secrets or data or to what a server runs: it is neither moved, replaced nor removed")
	e.Hint = "Name the files in it that are meant, one by one."
	return e
}

// leads reports whether a root or what is excluded is at or below a folder, or
// is reached through a symbolic link.
func (f *files) leads(p place, info fs.FileInfo) bool {
	if p.guard.leads(info) {
		return true
	}
	seen := stats{}
	for _, r := range f.roots {
		if e := seen.trail(r.dir); sameAsAny(info, e.self) || sameAsAny(info, e.way) {
			return true
		}
	}
	return false
}

func tooDeep(name string) error {
	e := fault.New(fault.Limit, strings.ToValidUTF8(name, "�"), "folders are nested deeper than %d", maxDepth)
	e.Hint = "Move or remove the inner ones first."
	return e
}

// free checks that something may come to be at a place.
func (f *files) free(from, to place, info fs.FileInfo, overwrite bool) error {
	if in, ok := below(path.Join(from.root.real, from.name), path.Join(to.root.real, to.name)); ok && (in == "." || info.IsDir()) {
		e := fault.New(fault.InvalidArguments, to.given, "it is the same as %s or inside of it", from.given)
		e.Hint = "Name another place."
		return e
	}
	there, err := to.fs.Lstat(to.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case os.SameFile(info, there) && info.Mode().IsRegular() && strings.EqualFold(path.Base(from.name), path.Base(to.name)):
		return nil // a disk that does not tell capitals apart
	case !overwrite:
		return fs.ErrExist
	case there.IsDir():
		e := fault.New(fault.InvalidArguments, to.given, "it is a folder, and only files are replaced")
		e.Hint = "Name the new path itself, or remove the folder first."
		return e
	}
	return nil
}

// rename moves within a root. Where nothing may be replaced, a file gets its
// new name before it loses the old one, since a link, unlike a rename, fails if
// somebody else took the name meanwhile.
func rename(from, to place, info fs.FileInfo, overwrite bool) error {
	old, err := from.enter()
	if err != nil {
		return err
	}
	defer old.close()
	target, err := to.enter()
	if err != nil {
		return err
	}
	defer target.close()
	if !overwrite && info.Mode().IsRegular() {
		err := old.link(target)
		if err == nil {
			return old.root.Remove(old.base)
		}
		if !noLinks(err) && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if there, lerr := target.root.Lstat(target.base); lerr == nil && !os.SameFile(there, info) {
			return fs.ErrExist
		}
	}
	if there, err := target.root.Lstat(target.base); err == nil && overwrite && os.SameFile(there, info) {
		return old.root.Remove(old.base) // a rename between two names of one file does nothing
	}
	return old.rename(target)
}

// carry moves a file to another root: it is there as a whole before it is
// removed here.
func (f *files) carry(ctx context.Context, from, to place, info fs.FileInfo, overwrite bool) error {
	if !info.Mode().IsRegular() {
		e := fault.New(fault.InvalidArguments, from.given, "only a file can be moved from one root to another; this is a %s", kindOf(info.Mode()))
		e.Hint = "Move the files in it one by one."
		return e
	}
	file, opened, err := openRegular(from)
	if err != nil {
		return err
	}
	defer file.Close()
	c := change{fresh: !overwrite, info: opened}
	err = f.replace(ctx, to, c, func(w io.Writer) error {
		_, err := io.Copy(w, patient{ctx, file})
		return err
	})
	if err != nil {
		return err
	}
	if now, err := from.fs.Lstat(from.name); err != nil || !unchanged(now, opened) {
		return conflict(from.given, "the file was changed by somebody else meanwhile; it was copied and not removed")
	}
	return removeOne(from)
}

// removeOne removes a file, a symbolic link or an empty folder.
func removeOne(p place) error {
	dir, err := p.enter()
	if err != nil {
		return err
	}
	defer dir.close()
	return dir.root.Remove(dir.base)
}

type removeArgs struct {
	Path      string `json:"path"`
	Recursive bool   `json:"recursive"`
}

func (f *files) remove(ctx context.Context, a removeArgs) (any, error) {
	p, err := f.findEntry(ctx, a.Path)
	if err != nil {
		return nil, err
	}
	unlock, err := f.lock(ctx, p)
	if err != nil {
		return nil, err
	}
	defer unlock()
	info, err := p.fs.Lstat(p.name)
	if err != nil {
		return nil, f.fail("remove", p, err)
	}
	removed := 1
	if a.Recursive && info.IsDir() {
		removed, err = f.removeTree(ctx, p)
	} else {
		err = removeOne(p)
	}
	if err != nil {
		return nil, f.fail("remove", p, err)
	}
	return map[string]any{"path": p.short, "type": kindOf(info.Mode()), "removed": removed}, nil
}

// removeTree removes a folder and what is in it. If it does not come to its
// end, the error says how much is gone.
func (f *files) removeTree(ctx context.Context, p place) (int, error) {
	dir, err := p.enter()
	if err != nil {
		return 0, err
	}
	defer dir.close()
	removed := 0
	err = p.guard.removeAll(ctx, dir.root, dir.base, 0, &removed)
	if err == nil || removed == 0 {
		return removed, err
	}
	e := *fault.Of(f.fail("remove", p, err))
	e.Msg = strings.TrimSuffix(e.Msg, ".") + "; " + plural(removed, "entry was", "entries were") + " removed before"
	return removed, &e
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// removeAll opens each folder as a root of its own: if somebody puts a link in
// its place, nothing outside of the folder above is removed.
func (g *guard) removeAll(ctx context.Context, dir *os.Root, name string, depth int, removed *int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, err := g.allows(dir, name); err != nil {
		return err
	}
	err := dir.Remove(name)
	if err == nil {
		*removed++
		return nil
	}
	if !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, syscall.EEXIST) {
		return err
	}
	if depth == maxDepth {
		return tooDeep(name)
	}
	sub, err := dir.OpenRoot(name)
	if err != nil {
		return err
	}
	err = g.removeEntries(ctx, sub, depth, removed)
	if err = errors.Join(err, sub.Close()); err != nil {
		return err
	}
	if err := dir.Remove(name); err != nil {
		return err
	}
	*removed++
	return nil
}

func (g *guard) removeEntries(ctx context.Context, dir *os.Root, depth int, removed *int) error {
	for {
		// From the beginning each time: what was read may be gone.
		d, err := dir.Open(".")
		if err != nil {
			return err
		}
		names, err := d.Readdirnames(1024)
		d.Close()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := g.removeAll(ctx, dir, name, depth+1, removed); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
}
