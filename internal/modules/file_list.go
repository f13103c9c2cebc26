package modules

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/stoahub/stoa/internal/fault"
)

var listTool = Tool{
	Name: "file_list", Title: "List files", ReadOnly: true,
	Description: "Lists a folder, sorted by name, with type (file, folder, link, other), size and time of change. With recursive also what is in its folders; symbolic links are listed, not followed.",
	Input: `{"type":"object","additionalProperties":false,"properties":{
		"path":{"type":"string","description":"The folder; left out, the root, or the list of the roots where there are several."},
		"recursive":{"type":"boolean"},
		"depth":{"type":"integer","minimum":1,"maximum":100,"description":"With recursive: how many levels, 1 is the folder itself. Default 100."},
		"glob":{"type":"string","maxLength":1000,"description":"Only what fits: *.go by name, src/**/*.go by the path below the folder."},
		"offset":{"type":"integer","minimum":0,"description":"How many to skip: next of the answer before."},
		"limit":{"type":"integer","minimum":1,"maximum":10000,"description":"Default 200."}}}`,
}

var infoTool = Tool{
	Name: "file_info", Title: "Describe a file", ReadOnly: true,
	Description: "Tells type, size, time of change and permissions of one file or folder, where a symbolic link leads, and on request the SHA-256 hash of the content.",
	Input: `{"type":"object","additionalProperties":false,"required":["path"],"properties":{
		"path":{"type":"string"},
		"hash":{"type":"boolean","description":"Also the SHA-256 of the content."}}}`,
}

type listArgs struct {
	Path      string `json:"path"`
	Recursive bool   `json:"recursive"`
	Depth     int    `json:"depth"`
	Glob      string `json:"glob"`
	Offset    int    `json:"offset"`
	Limit     int    `json:"limit"`
}

// listEntries is how many entries are listed unless the caller says otherwise.
const listEntries = 200

// entry is one file or folder as callers are told of it.
type entry struct {
	Path     string `json:"path"`
	Type     string `json:"type"`
	Size     int64  `json:"size"`
	Modified string `json:"modified"`
	// Unnamed says that the name is not UTF-8: Path is not its name, and no
	// path leads to it.
	Unnamed bool `json:"nameNotUTF8,omitempty"`
}

func entryOf(p place, info fs.FileInfo) entry {
	return entry{
		Path: strings.ToValidUTF8(p.short, "�"), Type: kindOf(info.Mode()), Size: info.Size(),
		Modified: info.ModTime().UTC().Format(time.RFC3339Nano), Unnamed: !utf8.ValidString(p.short),
	}
}

type listing struct {
	Entries    []entry `json:"entries"`
	Truncated  string  `json:"truncated,omitempty"` // why there are more than are listed
	Next       int     `json:"next,omitempty"`      // the offset to go on with
	Unreadable int     `json:"unreadable,omitempty"`
}

func (f *files) list(ctx context.Context, a listArgs, whole bool) (Answer, error) {
	g, err := newGlob(a.Glob)
	if err != nil {
		return Answer{}, err
	}
	if r, _, err := f.locate(a.Path); err == nil && r == nil {
		return Answer{Data: f.listRoots()}, nil
	}
	p, err := f.find(a.Path, true)
	if err != nil {
		return Answer{}, err
	}
	w := walk{p: p, depth: 1}
	if a.Recursive {
		w.depth = orElse(a.Depth, maxDepth)
	}
	limit, room := orElse(a.Limit, listEntries), maxListed
	if whole {
		limit, room = orElse(a.Limit, math.MaxInt), f.opts.MessageBytes
	}
	out := listing{Entries: []entry{}}
	size, skip := 0, a.Offset
	err = w.run(ctx, func(p place, below string, info fs.FileInfo) error {
		if !g.match(below) {
			return nil
		}
		if skip > 0 {
			skip--
			return nil
		}
		if len(out.Entries) == limit {
			out.Next = a.Offset + limit
			return overLimit
		}
		if size += len(p.short); size > room {
			out.Next = a.Offset + len(out.Entries)
			return stop("the paths are too long to list them all")
		}
		out.Entries = append(out.Entries, entryOf(p, info))
		return nil
	})
	if out.Truncated, err = f.ended(ctx, err); err != nil {
		return Answer{}, f.fail("list", p, err)
	}
	if whole && out.Truncated != "" && out.Truncated != string(overLimit) {
		return Answer{}, partly("file_list", out.Truncated)
	}
	out.Unreadable = w.unreadable
	return Answer{Data: out, Message: out.rest(a.Offset)}, nil
}

// rest says that a list is a part of what there is, and how to get the rest; "" if
// it is all.
func (l *listing) rest(offset int) string {
	switch {
	case l.Next > 0:
		return fmt.Sprintf("This is a part of the list: %d entries after the first %d. Go on with offset %d, and say with limit how many.", len(l.Entries), offset, l.Next)
	case l.Truncated != "":
		return "This is a part of the list: " + l.Truncated + ". Look in a smaller folder, or name files by glob."
	}
	return ""
}

