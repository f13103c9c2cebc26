package hub

import (
	"context"
	"encoding/json"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/plan"
)

// Runs are the runs of plans of this hub.
func (h *Hub) Runs() *plan.Runs { return h.plans.runs }

// Actions makes actions of the tools whose names match one of the globs.
func (h *Hub) Actions(ctx context.Context, globs []string) ([]plan.Action, error) {
	return h.planActions(ctx, libraryRequest(), globs)
}

// PlanTools finds tools as a plan of this process would.
func (h *Hub) PlanTools(ctx context.Context) plan.Lookup {
	return h.plans.runs.Tools(ctx, libraryRequest().Client.Actor, "")
}

// NewRun is what a run of this process begins with.
func (h *Hub) NewRun(p *plan.Plan, session string, inputs map[string]json.RawMessage) plan.Start {
	return plan.Start{By: actor.New(actor.Library, auth.Owner), Session: session, Plan: p, Inputs: inputs, Options: plan.DefaultOptions()}
}

// Act does something to a run on behalf of this process.
func (h *Hub) Act(ctx context.Context, run *plan.Run, a plan.Act) (*plan.Run, error) {
	a.By = actor.New(actor.Library, auth.Owner)
	next, _, err := h.plans.runs.Act(ctx, run, a)
	return next, err
}

// libraryRequest is a request of nobody but this process.
func libraryRequest() *mcp.Request {
	return &mcp.Request{Client: &mcp.Client{Era: mcp.Modern, Actor: actor.New(actor.Library, auth.Owner)}}
}
