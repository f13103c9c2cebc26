package modules

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/stoahub/stoa/internal/fault"
)

// root is a folder that the tools may use. It is held open, so that what is
// done goes to that folder whatever happens to the way that leads there.
type root struct {
	label  string // how callers name it
	dir    string // as configured, absolute
	real   string // without symbolic links
	nested bool   // it is inside of another root

	mu   sync.Mutex
	held *os.Root
	id   fs.FileInfo // of the folder that is held
}

// openRoots opens all folders, or none and says what is wrong with each.
func openRoots(dirs []string) ([]*root, error) {
	var roots []*root
	var wrong []string
	for _, dir := range dirs {
		r, err := openRoot(dir)
		switch {
		case err != nil:
			wrong = append(wrong, err.Error())
		case within(roots, r):
			r.close() // named twice
		default:
			roots = append(roots, r)
		}
	}
	if len(dirs) == 0 {
		wrong = append(wrong, "there is no root")
	}
	if len(wrong) > 0 {
		for _, r := range roots {
			r.close()
		}
		e := fault.New(fault.Unreachable, "module file", "%s", strings.Join(wrong, "; "))
		e.Hint = "Make the folder or correct modules.file.roots, then reload the config."
		return nil, e
	}
	taken := map[string]bool{}
	for _, r := range roots {
		base := r.label
		for n := 2; taken[r.label]; n++ {
			r.label = base + "-" + strconv.Itoa(n)
		}
		taken[r.label] = true
		for _, other := range roots {
			_, inside := below(other.real, r.real)
			r.nested = r.nested || inside && other != r
		}
	}
	return roots, nil
}

func within(roots []*root, r *root) bool {
	for _, other := range roots {
		if other.real == r.real {
			return true
		}
	}
	return false
}

func openRoot(dir string) (*root, error) {
	abs, err := filepath.Abs(dir)
	if dir == "" || err != nil {
		return nil, fmt.Errorf("root %q: it is no path of a folder", dir)
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return nil, fmt.Errorf("root %s: %w", dir, why(err))
	}
	info, err := os.Stat(real)
	if err != nil {
		return nil, fmt.Errorf("root %s: %w", dir, why(err))
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("root %s: it is not a folder", dir)
	}
	r := &root{label: strings.ToValidUTF8(filepath.Base(abs), "_"), dir: abs, real: real}
	if r.label == string(filepath.Separator) {
		r.label = "root"
	}
	if err := r.hold(); err != nil {
		return nil, fmt.Errorf("root %s: %w", dir, why(err))
	}
	return r, nil
}

// hold opens the folder; mu is held or nobody else knows r.
func (r *root) hold() error {
	held, err := os.OpenRoot(r.real)
	if err != nil {
		return err
	}
	id, err := held.Stat(".")
	if err != nil {
		held.Close()
		return err
	}
	if r.held != nil {
		r.held.Close()
	}
	r.held, r.id = held, id
	return nil
}

// open returns the folder. One that was removed and made again is opened
// again, unless it is inside of another root: there whoever may write into the
// outer one could make its name lead elsewhere.
func (r *root) open() (*os.Root, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, err := os.Stat(r.real)
	if err == nil && os.SameFile(now, r.id) {
		return r.held, nil
	}
	if err == nil && !r.nested {
		if real, err := filepath.EvalSymlinks(r.real); err == nil && real == r.real && r.hold() == nil {
			return r.held, nil
		}
	}
	e := fault.New(fault.Unreachable, r.label, "the folder is gone or was replaced")
	e.Hint = "Make it again; if that is not enough, reload the config."
	return nil, e.Because(err)
}

func (r *root) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held.Close()
}

// below returns what is left of a clean absolute path inside of dir.
func below(dir, name string) (rest string, ok bool) {
	if name == dir {
		return ".", true
	}
	if !strings.HasSuffix(dir, "/") {
		dir += "/"
	}
	rest, ok = strings.CutPrefix(name, dir)
	return rest, ok
}

// inside returns the name in r of an absolute path.
func (r *root) inside(abs string) (string, bool) {
	abs = path.Clean(abs)
	if name, ok := below(r.dir, abs); ok {
		return name, true
	}
	return below(r.real, abs)
}

// locate finds the root that a path names, and the name in it. It looks at
// nothing but the text. With several roots, "." is in none of them.
func (f *files) locate(given string) (*root, string, error) {
	switch {
	case strings.ContainsRune(given, 0):
		return nil, "", fault.New(fault.InvalidArguments, strings.ReplaceAll(given, "\x00", "�"), "a path has no NUL")
	case len(given) > maxPath:
		return nil, "", fault.New(fault.InvalidArguments, given[:40]+"…", "a path has at most %d bytes", maxPath)
	}
	name := path.Clean(given)
	if path.IsAbs(name) {
		var best *root
		var rest string
		for _, r := range f.roots {
			if in, ok := r.inside(name); ok && (best == nil || len(in) < len(rest)) {
				best, rest = r, in
			}
		}
		if best == nil {
			return nil, "", f.outside(given)
		}
		return best, rest, nil
	}
	if !filepath.IsLocal(name) {
		return nil, "", f.outside(given)
	}
	if len(f.roots) == 1 {
		return f.roots[0], name, nil
	}
	if name == "." {
		return nil, name, nil
	}
	label, rest, _ := strings.Cut(name, "/")
	for _, r := range f.roots {
		if r.label == label {
			return r, path.Clean(rest), nil
		}
	}
	return nil, "", f.outside(given)
}

