package pin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/suspect"
)

// Options are what a Book works with. Each may be left out.
type Options struct {
	Announce func([]Change)      // called with definitions the owner should look at; must not block
	Decided  func(server string) // is told that what is accepted of a server may be another; it must not block
	// Current is what judges the definitions of a server now, or nil. What is left
	// of one that has gone, or is not judged any more, is then not in the book.
	Current func(server string) *Server
}

// Book keeps what is known of the definitions of all servers.
type Book struct {
	bucket *store.Bucket // nil: in memory only
	o      Options
	others atomic.Pointer[suspect.Names]

	mu      sync.Mutex
	servers map[string]*Server
}

// Open opens the book that st keeps; nil means one in memory.
func Open(ctx context.Context, st *store.Store, o Options) (*Book, error) {
	b := &Book{o: o, servers: map[string]*Server{}}
	if st == nil {
		return b, nil
	}
	bucket, err := st.Bucket(ctx, store.BucketOptions{Name: "pins"})
	if err != nil {
		return nil, fmt.Errorf("open what is known of servers' definitions: %w", err)
	}
	b.bucket = bucket
	return b, nil
}

// Server returns what judges the definitions of a server. It is in the book from
// its first review on, in place of the one that had its name.
func (b *Book) Server(o ServerOptions) *Server { return newServer(b, o) }

func (b *Book) enter(s *Server) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.servers[s.o.Name] = s
}

// Know says which tools the servers have, to compare definitions with.
func (b *Book) Know(names *suspect.Names) { b.others.Store(names) }

func (b *Book) names() *suspect.Names { return b.others.Load() }

func (b *Book) announce(news []Change) {
	if b.o.Announce != nil {
		b.o.Announce(news)
	}
}

// all are the servers, in no order.
func (b *Book) all() []*Server {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]*Server, 0, len(b.servers))
	for name, s := range b.servers {
		if b.o.Current != nil && b.o.Current(name) != s {
			delete(b.servers, name)
			continue
		}
		out = append(out, s)
	}
	return out
}

// Follow takes in what other hubs on the same store write, until ctx ends.
func (b *Book) Follow(ctx context.Context) {
	if b.bucket == nil {
		return
	}
	for ctx.Err() == nil {
		err := b.bucket.Watch(ctx, "", nil, func(v store.Value) error {
			b.wrote(v)
			return nil
		})
		if errors.Is(err, context.Canceled) {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// wrote takes in a value of the bucket. One that this hub wrote is known.
func (b *Book) wrote(v store.Value) {
	for _, s := range b.all() {
		if key, ok := strings.CutPrefix(v.Key, s.prefix+"."); ok && s.stale(key, v.Rev) && b.o.Decided != nil {
			b.o.Decided(s.o.Name)
		}
	}
}

// stale forgets what is in memory if a part of it is older than rev.
func (s *Server) stale(key string, rev uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.kept.loaded || s.kept.rev(key) >= rev {
		return false
	}
	s.kept.loaded = false
	clear(s.passed)
	return true
}
