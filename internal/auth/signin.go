package auth

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/lockedfile"
)

// SignInPrefix begins what a signed-in browser sends in place of a token.
const SignInPrefix = "stoa_signin_"

const (
	// SignInLife is how long a browser is signed in, whatever it does meanwhile.
	SignInLife = 12 * time.Hour

	maxSignIns    = 64    // of a principal; the oldest makes room
	maxPerMinute  = 20    // of a principal: each is written to disk
	maxAllSignIns = 4_096 // of all
)

// SignIn is what is known of a browser that is signed in, which is everything
// but its secret.
type SignIn struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`            // of the principal
	Token   string    `json:"token,omitempty"` // id of the token that it ends with; empty: the owner's
	Browser string    `json:"browser,omitempty"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
}

// ErrNoSignIn is the answer of Revoke where nothing matches.
var ErrNoSignIn = errors.New("no such sign-in")

// SignIns are the browsers that are signed in, in a file or in a store that hubs
// share. Like Tokens they are safe for concurrent use, also by several processes,
// and only hashes are kept. Those of a file are made with the owner's token as
// key: a file that somebody else wrote lets nobody in, and a new token of the
// owner's ends all sign-ins.
type SignIns struct {
	path   string
	owner  string
	tokens *Tokens
	now    func() time.Time
	shared *sharedSignIns // nil: they are in the file

	mu      sync.Mutex
	checked time.Time // when the file was last looked at
	info    os.FileInfo
	list    []storedSignIn
	err     error // the content is not known, and nobody gets in
}

type storedSignIn struct {
	SignIn
	Hash string `json:"sha256"`
}

type signInFile struct {
	Version int            `json:"version"`
	SignIns []storedSignIn `json:"signIns"`
}

// OpenSignIns reads the file at path. owner is the owner's token; who only
// lists and revokes needs neither it nor tokens.
func OpenSignIns(path, owner string, tokens *Tokens) (*SignIns, error) {
	s := &SignIns{path: path, owner: owner, tokens: tokens, now: time.Now}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.load()
	return s, s.err
}

// Verify returns who is signed in by a secret, or ErrBadToken, or why that
// cannot be found out.
func (s *SignIns) Verify(_ context.Context, secret string) (*Principal, error) {
	one, err := s.find(s.hash(secret))
	if err != nil {
		return nil, err
	}
	return s.holder(one)
}

// Again returns who is signed in as somebody was before.
func (s *SignIns) Again(_ context.Context, who *Principal) (*Principal, error) {
	one, err := s.findID(who.SignIn)
	if err != nil {
		return nil, err
	}
	return s.holder(one)
}

// holder is who is signed in.
func (s *SignIns) holder(one SignIn) (*Principal, error) {
	if one.Token == "" {
		who := *Owner
		who.SignIn = one.ID
		return &who, nil
	}
	holder, err := s.tokens.WithID(one.Token)
	switch {
	case err != nil:
		return nil, err
	case holder == nil:
		return nil, fmt.Errorf("%w: the token that you signed in with has ended", ErrBadToken)
	}
	holder.SignIn = one.ID
	return holder, nil
}

func (s *SignIns) hash(secret string) string {
	if s.shared != nil {
		return s.shared.in.hash("sign-in", secret)
	}
	mac := hmac.New(sha256.New, []byte(s.owner))
	mac.Write([]byte(secret))
	return hex.EncodeToString(mac.Sum(nil))
}

var errSignedOut = fmt.Errorf("%w: you were signed out", ErrBadToken)

func (s *SignIns) find(hash string) (SignIn, error) {
	if s.shared != nil {
		return s.shared.find(s.now(), hash)
	}
	// The hash is keyed, so that how far a comparison gets tells nothing of it.
	return s.inFile(func(one storedSignIn) bool { return one.Hash == hash })
}

func (s *SignIns) findID(id string) (SignIn, error) {
	is := func(one storedSignIn) bool { return one.ID == id }
	if s.shared != nil {
		return s.shared.first(s.now(), is)
	}
	return s.inFile(is)
}

func (s *SignIns) inFile(is func(storedSignIn) bool) (SignIn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if now.Sub(s.checked) > recheck {
		s.refresh()
	}
	if s.err != nil {
		return SignIn{}, s.err
	}
	i := slices.IndexFunc(s.list, is)
	switch {
	case i < 0:
		return SignIn{}, errSignedOut
	case !now.Before(s.list[i].Expires):
		return SignIn{}, fmt.Errorf("%w: the sign-in has expired", ErrBadToken)
	}
	return s.list[i].SignIn, nil
}

