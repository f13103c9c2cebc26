package modules

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/call"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/plan"
)

// PublishedPrefix begins the names of plans that are offered as tools.
const PublishedPrefix = "plan__"

// Published is a plan that is offered as a tool, to who published it and, if it
// is shared, to others.
type Published struct {
	Name   string    `json:"name"`
	Owner  string    `json:"owner"` // the principal that published it
	Shared bool      `json:"shared,omitempty"`
	Plan   plan.Plan `json:"plan"`
	// By is who published it; nil in what older versions wrote.
	By *actor.Record `json:"by,omitempty"`
}

// Tool is the name of the tool. Those of the person at this machine are as they
// were called; others have something of the publisher's name in them, so that
// what one publishes never depends on what others have.
func (p *Published) Tool() string {
	if p.Owner == auth.LocalName {
		return PublishedPrefix + p.Name
	}
	sum := sha256.Sum256([]byte(p.Owner))
	return PublishedPrefix + p.Name + "-" + hex.EncodeToString(sum[:3])
}

// tool is the plan as a tool: its inputs are the arguments.
func (m planModule) tool(p Published) Tool {
	properties, required := map[string]json.RawMessage{}, []string{}
	for _, in := range p.Plan.Inputs {
		s := in.Schema
		if s == nil {
			s = json.RawMessage(`{}`)
		}
		properties[in.Name] = s
		if !in.Optional && in.Default == nil {
			required = append(required, in.Name)
		}
	}
	input, err := json.Marshal(map[string]any{"type": "object", "properties": properties, "required": required, "additionalProperties": false})
	if err != nil {
		panic(fmt.Sprintf("modules: the inputs of plan %s: %v", p.Name, err)) // they were read from JSON
	}
	return Tool{Name: p.Tool(), Title: cmp.Or(p.Plan.Title, p.Name), Destructive: true, Input: string(input),
		Description: cmp.Or(p.Plan.Description, p.Plan.Title, "Runs the plan "+p.Name+"."),
		Run: func(ctx context.Context, req *mcp.Request, raw json.RawMessage) (any, error) {
			return m.runPublished(ctx, req, p, raw)
		}}
}

// CheckPublished says why a plan cannot be offered as a tool, if it cannot.
func CheckPublished(p Published) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fault.New(fault.InvalidArguments, p.Name, "the plan cannot be offered as a tool: %v", r)
		}
	}()
	New(PlanName, "", nil, planModule{}.tool(p))
	return nil
}

func (m planModule) runPublished(ctx context.Context, req *mcp.Request, p Published, raw json.RawMessage) (any, error) {
	s, err := call.Bind(m.o.Sessions, req.Client, req.Session)
	if err != nil {
		return nil, err
	}
	minted := s == nil
	if minted {
		s = m.o.Sessions.Mint(req.Client.Actor.Name())
	}
	inputs := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &inputs); err != nil {
		return nil, fault.New(fault.InvalidArguments, p.Name, "the arguments cannot be read: %v", err)
	}
	by, err := actor.Restore(p.By, p.Owner, m.o.Principal)
	if err != nil {
		return nil, fault.New(fault.Denied, p.Tool(), "who published the plan may not call any more: %v", err)
	}
	st := plan.Start{By: req.Client.Actor, Publisher: &by, Session: s.Name(), Plan: &p.Plan, Options: plan.DefaultOptions(), Inputs: inputs, Key: taskKey(req), Trace: call.Descent(req)}
	run, err := m.o.Runs.Start(ctx, st)
	if err != nil {
		return nil, AsFault(err)
	}
	if err := m.wait(ctx, req, run); err != nil {
		return nil, err
	}
	v, err := run.View(ctx, plan.Look{})
	if err != nil || v.Status != plan.Finished {
		if err != nil {
			return nil, err
		}
		return m.ran(ctx, req, run, minted)
	}
	return Answer{Data: v.Outputs, Message: fmt.Sprintf("run %s is done", v.ID)}, nil
}
