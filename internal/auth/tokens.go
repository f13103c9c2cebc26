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
)

// TokenPrefix begins every token, so that scanners for leaked secrets and
// people can tell what it is.
const TokenPrefix = "stoa_"

const (
	maxTokens = 10_000

	// recheck is for how long a token that is known is trusted without a look
	// at what keeps it. An unknown one always causes a look.
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

// Tokens are static bearer tokens, in a file or in a store that hubs share. They
// are safe for concurrent use, also by several processes: each change of a file
// locks it, and each reader sees when it was replaced.
type Tokens struct {
	keeper keeper
	now    func() time.Time

	first    atomic.Pointer[func(ctx context.Context, name string) error] // OnFirstUse
	settling sync.Mutex                                                   // held while somebody is let in for the first time
}

// keeper is where tokens are kept.
type keeper interface {
	// recent is what is there, or was at most that long ago.
	recent(now time.Time, age time.Duration) *snapshot
	// latest is what is there now.
	latest(now time.Time) *snapshot
	add(one stored) error
	// remove removes the token of an id or a name.
	remove(idOrName string) (Token, error)
	// settle has remove called before the token of a name is used for the first time.
	settle(name string, remove func(context.Context, string) error) error
	close()
}

// snapshot is what is kept at one time. If err is set, that is not known and
// nobody gets in.
type snapshot struct {
	info   os.FileInfo // of a file; nil if there was none
	of     uint64      // the change of a store that it was made after
	tokens []stored    // oldest first
	byHash map[[sha256.Size]byte]*known
	byID   map[string]int // of tokens
	err    error
}

type known struct {
	who     *Principal
	expires time.Time
	fresh   bool
}

// index makes the tokens, which were checked, ones that can be found.
func (s *snapshot) index() {
	s.byHash, s.byID = make(map[[sha256.Size]byte]*known, len(s.tokens)), make(map[string]int, len(s.tokens))
	for i := range s.tokens {
		one := &s.tokens[i]
		hash, _ := hex.DecodeString(one.Hash)
		s.byHash[[sha256.Size]byte(hash)] = &known{one.principal(), one.Expires, one.Fresh}
		s.byID[one.ID] = i
	}
}

// find returns the index of the token of that id, or else of that name, or -1.
func (s *snapshot) find(idOrName string) int {
	if i, ok := s.byID[idOrName]; ok {
		return i
	}
	return slices.IndexFunc(s.tokens, func(one stored) bool { return one.Name == idOrName })
}

// admits says why a new token cannot be added.
func (s *snapshot) admits(one stored) error {
	if slices.ContainsFunc(s.tokens, func(s stored) bool { return s.Name == one.Name || s.ID == one.ID }) {
		return errors.New("there is one of that name: revoke it first, or choose another name")
	}
	if len(s.tokens) >= maxTokens {
		return fmt.Errorf("there are %d already: revoke some", len(s.tokens))
	}
	return nil
}

// OpenTokens reads the token file at path. A file that does not exist is one
// without tokens; one that cannot be read or understood is an error.
func OpenTokens(path string) (*Tokens, error) {
	t := &Tokens{keeper: &fileTokens{path: path}, now: time.Now}
	if s := t.keeper.latest(t.now()); s.err != nil {
		return nil, s.err
	}
	return t, nil
}

// Close ends what goes on behind tokens that hubs share.
func (t *Tokens) Close() { t.keeper.close() }

// Verify returns the principal of a token, or ErrBadToken, or why that cannot be
// found out.
func (t *Tokens) Verify(_ context.Context, token string) (*Principal, error) {
	if !strings.HasPrefix(token, TokenPrefix) || len(token) > 128 {
		return nil, ErrBadToken
	}
	// The lookup is by hash: its timing tells nothing that helps to find a
	// token, since one cannot choose the hash of a guess.
	hash := sha256.Sum256([]byte(token))
	now := t.now()
	s := t.keeper.recent(now, recheck)
	k := s.byHash[hash]
	if k == nil && s.err == nil {
		s = t.keeper.latest(now)
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
	if k.fresh && t.first.Load() != nil {
		return t.verifyFresh(hash, k.who.Name)
	}
	return k.who, nil
}

// verifyFresh returns the principal of a token that is used for the first time.
// That may take a while, in which it may be revoked.
func (t *Tokens) verifyFresh(hash [sha256.Size]byte, name string) (*Principal, error) {
	t.settling.Lock()
	defer t.settling.Unlock()
	if err := t.settle(name); err != nil {
		return nil, err
	}
	switch s := t.keeper.latest(t.now()); {
	case s.err != nil:
		return nil, s.err
	case s.byHash[hash] == nil:
		return nil, fmt.Errorf("%w: it was revoked", ErrBadToken)
	default:
		return s.byHash[hash].who, nil
	}
}

// Again returns the holder of the token that somebody came with.
func (t *Tokens) Again(_ context.Context, who *Principal) (*Principal, error) {
	now, err := t.WithID(who.Token)
	if err == nil && now == nil {
		err = fmt.Errorf("%w: the token has ended", ErrBadToken)
	}
	return now, err
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
	hash := sha256.Sum256([]byte(secret))
	err := t.keeper.add(stored{Token: tok, Hash: hex.EncodeToString(hash[:]), Fresh: true})
	if err != nil {
		return fail(err)
	}
	return tok, secret, nil
}

// List returns all tokens, also expired ones, oldest first.
func (t *Tokens) List() ([]Token, error) {
	s := t.keeper.latest(t.now())
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
	return t.named(name, t.first.Load() == nil)
}

// Holder is Named that also returns the principal of a token which was never
// used, for who wants to know what it may do.
func (t *Tokens) Holder(name string) (*Principal, error) {
	return t.named(name, true)
}

// WithID returns the principal of the token of that id, or nil if there is none
// that is valid now.
func (t *Tokens) WithID(id string) (*Principal, error) {
	s := t.keeper.recent(t.now(), 0)
	if s.err != nil {
		return nil, s.err
	}
	if i, ok := s.byID[id]; ok {
		return t.valid(&s.tokens[i], true), nil
	}
	return nil, nil
}

// named removes nothing: who looks for somebody may hold what would be removed.
func (t *Tokens) named(name string, unused bool) (*Principal, error) {
	s := t.keeper.recent(t.now(), 0)
	if s.err != nil {
		return nil, s.err
	}
	for i := range s.tokens {
		if one := &s.tokens[i]; one.Name == name {
			return t.valid(one, unused), nil
		}
	}
	return nil, nil
}

// valid returns the principal of a token, or nil if it has expired, or was not
// used and that matters.
func (t *Tokens) valid(one *stored, unused bool) *Principal {
	if !one.Expires.IsZero() && !t.now().Before(one.Expires) || one.Fresh && !unused {
		return nil
	}
	return one.principal()
}

// Revoke removes the token with that id or name, or returns ErrNoToken.
func (t *Tokens) Revoke(idOrName string) (Token, error) {
	gone, err := t.keeper.remove(idOrName)
	if err != nil {
		return Token{}, fmt.Errorf("revoke token %q: %w", idOrName, err)
	}
	return gone, nil
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