// outside refuses a path, whether or not there is something.
func (f *files) outside(given string) error {
	e := fault.New(fault.Denied, given, "it is not inside of a folder that the tools may use: %s", f.labels())
	e.Hint = "Use a path inside of a folder that is named: " + f.roots[0].label + "/… or an absolute one."
	if len(f.roots) == 1 {
		e.Hint = "Use a path relative to that folder."
	}
	return e
}

// place is where a path leads: a name without symbolic links in a root.
type place struct {
	root  *root
	fs    *os.Root
	name  string // "." is the root itself
	given string // what the caller wrote, for messages
	short string // how a caller can write it
	// parent is the folder it is in, as it was when the name was checked; nil
	// if that did not exist.
	parent fs.FileInfo
	guard  *guard
}

// at returns the place of a name below p.
func (p place) at(name string) place {
	p.name = path.Join(p.name, name)
	p.short = path.Join(p.short, name)
	p.given = p.short
	return p
}

// find resolves a path that is to be read. With follow, a symbolic link at its
// end is resolved too; without, the link itself is meant.
func (f *files) find(given string, follow bool) (place, error) {
	return f.findBy(given, follow, f.guard(false))
}

// findChange resolves a path at which something is to be made, changed, moved
// or removed. What is missing at the end stays in the name, since it can be made.
func (f *files) findChange(given string, follow bool) (place, error) {
	return f.findBy(given, follow, f.guard(true))
}

func (f *files) findBy(given string, follow bool, g *guard) (place, error) {
	r, name, err := f.locate(given)
	if err != nil {
		return place{}, err
	}
	if r == nil {
		e := fault.New(fault.InvalidArguments, given, "it is no folder of its own")
		e.Hint = "Begin the path with one of: " + f.labels() + "."
		return place{}, e
	}
	p := place{root: r, given: given, guard: g}
	if p.fs, err = r.open(); err != nil {
		return place{}, err
	}
	if p.name, err = p.resolve(name, follow); err == nil {
		err = p.check()
	}
	if err != nil {
		return place{}, f.fail("find", p, err)
	}
	p.short = p.name
	if len(f.roots) > 1 {
		p.short = path.Join(r.label, p.name)
	}
	return p, nil
}

// resolve follows the symbolic links of a name by hand, since os.Root refuses
// absolute ones even if they stay inside. Nothing rests on its result being
// still true: what is done with it is held inside by os.Root.
func (p place) resolve(name string, follow bool) (string, error) {
	var done []string
	todo := strings.Split(name, "/")
	missing := false
	for links := 0; len(todo) > 0; {
		part := todo[0]
		todo = todo[1:]
		switch {
		case part == "" || part == ".":
			continue
		case part == ".." && missing:
			return "", fs.ErrNotExist
		case part == ".." && len(done) == 0:
			return "", errEscapes
		case part == "..":
			done = done[:len(done)-1]
			continue
		}
		if p.guard.names.has(part) {
			return "", errHidden
		}
		at := path.Join(append(done[:len(done):len(done)], part)...)
		var target string
		var err error
		if !missing {
			target, err = p.look(at, follow || len(todo) > 0)
		}
		switch {
		case os.IsNotExist(err):
			missing = true
		case err != nil:
			return "", err
		}
		if target == "" {
			done = append(done, part)
			continue
		}
		if links++; links > maxLinks {
			return "", errLinks
		}
		if path.IsAbs(target) {
			in, ok := p.root.inside(target)
			if !ok {
				return "", errEscapes
			}
			target, done = in, nil
		}
		todo = append(strings.Split(target, "/"), todo...)
	}
	return path.Join(append([]string{"."}, done...)...), nil
}

// check refuses a name without symbolic links that is excluded, and remembers
// the folder it is in.
func (p *place) check() error {
	names := elements(p.name)
	info, err := p.fs.Lstat(".")
	for i := range names {
		if err != nil {
			return nil // os.Root will say why, or the folder is to be made
		}
		if err := p.guard.reserves(info, names[i:], false); err != nil {
			return err
		}
		if i == len(names)-1 {
			break
		}
		info, err = p.fs.Lstat(path.Join(names[:i+1]...))
	}
	if err != nil {
		return nil
	}
	p.parent = info
	if info, err = p.fs.Lstat(p.name); err == nil && info.Mode().IsRegular() {
		folder := filepath.Join(p.root.real, path.Dir(p.name))
		if sameAsAny(info, p.guard.twins(folder, p.guard.names.plainNames())) {
			return errHidden
		}
	}
	return nil
}

// look returns where a symbolic link leads, if it is one and is to be followed.
func (p place) look(name string, follow bool) (target string, err error) {
	info, err := p.fs.Lstat(name)
	switch {
	case err != nil:
		return "", err
	case follow && info.Mode()&fs.ModeSymlink != 0 && p.guard.hides(info) == nil:
		return p.fs.Readlink(name)
	}
	return "", p.guard.hides(info)
}
