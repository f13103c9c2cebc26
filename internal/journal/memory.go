package journal

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Memory is a Log that ends with the process.
type Memory struct {
	mu      sync.Mutex
	seq     uint64
	entries []Entry           // in their order
	last    map[string]uint64 // of each subject
	grown   chan struct{}     // closed with the next entry
}

// NewMemory returns an empty log.
func NewMemory() *Memory { return &Memory{last: map[string]uint64{}, grown: make(chan struct{})} }

// Append is that of Log.
func (m *Memory) Append(ctx context.Context, subject string, data []byte, expect uint64) (uint64, error) {
	if err := context.Cause(ctx); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if last := m.last[subject]; last != expect {
		return 0, &Conflict{Subject: subject, Expected: expect, Last: last}
	}
	m.seq++
	m.entries = append(m.entries, Entry{Seq: m.seq, Subject: subject, Time: time.Now().UTC(), Data: slices.Clone(data)})
	m.last[subject] = m.seq
	close(m.grown)
	m.grown = make(chan struct{})
	return m.seq, nil
}

// at is the index of the first entry that has the sequence or a later one.
// Called with mu held.
func (m *Memory) at(seq uint64) int {
	i, _ := slices.BinarySearchFunc(m.entries, seq, func(e Entry, seq uint64) int {
		switch {
		case e.Seq < seq:
			return -1
		case e.Seq > seq:
			return 1
		}
		return 0
	})
	return i
}

// Read is that of Log.
func (m *Memory) Read(_ context.Context, seq uint64) (Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := m.at(seq); i < len(m.entries) && m.entries[i].Seq == seq {
		return m.entries[i].clone(), nil
	}
	return Entry{}, fmt.Errorf("read %d: %w", seq, ErrNotFound)
}

func (e Entry) clone() Entry {
	e.Data = slices.Clone(e.Data)
	return e
}

// Last is that of Log.
func (m *Memory) Last(_ context.Context, filter string) (Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range slices.Backward(m.entries) {
		if Matches(filter, e.Subject) {
			return e.clone(), nil
		}
	}
	return Entry{}, fmt.Errorf("read the last %s: %w", filter, ErrNotFound)
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
	for _, e := range m.entries[m.at(from):] {
		if Matches(filter, e.Subject) {
			out = append(out, e.clone())
		}
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
	i := m.at(seq)
	if i >= len(m.entries) || m.entries[i].Seq != seq {
		return fmt.Errorf("delete %d: %w", seq, ErrNotFound)
	}
	subject := m.entries[i].Subject
	m.entries = slices.Delete(m.entries, i, i+1)
	m.settle(subject)
	return nil
}

// PurgeBefore is that of Log.
func (m *Memory) PurgeBefore(_ context.Context, filter string, seq uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	gone := map[string]bool{}
	m.entries = slices.DeleteFunc(m.entries, func(e Entry) bool {
		goes := e.Seq < seq && Matches(filter, e.Subject)
		if goes {
			gone[e.Subject] = true
		}
		return goes
	})
	for subject := range gone {
		m.settle(subject)
	}
	return nil
}

// settle finds the last sequence of a subject of which entries went. Called
// with mu held.
func (m *Memory) settle(subject string) {
	for _, e := range slices.Backward(m.entries) {
		if e.Subject == subject {
			m.last[subject] = e.Seq
			return
		}
	}
	delete(m.last, subject)
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

var (
	_ Log   = (*Memory)(nil)
	_ Blobs = (*MemoryBlobs)(nil)
)
