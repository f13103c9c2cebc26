package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rogpeppe/go-internal/lockedfile"
)

// TokenPrefix begins every token, so that scanners for leaked secrets and
// people can tell what it is.
const TokenPrefix = "stoa_"

const (
	maxTokens = 10_000

	// recheck is for how long a token that is known is trusted without a look
	// at the file. An unknown one always causes a look.
	recheck = 10 * time.Millisecond
)

// Token is what is known of a token, which is everything but the token.
type Token struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Scopes  Scopes    `json:"scopes"`
	Rights  Rights    `json:"rights,omitempty"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"` // zero means never
}

// principal is who comes with the token.
func (t *Token) principal() *Principal {
	return &Principal{Name: t.Name, Scopes: t.Scopes.clone(), Via: ViaToken, Rights: slices.Clone(t.Rights), Token: t.ID}
}

// ErrNoToken is the answer of Revoke where nothing matches.
var ErrNoToken = errors.New("no such token")

// Tokens is the file of static bearer tokens. It is safe for concurrent use,
// also by several processes: each change locks the file, and each reader sees
// when it was replaced.
type Tokens struct {
	path string
	now  func() time.Time

	seen    atomic.Pointer[snapshot]
	checked atomic.Int64 // when the file was last looked at, in Unix nanoseconds
	mu      sync.Mutex   // held to look, read and write

	first    atomic.Pointer[func(name string) error] // OnFirstUse
	settling sync.Mutex                              // held while somebody is let in for the first time
}

// snapshot is the content of the file at one time. If err is set, the content
// is not known and nobody gets in.
type snapshot struct {
	info   os.FileInfo // nil if there was no file
	tokens []stored
	byHash map[[sha256.Size]byte]*known
	err    error
}

type known struct {
	who     *Principal
	expires time.Time
	fresh   bool
}

// OpenTokens reads the token file at path. A file that does not exist is one
// without tokens; one that cannot be read or understood is an error.
func OpenTokens(path string) (*Tokens, error) {
	t := &Tokens{path: path, now: time.Now}
	s := t.refresh()
	if s.err != nil {
		return nil, s.err
	}
	return t, nil
}

// Verify returns the principal of a token, or ErrBadToken, or why the file
// cannot be read.
func (t *Tokens) Verify(_ context.Context, token string) (*Principal, error) {
	if !strings.HasPrefix(token, TokenPrefix) || len(token) > 128 {
		return nil, ErrBadToken
	}
	// The lookup is by hash: its timing tells nothing that helps to find a
	// token, since one cannot choose the hash of a guess.
	hash := sha256.Sum256([]byte(token))
	now := t.now()
	s := t.seen.Load()
	k := s.byHash[hash]
	if k == nil || s.err != nil || now.UnixNano()-t.checked.Load() > int64(recheck) {
		s = t.refresh()
		k = s.byHash[hash]
	}
	switch {
	case s.err != nil:
		return nil, s.err
	case k == nil:
		return nil, ErrBadToken
	case !k.expires.IsZero() && !now.Before(k.expires):
		return nil, fmt.Errorf("%w: it expired on %s", ErrBadToken, k.expires.Format(time.DateOnly))
	}
	if k.fresh {
		t.settling.Lock()
		defer t.settling.Unlock()
		if err := t.settle(k.who.Name); err != nil {
			return nil, err
		}
	}
	return k.who, nil
}

