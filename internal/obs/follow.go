package obs

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// followEvery is how often to look for new lines.
const followEvery = 200 * time.Millisecond

// Follow gives each the records of a folder's log files, the oldest first: the
// last q.Limit that are there, then every one that is written, until ctx ends
// or each fails. Files that are put aside meanwhile are read to their end. The
// folder need not exist yet.
func Follow(ctx context.Context, dir string, q Query, each func(Record) error) error {
	w := &tail{dir: dir, q: q, each: each}
	defer w.close()
	if err := w.begin(); err != nil {
		return err
	}
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		if err := w.catchUp(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// tail is one Follow.
type tail struct {
	dir  string
	q    Query
	each func(Record) error

	f    *os.File // nil: there was none yet
	at   int64    // how far it was read
	part []byte   // the beginning of a line
	skip bool     // the line is too long, and passed over
}

func (w *tail) close() {
	if w.f != nil {
		w.f.Close()
	}
}

// begin gives what there is already.
func (w *tail) begin() error {
	files, err := openAll(w.dir)
	defer func() {
		for _, f := range files {
			if f != w.f {
				f.Close()
			}
		}
	}()
	if err != nil {
		return err
	}
	found := []Record{}
	for i, f := range files {
		end, err := lastEnd(f)
		if err != nil {
			return fmt.Errorf("read the log: %w", err)
		}
		if i == 0 {
			// If none is being written now, this is the one to go on from.
			w.f, w.at = f, end
		}
		done, err := readBack(f, end, w.q, &found)
		if err != nil {
			return fmt.Errorf("read the log: %w", err)
		}
		if done {
			break
		}
	}
	for _, r := range slices.Backward(found) {
		if err := w.each(r); err != nil {
			return err
		}
	}
	return nil
}

// lastEnd is where the last whole line of a file ends.
func lastEnd(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	buf := make([]byte, chunk)
	for at := info.Size(); at > 0; {
		n := min(at, chunk)
		if _, err := f.ReadAt(buf[:n], at-n); err != nil && err != io.EOF {
			return 0, err
		}
		if i := bytes.LastIndexByte(buf[:n], '\n'); i >= 0 {
			return at - n + int64(i) + 1, nil
		}
		at -= n
	}
	return 0, nil
}

// catchUp gives everything that was written until now.
func (w *tail) catchUp() error {
	for {
		if w.f != nil {
			if err := w.drain(); err != nil {
				return err
			}
		}
		next, err := w.next()
		if err != nil || next == nil {
			return err
		}
		if w.f != nil {
			// What was written between draining and putting aside.
			if err := w.drain(); err != nil {
				next.Close()
				return err
			}
			w.f.Close()
		}
		w.f, w.at, w.part, w.skip = next, 0, nil, false
	}
}

// next opens the file that comes after the one that is read; nil means that
// there is none yet.
func (w *tail) next() (*os.File, error) {
	current, names, err := look(w.dir)
	if err != nil || current == nil {
		return nil, err
	}
	if w.f != nil && same(current, w.f) {
		return nil, w.rewound(current)
	}
	i := -1 // there was no file at all before: all are new
	if w.f != nil {
		if i = slices.IndexFunc(names, w.isOurs); i < 0 {
			return current, nil // ours is gone
		}
	}
	for _, name := range names[i+1:] {
		if f, err := openIfThere(filepath.Join(w.dir, name)); err != nil || f != nil {
			current.Close()
			return f, err
		}
	}
	return current, nil
}

// rewound starts again if somebody has emptied the file. It closes current.
func (w *tail) rewound(current *os.File) error {
	defer current.Close()
	info, err := current.Stat()
	if err == nil && info.Size() < w.at {
		w.at, w.part, w.skip = 0, nil, false
	}
	return err
}

func (w *tail) isOurs(name string) bool {
	info, err := os.Stat(filepath.Join(w.dir, name))
	if err != nil {
		return false
	}
	own, err := w.f.Stat()
	return err == nil && os.SameFile(info, own)
}

// drain gives what is in the file after what was read of it.
func (w *tail) drain() error {
	buf := make([]byte, chunk)
	for {
		n, err := w.f.ReadAt(buf, w.at)
		w.at += int64(n)
		if failed := w.take(buf[:n]); failed != nil {
			return failed
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the log: %w", err)
		}
	}
}

// take gives the lines that end in b.
func (w *tail) take(b []byte) error {
	for {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			if w.skip = w.skip || len(w.part)+len(b) > maxLine; w.skip {
				w.part = nil
			} else {
				w.part = append(w.part, b...)
			}
			return nil
		}
		line := append(w.part, b[:i]...)
		skip := w.skip
		b, w.part, w.skip = b[i+1:], nil, false
		if skip {
			continue
		}
		if r, err := parseRecord(line); err == nil && w.q.wants(&r) {
			if err := w.each(r); err != nil {
				return err
			}
		}
	}
}
