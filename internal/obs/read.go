package obs

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// maxLine bounds a line that is read; a longer one is passed over. Ours are
// shorter.
const maxLine = 1 << 20

// ErrNoFiles means that a folder has no log files.
var ErrNoFiles = errors.New("there are no log files")

// ReadFiles returns the records in a folder's log files that q wants, the
// newest first, whether a hub writes them or not. It reads from the end and no
// more than it needs, and passes over what is no record. A folder without log
// files is ErrNoFiles.
func ReadFiles(dir string, q Query) ([]Record, error) {
	files, err := openAll(dir)
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: %w", dir, ErrNoFiles)
	}
	out := []Record{}
	for _, f := range files {
		info, err := f.Stat()
		if err != nil {
			return nil, fmt.Errorf("read the log: %w", err)
		}
		done, err := readBack(f, info.Size(), q, &out)
		if err != nil {
			return nil, fmt.Errorf("read the log: %w", err)
		}
		if done {
			break
		}
	}
	return out, nil
}

// maxRead bounds what the lines of one answer take in all.
const maxRead = 64 << 20

// readBack adds what q wants of the first size bytes of a file; done means that
// nothing earlier is wanted.
func readBack(f *os.File, size int64, q Query, out *[]Record) (done bool, err error) {
	b, total := &backward{f: f, at: size}, 0
	for _, r := range *out {
		total += len(r.Line)
	}
	for len(*out) < q.limit() && total < maxRead {
		line, err := b.next()
		if err == io.EOF {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		r, err := parseRecord(line)
		if err != nil {
			continue
		}
		if q.wants(&r) {
			*out = append(*out, r)
			total += len(line)
		} else if !q.Since.IsZero() && r.Time.Before(q.Since) {
			return true, nil
		}
	}
	return true, nil
}

// look opens the file that is written, if there is one, and lists those that
// were put aside before it, the oldest first. A listing during which a file is
// put aside may name a later file and miss an earlier one, so it counts only if
// the file that is written is still the same after it.
func look(dir string) (current *os.File, aside []string, err error) {
	for range 100 { // no hub puts files aside this fast for long
		if current != nil {
			current.Close()
		}
		if current, err = openIfThere(filepath.Join(dir, fileName)); err != nil {
			return nil, nil, err
		}
		if aside, err = rotated(dir); err != nil {
			break
		}
		var now *os.File
		if now, err = openIfThere(filepath.Join(dir, fileName)); err != nil {
			break
		}
		undisturbed := now == nil && current == nil || now != nil && current != nil && same(now, current)
		if now != nil {
			now.Close()
		}
		if undisturbed {
			return current, aside, nil
		}
	}
	if current != nil {
		current.Close()
	}
	return nil, nil, cmp.Or(err, fmt.Errorf("read the log: the files in %s change faster than they can be listed", dir))
}

// openIfThere opens a file for reading; nil means that there is none.
func openIfThere(path string) (*os.File, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the log: %w", err)
	}
	return f, nil
}

// openAll opens the log files of a folder, the newest first.
func openAll(dir string) (files []*os.File, err error) {
	current, aside, err := look(dir)
	if err != nil {
		return nil, err
	}
	if current != nil {
		files = append(files, current)
	}
	for _, name := range slices.Backward(aside) {
		f, err := openIfThere(filepath.Join(dir, name))
		if err != nil {
			return files, err
		}
		if f != nil { // otherwise its time had come
			files = append(files, f)
		}
	}
	return files, nil
}

func same(a, b *os.File) bool {
	x, errX := a.Stat()
	y, errY := b.Stat()
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// stamp is how a file that was put aside says when.
const stamp = "2006-01-02T15-04-05.000"

// rotated returns the names of the files that were put aside, the oldest first.
func rotated(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the log: %w", err)
	}
	type one struct {
		name, at string
		n        int // of those put aside in the same moment
	}
	var all []one
	for _, e := range entries {
		inner, ok := strings.CutPrefix(e.Name(), "stoa-")
		if inner, ok = cutSuffix(inner, ok); !ok || len(inner) < len(stamp) || e.IsDir() {
			continue
		}
		o := one{name: e.Name(), at: inner[:len(stamp)]}
		if _, count, ok := strings.Cut(inner[len(stamp):], "_"); ok {
			o.n, _ = strconv.Atoi(count) // what is no number is no count
		}
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b one) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.n, b.n)) })
	names := make([]string, len(all))
	for i, o := range all {
		names[i] = o.name
	}
	return names, nil
}

func cutSuffix(name string, ok bool) (string, bool) {
	inner, has := strings.CutSuffix(name, ".log")
	return inner, ok && has
}

// backward reads the lines of a file from its end.
type backward struct {
	f    *os.File
	at   int64  // where buf begins in the file
	buf  []byte // read, and not given out yet
	long bool   // the line that buf ends with is passed over
}

const chunk = 64 << 10

// next returns the line before, which the caller may keep; io.EOF means that
// there is none.
func (b *backward) next() ([]byte, error) {
	for {
		if i := bytes.LastIndexByte(b.buf, '\n'); i >= 0 {
			line := b.buf[i+1:]
			b.buf = b.buf[:i]
			if long := b.long; long || len(line) == 0 {
				b.long = false
				continue
			}
			return bytes.Clone(line), nil
		}
		if b.at == 0 {
			line := b.buf
			b.buf = nil
			if len(line) == 0 || b.long {
				return nil, io.EOF
			}
			return bytes.Clone(line), nil
		}
		if len(b.buf) > maxLine {
			b.buf, b.long = b.buf[:0], true
		}
		n := min(b.at, chunk)
		grown := make([]byte, int(n)+len(b.buf))
		if _, err := b.f.ReadAt(grown[:n], b.at-n); err != nil && err != io.EOF {
			return nil, err
		}
		copy(grown[n:], b.buf)
		b.buf, b.at = grown, b.at-n
	}
}