var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$`)

// Create makes a token and returns it with the secret, which is not kept and
// cannot be shown again. A ttl of zero means that it does not expire.
func (t *Tokens) Create(name string, scopes Scopes, ttl time.Duration, rights ...Right) (Token, string, error) {
	fail := func(err error) (Token, string, error) {
		return Token{}, "", fmt.Errorf("create token %q: %w", name, err)
	}
	if !nameForm.MatchString(name) {
		return fail(errors.New("a name is 1 to 64 letters, digits and ._@- and begins with a letter or digit"))
	}
	if name == LocalName {
		return fail(errors.New("the name belongs to callers without a token: choose another"))
	}
	if err := scopes.Check(); err != nil {
		return fail(err)
	}
	if err := Rights(rights).Check(); err != nil {
		return fail(err)
	}
	if ttl < 0 {
		return fail(fmt.Errorf("it would have expired %s ago: give a time to live above zero, or none", -ttl))
	}
	secret := newSecret(TokenPrefix)
	now := t.now().UTC().Truncate(time.Second)
	tok := Token{ID: newID("t_"), Name: name, Scopes: scopes.clone(), Rights: slices.Clone(rights), Created: now}
	if ttl > 0 {
		tok.Expires = t.now().UTC().Add(ttl)
	}
	err := t.change(func(list []stored) ([]stored, error) {
		if slices.ContainsFunc(list, func(s stored) bool { return s.Name == name || s.ID == tok.ID }) {
			return nil, errors.New("there is one of that name: revoke it first, or choose another name")
		}
		if len(list) >= maxTokens {
			return nil, fmt.Errorf("there are %d already: revoke some", len(list))
		}
		hash := sha256.Sum256([]byte(secret))
		return append(list, stored{Token: tok, Hash: hex.EncodeToString(hash[:]), Fresh: true}), nil
	})
	if err != nil {
		return fail(err)
	}
	return tok, secret, nil
}

// List returns all tokens, also expired ones, oldest first.
func (t *Tokens) List() ([]Token, error) {
	s := t.refresh()
	if s.err != nil {
		return nil, s.err
	}
	out := make([]Token, len(s.tokens))
	for i, one := range s.tokens {
		out[i] = one.Token
		out[i].Scopes = one.Scopes.clone()
	}
	return out, nil
}

// Named returns the principal of the token of that name, or nil if there is
// none that is valid now. Whoever looks for it has something that is kept under
// the name. So it is not one that was never used: what is kept is another's, and
// is removed before the first use.
func (t *Tokens) Named(name string) (*Principal, error) {
	return t.find(func(one *Token) bool { return one.Name == name }, t.first.Load() == nil)
}

// Holder is Named that also returns the principal of a token which was never
// used, for who wants to know what it may do.
func (t *Tokens) Holder(name string) (*Principal, error) {
	return t.find(func(one *Token) bool { return one.Name == name }, true)
}

// WithID returns the principal of the token of that id, or nil if there is none
// that is valid now.
func (t *Tokens) WithID(id string) (*Principal, error) {
	return t.find(func(one *Token) bool { return one.ID == id }, true)
}

// find returns the principal of a token. It removes nothing: who looks for
// somebody may hold what would be removed.
func (t *Tokens) find(is func(*Token) bool, unused bool) (*Principal, error) {
	s := t.refresh()
	if s.err != nil {
		return nil, s.err
	}
	for i := range s.tokens {
		one := &s.tokens[i]
		if !is(&one.Token) || !one.Expires.IsZero() && !t.now().Before(one.Expires) {
			continue
		}
		if one.Fresh && !unused {
			return nil, nil
		}
		return one.principal(), nil
	}
	return nil, nil
}

// Revoke removes the token with that id or name, or returns ErrNoToken.
func (t *Tokens) Revoke(idOrName string) (Token, error) {
	var gone Token
	err := t.change(func(list []stored) ([]stored, error) {
		i := slices.IndexFunc(list, func(s stored) bool { return s.ID == idOrName })
		if i < 0 {
			i = slices.IndexFunc(list, func(s stored) bool { return s.Name == idOrName })
		}
		if i < 0 {
			return nil, ErrNoToken
		}
		gone = list[i].Token
		return slices.Delete(list, i, i+1), nil
	})
	if err != nil {
		return Token{}, fmt.Errorf("revoke token %q: %w", idOrName, err)
	}
	return gone, nil
}

// change rewrites the file with what f makes of its tokens. Between reading
// and writing no other process can change it.
func (t *Tokens) change(f func([]stored) ([]stored, error)) error {
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
	list, err := f(slices.Clone(s.tokens))
	if err != nil {
		return err
	}
	if err := save(t.path, list); err != nil {
		return err
	}
	t.seen.Store(load(t.path))
	return nil
}

// refresh looks whether the file was replaced, reads it if so, and returns
// what is in it.
func (t *Tokens) refresh() *snapshot {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.checked.Store(t.now().UnixNano())
	s := t.seen.Load()
	if s == nil || !s.current(t.path) {
		s = load(t.path)
		t.seen.Store(s)
	}
	return s
}

// newSecret returns 256 random bits in letters and digits, so that a double
// click selects all of it.
func newSecret(prefix string) string {
	var b [32]byte
	rand.Read(b[:])
	text := new(big.Int).SetBytes(b[:]).Text(62)
	return prefix + strings.Repeat("0", 43-len(text)) + text
}

func newID(prefix string) string {
	var b [6]byte
	rand.Read(b[:])
	return prefix + hex.EncodeToString(b[:])
}

var _ Verifier = (*Tokens)(nil)
