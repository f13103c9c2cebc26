package modules

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/stoahub/stoa/internal/fault"
)

// excluded is one path of FileOptions.Exclude as the disk has it now.
type excluded struct {
	kept bool          // it may be read, and must only not be changed
	self []fs.FileInfo // what is there, and the symbolic links of that name
	way  []fs.FileInfo // the folders and symbolic links that lead there
	// spots are where it is or would be: the last of its folders that exists,
	// and the folded names from there on.
	spots []spot
}

type spot struct {
	folder fs.FileInfo
	rest   []string
}

// guard knows what must not be touched, as it was when the call began. Things
// are compared by what they are, since a disk may take several names for one,
// and by name where there is nothing yet.
type guard struct {
	names *nameSet
	paths []excluded
	// inner are the files in excluded folders, once somebody has asked.
	inner func() (map[fileID]bool, error)
}

// guard looks at what is excluded, which may have been replaced. For a call
// that is to change something, that is also what servers run.
func (f *files) guard(changes bool) *guard {
	g := &guard{names: f.never}
	seen := stats{}
	for _, name := range f.opts.Exclude {
		g.paths = append(g.paths, seen.trail(name))
	}
	g.inner = sync.OnceValues(func() (map[fileID]bool, error) { return filesIn(f.opts.Exclude) })
	if changes && f.opts.Programs != nil {
		for _, name := range f.opts.Programs() {
			e := seen.trail(name)
			e.kept = true
			g.paths = append(g.paths, e)
		}
	}
	return g
}

// stats remembers what was looked at, as most paths begin alike.
type stats map[string]fs.FileInfo

func (s stats) lstat(name string) fs.FileInfo {
	info, ok := s[name]
	if !ok {
		info, _ = os.Lstat(name) // nil: what cannot be seen is as good as missing
		s[name] = info
	}
	return info
}

// trail follows an absolute path and remembers all that it depends on.
func (s stats) trail(name string) excluded {
	var e excluded
	done, todo := "/", elements(name)
	for links := 0; len(todo) > 0; {
		part, rest := todo[0], todo[1:]
		if part == ".." {
			done, todo = filepath.Dir(done), rest
			continue
		}
		at := filepath.Join(done, part)
		info := s.lstat(at)
		if len(rest) == 0 || info == nil {
			if dir := s.lstat(done); dir != nil {
				e.spots = append(e.spots, spot{dir, foldAll(todo)})
			}
		}
		if info == nil {
			return e
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			if len(rest) > 0 {
				e.way = append(e.way, info)
			}
			done, todo = at, rest
			continue
		}
		if len(rest) == 0 {
			e.self = append(e.self, info)
		} else {
			e.way = append(e.way, info)
		}
		target, err := os.Readlink(at)
		if links++; err != nil || links > maxLinks {
			return e
		}
		if filepath.IsAbs(target) {
			done = "/"
		}
		todo = append(elements(target), rest...)
	}
	if info := s.lstat(done); info != nil {
		e.self = append(e.self, info)
	}
	return e
}

// elements splits a path into its names.
func elements(name string) []string {
	var out []string
	for part := range strings.SplitSeq(name, "/") {
		if part != "" && part != "." {
			out = append(out, part)
		}
	}
	return out
}

func sameAsAny(info fs.FileInfo, others []fs.FileInfo) bool {
	for _, other := range others {
		if os.SameFile(other, info) {
			return true
		}
	}
	return false
}

// hides refuses something that is excluded, whatever its name.
func (g *guard) hides(info fs.FileInfo) error {
	for i := range g.paths {
		if sameAsAny(info, g.paths[i].self) {
			return g.paths[i].refusal()
		}
	}
	if id, more := linked(info); more {
		if inner, err := g.inner(); err != nil || inner[id] {
			return errHidden
		}
	}
	return nil
}

func (e *excluded) refusal() error {
	if e.kept {
		return errKept
	}
	return errHidden
}

// leads reports whether something excluded is reached through this folder or
// symbolic link.
func (g *guard) leads(info fs.FileInfo) bool {
	for i := range g.paths {
		if sameAsAny(info, g.paths[i].way) {
			return true
		}
	}
	return false
}

