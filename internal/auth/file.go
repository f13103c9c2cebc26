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

	"github.com/stoahub/stoa/internal/owned"
)

const (
	fileVersion  = 1
	maxFileBytes = 8 << 20
)

// stored is a token in the file.
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
	s.tokens, s.byHash = content.Tokens, make(map[[sha256.Size]byte]*known, len(content.Tokens))
	for i, one := range content.Tokens {
		hash, err := hex.DecodeString(one.Hash)
		if err != nil || len(hash) != sha256.Size || !nameForm.MatchString(one.Name) || one.Name == LocalName || one.Scopes.Check() != nil || one.Rights.Check() != nil {
			return damaged(fmt.Errorf("token %d is incomplete", i+1))
		}
		s.byHash[[sha256.Size]byte(hash)] = &known{one.principal(), one.Expires, one.Fresh}
	}
	return nil
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
