package auth

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rogpeppe/go-internal/lockedfile"

	"github.com/stoahub/stoa/internal/owned"
)

const (
	fileVersion  = 1
	maxFileBytes = 8 << 20
)

// fileTokens are tokens in a file.
type fileTokens struct {
	path string

	seen    atomic.Pointer[snapshot]
	checked atomic.Int64 // when the file was last looked at, in Unix nanoseconds
	mu      sync.Mutex   // held to look, read and write
}

func (t *fileTokens) close() {}

func (t *fileTokens) recent(now time.Time, age time.Duration) *snapshot {
	if s := t.seen.Load(); s.err == nil && age > 0 && now.UnixNano()-t.checked.Load() <= int64(age) {
		return s
	}
	return t.latest(now)
}

// latest looks whether the file was replaced, reads it if so, and returns what
// is in it.
func (t *fileTokens) latest(now time.Time) *snapshot {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.checked.Store(now.UnixNano())
	s := t.seen.Load()
	if s == nil || !s.current(t.path) {
		s = load(t.path)
		t.seen.Store(s)
	}
	return s
}

// change rewrites the file with what f makes of its tokens. Between reading
// and writing no other process can change it.
func (t *fileTokens) change(f func(*snapshot) ([]stored, error)) error {
	unlock, err := lockedfile.MutexAt(t.path + ".lock").Lock()
	if err != nil {
		return fmt.Errorf("lock %s: %w", t.path, err)
	}
	defer unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	s := load(t.path)
	if s.err != nil {
		return s.err
	}
	list, err := f(s)
	if err != nil {
		return err
	}
	if err := save(t.path, list); err != nil {
		return err
	}
	t.seen.Store(load(t.path))
	return nil
}

func (t *fileTokens) add(one stored) error {
	return t.change(func(s *snapshot) ([]stored, error) {
		if err := s.admits(one); err != nil {
			return nil, err
		}
		return append(slices.Clone(s.tokens), one), nil
	})
}

func (t *fileTokens) remove(idOrName string) (gone Token, err error) {
	err = t.change(func(s *snapshot) ([]stored, error) {
		i := s.find(idOrName)
		if i < 0 {
			return nil, ErrNoToken
		}
		gone = s.tokens[i].Token
		return slices.Delete(slices.Clone(s.tokens), i, i+1), nil
	})
	return gone, err
}

// stored is a token as it is kept.
type stored struct {
	Token
	Hash string `json:"sha256"`
	// Fresh tokens have not been used yet: what is kept under their name was
	// another's.
	Fresh bool `json:"fresh,omitempty"`
}

type tokenFile struct {
	Version int      `json:"version"`
	Tokens  []stored `json:"tokens"`
}

// current reports whether the file is still the one that s was read from.
func (s *snapshot) current(path string) bool { return unchanged(path, s.info, s.err) }

// unchanged reports whether a file is still the one that was read: info is nil
// if there was none, and err says what was wrong with it.
func unchanged(path string, was os.FileInfo, wrong error) bool {
	info, err := os.Stat(path)
	if err != nil {
		return was == nil && wrong == nil && errors.Is(err, fs.ErrNotExist)
	}
	return was != nil && os.SameFile(info, was) && info.Mode() == was.Mode() &&
		info.Size() == was.Size() && info.ModTime().Equal(was.ModTime())
}

// load reads the file. It never fails: what went wrong is in the snapshot.
func load(path string) *snapshot {
	s := &snapshot{}
	if err := s.read(path); err != nil {
		return &snapshot{info: s.info, err: fmt.Errorf("token file %s: %w", path, err)}
	}
	return s
}

func (s *snapshot) read(path string) error {
	var content tokenFile
	info, err := readPrivate(path, &content)
	if s.info = info; err != nil || info == nil {
		return err
	}
	if content.Version != fileVersion {
		return fmt.Errorf("it has version %d and this program knows %d: use the program that wrote it", content.Version, fileVersion)
	}
	for i := range content.Tokens {
		if content.Tokens[i].check() != nil {
			return damaged(fmt.Errorf("token %d is incomplete", i+1))
		}
	}
	s.tokens = content.Tokens
	s.index()
	return nil
}

// check says what is wrong with a token as it is kept.
func (one *stored) check() error {
	hash, err := hex.DecodeString(one.Hash)
	switch {
	case err != nil:
		return err
	case len(hash) != sha256.Size || !nameForm.MatchString(one.Name) || one.Name == LocalName:
		return errors.New("it has no hash, or no name that a token can have")
	}
	return errors.Join(one.Scopes.Check(), one.Rights.Check())
}

// readPrivate decodes a file that only its owner can read. What is said of a
// file that does not exist is nil.
func readPrivate(path string, content any) (os.FileInfo, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// Of the open file, not the path: it may be replaced in between.
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := owned.Owner(path, info); err != nil {
		return info, err
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return info, fmt.Errorf("its mode %04o lets other users at it: run chmod 600 on it", info.Mode().Perm())
	}
	if info.Size() > maxFileBytes {
		return info, fmt.Errorf("%d bytes are more than the %d allowed", info.Size(), maxFileBytes)
	}
	d := json.NewDecoder(f)
	d.DisallowUnknownFields()
	if err := d.Decode(content); err != nil {
		return info, damaged(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return info, damaged(errors.New("there is more after its end"))
	}
	return info, nil
}

func damaged(err error) error {
	return fmt.Errorf("it is damaged, and no token counts until it is repaired or removed: %w", err)
}

// save replaces the token file.
func save(path string, list []stored) error {
	if list == nil {
		list = []stored{}
	}
	if err := writePrivate(path, tokenFile{fileVersion, list}); err != nil {
		return fmt.Errorf("write token file %s: %w", path, err)
	}
	return nil
}

// writePrivate replaces a file that only its owner can read. A reader sees the
// old one or the new one, and after a crash there is one of them.
func writePrivate(path string, content any) (err error) {
	b, err := json.MarshalIndent(content, "", "  ")
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, filepath.Base(path)+".new-*") // 0600 by definition
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if _, err := f.Write(append(b, '\n')); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

// syncDir makes a rename in dir last.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // folders cannot be synced there, and renames are journalled
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

var _ keeper = (*fileTokens)(nil)
