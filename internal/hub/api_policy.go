package hub

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/call"
	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
)

// policyQuestion is a call that somebody wants to know about.
type policyQuestion struct {
	Principal string          `json:"principal"` // who would call; empty: who asks
	Agent     *string         `json:"agent"`     // the agent whose model would; "" is the chat host; left out: the principal itself
	Session   string          `json:"session"`
	Tool      string          `json:"tool"`
	Prompt    string          `json:"prompt"`
	Resource  string          `json:"resource"` // its URI
	Args      json.RawMessage `json:"args"`
}

// policyAnswer is what would become of the call.
type policyAnswer struct {
	Principal string `json:"principal"`
	Agent     string `json:"agent,omitempty"`
	Name      string `json:"name"` // as it is listed
	call.Explanation
	Trusted bool `json:"trusted"` // the annotations of its server count
}

// testPolicy answers what would become of a call, and which rule says so. Nothing
// is called and nobody asked.
func (h *Hub) testPolicy(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	if _, err := query(r); err != nil {
		return err
	}
	var q policyQuestion
	if err := h.decodeBody(w, r, &q); err != nil {
		return err
	}
	kind, name := catalog.Tool, q.Tool
	if q.Prompt != "" {
		kind, name = catalog.Prompt, q.Prompt
	}
	if named := slices.DeleteFunc([]string{q.Tool, q.Prompt, q.Resource}, func(s string) bool { return s == "" }); len(named) != 1 {
		return &fault.Error{Kind: fault.InvalidArguments, Subject: "tool", Msg: "the body has to name a tool, a prompt or a resource, and one of them only", Hint: `Send {"principal":"alice","tool":"files__write_file","args":{"path":"a"}}.`}
	}
	client, err := h.asPrincipal(who, q)
	if err != nil {
		return err
	}
	// What the principal cannot see is explained too: that is what the owner
	// wants to know.
	see := catalog.All
	if !who.IsOwner() {
		view := h.door.View(client, q.Session)
		see = view.Sight()
	}
	if q.Resource != "" {
		server, uri, err := h.cat.Now().Route(q.Resource, see)
		if err != nil {
			return err
		}
		u, err := h.upstream(server)
		if err != nil {
			return err
		}
		return say(w, q.answer(client, q.Resource, h.door.ExplainResource(r.Context(), client, q.Session, u, uri)))
	}
	it, err := h.cat.Now().Find(kind, name, see)
	if err != nil {
		return err
	}
	args := q.Args
	if len(args) == 0 || string(args) == "null" {
		args = []byte("{}")
	}
	a := q.answer(client, it.Exposed, h.door.Explain(r.Context(), client, q.Session, it, args))
	a.Trusted = it.Trusted
	return say(w, a)
}

func (q *policyQuestion) answer(client *mcp.Client, name string, e call.Explanation) policyAnswer {
	a := policyAnswer{Principal: client.Actor.Name(), Name: name, Explanation: e}
	if q.Agent != nil {
		a.Agent = cmp.Or(*q.Agent, "chat")
	}
	return a
}

// asPrincipal is the client that a question about the policy is about.
func (h *Hub) asPrincipal(who *auth.Principal, q policyQuestion) (client *mcp.Client, err error) {
	as := who
	if q.Principal != "" && q.Principal != who.Name {
		if !who.IsOwner() {
			return nil, &fault.Error{Kind: fault.Denied, Subject: "principal", Msg: fmt.Sprintf("%q may ask for itself only", who.Name), Hint: "Use the token of the data folder."}
		}
		if as, err = h.holder(q.Principal); err != nil {
			return nil, fault.New(fault.Storage, "principal", "whose name %q is cannot be found out now", q.Principal).Because(err)
		}
		if as == nil {
			return nil, &fault.Error{Kind: fault.InvalidParams, Subject: "principal", Msg: fmt.Sprintf("nobody is called %q", q.Principal), Hint: "Use local, or the name of a token: `stoa token list`."}
		}
	}
	client = apiClient(as)
	if q.Agent == nil {
		return client, nil
	}
	if *q.Agent != "" && *q.Agent != "chat" && h.config().Agent(*q.Agent) == nil {
		return nil, &fault.Error{Kind: fault.UnknownAgent, Subject: *q.Agent, Msg: "there is no agent of that name", Hint: "Name one of the agents in the config, or chat for the chat host."}
	}
	name := *q.Agent
	if name == "chat" {
		name = ""
	}
	return client.By(actor.ByModel(name)), nil
}
