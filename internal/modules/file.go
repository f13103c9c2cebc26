package modules

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
)

// FileName is the name of the module that works with files.
const FileName = "file"

// Bounds of the file module that are not options.
const (
	maxDepth   = 100       // folders below the one that is asked for
	maxVisited = 200_000   // entries looked at for one answer
	maxPath    = 4096      // bytes of a path
	maxListed  = 512 << 10 // bytes of all paths of one list
	maxLinks   = 40        // symbolic links on the way to one file
)

// FileOptions says which files the tools may use, and how much of them.
type FileOptions struct {
	// Roots are the folders: nothing outside of them is read or changed.
	Roots []string
	// Exclude are files and folders that are never read, listed or changed,
	// by any name: the hub's configuration, secrets and data. One that does
	// not exist cannot be made, and the folders that lead to one stay where
	// they are.
	Exclude []string
	// ExcludeNames are names of files and folders that are treated the same
	// in every folder, as patterns of path.Match; one that begins with ! is an
	// exception. Names that a disk may take for one another are the same, such
	// as .env and .ENV.
	ExcludeNames []string
	// Programs returns the files that servers run, absolute: they may be read
	// but neither changed, moved nor removed, by any name. Such a one that does
	// not exist cannot be made. It is asked at each call; nil means none.
	Programs func() []string
	// ReadOnly leaves out the tools that change something.
	ReadOnly bool
	// MaxBytes is the size of the largest file that is written, edited,
	// searched or hashed; 0 means 8 MiB. Larger ones can be read in parts.
	MaxBytes int64
	// MessageBytes bounds one answer: what is kept, or asked for by its length, is
	// read up to that. 0 means 10 MiB.
	MessageBytes int
	// Timeout bounds the time of one call; 0 means 20 s, less than the hub
	// waits, so that what was found by then is told.
	Timeout time.Duration
}

// files is what the tools of the file module work with.
type files struct {
	opts  FileOptions
	never *nameSet
	roots []*root
	// writing holds back a change of a file while another of the same file
	// is under way. Files share the stripes by hash.
	writing [64]chan struct{}
	seed    maphash.Seed
}

// File returns the module that works with files inside of roots, which it
// keeps open until Close. The error names each root that cannot be used, why,
// and what to do.
//
// A path is absolute inside of a root, or begins with the root's label, which
// is the folder's name; with one root it is relative to that. Symbolic links
// are followed as far as they stay inside of the root, whoever changes them
// meanwhile. A file that is changed is replaced as a whole, so that a reader
// and a crash see the old or the new content; its permissions stay, hard links
// to the old content do not follow.
func File(opts FileOptions) (*Module, error) {
	if opts.MaxBytes <= 0 {
		opts.MaxBytes = 8 << 20
	}
	if opts.MessageBytes <= 0 {
		opts.MessageBytes = 10 << 20
	}
	if opts.Timeout <= 0 {
		opts.Timeout = 20 * time.Second
	}
	never, err := newNameSet(opts.ExcludeNames)
	if err != nil {
		return nil, err
	}
	roots, err := openRoots(opts.Roots)
	if err != nil {
		return nil, err
	}
	f := &files{opts: opts, never: never, roots: roots, seed: maphash.MakeSeed()}
	f.opts.Exclude = absolute(opts.Exclude)
	if err := f.checkRoots(); err != nil {
		return nil, errors.Join(err, f.close())
	}
	for _, r := range roots { // so that hard links to them are known everywhere
		for _, name := range never.plain {
			f.opts.Exclude = append(f.opts.Exclude, filepath.Join(r.real, name))
		}
	}
	for i := range f.writing {
		f.writing[i] = make(chan struct{}, 1)
	}
	m := New(FileName, f.instructions(), nil, f.tools()...)
	m.close = f.close
	m.Bound(opts.MessageBytes)
	return m, nil
}

func absolute(names []string) []string {
	var out []string
	for _, name := range names {
		if abs, err := filepath.Abs(name); err == nil {
			name = abs
		}
		out = append(out, name)
	}
	return out
}

