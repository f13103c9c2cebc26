package call

import (
	"context"
	"errors"
	"time"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
)

// A token may be revoked while something works for its principal: a turn of a
// chat, a task, a batch. What a client asks for itself ends with its request. A
// delegate has no request that ends, so everybody whom it rests on is looked up
// again here, before each call and once a second while it is made or waits for
// a person.

// present refuses what is wanted for somebody who may not come in any more.
func (d *Door) present(a actor.Actor, subject string) error {
	if d.lookup == nil {
		return nil
	}
	if err := a.Check(d.lookup); err != nil {
		return gone(subject, err)
	}
	return nil
}

// delegated is present for a call that a delegate makes.
func (d *Door) delegated(c *Call) error {
	if c.Req.Client.Actor.Direct() {
		return nil
	}
	subject, _ := c.Req.Text("name")
	return d.present(c.Req.Client.Actor, subject)
}

func gone(subject string, err error) *fault.Error {
	return fault.New(fault.Denied, subject, "the call is not made: %v", err)
}

// attended makes the call so that it ends, and a question about it is withdrawn,
// when somebody goes on whose behalf a delegate makes it.
func (d *Door) attended(ctx context.Context, c *Call, t *toolCall, began time.Time) (mcp.Response, error) {
	if d.lookup == nil || c.Req.Client.Actor.Direct() {
		return d.cancellable(ctx, c, t, began)
	}
	ctx, leave := c.Req.Client.Actor.Watch(ctx, d.lookup)
	defer leave()
	resp, err := d.cancellable(ctx, c, t, began)
	if why := context.Cause(ctx); err != nil && errors.Is(why, actor.ErrGone) {
		f := fault.New(fault.Denied, c.Upstream.Name(), "the call was ended: %v", why)
		f.Harmless = fault.Of(err).Harmless
		return resp, f.Because(err)
	}
	return resp, err
}
