package call

import (
	"context"
	"errors"
	"time"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
)

// A token may be revoked while something works for its principal: a turn of a
// chat, a task, a batch. What a client asks for itself ends with its request. A
// delegate has no request that ends, so everybody whom it rests on is looked up
// again here, before each call and once a second while it is made or waits for
// a person.

// present refuses what is wanted for somebody who may not come in any more. Where
// that cannot be found out, it waits for as long as it can be borne, so that a
// file which is just being written, or a store that has lost its leader, costs
// nobody a call.
func (d *Door) present(ctx context.Context, a actor.Actor, subject string) error {
	if d.lookup == nil {
		return nil
	}
	check := func() error { return a.Check(d.lookup) }
	err := check()
	if errors.Is(err, actor.ErrUnsure) {
		wait, cancel := context.WithTimeout(ctx, auth.Trusted)
		defer cancel()
		err = actor.Sure(wait, check)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, actor.ErrUnsure):
		return err
	}
	return gone(subject, err)
}

// delegated is present for a call that a delegate makes.
func (d *Door) delegated(ctx context.Context, c *Call) error {
	if c.Req.Client.Actor.Direct() {
		return nil
	}
	subject, _ := c.Req.Text("name")
	return d.present(ctx, c.Req.Client.Actor, subject)
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
	} else if err != nil && errors.Is(why, actor.ErrUnsure) {
		return resp, unsure(c, why, err)
	}
	return resp, err
}

// unsure is why a call was ended whose principals could not be looked up for too
// long. One that does no harm if it is made again can be, when they can.
func unsure(c *Call, why, err error) error {
	kind, harmless := fault.OutcomeUnknown, fault.Of(err).Harmless
	if harmless {
		kind = fault.Storage
	}
	f := fault.New(kind, c.Upstream.Name(), "the call was ended: %s", fault.Of(why).Text())
	f.Harmless = harmless
	return f.Because(errors.Join(why, err))
}
