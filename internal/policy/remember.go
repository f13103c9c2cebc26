package policy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/journal"
	"github.com/stoahub/stoa/internal/store"
)

// Remembered is a decision that holds for more than one call.
type Remembered struct {
	ID        string   `json:"id"`
	Principal string   `json:"principal"`
	Kind      string   `json:"kind"`
	Scope     Remember `json:"scope"`
	Session   string   `json:"session,omitempty"` // of scope session
	Agent     string   `json:"agent,omitempty"`   // the hub's own agent whose model wanted to call, or several with > between them; empty for a client
	Upstream  string   `json:"upstream,omitempty"`
	Ref       string   `json:"ref,omitempty"` // of scopes session and tool
	// Registered is who had registered the agent that Upstream was; empty for a
	// server of the config.
	Registered string    `json:"registered,omitempty"`
	Digest     string    `json:"definition,omitempty"` // the definition that it was said of; an approval holds for no other
	Approve    bool      `json:"approve"`
	By         string    `json:"by"`
	Time       time.Time `json:"time"`
	Expires    time.Time `json:"expires,omitzero"`
}

// scopes are how far a decision may reach, the narrowest first.
var scopes = []Remember{ForSession, ForTool, ForUpstream}

// remembered is what a decision about a, kept for that scope, is about. ok is
// false if a has nothing of that scope.
func remembered(a *Approval, scope Remember) (r Remembered, ok bool) {
	r = Remembered{Principal: a.Principal, Kind: a.Kind, Scope: scope, Agent: a.acting(), Upstream: a.Upstream, Registered: a.Registered}
	switch scope {
	case ForSession:
		r.Session, r.Ref = a.Session, a.Ref
		ok = a.Session != "" && a.Ref != ""
	case ForTool:
		r.Ref = a.Ref
		ok = a.Ref != ""
	case ForUpstream:
		ok = a.Upstream != ""
	}
	r.ID = r.digest()
	return r, ok
}

// acting names the agents whose models act: what was said of one of them says
// nothing of what they do together.
func (a *Approval) acting() string {
	if len(a.Agents) > 1 {
		return strings.Join(a.Agents, " > ")
	}
	return a.Agent
}

// digest names what the decision is about: the same for all that are about the
// same.
func (r *Remembered) digest() string {
	h := sha256.New()
	parts := []string{r.Principal, r.Kind, string(r.Scope), r.Session, r.Upstream, r.Ref}
	if r.Agent != "" || r.Registered != "" { // as those were named that were decided before these counted
		parts = append(parts, r.Agent)
	}
	if r.Registered != "" {
		parts = append(parts, r.Registered)
	}
	for _, part := range parts {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return "r_" + hex.EncodeToString(h.Sum(nil)[:10])
}

// about reports whether both are about the same.
func (r *Remembered) about(o *Remembered) bool {
	return r.Principal == o.Principal && r.Kind == o.Kind && r.Scope == o.Scope && r.Session == o.Session && r.Agent == o.Agent && r.Upstream == o.Upstream && r.Ref == o.Ref && r.Registered == o.Registered
}

// covers reports whether what was said holds for a question of the same scope.
// A denial does whatever has become of the definition. An approval was given for
// a definition; one for all tools of a server, for those that were accepted then.
func (r *Remembered) covers(a *Approval) bool {
	switch {
	case !r.Approve || r.Kind == KindSampling:
		return true
	case r.Scope == ForUpstream && a.Digest != "" && a.Digest != r.Digest:
		return r.Digest != "" && !a.Accepted.IsZero() && !a.Accepted.After(r.Time)
	}
	return r.Digest == a.Digest
}

func ownerKey(principal string) string {
	sum := sha256.Sum256([]byte(principal))
	return hex.EncodeToString(sum[:8])
}

// Tell says in a sentence who has decided what.
func (r *Remembered) Tell() string {
	verb, reach := "denied", "all tools of the server"
	if r.Approve {
		verb = "allowed"
	}
	if r.Kind == KindPrompt || r.Kind == KindResource {
		reach = "all " + r.Kind + "s of the server"
	}
	switch r.Scope {
	case ForTool:
		reach = "it"
	case ForSession:
		reach = "it in this session"
	}
	return fmt.Sprintf("%s %s %s at %s, which is remembered", r.By, verb, reach, r.Time.Format(time.RFC3339))
}

// memory is what is remembered, by key.
type memory = journal.Values[Remembered]

func (d *Desk) openMemory(ctx context.Context, st *store.Store) (err error) {
	d.kept, err = store.Values(ctx, st, store.BucketOptions{Name: "policy"}, journal.ValuesOptions[Remembered]{
		Options: journal.Options{Logger: d.opts.Logger},
		Decode:  decodeRemembered,
		Expired: func(r Remembered, now time.Time) bool { return !r.Expires.IsZero() && !now.Before(r.Expires) },
		Changed: d.spread,
	})
	if err != nil {
		return fmt.Errorf("open what is remembered of approvals: %w", err)
	}
	return nil
}

// decodeRemembered reads what was remembered. What a later release has written,
// with more to it than is known here, may be meant more narrowly than it would be
// understood: it does not count, so that a person is asked.
func decodeRemembered(data []byte) (r Remembered, err error) {
	strict := json.NewDecoder(bytes.NewReader(data))
	strict.DisallowUnknownFields()
	switch err = strict.Decode(&r); {
	case err != nil && !json.Valid(data):
		return Remembered{}, fmt.Errorf("what is remembered of an approval cannot be read: %w", err)
	case err != nil || !slices.Contains(kinds, r.Kind) || !slices.Contains(scopes, r.Scope):
		return Remembered{}, &journal.Unknown{Type: fmt.Sprintf("approval of kind %.20q and scope %.20q", r.Kind, r.Scope)}
	}
	return r, nil
}

// kinds are those of approvals.
var kinds = []string{KindTool, KindPrompt, KindResource, KindSampling}

func (r *Remembered) key() string { return ownerKey(r.Principal) + "." + r.ID }

// lookUp returns what was decided about the same as r, here or at another hub,
// or nil.
func (d *Desk) lookUp(ctx context.Context, r Remembered) (*Remembered, error) {
	got, err := d.kept.Latest(ctx, r.key())
	_, later := errors.AsType[*journal.Unknown](err)
	if later || errors.Is(err, store.ErrNotFound) || err == nil && !got.V.about(&r) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &got.V, nil
}

func (d *Desk) remember(ctx context.Context, r Remembered) error {
	data, err := json.Marshal(r)
	if err == nil {
		_, err = d.kept.Put(ctx, r.key(), data)
	}
	return err
}
