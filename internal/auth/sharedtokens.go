package auth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rogpeppe/go-internal/lockedfile"

	"github.com/stoahub/stoa/internal/journal"
)

// sharedTokens are tokens that hubs share, each under a hash of its name.
type sharedTokens struct {
	s    Shared
	kept *kept[tokenRecord]

	seen atomic.Pointer[snapshot]
	mu   sync.Mutex // held to make a snapshot
}

// tokenRecord is a token in the store, or what is left of one.
type tokenRecord struct {
	stored // without a hash it is none
	// Imported tokens are in a file, too, which must not bring them back.
	Imported bool     `json:"imported,omitempty"`
	Gone     []string `json:"gone,omitempty"` // ids of imported tokens of the name that were revoked
	Entry    string   `json:"entry"`          // see unlike
}

func (r *tokenRecord) live() bool { return r.Hash != "" }

// OpenSharedTokens opens the tokens that hubs share. Close ends that.
func OpenSharedTokens(ctx context.Context, s Shared) (*Tokens, error) {
	if s.Logger == nil {
		s.Logger = slog.New(slog.DiscardHandler)
	}
	k, err := openKept[tokenRecord](ctx, s, "tokens", nil)
	if err != nil {
		return nil, err
	}
	k.look(lookEvery)
	return &Tokens{keeper: &sharedTokens{s: s, kept: k}, now: time.Now}, nil
}

// What who asks for tokens wants to know.
const (
	whetherToken = "whether a token is valid"
	whichTokens  = "which tokens there are"
)

func (t *sharedTokens) close() { t.kept.Close() }

func (t *sharedTokens) key(name string) string { return t.s.hash("token", name)[:32] }

func (t *sharedTokens) recent(now time.Time, age time.Duration) *snapshot {
	if err := t.kept.recent(now, age, whetherToken); err != nil {
		return &snapshot{err: err}
	}
	return t.known()
}

func (t *sharedTokens) latest(now time.Time) *snapshot {
	return t.latestFor(now, whetherToken)
}

// latestFor is latest for who wants to know what.
func (t *sharedTokens) latestFor(now time.Time, what string) *snapshot {
	if err := t.kept.latest(now, what); err != nil {
		return &snapshot{err: err}
	}
	return t.known()
}

// known is what is known here.
func (t *sharedTokens) known() *snapshot {
	if s := t.seen.Load(); s != nil && s.of == t.kept.changes.Load() {
		return s
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.kept.changes.Load() // what changes from here on is for the next
	if s := t.seen.Load(); s != nil && s.of == of {
		return s
	}
	s := &snapshot{of: of}
	for _, one := range t.kept.All() {
		if one.V.live() {
			s.tokens = append(s.tokens, one.V.stored)
		}
	}
	slices.SortFunc(s.tokens, func(a, b stored) int { return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID)) })
	// One that is not as it should be lets nobody in, and keeps nobody out.
	s.tokens = slices.DeleteFunc(s.tokens, func(one stored) bool { return one.check() != nil })
	s.index()
	t.seen.Store(s)
	return s
}

// at returns the record of a name as it was just now, or one of revision 0.
func (t *sharedTokens) at(name string) (journal.Value[tokenRecord], error) {
	now := time.Now()
	if err := t.kept.latest(now, whichTokens); err != nil {
		return journal.Value[tokenRecord]{}, err
	}
	v, err := t.kept.Get(t.key(name))
	if errors.Is(err, journal.ErrNotFound) {
		return journal.Value[tokenRecord]{}, nil
	}
	return v, err
}

// change has f say what becomes of the record of a name, until nobody else was
// quicker. f returns nil to leave it.
func (t *sharedTokens) change(name string, f func(tokenRecord) (*tokenRecord, error)) error {
	ctx, cancel := context.WithTimeout(context.Background(), sharedTime)
	defer cancel()
	var err error
	for range tries {
		var old journal.Value[tokenRecord]
		var next *tokenRecord
		if old, err = t.at(name); err != nil {
			return err
		}
		if next, err = f(old.V); err != nil || next == nil {
			return err
		}
		if !next.live() && len(next.Gone) == 0 {
			err = t.kept.RemoveAfter(ctx, t.key(name), old.Rev)
		} else {
			next.Entry = unlike()
			err = t.kept.put(ctx, t.key(name), *next, old.Rev)
		}
		if !isConflict(err) {
			return err
		}
	}
	return err
}

