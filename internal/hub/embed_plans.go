package hub

import (
	"context"
	"encoding/json"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/plan"
)

// Runs are the runs of plans of this hub.
func (h *Hub) Runs() *plan.Runs { return h.plans.runs }

// Actions makes actions of the tools whose names match one of the globs.
func (h *Hub) Actions(ctx context.Context, globs []string) ([]plan.Action, error) {
	return h.planActions(ctx, asking(auth.Local), globs)
}

// NewRun is what a run of this process begins with.
func (h *Hub) NewRun(p *plan.Plan, session string, inputs map[string]json.RawMessage) plan.Start {
	return plan.Start{Who: auth.Local, Session: session, Plan: p, Inputs: inputs, Options: plan.DefaultOptions()}
}
