package hub

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stoahub/stoa/internal/call"
	"github.com/stoahub/stoa/internal/modules"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/plan/published"
)

// What one hub has taken away counts for a call at another as soon as it was
// acknowledged, for published plans, whose runs write to the store anyway, and goneAge
// after it for switches: the calls of that time share one question. If the store
// does not answer within goneTime, what is known last counts, and it is asked again
// after goneAgain: calls go on while it is away.
const (
	goneAge   = 10 * time.Millisecond
	goneTime  = 500 * time.Millisecond
	goneAgain = time.Second
)

// gone asks the store what was switched off and taken back, for each call; nil if
// only this hub can do that.
func (h *Hub) gone() func(ctx context.Context, c *call.Call) bool {
	if !h.isStoreShared() {
		return nil
	}
	var quiet atomic.Int64 // until then the store is not asked
	return func(ctx context.Context, c *call.Call) bool {
		now := time.Now()
		plan := c.Item != nil && c.Upstream.Name() == modules.PlanName && strings.HasPrefix(c.Item.Name, published.Prefix)
		if now.UnixNano() >= quiet.Load() {
			asked, cancel := context.WithTimeout(ctx, goneTime)
			err := h.switches.Current(asked, now.Add(-goneAge))
			if plan {
				err = errors.Join(err, h.plans.published.Current(asked, now))
			}
			cancel()
			if err != nil && ctx.Err() == nil {
				quiet.Store(now.Add(goneTime + goneAgain).UnixNano())
				h.log.Debug("what other hubs have taken away is not known now", obs.KeyErr, err)
			}
		}
		if !plan {
			return false
		}
		only := h.plans.only(c.Item.Name)
		for p := range c.Req.Client.Actor.Principals {
			if only != "" && (p == nil || p.Name != only) {
				return true
			}
		}
		return false
	}
}