// Create signs a browser in as the holder of a token, or the owner, and returns
// the secret, which is not kept. Who is signed in cannot sign in others: it
// could make itself last for ever.
func (s *SignIns) Create(who *Principal, browser string) (SignIn, string, error) {
	if err := mayPassOn(who); err != nil {
		return SignIn{}, "", fmt.Errorf("sign in: %w", err)
	}
	secret := newSecret(SignInPrefix)
	now := s.now().UTC().Truncate(time.Second)
	made := SignIn{ID: newID("s_"), Name: who.Name, Token: who.Token, Browser: clip(browser), Created: now, Expires: now.Add(SignInLife)}
	one := storedSignIn{made, s.hash(secret)}
	var err error
	if s.shared != nil {
		err = s.shared.add(now, one, who)
	} else {
		err = s.change(func(list []storedSignIn) ([]storedSignIn, error) {
			list = slices.DeleteFunc(list, func(one storedSignIn) bool { return !now.Before(one.Expires) })
			i, err := roomFor(list, who, now)
			if err != nil {
				return nil, err
			}
			if i >= 0 {
				list = slices.Delete(list, i, i+1)
			}
			return append(list, one), nil
		})
	}
	if err != nil {
		return SignIn{}, "", fmt.Errorf("sign in: %w", err)
	}
	return made, secret, nil
}

// roomFor says which of those that are signed in, the oldest first, makes room
// for one more of somebody's, -1 for none, or why there may not be more.
func roomFor(list []storedSignIn, who *Principal, now time.Time) (int, error) {
	mine, recent, oldest := 0, 0, -1
	for i, one := range list {
		if one.Name != who.Name {
			continue
		}
		if mine++; oldest < 0 {
			oldest = i
		}
		if now.Sub(one.Created) < time.Minute {
			recent++
		}
	}
	switch {
	case recent >= maxPerMinute:
		return -1, ErrTooMany
	case mine >= maxSignIns:
		return oldest, nil
	case len(list) >= maxAllSignIns && !who.IsOwner():
		return -1, ErrTooMany
	}
	return -1, nil
}

// mayPassOn says why somebody cannot make a code or a sign-in of their own.
func mayPassOn(who *Principal) error {
	switch {
	case who.SignIn != "":
		return errors.New("who is signed in cannot sign in another browser; use the token, or stoa console")
	case !who.IsOwner() && who.Token == "":
		return errors.New("only the holder of a token can sign in a browser")
	}
	return nil
}

// List returns those that are signed in, oldest first.
func (s *SignIns) List() ([]SignIn, error) {
	if s.shared != nil {
		return s.shared.all(s.now())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refresh(); s.err != nil {
		return nil, s.err
	}
	out := []SignIn{}
	for _, one := range s.list {
		if s.now().Before(one.Expires) {
			out = append(out, one.SignIn)
		}
	}
	slices.SortFunc(out, func(a, b SignIn) int { return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID)) })
	return out, nil
}

// Revoke signs out all that is names and returns them, or ErrNoSignIn.
func (s *SignIns) Revoke(is func(SignIn) bool) ([]SignIn, error) {
	if s.shared != nil {
		return s.shared.revoke(s.now(), is)
	}
	var gone []SignIn
	err := s.change(func(list []storedSignIn) ([]storedSignIn, error) {
		gone = nil
		list = slices.DeleteFunc(list, func(one storedSignIn) bool {
			if !is(one.SignIn) {
				return false
			}
			gone = append(gone, one.SignIn)
			return true
		})
		if gone == nil {
			return nil, ErrNoSignIn
		}
		return list, nil
	})
	if err != nil {
		return nil, fmt.Errorf("sign out: %w", err)
	}
	return gone, nil
}

// change rewrites the file with what f makes of it. Between reading and writing
// no other process can change it.
func (s *SignIns) change(f func([]storedSignIn) ([]storedSignIn, error)) error {
	unlock, err := lockedfile.MutexAt(s.path + ".lock").Lock()
	if err != nil {
		return fmt.Errorf("lock %s: %w", s.path, err)
	}
	defer unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.load(); s.err != nil {
		return s.err
	}
	list, err := f(slices.Clone(s.list))
	if err != nil {
		return err
	}
	if err := writePrivate(s.path, signInFile{fileVersion, list}); err != nil {
		return fmt.Errorf("write %s: %w", s.path, err)
	}
	s.load()
	return nil
}

// refresh reads the file if it was replaced. Called with mu held.
func (s *SignIns) refresh() {
	if s.checked = s.now(); !unchanged(s.path, s.info, s.err) {
		s.load()
	}
}

// load reads the file. Called with mu held.
func (s *SignIns) load() {
	var content signInFile
	info, err := readPrivate(s.path, &content)
	if err == nil && info != nil && content.Version != fileVersion {
		err = fmt.Errorf("it has version %d and this program knows %d: use the program that wrote it", content.Version, fileVersion)
	}
	s.checked, s.info, s.list, s.err = s.now(), info, content.SignIns, nil
	if err != nil {
		s.list, s.err = nil, fmt.Errorf("file of sign-ins %s: %w (removing it signs everybody out)", s.path, err)
	}
}

var _ Verifier = (*SignIns)(nil)
