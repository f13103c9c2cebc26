package mcp

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/stoahub/stoa/internal/wire"
)

// Hubs can have each other as servers, also in a circle, by whatever names and
// addresses. So that nobody is offered its own tools as another's, a hub says
// which one it is in the header of what it asks, and in its introduction; and
// says with its lists whose things are in them.

// HeaderHub carries the id of a hub that asks.
const HeaderHub = "Stoa-Hub"

// MetaHubs is the member of _meta that lists the ids of the hubs that answer: in
// an introduction those on the way, in a list those whose things are in it.
const MetaHubs = "stoa/hubs"

// Bounds of what is believed of other hubs.
const (
	maxHubID = 64
	maxHubs  = 256
)

// CallingHub is the id of the hub that a request comes from; empty if it is none
// or says so in no form of ours.
func CallingHub(h http.Header) string {
	if id := h.Get(HeaderHub); len(id) <= maxHubID {
		return id
	}
	return ""
}

// readHubs reads the ids in a _meta.
func readHubs(meta []byte) (ids []string) {
	all, _ := wire.Elements(wire.Get(meta, MetaHubs))
	for _, raw := range all[:min(len(all), maxHubs)] {
		if id, ok := wire.String(raw); ok && id != "" && len(id) <= maxHubID {
			ids = append(ids, id)
		}
	}
	return ids
}

// HubsOf are the ids that a result tells.
func HubsOf(result []byte) []string { return readHubs(wire.Get(result, "_meta")) }

// AddHubs returns a result that tells the ids too. One without ids stays as it is.
func AddHubs(result []byte, ids []string) []byte {
	if len(ids) == 0 {
		return result
	}
	meta := wire.Get(result, "_meta")
	if meta == nil {
		meta = []byte("{}")
	}
	all := slices.Concat(readHubs(meta), ids)
	slices.Sort(all)
	raw, err := json.Marshal(slices.Compact(all))
	if err != nil {
		panic("mcp: encode ids of hubs: " + err.Error()) // texts
	}
	return wire.Edit(nil, result, wire.Change{Name: "_meta", Value: wire.Edit(nil, meta, wire.Change{Name: MetaHubs, Value: raw})})
}