// checkRoots refuses roots at or inside of what is excluded.
func (f *files) checkRoots() error {
	g := f.guard(false)
	for _, r := range f.roots {
		for dir := r.real; ; dir = filepath.Dir(dir) {
			if info, err := os.Stat(dir); err == nil && g.hides(info) != nil {
				e := fault.New(fault.Denied, "module file", "root %s: it is in a folder that holds the hub's own data or configuration", r.dir)
				e.Hint = "Name another folder in modules.file.roots, then reload the config."
				return e
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return nil
}

func (f *files) close() error {
	var errs []error
	for _, r := range f.roots {
		errs = append(errs, r.close())
	}
	return errors.Join(errs...)
}

func (f *files) instructions() string {
	if len(f.roots) == 1 {
		return fmt.Sprintf("Paths are relative to the folder %q, or absolute inside of it.", f.roots[0].label)
	}
	return fmt.Sprintf("A path begins with the name of one of these folders: %s. For example: %s/notes.txt.", f.labels(), f.roots[0].label)
}

func (f *files) labels() string {
	names := make([]string, len(f.roots))
	for i, r := range f.roots {
		names[i] = r.label
	}
	return strings.Join(names, ", ")
}

// tool makes a Tool of a function that takes decoded arguments.
func tool[T any](f *files, t Tool, run func(ctx context.Context, args T) (any, error)) Tool {
	t.Run = func(ctx context.Context, _ *mcp.Request, raw json.RawMessage) (any, error) {
		args, err := decode[T](raw)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, f.opts.Timeout)
		defer cancel()
		return run(ctx, args)
	}
	return t
}

// reading makes a Tool of a function that leaves out what is not worth showing,
// unless it is told that the answer has to be whole.
func reading[T any](f *files, t Tool, run func(ctx context.Context, args T, whole bool) (Answer, error)) Tool {
	t.Run = func(ctx context.Context, req *mcp.Request, raw json.RawMessage) (any, error) {
		args, err := decode[T](raw)
		if err != nil {
			return nil, err
		}
		return inFull(ctx, req, func(ctx context.Context, whole bool) (Answer, error) {
			ctx, cancel := context.WithTimeout(ctx, f.opts.Timeout)
			defer cancel()
			return run(ctx, args, whole)
		})
	}
	return t
}

// shownBytes is how much of a file is shown to who has not said how much.
const shownBytes = 256 << 10

// page is how many bytes of something an answer has that is only shown.
func (f *files) page(bytes int) int { return min(bytes, f.opts.MessageBytes/16) } // escaped twice it still fits

// partly refuses to keep a result that is not all there is.
func partly(tool, why string) error {
	e := fault.New(fault.Limit, tool, "the result cannot be kept whole: %s", why)
	e.Hint = "Look in a smaller folder, name files by glob, or ask for a page with limit."
	return e
}

func (f *files) tools() []Tool {
	reading := []Tool{
		reading(f, listTool, f.list),
		reading(f, readTool, f.read),
		reading(f, searchTool, f.search),
		tool(f, infoTool, f.info),
	}
	if f.opts.ReadOnly {
		return reading
	}
	return append(reading,
		tool(f, writeTool, f.write),
		tool(f, editTool, f.edit),
		tool(f, moveTool, f.move),
		tool(f, removeTool, f.remove),
	)
}

// lock waits until no other call changes one of the places.
func (f *files) lock(ctx context.Context, places ...place) (unlock func(), err error) {
	var stripes []int
	for _, p := range places {
		stripes = append(stripes, int(maphash.String(f.seed, p.root.real+"/"+p.name)%uint64(len(f.writing))))
	}
	slices.Sort(stripes) // everybody in one order, so that nobody waits in a circle
	stripes = slices.Compact(stripes)
	held := 0
	unlock = func() {
		for _, i := range stripes[:held] {
			<-f.writing[i]
		}
	}
	for _, i := range stripes {
		select {
		case f.writing[i] <- struct{}{}:
			held++
		case <-ctx.Done():
			unlock()
			return nil, ctx.Err()
		}
	}
	return unlock, nil
}

// tooLarge says that a file is beyond MaxBytes.
func (f *files) tooLarge(path string, size int64) error {
	e := fault.New(fault.Limit, path, "%d bytes are more than the %d that may be written, edited or hashed at once", size, f.opts.MaxBytes)
	e.Hint = "Work with a smaller file, or raise limits.argumentBytes; file_read reads large ones in parts."
	return e
}
