package modules

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/stoahub/stoa/internal/call"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/session"
	"github.com/stoahub/stoa/internal/spell"
)

// ControlName is the name of the module of the hub's own tools: those that
// switch the other modules, the one that runs several tools at once, and the one
// that finds tools.
const ControlName = "stoa"

// registryPrefix is how some clients write the name of a module.
const registryPrefix = "@legion/tools-registry/"

// Switchable is a module or server that can be switched.
type Switchable struct {
	Name    string `json:"name"`
	Kind    string `json:"kind"` // module or server
	On      bool   `json:"on"`
	Session bool   `json:"session,omitempty"` // it was switched in this session
	Hub     bool   `json:"hub,omitempty"`     // the owner has switched it for all sessions
	Tools   int    `json:"tools"`
	Failed  string `json:"failed,omitempty"` // why it cannot be had
}

// In tells a Switchable as it is for all what a Session says of it. What is off
// for all is off there too.
func (m *Switchable) In(s *session.Session) {
	if m.Failed != "" || m.Hub && !m.On {
		return
	}
	if on, said := s.Switched(m.Name); said {
		m.On, m.Session = on, true
	}
}

// MayLoad is why a Session cannot switch it on; nil if it can. It is asked of a
// Switchable as it is for all.
func (m *Switchable) MayLoad() error {
	switch {
	case m.Failed != "":
		return fault.New(fault.Unreachable, m.Name, "the module cannot be had: %s", m.Failed)
	case m.Hub && !m.On:
		return &fault.Error{Kind: fault.Denied, Subject: m.Name, Msg: "the hub's owner has switched it off for all, which holds in every session",
			Hint: "Ask the owner to run `stoa modules on " + m.Name + "`."}
	}
	return nil
}

// Control returns the module by which a client chooses, for its own Session,
// what is offered. list returns what the principal of a client may use, as it
// is for Sessions that have chosen nothing; run makes a call as if the client
// had made it itself.
func Control(r *session.Registry, list func(*mcp.Client) []Switchable, run func(context.Context, *mcp.Request) (mcp.Response, error), messageBytes int) *Module {
	m := control{r, list}
	const sessionArg = `"session":{"type":"string","description":"Left out: the connection's."}`
	const schema = `{"type":"object","required":["module"],"additionalProperties":false,"properties":{"module":{"type":"string"},` + sessionArg + `}}`
	return New(ControlName, "", nil,
		batch(run, messageBytes),
		finder(run),
		Tool{Name: "module_list", Title: "List modules", Run: m.show, ReadOnly: true,
			Description: "List the modules and servers, whose tools module_load and module_unload switch for this session.",
			Input:       `{"type":"object","additionalProperties":false,"properties":{` + sessionArg + `}}`},
		Tool{Name: "module_load", Title: "Switch a module on", Run: m.on, Idempotent: true,
			Description: "Offer the tools of a module or server in this session.", Input: schema},
		Tool{Name: "module_unload", Title: "Switch a module off", Run: m.off, Idempotent: true,
			Description: "Stop offering the tools of a module or server in this session.", Input: schema},
	)
}

type control struct {
	r    *session.Registry
	list func(*mcp.Client) []Switchable
}

type controlArgs struct {
	Module  string `json:"module"`
	Session string `json:"session"`
}

// bound returns the arguments and the Session that they are about; nil if the
// request is bound to none.
func (m control) bound(req *mcp.Request, raw json.RawMessage) (controlArgs, *session.Session, error) {
	a, err := decode[controlArgs](raw)
	if err != nil {
		return a, nil, err
	}
	s, err := call.Bind(m.r, req.Client, cmp.Or(a.Session, req.Session))
	return a, s, err
}

func (m control) show(_ context.Context, req *mcp.Request, raw json.RawMessage) (any, error) {
	_, s, err := m.bound(req, raw)
	if err != nil {
		return nil, err
	}
	all := m.list(req.Client)
	for i := range all {
		if s == nil {
			break
		}
		all[i].In(s)
	}
	return Answer{Data: map[string]any{"modules": all}, Message: fmt.Sprintf("%d modules and servers", len(all))}, nil
}

func (m control) on(ctx context.Context, req *mcp.Request, raw json.RawMessage) (any, error) {
	return m.set(ctx, req, raw, true)
}

func (m control) off(ctx context.Context, req *mcp.Request, raw json.RawMessage) (any, error) {
	return m.set(ctx, req, raw, false)
}

func (m control) set(ctx context.Context, req *mcp.Request, raw json.RawMessage, on bool) (any, error) {
	a, s, err := m.bound(req, raw)
	if err != nil {
		return nil, err
	}
	name := strings.TrimPrefix(a.Module, registryPrefix)
	all := m.list(req.Client)
	i := slices.IndexFunc(all, func(s Switchable) bool { return s.Name == name })
	switch {
	case i < 0:
		return nil, unknownModule(name, all)
	case on && all[i].MayLoad() != nil:
		return nil, all[i].MayLoad()
	case name == ControlName && !on:
		return nil, &fault.Error{Kind: fault.InvalidArguments, Subject: name, Msg: "nothing could switch it on again", Hint: "Leave it on, or remove the session."}
	case s == nil:
		return nil, &fault.Error{Kind: fault.SessionRequired, Msg: "what is switched is kept in a session, and this request is bound to none",
			Hint: "Name one: the argument session, or the header Stoa-Session."}
	}
	if err := s.Switch(ctx, name, on); err != nil {
		return nil, err
	}
	word := map[bool]string{true: "on", false: "off"}[on]
	return Answer{Data: map[string]any{"module": name, "on": on, "tools": all[i].Tools}, Message: fmt.Sprintf("%s is %s in this session", name, word)}, nil
}

func unknownModule(name string, all []Switchable) error {
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = s.Name
	}
	f := fault.New(fault.InvalidArguments, name, "there is no module or server of that name").With("allowed", names)
	f.Hint = "Use a name that module_list tells."
	if near := spell.Near(name, names, 3); len(near) > 0 {
		f.Hint = "Did you mean " + strings.Join(near, " or ") + "?"
	}
	return f
}
