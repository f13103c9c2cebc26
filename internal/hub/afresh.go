package hub

import (
	"context"
	"fmt"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/plan/published"
)

// What is kept belongs to a principal by name. A name whose token was revoked
// can be given to another one, who must not find what the first has left: before
// a token is used for the first time, all that has its name is removed. See
// docs/adr/0012-new-token-starts-with-nothing.md.

// afreshTime bounds how long a principal waits for that.
const afreshTime = time.Minute

// startAfresh removes everything that is kept under a principal's name.
func (h *Hub) startAfresh(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, afreshTime)
	defer cancel()
	h.connections.End(name)
	if err := h.agents.book.Forget(ctx, name); err != nil {
		return err
	}
	if err := h.tasks.Kept().Forget(ctx, name); err != nil {
		return err
	}
	if err := h.plans.runs.Forget(ctx, name); err != nil {
		return err
	}
	if h.chat.engine != nil {
		if err := h.chat.engine.Forget(ctx, name); err != nil {
			return err
		}
		if err := h.chat.files.Forget(ctx, name); err != nil {
			return err
		}
	}
	if err := h.state.sessions.CatchUp(ctx); err != nil {
		return err
	}
	for _, s := range h.state.sessions.All(func(principal string) bool { return principal == name }) {
		if err := h.state.sessions.Remove(ctx, s); err != nil {
			return fmt.Errorf("remove session %s: %w", s.Name(), err)
		}
	}
	if err := h.unpublishAll(ctx, name); err != nil {
		return err
	}
	if _, err := h.desk.Forget(ctx, name, ""); err != nil {
		return fmt.Errorf("forget what was decided: %w", err)
	}
	h.logger("auth").Info("a token is used for the first time, and starts with nothing", obs.KeyAction, "authenticate", "principal", name)
	return nil
}

// unpublishAll takes back the plans that a principal has published. What the hub
// offers may just be changing, which does not take long.
func (h *Hub) unpublishAll(ctx context.Context, owner string) error {
	gone := func(*published.Plan) (*published.Plan, error) { return nil, nil }
	if err := h.plans.published.CatchUp(ctx); err != nil {
		return err
	}
	for _, p := range h.plans.list() {
		if p.Owner != owner {
			continue
		}
		err := h.changePlan(ctx, p.Tool(), gone)
		for fault.Is(err, fault.Unreachable) && ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
			err = h.changePlan(ctx, p.Tool(), gone)
		}
		if err != nil {
			return fmt.Errorf("take back the plan %s: %w", p.Name, err)
		}
	}
	return nil
}
