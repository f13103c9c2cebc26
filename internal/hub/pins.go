package hub

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"sync"

	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/event"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/pin"
	"github.com/stoahub/stoa/internal/suspect"
)

// actionPin marks what the log says of definitions.
const actionPin = "pin"

// pins are the definitions that servers had when they were first read, and what
// the owner said to those that came later.
type pins struct {
	book *pin.Book

	mu    sync.Mutex
	due   map[string]bool // servers whose definitions are to be judged again
	wake  chan struct{}   // of one
	names [32]byte        // of the tools that definitions were compared with
}

func (h *Hub) openPins() (err error) {
	h.pins.due, h.pins.wake = map[string]bool{}, make(chan struct{}, 1)
	h.pins.book, err = pin.Open(context.Background(), h.state.store, pin.Options{Logger: h.logger("upstream"), Announce: h.definitionsChanged, Decided: h.reviewLater, Current: h.pinsNow})
	if err != nil {
		return err
	}
	h.opened(h.pins.book.Close)
	h.cat.Watch(h.compareNames)
	ctx, cancel := context.WithCancel(context.Background())
	h.opened(cancel)
	h.wg.Go(func() { h.reviewDue(ctx) })
	return nil
}

// pinsOf judges the definitions of a server of the config; nil if that is
// switched off.
func (h *Hub) pinsOf(s *config.Server) *pin.Server {
	if s.Pin == config.PinOff {
		return nil
	}
	return h.pins.book.Server(pin.ServerOptions{Name: s.Name, Identity: identity(s, h.isStoreShared()), Mode: pin.Mode(s.Pin), Trust: s.Trust})
}

// pinsNow is what judges the definitions of a server now; nil if nothing does.
func (h *Hub) pinsNow(server string) *pin.Server {
	if u := h.pool.Get(server); u != nil {
		return u.Pins()
	}
	return nil
}

// pinsOfAgent judges the definitions of an agent that registered itself. It is
// the same one wherever it runs, and what it says of itself never counts: nobody
// has configured it.
func (h *Hub) pinsOfAgent(name, owner string) *pin.Server {
	return h.pins.book.Server(pin.ServerOptions{Name: name, Identity: "registered by " + owner})
}

// identity is what a server is configured as: another program or address is
// another server, which the owner has looked at anew. Where hubs share a store it is
// the same one whatever folder each of their machines has it in: else a definition
// that was rejected at one hub would be the first that another has seen.
func identity(s *config.Server, shared bool) string {
	cwd := s.Cwd
	if shared {
		cwd = ""
	}
	raw, err := json.Marshal([]any{s.Command, s.Args, cwd, s.URL, s.Transport})
	if err != nil {
		panic("hub: encode a server: " + err.Error()) // texts
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:16])
}

// definitionsChanged tells of definitions that somebody should look at.
func (h *Hub) definitionsChanged(news []pin.Change) {
	for _, c := range news {
		reasons := make([]string, len(c.Flags))
		for i, f := range c.Flags {
			reasons[i] = f.Reason
		}
		h.logger("upstream").Warn("a definition needs a look", obs.KeyAction, actionPin, obs.KeyUpstream, c.Server, obs.KeyTool, c.Definition,
			"definition", c.Kind, "state", string(c.State), "held", c.Hold != "", "suspicious", strings.Join(reasons, "; "))
		h.events.Emit(event.Record{Type: event.DefinitionChanged, Level: event.Warning, Upstream: c.Server, Tool: c.Definition,
			Data: definitionNews{Name: c.Name, Kind: c.Kind, State: c.State, Digest: c.Digest, Held: c.Hold != "", Flags: c.Flags}})
	}
}

// definitionNews is the data of the records of definitions.
type definitionNews struct {
	Name   string         `json:"name"`
	Kind   string         `json:"kind"`
	State  catalog.State  `json:"state"`
	Digest string         `json:"digest"`
	Held   bool           `json:"held,omitempty"`
	Flags  []suspect.Flag `json:"flags,omitempty"`
	By     string         `json:"by,omitempty"` // who accepted or rejected it
}

// reviewLater has the definitions of a server judged again.
func (h *Hub) reviewLater(server string) {
	h.pins.mu.Lock()
	h.pins.due[server] = true
	h.pins.mu.Unlock()
	select {
	case h.pins.wake <- struct{}{}:
	default:
	}
}

func (h *Hub) reviewDue(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.pins.wake:
		}
		h.pins.mu.Lock()
		due := h.pins.due
		h.pins.due = map[string]bool{}
		h.pins.mu.Unlock()
		for server := range due {
			if u := h.pool.Get(server); u != nil {
				u.Review()
			}
		}
	}
}

// compareNames has all definitions compared with the tools that there are, if
// these are others than before.
func (h *Hub) compareNames([]catalog.Change) {
	by := map[string][]string{}
	sum := sha256.New()
	for _, it := range h.cat.Now().Items(catalog.Tool) {
		if u := h.pool.Get(it.Upstream); u == nil || u.Pins() == nil {
			continue
		}
		by[it.Upstream] = append(by[it.Upstream], it.Name)
		sum.Write([]byte(it.Ref() + "\n"))
	}
	h.pins.mu.Lock()
	same := h.pins.names == [32]byte(sum.Sum(nil))
	h.pins.names = [32]byte(sum.Sum(nil))
	h.pins.mu.Unlock()
	if same {
		return
	}
	h.pins.book.Know(suspect.NewNames(by))
	for _, u := range h.pool.All() {
		if u.Pins() != nil {
			h.reviewLater(u.Name())
		}
	}
}