func (f *files) listRoots() listing {
	out := listing{Entries: []entry{}}
	for _, r := range f.roots {
		dir, err := r.open()
		if err != nil {
			out.Unreadable++
			continue
		}
		if info, err := dir.Stat("."); err == nil {
			out.Entries = append(out.Entries, entryOf(place{short: r.label}, info))
		}
	}
	return out
}

func orElse(n, other int) int {
	if n == 0 {
		return other
	}
	return n
}

// stop ends a walk before its end and says why.
type stop string

// overLimit ends what has as many entries as the caller asked for.
const overLimit = stop("there are more than limit")

func (s stop) Error() string { return string(s) }

// ended tells why a walk found less than there is, if that is worth an answer.
func (f *files) ended(ctx context.Context, err error) (truncated string, _ error) {
	if s, ok := errors.AsType[stop](err); ok {
		return string(s), nil
	}
	// The caller's own end is told by who called; ours gives what was found.
	if errors.Is(err, context.DeadlineExceeded) && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return "it took longer than " + f.opts.Timeout.String(), nil
	}
	return "", err
}

// walk visits what is in a folder, in the order of the names.
type walk struct {
	p          place
	depth      int
	skip       func(name string) bool // nil skips nothing
	unreadable int                    // folders that could not be read
	visited    int
}

// run calls visit with each entry and with its path below the folder.
func (w *walk) run(ctx context.Context, visit func(p place, below string, info fs.FileInfo) error) error {
	return w.folder(ctx, w.p, "", 1, visit)
}

func (w *walk) folder(ctx context.Context, p place, below string, level int, visit func(place, string, fs.FileInfo) error) error {
	names, folder, full, err := w.names(ctx, p)
	if err != nil {
		return err
	}
	twins := p.guard.twins(filepath.Join(p.root.real, p.name), names)
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		if w.skip != nil && w.skip(name) || p.guard.names.has(name) || p.guard.reserves(folder, []string{name}, false) != nil {
			continue
		}
		at, rel := p.at(name), path.Join(below, name)
		at.parent = folder
		// By the root and not by the entry, whose own way may have been changed.
		info, err := p.fs.Lstat(at.name)
		if err != nil || p.guard.hides(info) != nil || sameAsAny(info, twins) {
			continue // it is gone, or as good as
		}
		if err := visit(at, rel, info); err != nil {
			return err
		}
		if !info.IsDir() || level >= w.depth {
			continue
		}
		err = w.folder(ctx, at, rel, level+1, visit)
		if _, stopped := errors.AsType[stop](err); stopped || ctx.Err() != nil {
			return err
		} else if err != nil {
			w.unreadable++
		}
	}
	if full {
		return stop("there are too many entries to look at all")
	}
	return nil
}

// names reads a folder and says which it was; full says that there are more
// names than may be visited.
func (w *walk) names(ctx context.Context, p place) (names []string, folder fs.FileInfo, full bool, err error) {
	dir, err := openFolder(p)
	if err != nil {
		return nil, nil, false, err
	}
	defer dir.Close()
	if folder, err = dir.Stat(); err == nil && p.name != "." {
		err = p.guard.hides(folder)
	}
	for err == nil && !full {
		var some []string
		some, err = dir.Readdirnames(1024)
		names = append(names, some...)
		w.visited += len(some)
		full = w.visited > maxVisited
		if ctx.Err() != nil {
			return nil, nil, false, ctx.Err()
		}
	}
	if err != nil && err != io.EOF {
		return nil, nil, false, err
	}
	slices.Sort(names)
	return names, folder, full, nil
}

// openFolder opens a folder and nothing else.
func openFolder(p place) (*os.File, error) {
	dir, err := p.enter()
	if err != nil {
		return nil, err
	}
	defer dir.close()
	return dir.open(os.O_RDONLY | syscall.O_DIRECTORY | syscall.O_NONBLOCK)
}

type infoArgs struct {
	Path string `json:"path"`
	Hash bool   `json:"hash"`
}

type described struct {
	entry
	Mode   string `json:"permissions"`
	Target string `json:"target,omitempty"`
	Hash   string `json:"hash,omitempty"`
}

func (f *files) info(ctx context.Context, a infoArgs) (any, error) {
	p, err := f.find(a.Path, false)
	if err != nil {
		return nil, err
	}
	info, err := p.fs.Lstat(p.name)
	if err != nil {
		return nil, f.fail("describe", p, err)
	}
	d := described{entry: entryOf(p, info), Mode: info.Mode().Perm().String()}
	if d.Type == "link" {
		target, err := p.fs.Readlink(p.name)
		if err != nil {
			return nil, f.fail("describe", p, err)
		}
		d.Target = strings.ToValidUTF8(target, "�")
	}
	if !a.Hash {
		return d, nil
	}
	if d.Type == "link" {
		if p, err = f.find(a.Path, true); err != nil {
			return nil, err
		}
	}
	b, _, err := f.whole(ctx, p)
	if errors.Is(err, syscall.EISDIR) {
		e := fault.New(fault.InvalidArguments, a.Path, "a folder has no hash")
		e.Hint = "Leave hash out."
		return nil, e
	}
	if err != nil {
		return nil, f.fail("hash", p, err)
	}
	d.Hash = hashOf(b)
	return d, nil
}
