package hub

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/journal"
	leasing "github.com/stoahub/stoa/internal/lease"
	"github.com/stoahub/stoa/internal/store"
)

// TokensFile is where bearer tokens are kept that hubs do not share.
func TokensFile(data, configured string) string {
	if configured != "" {
		return configured
	}
	return filepath.Join(data, "tokens.json")
}

// SignInsFile is where the browsers are kept that are signed in to the console.
func SignInsFile(data string) string { return filepath.Join(data, "signins.json") }

// openPrincipals opens those who may use the hub: the folder's own token, tokens
// and sign-ins.
func (h *Hub) openPrincipals() error {
	if h.data == nil {
		return nil
	}
	ctx := context.Background()
	var in auth.Shared
	if h.shared != nil {
		leases, err := leasing.Open(ctx, h.state.store, leasing.Options{Bucket: "authlease", Hub: h.process, Before: h.before, Logger: h.logger("auth")})
		if err != nil {
			return err
		}
		in = h.shared.in(h.state.store, h.logger("auth"))
		in.Alone = leases.Do
	}
	file := TokensFile(h.data.path, h.cfg.Auth.TokensFile)
	t, err := openTokens(ctx, h.shared, in, file)
	if err != nil {
		return err
	}
	h.opened(t.Close)
	s, err := h.openSignIns(ctx, in, t)
	if err != nil {
		return err
	}
	h.opened(s.Close)
	if h.shared != nil {
		if err := h.codes.Share(ctx, in, t); err != nil {
			return err
		}
		h.opened(h.codes.Close)
		if err := h.tickets.Share(ctx, in); err != nil {
			return err
		}
		h.opened(h.tickets.Close)
	}
	h.tokens, h.signIns = &verifier{local: h.data.token, tokens: t, signIns: s}, s
	return nil
}

func (h *Hub) openSignIns(ctx context.Context, in auth.Shared, t *auth.Tokens) (*auth.SignIns, error) {
	if h.shared != nil {
		return auth.OpenSharedSignIns(ctx, in, t)
	}
	return auth.OpenSignIns(SignInsFile(h.data.path), h.data.token, t)
}

// in is where the hubs keep whom they let in.
func (s *shared) in(st *store.Store, log *slog.Logger) auth.Shared {
	return auth.Shared{Key: s.key.Derive("names of records"), Logger: log, Log: func(ctx context.Context, name string) (journal.Log, string, error) {
		inner, subjects, err := st.ValuesLog(ctx, store.BucketOptions{Name: name})
		if err != nil {
			return nil, "", err
		}
		return s.key.Log(inner), subjects, nil
	}}
}

// openTokens opens the tokens that hubs share, and takes those of the file in; or
// the file, where they share none.
func openTokens(ctx context.Context, s *shared, in auth.Shared, file string) (*auth.Tokens, error) {
	if s == nil {
		return auth.OpenTokens(file)
	}
	t, err := auth.OpenSharedTokens(ctx, in)
	if err != nil {
		return nil, err
	}
	if _, err := t.Import(file); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// Principals are those who may use the hubs of a configuration, as a command sees
// them: whether a hub runs or not.
type Principals struct {
	Tokens  *auth.Tokens
	SignIns *auth.SignIns // to list and revoke
	close   []func()
}

// OpenPrincipals opens them: those in the store, or else in the files.
func OpenPrincipals(ctx context.Context, cfg *config.Config) (p *Principals, err error) {
	p = &Principals{}
	defer func() {
		if err != nil {
			p.Close()
			p = nil
		}
	}()
	var s *shared
	var in auth.Shared
	if cfg.Store.URL != "" {
		so, err := storeOptions(cfg.Store)
		if err != nil {
			return p, err
		}
		so.Keep = true // how it is kept is for hubs to say
		st, err := store.Open(ctx, so)
		if err != nil {
			return p, fmt.Errorf("open the store: %w", err)
		}
		p.close = append(p.close, func() { _ = st.Close() }) // nothing is under way
		if s, err = openShared(ctx, st, cfg.Store); err != nil {
			return p, err
		}
		if s != nil {
			in = s.in(st, nil)
		}
	}
	if p.Tokens, err = openTokens(ctx, s, in, TokensFile(cfg.Data, cfg.Auth.TokensFile)); err != nil {
		return p, err
	}
	p.close = append(p.close, p.Tokens.Close)
	if s != nil {
		p.SignIns, err = auth.OpenSharedSignIns(ctx, in, p.Tokens)
	} else {
		p.SignIns, err = auth.OpenSignIns(SignInsFile(cfg.Data), "", nil)
	}
	if err == nil {
		p.close = append(p.close, p.SignIns.Close)
	}
	return p, err
}

// Close closes what was opened for them.
func (p *Principals) Close() {
	for i := range p.close {
		p.close[len(p.close)-1-i]()
	}
}

type verifier struct {
	local   string
	tokens  *auth.Tokens
	signIns *auth.SignIns
}

func (v *verifier) Verify(ctx context.Context, token string) (*auth.Principal, error) {
	switch {
	case subtle.ConstantTimeCompare([]byte(token), []byte(v.local)) == 1:
		return auth.Owner, nil
	case strings.HasPrefix(token, auth.SignInPrefix):
		return v.signIns.Verify(ctx, token)
	}
	return v.tokens.Verify(ctx, token)
}

// Again goes by what somebody came with. The folder's own token lasts as long as
// the hub.
func (v *verifier) Again(ctx context.Context, who *auth.Principal) (*auth.Principal, error) {
	switch {
	case who.SignIn != "":
		return v.signIns.Again(ctx, who)
	case who.Token != "":
		return v.tokens.Again(ctx, who)
	}
	return who, nil
}

// needed fails if nobody could come in by a token: a listener that needs one
// would serve nobody, and its owner would wonder why.
func (v *verifier) needed() error {
	tokens, err := v.tokens.List()
	if err != nil {
		return err
	}
	for _, t := range tokens {
		if t.Expires.IsZero() || t.Expires.After(time.Now()) {
			return nil
		}
	}
	return errors.New("an address that is not loopback needs a token, and there is none: run `stoa token create NAME` with the same --data first")
}
