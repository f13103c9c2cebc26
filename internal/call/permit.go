package call

import (
	"context"

	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/upstream"
)

// Permit decides about what is done without a call though a tool does the same,
// as by the JSON API: it refuses what a call of the tool with the arguments of req
// would be refused, and has a person asked about what a person would be asked
// about. Nothing is called.
func (d *Door) Permit(ctx context.Context, req *mcp.Request, u *upstream.Upstream, it *catalog.Item) error {
	var t toolCall
	if err := d.admit(ctx, &Call{Req: req, Upstream: u, Item: it}, &t); err != nil {
		return err
	}
	if t.edited != nil {
		return &fault.Error{Kind: fault.Denied, Subject: it.Exposed, Msg: "the person who was asked changed the arguments, which can be done to a call only", Hint: "Call the tool " + it.Exposed + "."}
	}
	return nil
}
