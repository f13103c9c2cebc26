package policy

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/store"
)

// Remembered is a decision that holds for more than one call.
type Remembered struct {
	ID        string    `json:"id"`
	Principal string    `json:"principal"`
	Kind      string    `json:"kind"`
	Scope     Remember  `json:"scope"`
	Session   string    `json:"session,omitempty"` // of scope session
	Agent     string    `json:"agent,omitempty"`   // the hub's own agent whose model wanted to call, or several with > between them; empty for a client
	Upstream  string    `json:"upstream,omitempty"`
	Ref       string    `json:"ref,omitempty"`        // of scopes session and tool
	Digest    string    `json:"definition,omitempty"` // the definition that it was said of; an approval holds for no other
	Approve   bool      `json:"approve"`
	By        string    `json:"by"`
	Time      time.Time `json:"time"`
	Expires   time.Time `json:"expires,omitzero"`
}

// scopes are how far a decision may reach, the narrowest first.
var scopes = []Remember{ForSession, ForTool, ForUpstream}

// remembered is what a decision about a, kept for that scope, is about. ok is
// false if a has nothing of that scope.
func remembered(a *Approval, scope Remember) (r Remembered, ok bool) {
	r = Remembered{Principal: a.Principal, Kind: a.Kind, Scope: scope, Agent: a.acting(), Upstream: a.Upstream}
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
	if r.Agent != "" { // as those were named that were decided before it counted
		parts = append(parts, r.Agent)
	}
	for _, part := range parts {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return "r_" + hex.EncodeToString(h.Sum(nil)[:10])
}

// about reports whether both are about the same.
func (r *Remembered) about(o *Remembered) bool {
	return r.Principal == o.Principal && r.Kind == o.Kind && r.Scope == o.Scope && r.Session == o.Session && r.Agent == o.Agent && r.Upstream == o.Upstream && r.Ref == o.Ref
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

// memory keeps what is remembered: in a bucket, or in a map if there is none.
type memory struct {
	bucket *store.Bucket

	mu sync.Mutex
	m  map[string][]byte // by key
}

func openMemory(ctx context.Context, st *store.Store) (*memory, error) {
	if st == nil {
		return &memory{m: map[string][]byte{}}, nil
	}
	b, err := st.Bucket(ctx, store.BucketOptions{Name: "policy"})
	if err != nil {
		return nil, fmt.Errorf("open what is remembered of approvals: %w", err)
	}
	return &memory{bucket: b}, nil
}

func (r *Remembered) key() string { return ownerKey(r.Principal) + "." + r.ID }

// get returns what was decided about the same as r, or nil.
func (m *memory) get(ctx context.Context, r Remembered) (*Remembered, error) {
	var data []byte
	if m.bucket == nil {
		m.mu.Lock()
		data = m.m[r.key()]
		m.mu.Unlock()
	} else {
		v, err := m.bucket.Get(ctx, r.key())
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
		data = v.Data
	}
	if data == nil {
		return nil, nil
	}
	got, err := read(data)
	if err != nil {
		return nil, err
	}
	if !got.about(&r) || got.over() {
		return nil, nil
	}
	return got, nil
}

func (r *Remembered) over() bool { return !r.Expires.IsZero() && !time.Now().Before(r.Expires) }

func read(data []byte) (*Remembered, error) {
	var r Remembered
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fault.New(fault.Storage, "approvals", "a remembered decision cannot be read").Because(err)
	}
	return &r, nil
}

func (m *memory) put(ctx context.Context, r Remembered) error {
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode a remembered decision: %w", err)
	}
	if m.bucket == nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.m[r.key()] = data
		return nil
	}
	ttl := time.Duration(0)
	if !r.Expires.IsZero() {
		ttl = max(time.Until(r.Expires), time.Second)
	}
	_, err = m.bucket.Put(ctx, r.key(), data, ttl)
	return err
}

func (m *memory) drop(ctx context.Context, key string) error {
	if m.bucket == nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.m, key)
		return nil
	}
	return m.bucket.Delete(ctx, key, 0)
}

var errEnough = errors.New("all have been read")

// list returns what a principal's decisions are; "" means everybody's.
func (m *memory) list(ctx context.Context, principal string) ([]Remembered, error) {
	out := []Remembered{}
	take := func(data []byte) error {
		r, err := read(data)
		if err == nil && (principal == "" || r.Principal == principal) && !r.over() {
			out = append(out, *r)
		}
		return err
	}
	if err := m.each(ctx, principal, take); err != nil {
		return nil, err
	}
	slices.SortFunc(out, func(a, b Remembered) int { return cmp.Or(a.Time.Compare(b.Time), strings.Compare(a.ID, b.ID)) })
	return out, nil
}

func (m *memory) each(ctx context.Context, principal string, take func([]byte) error) error {
	if m.bucket == nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, data := range m.m {
			if err := take(data); err != nil {
				return err
			}
		}
		return nil
	}
	prefix := ""
	if principal != "" {
		prefix = ownerKey(principal)
	}
	// A watch that ends where it would begin to wait.
	ctx, enough := context.WithCancelCause(ctx)
	defer enough(nil)
	err := m.bucket.Watch(ctx, prefix, func() { enough(errEnough) }, func(v store.Value) error {
		if context.Cause(ctx) == errEnough || v.Data == nil {
			return nil
		}
		return take(v.Data)
	})
	if context.Cause(ctx) == errEnough {
		return nil
	}
	return err
}
