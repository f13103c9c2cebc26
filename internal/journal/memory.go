package journal

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Memory is a Log that ends with the process.
type Memory struct {
	mu       sync.Mutex
	seq      uint64
	subjects map[string][]Entry // those of each, in their order; none is empty
	where    map[uint64]string  // the subject of each entry
	grown    chan struct{}      // closed with the next entry
}

// NewMemory returns an empty log.
func NewMemory() *Memory {
	return &Memory{subjects: map[string][]Entry{}, where: map[uint64]string{}, grown: make(chan struct{})}
}

// Append is that of Log.
func (m *Memory) Append(ctx context.Context, subject string, data []byte, expect uint64) (uint64, error) {
	if err := context.Cause(ctx); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.subjects[subject]
	last := uint64(0)
	if len(all) > 0 {
		last = all[len(all)-1].Seq
	}
	if last != expect {
		return 0, &Conflict{Subject: subject, Expected: expect, Last: last}
	}
	m.seq++
	m.subjects[subject] = append(all, Entry{Seq: m.seq, Subject: subject, Time: time.Now().UTC(), Data: slices.Clone(data)})
	m.where[m.seq] = subject
	close(m.grown)
	m.grown = make(chan struct{})
	return m.seq, nil
}

// indexOf is that of the first entry that has the sequence or a later one.
func indexOf(all []Entry, seq uint64) int {
	i, _ := slices.BinarySearchFunc(all, seq, func(e Entry, seq uint64) int { return cmp.Compare(e.Seq, seq) })
	return i
}

// Read is that of Log.
func (m *Memory) Read(_ context.Context, seq uint64) (Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	subject, ok := m.where[seq]
	if !ok {
		return Entry{}, fmt.Errorf("read %d: %w", seq, ErrNotFound)
	}
	all := m.subjects[subject]
	return all[indexOf(all, seq)].clone(), nil
}

func (e Entry) clone() Entry {
	e.Data = slices.Clone(e.Data)
	return e
}

// Last is that of Log.
func (m *Memory) Last(_ context.Context, filter string) (Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var last Entry
	for all := range m.matching(filter) {
		if e := all[len(all)-1]; e.Seq > last.Seq {
			last = e
		}
	}
	if last.Seq == 0 {
		return Entry{}, fmt.Errorf("read the last %s: %w", filter, ErrNotFound)
	}
	return last.clone(), nil
}

// matching goes through the entries of each subject that a filter stands for.
// Called with mu held.
func (m *Memory) matching(filter string) iter.Seq[[]Entry] {
	return func(yield func([]Entry) bool) {
		if filter != "" && !strings.ContainsAny(filter, "*>") {
			if all := m.subjects[filter]; len(all) > 0 {
				yield(all)
			}
			return
		}
		for subject, all := range m.subjects {
			if Matches(filter, subject) && !yield(all) {
				return
			}
		}
	}
}

// Scan is that of Log.
func (m *Memory) Scan(ctx context.Context, filter string, from uint64, fn func(Entry) error) error {
	all, _ := m.since(filter, from)
	for _, e := range all {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := fn(e); err != nil {
			return err
		}
	}
	return nil
}

// since returns the entries that match from a sequence on, and what is closed
// when there are more.
func (m *Memory) since(filter string, from uint64) ([]Entry, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []Entry
	subjects := 0
	for all := range m.matching(filter) {
		if all = all[indexOf(all, from):]; len(all) == 0 {
			continue
		}
		subjects++
		for _, e := range all {
			out = append(out, e.clone())
		}
	}
	if subjects > 1 {
		slices.SortFunc(out, func(a, b Entry) int { return cmp.Compare(a.Seq, b.Seq) })
	}
	return out, m.grown
}

// Tail is that of Log.
func (m *Memory) Tail(ctx context.Context, filter string, from uint64, fn func(Entry) error) error {
	for {
		all, grown := m.since(filter, from)
		for _, e := range all {
			if err := fn(e); err != nil {
				return err
			}
			from = e.Seq + 1
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Delete is that of Log.
func (m *Memory) Delete(_ context.Context, seq uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	subject, ok := m.where[seq]
	if !ok {
		return fmt.Errorf("delete %d: %w", seq, ErrNotFound)
	}
	all := m.subjects[subject]
	i := indexOf(all, seq)
	m.keep(subject, slices.Delete(all, i, i+1))
	delete(m.where, seq)
	return nil
}

// PurgeBefore is that of Log.
func (m *Memory) PurgeBefore(_ context.Context, filter string, seq uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for all := range m.matching(filter) {
		subject, n := all[0].Subject, indexOf(all, seq)
		for _, e := range all[:n] {
			delete(m.where, e.Seq)
		}
		m.keep(subject, slices.Delete(all, 0, n))
	}
	return nil
}

// keep makes all the entries of a subject. Called with mu held.
func (m *Memory) keep(subject string, all []Entry) {
	if len(all) == 0 {
		delete(m.subjects, subject)
		return
	}
	m.subjects[subject] = all
}

// Matches reports whether a subject is one of those that a filter stands for.
func Matches(filter, subject string) bool {
	if filter == "" || filter == ">" || filter == subject {
		return true
	}
	parts := strings.Split(subject, ".")
	want := strings.Split(filter, ".")
	for i, w := range want {
		switch {
		case w == ">":
			return len(parts) > i
		case i >= len(parts) || w != "*" && w != parts[i]:
			return false
		}
	}
	return len(want) == len(parts)
}

// MemoryBlobs is Blobs that ends with the process.
type MemoryBlobs struct {
	mu  sync.Mutex
	all map[string][]byte
}

// NewMemoryBlobs returns an empty one.
func NewMemoryBlobs() *MemoryBlobs { return &MemoryBlobs{all: map[string][]byte{}} }

// Put is that of Blobs.
func (b *MemoryBlobs) Put(_ context.Context, owner string, data []byte) (string, error) {
	sum := sha256.Sum256(data)
	hash := hex.EncodeToString(sum[:])
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all[owner+"."+hash] = slices.Clone(data)
	return hash, nil
}

// Get is that of Blobs.
func (b *MemoryBlobs) Get(_ context.Context, owner, hash string) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	data, ok := b.all[owner+"."+hash]
	if !ok {
		return nil, fmt.Errorf("read blob %s of %s: %w", hash, owner, ErrNotFound)
	}
	return slices.Clone(data), nil
}

// Delete is that of Blobs.
func (b *MemoryBlobs) Delete(_ context.Context, owner, hash string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.all, owner+"."+hash)
	return nil
}

// Purge removes all of an owner.
func (b *MemoryBlobs) Purge(_ context.Context, owner string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.all, func(key string, _ []byte) bool { return strings.HasPrefix(key, owner+".") })
	return nil
}

var (
	_ Log   = (*Memory)(nil)
	_ Blobs = (*MemoryBlobs)(nil)
)
