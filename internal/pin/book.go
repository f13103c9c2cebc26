package pin

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/stoahub/stoa/internal/journal"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/suspect"
)

// Options are what a Book works with. Each may be left out.
type Options struct {
	Logger   *slog.Logger
	Announce func([]Change) // called with definitions the owner should look at; must not block
	// Decided is told that what is accepted of a server may be another, by whichever
	// hub on the same store. It must not block, nor call the book.
	Decided func(server string)
	// Current is what judges the definitions of a server now, or nil. What is left
	// of one that has gone, or is not judged any more, is then not in the book.
	Current func(server string) *Server
}

// Book keeps what is known of the definitions of all servers.
type Book struct {
	values *journal.Values[part]
	o      Options
	others atomic.Pointer[suspect.Names]

	mu      sync.Mutex
	servers map[string]*Server
}

// Open opens the book that st keeps; nil means one in memory. What other hubs on
// the same store write is in it. Close ends that.
func Open(ctx context.Context, st *store.Store, o Options) (*Book, error) {
	b := &Book{o: o, servers: map[string]*Server{}}
	var err error
	b.values, err = store.Values(ctx, st, store.BucketOptions{Name: "pins"}, journal.ValuesOptions[part]{
		Options: journal.Options{Logger: o.Logger},
		Decode:  decodePart,
		Changed: func(key string, _ *part) { b.changed(key) },
	})
	if err != nil {
		return nil, fmt.Errorf("open what is known of servers' definitions: %w", err)
	}
	return b, nil
}

// Close ends what goes on behind those who ask.
func (b *Book) Close() { b.values.Close() }

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

// changed is told of a value that was written, here or elsewhere. It is called
// while one is written, so it takes no lock of a server.
func (b *Book) changed(key string) {
	prefix := key[:strings.LastIndexByte(key, '.')+1]
	b.mu.Lock()
	var of []*Server
	for _, s := range b.servers {
		if s.prefix+"." == prefix {
			of = append(of, s)
		}
	}
	b.mu.Unlock()
	for _, s := range of {
		s.stale.Store(true)
		if b.o.Decided != nil {
			b.o.Decided(s.o.Name)
		}
	}
}
