package hub

import (
	"context"
	"slices"
	"sync"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/policy"
	"github.com/stoahub/stoa/internal/session"
)

// openPolicy opens the desk at which people are asked.
func (h *Hub) openPolicy() (err error) {
	h.desk, err = policy.OpenDesk(context.Background(), h.state.store, policy.DeskOptions{Expiry: h.cfg.Policy.Expiry, Events: h.events})
	if err == nil {
		h.opened(h.desk.Close)
	}
	return err
}

// setPolicy makes the policy of a config the one in effect. What waits for a
// person goes on waiting.
func (h *Hub) setPolicy(cfg *config.Config) {
	h.door.Rule(policyRules(cfg.Policy.Rules))
	h.desk.SetExpiry(cfg.Policy.Expiry)
}

// policyRules are the rules that a config says.
func policyRules(r config.Rules) policy.Rules {
	out := policy.Rules{Default: policy.Action(r.Default)}
	for _, one := range r.Rules {
		out.Rules = append(out.Rules, policy.Rule{
			Tools: one.Tools, ReadOnly: one.ReadOnly, Destructive: one.Destructive, Idempotent: one.Idempotent, OpenWorld: one.OpenWorld,
			Action: policy.Action(one.Action), Reason: one.Reason,
		})
	}
	return out
}

// agentRules are the rules of one of the hub's own agents about a tool. They
// hold for what the agent calls by way of other tools, too: those it has no
// business with are denied, as it is not offered them.
func (h *Hub) agentRules(name string, s *policy.Subject) (lists []policy.Rules) {
	cfg := h.config()
	may := [][]string{cfg.Chat.Tools}
	if a := cfg.Agent(name); a != nil {
		lists, may = append(lists, policyRules(a.Approvals)), append(may, a.Tools)
	}
	lists = append(lists, policyRules(cfg.Chat.Approvals))
	for _, globs := range may {
		if len(globs) > 0 && !slices.ContainsFunc(globs, func(g string) bool { return policy.Matches(g, s) }) {
			deny := policy.Rule{Action: policy.Deny, Reason: "it is none of the tools that " + name + " is to use"}
			return append(lists, policy.Rules{Rules: []policy.Rule{deny}})
		}
	}
	return lists
}

// forgetEnded makes what was decided for a Session end with it. Sessions tell
// of their end and must not be kept waiting, so the store is asked by a
// goroutine of its own.
func (h *Hub) forgetEnded() {
	var mu sync.Mutex
	var ended []*session.Session
	more := make(chan struct{}, 1)
	h.state.sessions.Watch(func(c session.Change) {
		if !c.Ended {
			return
		}
		mu.Lock()
		ended = append(ended, c.Session)
		mu.Unlock()
		select {
		case more <- struct{}{}:
		default:
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	h.opened(cancel)
	h.wg.Go(func() {
		for {
			select {
			case <-more:
			case <-ctx.Done():
				return
			}
			mu.Lock()
			list := ended
			ended = nil
			mu.Unlock()
			for _, s := range list {
				if err := h.desk.EndSession(ctx, s.Principal(), s.Name()); err != nil && ctx.Err() == nil {
					h.logger("policy").Warn("what was decided for a session that ended could not be forgotten", obs.KeySession, s.ID(), obs.KeyErr, err)
				}
			}
		}
	})
}
