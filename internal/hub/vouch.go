package hub

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/store"
)

// What a server says of its tools, that they change or destroy nothing, decides
// whether a person is asked before a model calls them. The owner has trusted
// those definitions that the server had when it was configured; what it says
// later, of other tools or otherwise, does not count.

// vouched remembers which definitions servers had when they were configured.
type vouched struct {
	bucket *store.Bucket // nil: in memory only

	mu   sync.Mutex
	seen map[string]*firstSeen // by server
}

// firstSeen is what a server offered first.
type firstSeen struct {
	Config  string   `json:"config"`  // what it was configured as
	Digests []string `json:"digests"` // of its definitions, sorted
}

// vouchTime is how long the store may take to say what was seen.
const vouchTime = 5 * time.Second

func (h *Hub) openVouched() error {
	h.vouched.seen = map[string]*firstSeen{}
	if h.state.store == nil {
		return nil
	}
	b, err := h.state.store.Bucket(context.Background(), store.BucketOptions{Name: "definitions"})
	if err != nil {
		return fmt.Errorf("open what is known of servers' definitions: %w", err)
	}
	h.vouched.bucket = b
	return nil
}

// vouchForNone is for servers that nobody has configured.
func vouchForNone(catalog.Kind, []*catalog.Item) {}

// vouchFor marks those definitions of a server whose annotations count.
func (h *Hub) vouchFor(s *config.Server) func(catalog.Kind, []*catalog.Item) {
	if !s.Trust {
		return vouchForNone
	}
	name, as := s.Name, identity(s)
	return func(k catalog.Kind, items []*catalog.Item) {
		if k != catalog.Tool {
			return // nothing else has annotations that count
		}
		if err := h.vouched.mark(name, as, items); err != nil {
			h.logger("upstream").Warn("which definitions a server had first cannot be looked up, so that its annotations do not count", obs.KeyUpstream, name, obs.KeyErr, err)
		}
	}
}

// identity is what a server is configured as: another program or address is
// another server, which the owner has looked at anew.
func identity(s *config.Server) string {
	raw, err := json.Marshal([]any{s.Command, s.Args, s.Cwd, s.URL, s.Transport})
	if err != nil {
		panic("hub: encode a server: " + err.Error()) // texts
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:16])
}

// mark marks the definitions that were there first; if none were, these are.
func (v *vouched) mark(server, as string, items []*catalog.Item) error {
	digests := make([]string, len(items))
	for i, it := range items {
		digests[i] = it.Digest()
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	first, err := v.first(server, as, digests)
	if err != nil {
		return err
	}
	for i, it := range items {
		_, it.Vouched = slices.BinarySearch(first.Digests, digests[i])
	}
	return nil
}

// first is what a server offered first. It is called with mu held.
func (v *vouched) first(server, as string, now []string) (*firstSeen, error) {
	if f := v.seen[server]; f != nil && f.Config == as {
		return f, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), vouchTime)
	defer cancel()
	if v.bucket != nil {
		kept, err := v.bucket.Get(ctx, server)
		var f firstSeen
		switch {
		case errors.Is(err, store.ErrNotFound):
		case err != nil:
			return nil, err
		case json.Unmarshal(kept.Data, &f) != nil:
			return nil, errors.New("it cannot be read")
		case f.Config == as:
			v.seen[server] = &f
			return &f, nil
		}
	}
	f := &firstSeen{Config: as, Digests: slices.Sorted(slices.Values(now))}
	if v.bucket != nil {
		raw, err := json.Marshal(f)
		if err != nil {
			return nil, err
		}
		if _, err := v.bucket.Put(ctx, server, raw, 0); err != nil {
			return nil, err
		}
	}
	v.seen[server] = f
	return f, nil
}