func (t *sharedTokens) add(one stored) error {
	return t.change(one.Name, func(old tokenRecord) (*tokenRecord, error) {
		if err := t.known().admits(one); err != nil {
			return nil, err
		}
		return &tokenRecord{stored: one, Gone: old.Gone}, nil
	})
}

func (t *sharedTokens) remove(idOrName string) (Token, error) {
	s := t.latestFor(time.Now(), whichTokens)
	if s.err != nil {
		return Token{}, s.err
	}
	i := s.find(idOrName)
	if i < 0 {
		return Token{}, ErrNoToken
	}
	gone := s.tokens[i].Token
	err := t.change(gone.Name, func(old tokenRecord) (*tokenRecord, error) {
		if !old.live() || old.ID != gone.ID {
			return nil, ErrNoToken // somebody else has revoked it
		}
		left := &tokenRecord{Gone: old.Gone}
		if old.Imported {
			left.Gone = append(slices.Clone(old.Gone), old.ID)
		}
		return left, nil
	})
	if err != nil {
		return Token{}, err
	}
	return gone, nil
}

func (t *sharedTokens) settle(name string, remove func(context.Context, string) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*sharedTime)
	defer cancel()
	return t.s.Alone(ctx, "token."+t.key(name), func(ctx context.Context) error {
		old, err := t.at(name)
		switch {
		case err != nil:
			return err
		case !old.V.live():
			return fmt.Errorf("%w: it was revoked", ErrBadToken)
		case !old.V.Fresh:
			return nil // another hub was first
		}
		if err := remove(ctx, name); err != nil {
			return fmt.Errorf("remove what a token named %q kept that is revoked: %w", name, err)
		}
		if err := context.Cause(ctx); err != nil { // another hub may be at it
			return err
		}
		used := old.V
		used.Fresh, used.Entry = false, unlike()
		if err = t.kept.put(ctx, t.key(name), used, old.Rev); isConflict(err) {
			return fmt.Errorf("%w: it was revoked", ErrBadToken)
		}
		return err
	})
}

// Import puts the tokens of a file into the store that hubs share, and renames the
// file. What the store knows, also of one that was revoked since it was imported,
// wins. It returns how many there were.
func (t *Tokens) Import(path string) (n int, err error) {
	shared, ok := t.keeper.(*sharedTokens)
	if !ok {
		return 0, errors.New("import tokens: these are not shared")
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	unlock, err := lockedfile.MutexAt(path + ".lock").Lock()
	if err != nil {
		return 0, fmt.Errorf("lock %s: %w", path, err)
	}
	defer unlock()
	s := load(path)
	if s.err != nil || s.info == nil {
		return 0, s.err
	}
	for _, one := range s.tokens {
		if err := shared.take(one); err != nil {
			return n, fmt.Errorf("import the token %q of %s: %w", one.Name, path, err)
		}
		n++
	}
	to := path + ".imported"
	if err := os.Rename(path, to); err != nil {
		// It is imported again, which changes nothing.
		shared.s.Logger.Warn("the tokens are in the store now, and the file stays", "file", path, "err", err)
		return n, nil
	}
	shared.s.Logger.Info("the tokens of a file were put into the store that hubs share, and the file was renamed", "tokens", n, "file", to)
	return n, nil
}

// take imports one token.
func (t *sharedTokens) take(one stored) error {
	return t.change(one.Name, func(old tokenRecord) (*tokenRecord, error) {
		switch {
		case old.live() && old.ID == one.ID, slices.Contains(old.Gone, one.ID):
			return nil, nil
		case old.live():
			t.s.Logger.Warn("a token of the file is left out: another of its name is in the store", "token", one.ID, "name", one.Name)
			return nil, nil
		}
		return &tokenRecord{stored: one, Imported: true, Gone: old.Gone}, nil
	})
}

var _ keeper = (*sharedTokens)(nil)
