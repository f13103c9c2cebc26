package auth

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stoahub/stoa/internal/journal"
)

// sharedCodes are those that hubs share, each under a hash of the code. One that
// was used stays until it would have expired, marked.
type sharedCodes struct {
	in     Shared
	kept   *kept[codeRecord]
	tokens *Tokens
}

type codeRecord struct {
	Code
	Name  string `json:"name"`            // of the principal
	Token string `json:"token,omitempty"` // id of its token; empty: the owner's
	Entry string `json:"entry"`           // see unlike
}

// Share has the codes be those of all hubs on a store. It is called before they
// are used. Close ends it.
func (c *Codes) Share(ctx context.Context, in Shared, tokens *Tokens) error {
	k, err := openKept(ctx, in, "codes", func(r codeRecord, now time.Time) bool { return !now.Before(r.Expires) })
	if err == nil {
		c.shared = &sharedCodes{in, k, tokens}
	}
	return err
}

// Close ends what goes on behind codes that hubs share.
func (c *Codes) Close() {
	if c.shared != nil {
		c.shared.kept.Close()
	}
}

// known are the codes that are known here and have not expired, oldest first.
func (s *sharedCodes) known(now time.Time) (keys []string, all []codeRecord) {
	byKey := map[string]codeRecord{}
	for key, v := range s.kept.All() {
		if now.Before(v.V.Expires) {
			keys, byKey[key] = append(keys, key), v.V
		}
	}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(byKey[a].Expires.Compare(byKey[b].Expires), cmp.Compare(a, b))
	})
	for _, key := range keys {
		all = append(all, byKey[key])
	}
	return keys, all
}

func (s *sharedCodes) create(now time.Time, who *Principal) (Code, string, error) {
	if err := s.kept.latest(now, "which codes there are"); err != nil {
		return Code{}, "", err
	}
	keys, all := s.known(now)
	oldest, mine := -1, 0
	for i, one := range all {
		if one.Name != who.Name {
			continue
		}
		if mine++; oldest < 0 {
			oldest = i
		}
	}
	if mine < maxCodes && len(all) >= maxAllCodes && !who.IsOwner() {
		return Code{}, "", ErrTooMany
	}
	ctx, cancel := context.WithTimeout(context.Background(), sharedTime)
	defer cancel()
	if mine >= maxCodes {
		if err := s.kept.Remove(ctx, keys[oldest]); err != nil {
			return Code{}, "", err
		}
	}
	text := newCode()
	one := codeRecord{Code{ID: newID("c_"), Expires: now.UTC().Add(CodeLife)}, who.Name, who.Token, unlike()}
	if err := s.kept.put(ctx, s.in.hash("code", text), one, 0); err != nil {
		return Code{}, "", err
	}
	return one.Code, grouped(text), nil
}

// redeem spends a code. Of several who bring it at once, here or elsewhere, the
// store lets one write that it was used.
func (s *sharedCodes) redeem(now time.Time, text string) (*Principal, error) {
	if err := s.kept.latest(now, "whether a code is valid"); err != nil {
		return nil, err
	}
	key := s.in.hash("code", text)
	v, err := s.kept.Get(key)
	switch {
	case errors.Is(err, journal.ErrNotFound), err == nil && (v.V.Used || !now.Before(v.V.Expires)):
		return nil, ErrBadCode
	case err != nil:
		return nil, err
	}
	who := Owner
	if v.V.Token != "" {
		if who, err = s.tokens.WithID(v.V.Token); err != nil {
			return nil, err
		}
		if who == nil { // it was revoked meanwhile
			return nil, ErrBadCode
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), sharedTime)
	defer cancel()
	used := v.V
	used.Used, used.Entry = true, unlike()
	if err := s.kept.put(ctx, key, used, v.Rev); isConflict(err) {
		return nil, ErrBadCode
	} else if err != nil {
		return nil, err
	}
	return who, nil
}

func (s *sharedCodes) state(now time.Time, id string, who *Principal) (Code, error) {
	if err := s.kept.recent(now, recheck, "whether a code was used"); err != nil {
		return Code{}, err
	}
	_, all := s.known(now)
	for _, one := range all {
		if one.ID == id && one.Name == who.Name {
			return one.Code, nil
		}
	}
	return Code{}, ErrNoCode
}
