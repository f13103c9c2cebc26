package hub

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/call"
	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/event"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/pin"
)

// listDefinitions answers with the definitions that somebody should look at: of
// all servers, or of one.
func (h *Hub) listDefinitions(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	q, err := query(r, "server")
	if err != nil {
		return err
	}
	changes, err := h.definitions(who, q.Get("server"))
	if err != nil {
		return err
	}
	return say(w, map[string]any{"definitions": changes})
}

// definitions are those that somebody should look at and can see. What servers
// gave to other principals is for the owner.
func (h *Hub) definitions(who *auth.Principal, server string) ([]pin.Change, error) {
	view := h.door.View(apiClient(who), "")
	if server != "" && (h.pool.Get(server) == nil || !view.Server(server)) {
		var names []string
		for _, st := range h.listed(who) {
			names = append(names, st.Name)
		}
		return nil, missing(fault.ResourceNotFound, "server", server, names)
	}
	out := []pin.Change{}
	for _, c := range h.pins.book.Changes(server) {
		if !view.Server(c.Server) || c.Viewer != "" && !who.Has(auth.RightSettings) {
			continue
		}
		if seen, judged := h.seesDefinition(&view, &c); !seen && (judged || !who.Has(auth.RightSettings)) {
			continue
		}
		out = append(out, c)
	}
	return out, nil
}

// seesDefinition reports whether somebody may read a definition of a server that
// they can see, of whatever kind: as it is now, or as it was if it is gone. judged
// is false for one of which too little is known to say.
func (h *Hub) seesDefinition(view *call.View, c *pin.Change) (seen, judged bool) {
	kinds := []catalog.Kind{catalog.Tool, catalog.Prompt, catalog.Resource, catalog.Template}
	i := slices.IndexFunc(kinds, func(k catalog.Kind) bool { return k.String() == c.Kind })
	if i < 0 {
		return false, false
	}
	if l := h.cat.Now().Of(c.Server); l != nil {
		for _, it := range l.Items[kinds[i]] {
			if it.Name == c.Definition {
				return view.Offered(it), true
			}
		}
	}
	for _, def := range []json.RawMessage{c.After, c.Before} {
		if it, err := catalog.Parse(kinds[i], c.Server, def); err == nil && it.Name == c.Definition {
			return view.Offered(it), true
		}
	}
	return false, false
}

// definitionsBody names the definitions to accept or reject: one by one, those
// of a server that somebody should look at, or all of these.
type definitionsBody struct {
	Definitions []pin.Selection `json:"definitions"`
	Server      string          `json:"server"`
	All         bool            `json:"all"`
}

// maxSelections bounds how many definitions are named at once.
const maxSelections = 1000

func (h *Hub) acceptDefinitions(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	return h.decideDefinitions(w, r, who, true)
}

func (h *Hub) rejectDefinitions(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	return h.decideDefinitions(w, r, who, false)
}

func (h *Hub) decideDefinitions(w http.ResponseWriter, r *http.Request, who *auth.Principal, accept bool) error {
	if _, err := query(r); err != nil {
		return err
	}
	var body definitionsBody
	if err := h.decodeBody(w, r, &body); err != nil {
		return err
	}
	if !who.Has(auth.RightSettings) {
		return &fault.Error{Kind: fault.Denied, Subject: "definitions", Msg: "only the hub's owner may accept or reject definitions", Hint: "Use the token of the data folder."}
	}
	which, err := h.selected(who, body)
	if err != nil {
		return err
	}
	done, err := h.pins.book.Decide(r.Context(), which, accept, who.Name)
	h.definitionsDecided(done, accept, who)
	if err != nil {
		return err
	}
	if done == nil {
		done = []pin.Change{}
	}
	return say(w, map[string]any{"definitions": done})
}

// selected are the definitions that a request names.
func (h *Hub) selected(who *auth.Principal, body definitionsBody) ([]pin.Selection, error) {
	ways := 0
	for _, said := range []bool{len(body.Definitions) > 0, body.Server != "", body.All} {
		if said {
			ways++
		}
	}
	switch {
	case ways != 1:
		return nil, &fault.Error{Kind: fault.InvalidParams, Subject: "body", Msg: "the body has to name definitions, or a server, or all", Hint: `Send {"definitions":[{"name":"files__read_file","digest":"…"}]}, {"server":"files"} or {"all":true}.`}
	case len(body.Definitions) > maxSelections:
		return nil, fault.New(fault.InvalidParams, "definitions", "%d are named, and may be %d", len(body.Definitions), maxSelections)
	case len(body.Definitions) > 0:
		return body.Definitions, nil
	}
	changes, err := h.definitions(who, body.Server)
	if err != nil {
		return nil, err
	}
	var which []pin.Selection
	for _, c := range changes {
		which = append(which, pin.Selection{Name: c.Server + ":" + c.Definition, Digest: c.Digest})
	}
	return which, nil
}

// definitionsDecided puts what was decided into effect, and tells of it.
func (h *Hub) definitionsDecided(done []pin.Change, accept bool, who *auth.Principal) {
	servers := map[string]bool{}
	for _, c := range done {
		servers[c.Server] = true
		h.logger("upstream").Info("a definition was "+string(c.State), obs.KeyAction, "pin", obs.KeyUpstream, c.Server, obs.KeyTool, c.Definition, "definition", c.Kind, "digest", c.Digest, "by", who.Name)
		h.events.Emit(event.Record{Type: event.DefinitionChanged, Upstream: c.Server, Tool: c.Definition,
			Data: definitionNews{Name: c.Name, Kind: c.Kind, State: c.State, Digest: c.Digest, Held: !accept, By: who.Name}})
	}
	for server := range servers {
		if u := h.pool.Get(server); u != nil {
			u.Review()
		}
	}
}
