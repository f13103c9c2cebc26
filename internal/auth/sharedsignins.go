package auth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/journal"
)

// sharedSignIns are those that hubs share, each under a hash of its secret.
type sharedSignIns struct {
	in   Shared
	kept *kept[signInRecord]
}

type signInRecord struct {
	SignIn
	Entry string `json:"entry"` // see unlike
}

// What who asks for sign-ins wants to know.
const (
	whetherSignIn = "whether a sign-in is valid"
	whoIsSignedIn = "who is signed in"
)

// OpenSharedSignIns opens the sign-ins that hubs share. Who only lists and revokes
// needs no tokens. Close ends it.
func OpenSharedSignIns(ctx context.Context, in Shared, tokens *Tokens) (*SignIns, error) {
	k, err := openKept(ctx, in, "signins", func(r signInRecord, now time.Time) bool { return !now.Before(r.Expires) })
	if err != nil {
		return nil, err
	}
	k.look(lookEvery)
	return &SignIns{tokens: tokens, now: time.Now, shared: &sharedSignIns{in, k}}, nil
}

// Close ends what goes on behind sign-ins that hubs share.
func (s *SignIns) Close() {
	if s.shared != nil {
		s.shared.kept.Close()
	}
}

// find returns the sign-in of a hash. It is in the log before its browser hears
// of it, so that whoever is not known is looked for there.
func (s *sharedSignIns) find(now time.Time, hash string) (SignIn, error) {
	if err := s.kept.recent(now, recheck, whetherSignIn); err != nil {
		return SignIn{}, err
	}
	v, err := s.kept.Get(hash)
	if errors.Is(err, journal.ErrNotFound) {
		if err := s.kept.latest(now, whetherSignIn); err != nil {
			return SignIn{}, err
		}
		v, err = s.kept.Get(hash)
	}
	switch {
	case errors.Is(err, journal.ErrNotFound):
		return SignIn{}, errSignedOut
	case err != nil:
		return SignIn{}, err
	case !now.Before(v.V.Expires):
		return SignIn{}, fmt.Errorf("%w: the sign-in has expired", ErrBadToken)
	}
	return v.V.SignIn, nil
}

// first returns one that was made a while ago.
func (s *sharedSignIns) first(now time.Time, is func(storedSignIn) bool) (SignIn, error) {
	if err := s.kept.recent(now, recheck, whetherSignIn); err != nil {
		return SignIn{}, err
	}
	for _, one := range s.known(now) {
		if is(one) {
			return one.SignIn, nil
		}
	}
	return SignIn{}, errSignedOut
}

// known are those that are known here, oldest first.
func (s *sharedSignIns) known(now time.Time) []storedSignIn {
	var list []storedSignIn
	for hash, v := range s.kept.All() {
		if now.Before(v.V.Expires) {
			list = append(list, storedSignIn{v.V.SignIn, hash})
		}
	}
	slices.SortFunc(list, func(a, b storedSignIn) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID))
	})
	return list
}

func (s *sharedSignIns) add(now time.Time, one storedSignIn, who *Principal) error {
	if err := s.kept.latest(now, whoIsSignedIn); err != nil {
		return err
	}
	list := s.known(now)
	i, err := roomFor(list, who, now)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), sharedTime)
	defer cancel()
	if err := s.kept.put(ctx, one.Hash, signInRecord{one.SignIn, unlike()}, 0); err != nil {
		return err
	}
	if i >= 0 {
		return s.kept.Remove(ctx, list[i].Hash)
	}
	return nil
}

func (s *sharedSignIns) all(now time.Time) ([]SignIn, error) {
	if err := s.kept.latest(now, whoIsSignedIn); err != nil {
		return nil, err
	}
	out := []SignIn{}
	for _, one := range s.known(now) {
		out = append(out, one.SignIn)
	}
	return out, nil
}

func (s *sharedSignIns) revoke(now time.Time, is func(SignIn) bool) (gone []SignIn, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), sharedTime)
	defer cancel()
	if err := s.kept.latest(now, whoIsSignedIn); err != nil {
		return nil, fmt.Errorf("sign out: %w", err)
	}
	for _, one := range s.known(now) {
		if !is(one.SignIn) {
			continue
		}
		if err := s.kept.Remove(ctx, one.Hash); err != nil {
			return gone, fmt.Errorf("sign out: %w", err)
		}
		gone = append(gone, one.SignIn)
	}
	if gone == nil {
		return nil, fmt.Errorf("sign out: %w", ErrNoSignIn)
	}
	return gone, nil
}