// reserves refuses the names below a folder that lead to where something
// excluded is or would be, or into it. With above, also those that lead to a
// folder in which it would be.
func (g *guard) reserves(folder fs.FileInfo, names []string, above bool) error {
	for i := range g.paths {
		for _, s := range g.paths[i].spots {
			if !os.SameFile(s.folder, folder) {
				continue
			}
			folded := foldAll(names)
			if n := min(len(folded), len(s.rest)); (above || n == len(s.rest)) && equal(folded[:n], s.rest[:n]) {
				return g.paths[i].refusal()
			}
		}
	}
	return nil
}

func equal(a, b []string) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// nameSet is FileOptions.ExcludeNames.
type nameSet struct {
	plain    []string // those that are no patterns, as they were given
	never    []string // folded
	excepted []string // folded
}

func newNameSet(patterns []string) (*nameSet, error) {
	s := &nameSet{}
	for _, p := range patterns {
		name, excepted := strings.CutPrefix(p, "!")
		if _, err := path.Match(fold(name), ""); err != nil || strings.Contains(name, "/") {
			return nil, fault.New(fault.Internal, "module file", "the excluded name %q is no pattern of a name", p)
		}
		switch {
		case excepted:
			s.excepted = append(s.excepted, fold(name))
			continue
		case !strings.ContainsAny(name, `*?[\`):
			s.plain = append(s.plain, name)
		}
		s.never = append(s.never, fold(name))
	}
	return s, nil
}

func (s *nameSet) plainNames() []string {
	if s == nil {
		return nil
	}
	return s.plain
}

// has reports whether a file or folder of this name is never touched.
func (s *nameSet) has(name string) bool {
	if s == nil || len(s.never) == 0 {
		return false
	}
	name = fold(name)
	bare, _, stream := strings.Cut(name, ":") // some disks keep further contents of a file so
	return s.match(name) || stream && s.match(bare)
}

func (s *nameSet) match(folded string) bool {
	return matchAny(s.never, folded) && !matchAny(s.excepted, folded)
}

func matchAny(patterns []string, name string) bool {
	for _, p := range patterns {
		if ok, _ := path.Match(p, name); ok {
			return true
		}
	}
	return false
}

// twins are the files that the excluded ones of some names in a folder lead to.
// Other names of them, by hard or symbolic links, are excluded too.
func (g *guard) twins(folder string, names []string) []fs.FileInfo {
	var out []fs.FileInfo
	for _, name := range names {
		if !g.names.has(name) {
			continue
		}
		if info, err := os.Stat(filepath.Join(folder, name)); err == nil && info.Mode().IsRegular() {
			out = append(out, info)
		}
	}
	return out
}

// fold gives names one form that some disk takes for the same: letters in
// either case, composed or not, with characters that nobody sees, or with dots
// and spaces at the end.
func fold(name string) string {
	name = strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) {
			return -1
		}
		least := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			least = min(least, next)
		}
		return least
	}, norm.NFKC.String(name))
	return strings.TrimRight(name, ". ")
}

func foldAll(names []string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = fold(name)
	}
	return out
}

// scan looks for what is excluded in a folder and in those below.
func (g *guard) scan(ctx context.Context, above *os.Root, name string, depth int) error {
	if depth > maxDepth {
		return tooDeep(name)
	}
	dir, err := above.OpenRoot(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	list, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer list.Close()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		names, err := list.Readdirnames(1024)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		for _, name := range names {
			info, err := g.allows(dir, name)
			if err == nil && info.IsDir() {
				err = g.scan(ctx, dir, name, depth+1)
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
}

// allows refuses an entry of a folder that is excluded.
func (g *guard) allows(dir *os.Root, name string) (fs.FileInfo, error) {
	if g.names.has(name) {
		return nil, errHidden
	}
	info, err := dir.Lstat(name)
	if err == nil {
		err = g.hides(info)
	}
	return info, err
}

// private refuses a path that is excluded, whether or not there is something.
func private(given string) error {
	e := fault.New(fault.Denied, given, "it is part of the hub's configuration, secrets or data, which file tools cannot read or change")
	e.Hint = "Ask the person to edit it themselves, and say what to change."
	return e
}

// kept refuses to change what a server runs.
func kept(given string) error {
	e := fault.New(fault.Denied, given, "a server of the hub runs it or is started with it, so file tools can read but not change it")
	e.Hint = "Ask the person to edit it themselves, and say what to change."
	return e
}
