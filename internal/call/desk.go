package call

import (
	"context"

	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/policy"
)

// AskAtDesk asks whoever attends to approvals.
func (d *Door) AskAtDesk(ctx context.Context, a policy.Approval) (policy.Decision, error) {
	if d.desk == nil {
		return policy.Decision{Reason: policy.ReasonNobody}, nil
	}
	return d.desk.Ask(ctx, a, nil)
}

// askTelling asks at the desk, and tells the client whose request waits for the
// answer: it would wait in silence.
func (d *Door) askTelling(req *mcp.Request) policy.Asker {
	if d.desk == nil {
		return d.AskAtDesk
	}
	return func(ctx context.Context, a policy.Approval) (policy.Decision, error) {
		asked := false
		dec, err := d.desk.Ask(ctx, a, func(p policy.Approval) {
			asked = true
			req.Tell(mcp.BeforeQueue, d.desk.Announce(&p))
		})
		if asked && err == nil {
			req.Tell(mcp.BeforeQueue+1, a.Report(&dec))
		}
		return dec, err
	}
}
