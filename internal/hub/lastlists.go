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
	"strings"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/journal"
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
	lastMost  = 8                   // of one name: hubs on one store may be configured differently
	lastTime  = 2 * time.Second     // that reading it may delay the start of the hub
	lastBytes = 64 << 20            // of one server's, unpacked
)

// lastLists keeps what servers offered last, for all hubs on the store that are
// configured alike and have the same key.
type lastLists struct {
	values *journal.Values[lastSeen] // nil: nothing is kept
	key    []byte                    // of fingerprints: they depend on secrets
	shared bool                      // other hubs can use the store

	mu   sync.Mutex
	mine map[string]string // the digest of what this hub has read or kept last, by key
}

// lastSeen is what memory keeps of an entry. It is in the header of the packed
// entry, which earlier versions left empty.
type lastSeen struct {
	digest string // of what was packed
	at     time.Time
}

func decodeLast(data []byte) (lastSeen, error) {
	packed, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return lastSeen{}, err
	}
	return lastSeen{packed.Comment, packed.ModTime}, nil
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
	l := &h.last
	l.mine = map[string]string{}
	if h.data == nil {
		return nil
	}
	l.key, l.shared = h.signingKey(), h.isStoreShared()
	l.values, err = store.Values(context.Background(), h.state.store, store.BucketOptions{Name: "lists", TTL: lastLife}, journal.ValuesOptions[lastSeen]{
		Options: journal.Options{Logger: h.logger("upstream")},
		Decode:  decodeLast,
	})
	if err != nil {
		return fmt.Errorf("open what servers offered last: %w", err)
	}
	h.opened(l.values.Close)
	return nil
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
	raw, err := json.Marshal([]any{identity(s, l.shared), s.Protocol, s.Tools.Allow, s.Tools.Deny, s.InheritEnv, reveal})
	if err != nil {
		panic("hub: encode a server: " + err.Error()) // texts
	}
	sum := hmac.New(sha256.New, l.key)
	sum.Write(raw)
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// lastKey is where what a server offered is kept. Earlier versions kept one for
// each name, at the first part of it.
func lastKey(server, fingerprint string) string { return lastName(server) + "." + fingerprint }

func lastName(server string) string {
	sum := sha256.Sum256([]byte(server))
	return hex.EncodeToString(sum[:16])
}

// recallLists gives upstreams that are about to be added what they offered last.
func (h *Hub) recallLists(cfg *config.Config, all []upstream.Options) {
	if h.last.values == nil {
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
	fingerprint := l.fingerprint(s)
	key := lastKey(s.Name, fingerprint)
	data, _, err := l.values.Read(ctx, key)
	if errors.Is(err, journal.ErrNotFound) {
		data, _, err = l.values.Read(ctx, lastName(s.Name))
	}
	if errors.Is(err, journal.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(data))
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
	if e.Server != s.Name || e.Principal != "" || e.Fingerprint != fingerprint {
		return nil, nil // it was another one
	}
	l.mu.Lock()
	l.mine[key] = digestOf(raw)
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
	if h.last.values == nil {
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
	key, digest := lastKey(server, fingerprint), digestOf(raw)
	if !l.news(key, digest) {
		return nil
	}
	data, err := pack(raw, lastSeen{digest, time.Now()})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastTime)
	defer cancel()
	if _, err := l.values.Put(ctx, key, data); err != nil {
		return err
	}
	l.mu.Lock()
	l.mine[key] = digest
	l.mu.Unlock()
	return l.drop(ctx, server)
}

// news reports whether something is to be kept. Two hubs that are given different
// lists by one server do not take turns: what this hub has kept before it does
// not keep again because another has kept something else.
func (l *lastLists) news(key, digest string) bool {
	l.mu.Lock()
	mine := l.mine[key]
	l.mu.Unlock()
	have, err := l.values.Get(key)
	return err != nil || digest != mine && digest != have.V.digest || time.Since(have.V.at) > lastLife/2
}

// drop removes the oldest of what is kept of a name beyond lastMost.
func (l *lastLists) drop(ctx context.Context, server string) error {
	at := map[string]time.Time{}
	for key, v := range l.values.All() {
		if strings.HasPrefix(key, lastName(server)+".") {
			at[key] = v.V.at
		}
	}
	for len(at) > lastMost {
		oldest := ""
		for key := range at {
			if oldest == "" || at[key].Before(at[oldest]) {
				oldest = key
			}
		}
		if err := l.values.Remove(ctx, oldest); err != nil {
			return err
		}
		delete(at, oldest)
	}
	return nil
}

func digestOf(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

func pack(raw []byte, seen lastSeen) ([]byte, error) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	w.Comment, w.ModTime = seen.digest, seen.at
	if _, err := w.Write(raw); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if packed.Len() > journal.MaxEntry {
		return nil, fmt.Errorf("it takes %d bytes packed, and %d can be kept", packed.Len(), journal.MaxEntry)
	}
	return packed.Bytes(), nil
}
