// Package gate gives tests of what calls tools (chat, plans) a face that
// decides about calls as the door of a hub does, over a handler of the test and
// without a hub. It lists what is not denied altogether, asks who is to be
// asked, and answers what is refused as the door does. Scopes, stored values,
// schemas and whose word counts are the door's alone, and proven there.
package gate

import (
	"bytes"
	"context"
	"strings"

	"github.com/stoahub/stoa/internal/call"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/policy"
	"github.com/stoahub/stoa/internal/wire"
)

// Options are what a face decides by.
type Options struct {
	Rules *policy.Set  // nil says nothing
	Desk  *policy.Desk // where people are asked for who brings no way of its own; nil: nobody can be
}

// Face returns a face over h. What h says of its tools in tools/list is taken
// at its word.
func Face(h mcp.Handler, o Options) call.Face { return &face{h, o} }

type face struct {
	mcp.Handler
	o Options
}

func (f *face) Handle(ctx context.Context, req *mcp.Request) (mcp.Response, error) {
	switch req.Method {
	case "tools/call":
		return f.Call(ctx, req, call.Hooks{})
	case "tools/list":
		resp, err := f.Handler.Handle(ctx, req)
		if err != nil || resp.Error != nil || f.o.Rules.Empty() {
			return resp, err
		}
		return mcp.Response{Result: f.visible(req, resp.Result)}, nil
	}
	return f.Handler.Handle(ctx, req)
}

// visible leaves out of a list what is denied whatever its arguments are.
func (f *face) visible(req *mcp.Request, list []byte) []byte {
	defs, _ := wire.Elements(wire.Get(list, "tools"))
	var seen [][]byte
	for _, def := range defs {
		name, _ := wire.String(wire.Get(def, "name"))
		s := subject(name)
		s.Annotate(wire.Get(def, "annotations"))
		if !f.hidden(req, s) {
			seen = append(seen, def)
		}
	}
	tools := append(append([]byte("["), bytes.Join(seen, []byte(","))...), ']')
	return wire.Edit(nil, list, wire.Change{Name: "tools", Value: tools})
}

func (f *face) Call(ctx context.Context, req *mcp.Request, h call.Hooks) (mcp.Response, error) {
	next, err := f.authorise(ctx, req, h)
	if err == nil && h.Starting != nil {
		err = h.Starting(ctx)
	}
	if err != nil {
		return call.AsResult(req, nil, err)
	}
	return f.Handler.Handle(ctx, next)
}

// authorise returns the request that may be made.
func (f *face) authorise(ctx context.Context, req *mcp.Request, h call.Hooks) (*mcp.Request, error) {
	s, err := f.find(ctx, req)
	if err != nil {
		return nil, err
	}
	if f.hidden(req, s) {
		return nil, fault.New(fault.UnknownTool, s.Tool, "unknown tool")
	}
	v := f.decide(req, s, req.Param("arguments"))
	if h.MustAsk != "" && v.Action == policy.Allow {
		v = policy.Verdict{Action: policy.Ask, Reason: h.MustAsk, Rule: "caller"}
	}
	switch v.Action {
	case policy.Allow:
		return req, nil
	case policy.Ask:
		return f.ask(ctx, req, h.Ask, s, v)
	}
	return nil, denied(s, v)
}

// ask has a person decide.
func (f *face) ask(ctx context.Context, req *mcp.Request, ask policy.Asker, s policy.Subject, v policy.Verdict) (*mcp.Request, error) {
	if ask == nil {
		ask = f.atDesk
	}
	a := policy.Approval{Principal: req.Client.Actor.Name(), Session: req.Session, Tool: s.Tool, Upstream: s.Upstream, Ref: s.Ref, Reason: v.Reason, Args: bytes.Clone(req.Param("arguments"))}
	if a.Args == nil {
		a.Args = []byte("{}")
	}
	if name, ok := req.Client.Actor.LastModel(); ok {
		if a.Agent = name; name == "" {
			a.Agent = "chat"
		}
	}
	dec, err := ask(ctx, a)
	switch {
	case err != nil:
		return nil, err
	case !dec.Approve:
		return nil, refused(s, v, dec)
	case dec.Args == nil:
		return req, nil
	}
	if v := f.decide(req, s, dec.Args); v.Action == policy.Deny { // an edit gets nobody past a rule
		return nil, denied(s, v)
	}
	next := *req
	next.Params = wire.Edit(nil, req.Params, wire.Change{Name: "arguments", Value: dec.Args})
	next.Fields = wire.Members(next.Params)
	next.Meta = wire.Members(next.Param("_meta"))
	return &next, nil
}

func (f *face) atDesk(ctx context.Context, a policy.Approval) (policy.Decision, error) {
	if f.o.Desk == nil {
		return policy.Decision{Reason: policy.ReasonNobody}, nil
	}
	return f.o.Desk.Ask(ctx, a, nil)
}

// find returns the tool that a call is of. One that is not listed has said
// nothing of itself.
func (f *face) find(ctx context.Context, req *mcp.Request) (policy.Subject, error) {
	name, _ := req.Text("name")
	s := subject(name)
	list := &mcp.Request{Method: "tools/list", Params: []byte("{}"), Client: req.Client, Stream: mcp.Discard, Asked: mcp.Asked{Session: req.Session}}
	resp, err := f.Handler.Handle(ctx, list)
	if err != nil {
		return s, err
	}
	defs, _ := wire.Elements(wire.Get(resp.Result, "tools"))
	for _, def := range defs {
		if is, _ := wire.String(wire.Get(def, "name")); is == name {
			s.Annotate(wire.Get(def, "annotations"))
		}
	}
	return s, nil
}

func subject(tool string) policy.Subject {
	s := policy.Subject{Kind: policy.KindTool, Tool: tool, Upstream: "stoa", Ref: tool}
	if up, bare, ok := strings.Cut(tool, "__"); ok {
		s.Upstream, s.Ref = up, up+":"+bare
	}
	return s
}

func (f *face) query(req *mcp.Request, s policy.Subject) *policy.Query {
	a := req.Client.Actor
	return &policy.Query{Subject: s, Principal: a.Name(), Model: a.IsModel()}
}

func (f *face) hidden(req *mcp.Request, s policy.Subject) bool {
	return policy.Hidden(f.query(req, s), f.o.Rules)
}

func (f *face) decide(req *mcp.Request, s policy.Subject, args []byte) policy.Verdict {
	q := f.query(req, s)
	q.Args = args
	return policy.Decide(q, f.o.Rules)
}

// denied and refused are as the door says them.
func denied(s policy.Subject, v policy.Verdict) error {
	return &fault.Error{Kind: fault.Denied, Subject: s.Tool, Msg: "the policy does not allow this call: " + v.Reason, Hint: "Do without it: calling again changes nothing."}
}

func refused(s policy.Subject, v policy.Verdict, dec policy.Decision) error {
	f := &fault.Error{Kind: fault.Denied, Subject: s.Tool, Msg: dec.Tell(), Hint: "Do without it, or ask the user what they want instead."}
	if dec.By == "" {
		f.Kind, f.Msg = fault.ApprovalRequired, dec.Tell()+" ("+v.Reason+")"
		f.Hint = "Have somebody attend to approvals, then call again."
	}
	return f.With("outcome", dec.Outcome())
}

var _ call.Face = (*face)(nil)
