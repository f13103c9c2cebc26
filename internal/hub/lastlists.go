package hub

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/upstream"
)

// What servers offered is kept, so that a hub that was started again offers at
// once what it offered before. Until a server has said it anew it is
// unconfirmed, and clients are told so.

const (
	lastLife  = 90 * 24 * time.Hour // of what a server offered that has not come back
	lastTime  = 2 * time.Second     // that reading it may delay the start of the hub
	lastBytes = 64 << 20            // of one server's, unpacked
)

// lastLists keeps what servers offered last.
type lastLists struct {
	bucket *store.Bucket // nil: nothing is kept
	key    []byte        // of fingerprints: they depend on secrets

	mu    sync.Mutex
	known map[string][32]byte // what is kept, by server
}

// lastEntry is how it is kept.
type lastEntry struct {
	Server      string              `json:"server"`
	Fingerprint string              `json:"fingerprint"` // of the config by which it was reached
	Era         mcp.Era             `json:"era"`
	Principal   string              `json:"principal"` // to whom it was offered; "" for the hub itself
	Private     bool                `json:"private,omitempty"`
	Hubs        []string            `json:"hubs,omitempty"`
	Lists       [][]json.RawMessage `json:"lists"` // by kind
}

func (h *Hub) openLastLists() (err error) {
	h.last.known = map[string][32]byte{}
	if h.data == nil {
		return nil
	}
	h.last.key = h.signingKey()
	h.last.bucket, err = h.state.store.Bucket(context.Background(), store.BucketOptions{Name: "lists", TTL: lastLife})
	return err
}

// fingerprint is that of all by which a server is reached and its lists are
// chosen.
func (l *lastLists) fingerprint(s *config.Server) string {
	reveal := map[string]string{}
	for name, v := range s.Env {
		reveal["env "+name] = v.Reveal()
	}
	for name, v := range s.Headers {
		reveal["header "+name] = v.Reveal()
	}
	raw, err := json.Marshal([]any{identity(s), s.Protocol, s.Tools.Allow, s.Tools.Deny, s.InheritEnv, reveal})
	if err != nil {
		panic("hub: encode a server: " + err.Error()) // texts
	}
	sum := hmac.New(sha256.New, l.key)
	sum.Write(raw)
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

func lastKey(server string) string {
	sum := sha256.Sum256([]byte(server))
	return hex.EncodeToString(sum[:16])
}

// recallLists gives upstreams that are about to be added what they offered last.
func (h *Hub) recallLists(cfg *config.Config, all []upstream.Options) {
	if h.last.bucket == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastTime)
	defer cancel()
	var wg sync.WaitGroup
	for i := range all {
		s := cfg.Server(all[i].Name)
		if s == nil {
			continue
		}
		wg.Go(func() {
			last, err := h.last.read(ctx, s)
			if err != nil {
				h.logger("upstream").Debug("what a server offered last cannot be read", obs.KeyAction, "recall", obs.KeyUpstream, s.Name, obs.KeyErr, err)
			}
			all[i].Last = last
		})
	}
	wg.Wait()
}

func (l *lastLists) read(ctx context.Context, s *config.Server) (*upstream.Last, error) {
	v, err := l.bucket.Get(ctx, lastKey(s.Name))
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(v.Data))
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(io.LimitReader(unpacked, lastBytes))
	if err != nil {
		return nil, err
	}
	var e lastEntry
	if err := json.Unmarshal(raw, &e); err != nil {
		return nil, err
	}
	if e.Server != s.Name || e.Principal != "" || e.Fingerprint != l.fingerprint(s) {
		return nil, nil // it was another one
	}
	l.mu.Lock()
	l.known[s.Name] = sha256.Sum256(raw)
	l.mu.Unlock()
	last := &upstream.Last{Era: e.Era, Private: e.Private, Hubs: e.Hubs}
	for k := range min(len(e.Lists), len(last.Definitions)) {
		for _, d := range e.Lists[k] {
			last.Definitions[k] = append(last.Definitions[k], d)
		}
	}
	return last, nil
}

// keepLists returns what keeps what a server offers; nil if nothing is kept.
func (h *Hub) keepLists(s *config.Server) func(*upstream.Last) {
	if h.last.bucket == nil {
		return nil
	}
	fingerprint := h.last.fingerprint(s)
	return func(last *upstream.Last) {
		if err := h.last.write(s.Name, fingerprint, last); err != nil {
			h.logger("upstream").Warn("what a server offers could not be kept for the next start", obs.KeyAction, "keep", obs.KeyUpstream, s.Name, obs.KeyErr, err)
		}
	}
}

func (l *lastLists) write(server, fingerprint string, last *upstream.Last) error {
	e := lastEntry{Server: server, Fingerprint: fingerprint, Era: last.Era, Private: last.Private, Hubs: last.Hubs, Lists: make([][]json.RawMessage, len(last.Definitions))}
	for k, all := range last.Definitions {
		for _, d := range all {
			e.Lists[k] = append(e.Lists[k], d)
		}
	}
	raw, err := json.Marshal(e)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(raw)
	l.mu.Lock()
	same := l.known[server] == sum
	l.mu.Unlock()
	if same {
		return nil
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(raw); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	if packed.Len() > store.MaxEntry {
		return fmt.Errorf("it takes %d bytes packed, and %d can be kept", packed.Len(), store.MaxEntry)
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastTime)
	defer cancel()
	if _, err := l.bucket.Put(ctx, lastKey(server), packed.Bytes(), 0); err != nil {
		return err
	}
	l.mu.Lock()
	l.known[server] = sum
	l.mu.Unlock()
	return nil
}
