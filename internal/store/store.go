package store

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoahub/stoa/internal/journal"
)

// MaxEntry is the size of the largest entry, value or item in bytes.
const MaxEntry = journal.MaxEntry

// Options say where the store is and how it behaves.
type Options struct {
	Dir         string        // the folder of the embedded engine; used if URL is empty
	URL         string        // nats://host:port, several with commas: an engine elsewhere
	Credentials string        // a NATS credentials file, for URL
	TLS         *tls.Config   // for URL; nil means what the URL says
	Replicas    int           // copies of each entry in a cluster; 0 means 1. There are never fewer of what is there already
	Keep        bool          // what is there is not changed, other than by entries
	MaxBytes    int64         // bound of the embedded engine's files; 0 means the disk
	Timeout     time.Duration // bound of one operation; 0 means 5 s, with replicas 15 s
	Logger      *slog.Logger  // nil discards
	OnState     func(error)   // told each change of State, one at a time; must not call Close
}

// Store is an open store.
type Store struct {
	o      Options
	log    *slog.Logger
	folder *folder // nil if the engine is elsewhere
	health *health

	engine  atomic.Pointer[engine]
	streams sync.Map        // names of the engine's streams that are in use, and their replicas
	more    atomic.Int64    // see Replicas
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	tasks   sync.WaitGroup
	once    sync.Once
}

// ErrClosed means that the store was closed.
var ErrClosed = errors.New("the store is closed")

// Open opens the store, making it if it is not there.
func Open(ctx context.Context, o Options) (*Store, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Replicas <= 0 {
		o.Replicas = 1
	}
	if o.Timeout <= 0 {
		o.Timeout = 5 * time.Second
		if o.Replicas > 1 {
			o.Timeout = 15 * time.Second // a cluster that lost a leader needs up to 9 s for another
		}
	}
	if (o.URL == "") == (o.Dir == "") {
		return nil, errors.New("open the store: give either a folder or a URL")
	}
	s := &Store{o: o, log: o.Logger, health: newHealth(o.OnState)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	var err error
	if o.URL == "" {
		if o.Replicas > 1 {
			return nil, fmt.Errorf("open the store: %d replicas need a cluster: name it by its URL", o.Replicas)
		}
		err = s.openFolder(ctx)
	} else {
		err = s.dial(ctx)
	}
	if err != nil {
		s.cancel()
		return nil, err
	}
	s.tasks.Go(s.watch)
	return s, nil
}

func (s *Store) openFolder(ctx context.Context) error {
	f, err := openFolder(s.o.Dir, s.log)
	if err != nil {
		return err
	}
	e, err := startEngine(ctx, f, s.o, s.health)
	if err != nil {
		f.close()
		return err
	}
	s.folder = f
	s.engine.Store(e)
	return nil
}

func (s *Store) dial(ctx context.Context) error {
	e, err := dialEngine(ctx, s.o, s.health)
	if err != nil {
		return err
	}
	s.engine.Store(e)
	if err := s.agree(ctx); err != nil {
		e.close()
		return err
	}
	return nil
}

// Close ends everything that waits on the store and gives the folder free. It
// may be called again.
func (s *Store) Close() error {
	var err error
	s.once.Do(func() {
		s.cancel()
		s.tasks.Wait()
		e := s.engine.Load()
		if s.folder == nil {
			e.close()
		} else {
			err = s.folder.stop(e)
			s.folder.close()
		}
		s.health.set(ErrClosed, true)
	})
	return err
}

// State is nil, or why writes cannot be acknowledged now.
func (s *Store) State() error { return s.health.get() }

// Timeout bounds one operation.
func (s *Store) Timeout() time.Duration { return s.o.Timeout }

// Alone reports whether nobody else can write the store while it is open.
func (s *Store) Alone() bool { return s.folder != nil }

// Damage lists what was found damaged in the folder and not yet put aside by a
// person. An engine elsewhere reports for itself.
func (s *Store) Damage() []Damage {
	if s.folder == nil {
		return nil
	}
	return s.folder.report()
}

// reading limits an operation to the store's time-out.
func (s *Store) reading(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.o.Timeout)
}

// writing limits an operation to the store's time-out and to the time until
// the engine is known to write no more: it leaves such writes unanswered.
func (s *Store) writing(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	stop := context.AfterFunc(s.health.broken(), cancel)
	return ctx, func() { stop(); cancel() }
}

var nameForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func checkName(what, name string) error {
	if !nameForm.MatchString(name) {
		return fmt.Errorf("%s %q: a name has 1 to 64 letters, digits, - or _", what, name)
	}
	return nil
}
