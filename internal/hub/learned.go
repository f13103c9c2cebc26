package hub

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/journal"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/store"
)

// What is learned of tools by calling them, that is how often they fail and how
// long they take, is kept. All hubs on one store share it: each writes what it
// has counted itself, and shows the sum.

const (
	learnEvery = 10 * time.Second
	learnMost  = 2000 // tools of one server: an entry has a bound
)

// learned is what the hub has kept of it.
type learned struct {
	values *journal.Values[learnedEntry] // nil: nothing is kept

	mu   sync.Mutex
	kept map[string]string // what this hub has written last, by server
}

// learnedEntry is what one hub has learned of one server's tools, by their names.
type learnedEntry struct {
	Server string                     `json:"server"`
	Hub    string                     `json:"hub"`
	Tools  map[string]catalog.Figures `json:"tools"`
}

func (h *Hub) openLearned() (err error) {
	if h.data == nil {
		return nil
	}
	l := &h.learned
	l.kept = map[string]string{}
	values, err := store.Values(context.Background(), h.state.store, store.BucketOptions{Name: "learned", TTL: lastLife}, journal.ValuesOptions[learnedEntry]{
		Options: journal.Options{Logger: h.logger("store")},
		Decode:  func(data []byte) (e learnedEntry, err error) { return e, json.Unmarshal(data, &e) },
		Changed: func(_ string, now *learnedEntry) {
			if now != nil && now.Hub != h.id {
				h.learnFrom(now.Server)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("open what was learned of tools: %w", err)
	}
	h.opened(values.Close)
	l.mu.Lock()
	l.values = values
	l.mu.Unlock()
	servers := map[string]bool{}
	for _, v := range values.All() {
		if v.V.Hub == h.id {
			h.cat.Learn(v.V.Server, v.V.Tools, true)
		}
		servers[v.V.Server] = true
	}
	for server := range servers {
		h.learnFrom(server)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { h.learns(ctx) })
	h.opened(func() {
		cancel()
		wg.Wait()
		h.keepLearned(context.Background())
	})
	return nil
}

// learnFrom takes in what the other hubs know of a server's tools.
func (h *Hub) learnFrom(server string) {
	l := &h.learned
	l.mu.Lock() // so that the last one counts
	defer l.mu.Unlock()
	if l.values == nil {
		return // it is being opened
	}
	sum := map[string]catalog.Figures{}
	for _, v := range l.values.All() {
		if v.V.Server != server || v.V.Hub == h.id {
			continue
		}
		for name, f := range v.V.Tools {
			sum[name] = sum[name].Plus(f)
		}
	}
	h.cat.Learn(server, sum, false)
}

func (h *Hub) learns(ctx context.Context) {
	tick := time.NewTicker(learnEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			h.keepLearned(ctx)
		}
	}
}

// keepLearned writes what this hub has counted since it wrote last.
func (h *Hub) keepLearned(ctx context.Context) {
	l := &h.learned
	for server, tools := range h.cat.Learned() {
		for _, name := range leastUsed(tools, learnMost) {
			delete(tools, name)
		}
		data, err := json.Marshal(learnedEntry{Server: server, Hub: h.id, Tools: tools})
		if err != nil {
			panic("hub: encode figures: " + err.Error()) // numbers and texts
		}
		if l.kept[server] == string(data) {
			continue
		}
		if _, err = l.values.Put(ctx, lastKey(server, lastName(h.id)), data); err != nil {
			if ctx.Err() == nil {
				h.logger("store").Debug("what was learned of tools could not be kept", obs.KeyAction, "learn", obs.KeyErr, err)
			}
			return // the next time tries again
		}
		l.kept[server] = string(data)
	}
}

// leastUsed are the tools beyond a number of them, those that were called least.
func leastUsed(tools map[string]catalog.Figures, most int) []string {
	if len(tools) <= most {
		return nil
	}
	return slices.SortedFunc(maps.Keys(tools), func(a, b string) int {
		x, y := tools[a], tools[b]
		return cmp.Or(cmp.Compare(x.OK+x.Failed, y.OK+y.Failed), cmp.Compare(a, b))
	})[:len(tools)-most]
}
