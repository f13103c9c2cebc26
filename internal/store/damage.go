package store

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// Damage is one flaw that was found in the folder.
type Damage struct {
	Log    string    `json:"log,omitempty"`  // the log, bucket or queue, by the engine's name
	File   string    `json:"file,omitempty"` // from the folder
	Copy   string    `json:"copy,omitempty"` // of the file as it was found, from the folder
	Lost   []Range   `json:"lost,omitempty"` // sequences that cannot be read any more; some may have been deleted before
	Detail string    `json:"detail"`
	Found  time.Time `json:"found"`
}

// Range is a range of sequences, both ends included.
type Range struct {
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
}

func (d Damage) String() string {
	return fmt.Sprintf("store: %s %s: %s; lost %v; copy in %s", d.Log, d.File, d.Detail, d.Lost, d.Copy)
}

const damagedDir = "damaged"

func (f *folder) reportFile() string { return filepath.Join(f.dir, damagedDir, "report.json") }

// recall reads what former starts found.
func (f *folder) recall() error {
	b, err := os.ReadFile(f.reportFile())
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read what was damaged: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.damages = nil
	if err := json.Unmarshal(b, &f.damages); err != nil {
		return fmt.Errorf("read what was damaged: %s: %w (look at it, then move the folder %s away)", f.reportFile(), err, filepath.Dir(f.reportFile()))
	}
	return nil
}

func (f *folder) report() []Damage {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Damage(nil), f.damages...)
}

// lost says whether an entry is one of those that were lost.
func (f *folder) lost(log string, seq uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range f.damages {
		for _, r := range d.Lost {
			if d.Log == log && r.First <= seq && seq <= r.Last {
				return true
			}
		}
	}
	return false
}

// found writes a damage down, before anything is done about it.
func (f *folder) found(d Damage) error {
	d.Found = time.Now().UTC()
	f.mu.Lock()
	defer f.mu.Unlock()
	all := append(f.damages, d)
	b, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(f.dir, damagedDir), 0o700); err != nil {
		return fmt.Errorf("report damage: %w", err)
	}
	if err := writeFile(f.reportFile(), append(b, '\n')); err != nil {
		return fmt.Errorf("report damage: %w", err)
	}
	f.damages = all
	f.log.Error("the store was damaged", "log", d.Log, "file", d.File, "detail", d.Detail, "lost", d.Lost, "copy", d.Copy)
	return nil
}

// keep copies a file, so that what we or the engine do to it can be undone.
func (f *folder) keep(file, log string) (string, error) {
	if err := os.MkdirAll(filepath.Join(f.dir, damagedDir), 0o700); err != nil {
		return "", fmt.Errorf("keep the damaged %s: %w", file, err)
	}
	name := filepath.Base(file)
	if log != "" {
		name = log + "-" + name
	}
	to := filepath.Join(damagedDir, fmt.Sprintf("%d-%s", time.Now().UnixNano(), name))
	r, err := os.Open(filepath.Join(f.dir, file))
	if err != nil {
		return "", fmt.Errorf("keep the damaged %s: %w", file, err)
	}
	defer r.Close()
	w, err := os.OpenFile(filepath.Join(f.dir, to), os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return "", fmt.Errorf("keep the damaged %s: %w", file, err)
	}
	_, err = io.Copy(w, r)
	if err == nil {
		err = w.Sync()
	}
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return "", fmt.Errorf("keep the damaged %s: %w", file, err)
	}
	return to, nil
}

// putAside moves a file that is of no use out of the engine's way.
func (f *folder) putAside(file string, d Damage) error {
	var err error
	d.File = file
	if d.Copy, err = f.keep(file, d.Log); err != nil {
		return err
	}
	if err := f.found(d); err != nil {
		return err
	}
	return os.Remove(filepath.Join(f.dir, file))
}
