package modules

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/call"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/plan"
	"github.com/stoahub/stoa/internal/plan/published"
)

// tool is the plan as a tool: its inputs are the arguments.
func (m planModule) tool(p published.Plan) Tool {
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
func CheckPublished(p published.Plan) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fault.New(fault.InvalidArguments, p.Name, "the plan cannot be offered as a tool: %v", r)
		}
	}()
	New(PlanName, "", nil, planModule{}.tool(p))
	return nil
}

func (m planModule) runPublished(ctx context.Context, req *mcp.Request, p published.Plan, raw json.RawMessage) (any, error) {
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
	if errors.Is(err, actor.ErrUnsure) {
		return nil, err
	}
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
