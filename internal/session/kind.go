package session

import (
	"context"
	"fmt"

	"github.com/stoahub/stoa/internal/journal"
	"github.com/stoahub/stoa/internal/store"
)

const (
	logName       = "session"
	subjectPrefix = "evt.session."
	subjectSuffix = ".e"
)

type (
	book   = journal.Journal[*Session, event]
	entity = journal.Entity[*Session, event]
)

// kind says what a Session is to the journal, which knows it by its id.
func (r *Registry) kind() journal.Kind[*Session, event] {
	return journal.Kind[*Session, event]{
		Subjects: subjectPrefix + "*" + subjectSuffix,
		New:      func(id string) *Session { return &Session{r: r, id: id} },
		Encode: func(e *event, data []byte, blob string) ([]byte, error) {
			e.Blob = blob
			return e.encode(data)
		},
		Decode: func(entry []byte) (*event, []byte, string, error) {
			e, data, err := decode(entry)
			if err != nil {
				return nil, nil, "", err
			}
			return e, data, e.Blob, nil
		},
		Check:   func(*Session, *event) error { return nil }, // any can follow any
		Apply:   r.apply,
		Blobs:   func(s *Session) []string { return s.state.blobs() },
		Changed: r.changed,
	}
}

// openBook reads the Sessions that a store holds. Without a store they are in
// memory.
func (r *Registry) openBook(ctx context.Context, st *store.Store) (*book, error) {
	var l journal.Log = journal.NewMemory()
	var blobs journal.Blobs = journal.NewMemoryBlobs()
	if st != nil {
		var err error
		if l, err = st.Log(ctx, store.LogOptions{Name: logName, Subjects: []string{subjectPrefix + ">"}}); err != nil {
			return nil, fmt.Errorf("open the sessions: %w", err)
		}
		if blobs, err = st.Blobs(ctx, "blob"); err != nil {
			return nil, fmt.Errorf("open the blobs of sessions: %w", err)
		}
	}
	b, err := journal.Open(ctx, l, blobs, r.kind(), journal.Options{Logger: r.opts.Load().Logger, Alone: r.alone, TrimLater: st != nil})
	if err != nil {
		return nil, fmt.Errorf("read the sessions: %w", err)
	}
	return b, nil
}

// apply makes an event count.
func (r *Registry) apply(s *Session, e *event, at journal.Place) (*Session, []journal.Spare, error) {
	s.mu.Lock()
	if e.Kind == opened {
		s.client = e.Client
		s.belongs(key{e.Principal, e.Session})
	}
	spares := s.state.apply(e, at)
	s.mu.Unlock()
	s.usedAt(e.Time)
	for _, sp := range spares {
		r.cache.forget(place{s.id, sp.Seq})
	}
	if !e.known() {
		return s, spares, &journal.Unknown{Type: e.Kind}
	}
	return s, spares, nil
}

// belongs notes whose the Session is, if that is what its id is made of.
func (s *Session) belongs(to key) {
	if s.own.Load() == nil && ID(to.principal, to.name) == s.id {
		s.own.Store(&to)
	}
}

// changed tells those who watch what happened to a Session, here or in another
// hub.
func (r *Registry) changed(x *entity, e *event, _ journal.Place) {
	c := Change{Session: x.State()}
	switch {
	case e == nil:
		if !c.Session.clear() {
			return // it was over before
		}
		c.Listed, c.Ended = true, true
	case e.Kind == opened:
		c.Opened = true
	case e.Kind == ended:
		c.Listed, c.Ended = e.listed, e.listed
	case e.Kind == put:
		c.Value, c.Listed = e.Value.Name, e.listed
	case e.Kind == removed && e.listed:
		c.Value, c.Listed = e.Name, true
	case e.Kind == switched:
		c.Modules = true
	}
	r.count(c.Session)
	if c == (Change{Session: c.Session}) {
		return
	}
	r.mu.RLock()
	watchers := r.watchers
	r.mu.RUnlock()
	for _, f := range watchers {
		f(c)
	}
}

// clear forgets what a Session held that was removed, and reports whether it
// was still open.
func (s *Session) clear() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, it := range s.state.values {
		for _, v := range it.versions {
			s.r.cache.forget(place{s.id, v.seq})
		}
	}
	was := s.state.open
	s.state = state{}
	return was
}

func (s *state) blobs() (all []string) {
	all = append(all, s.foreign...)
	for _, it := range s.values {
		for _, v := range it.versions {
			if v.blob != "" {
				all = append(all, v.blob)
			}
		}
	}
	return all
}

// Latest makes sure that all is known of the Session that any hub has written before.
func (s *Session) Latest(ctx context.Context) error { return s.r.latest(ctx, s.id) }

// latest makes sure that all is known of a Session that any hub has written
// before.
func (r *Registry) latest(ctx context.Context, id string) error {
	if r.alone {
		return nil
	}
	_, err := r.book.At(id).Latest(ctx)
	return err
}
