package hub

import (
	"context"
	"strings"
	"sync"

	"github.com/stoahub/stoa/internal/call"
	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/policy"
	"github.com/stoahub/stoa/internal/session"
)

// openPolicy opens the desk at which people are asked.
func (h *Hub) openPolicy() (err error) {
	if err := h.openBoard(); err != nil {
		return err
	}
	h.desk, err = policy.OpenDesk(context.Background(), h.state.store, policy.DeskOptions{Expiry: h.cfg.Policy.Expiry, Events: h.events, Logger: h.logger("policy"), Console: h.consoleAddress})
	if err == nil {
		h.opened(h.desk.Close)
	}
	return err
}

// setPolicy makes the policy of a config the one in effect. What waits for a
// person goes on waiting.
func (h *Hub) setPolicy(cfg *config.Config) {
	h.door.Rule(hubRules(cfg))
	h.desk.SetExpiry(cfg.Policy.Expiry)
}

// hubRules are the rules of a config that hold for everybody.
func hubRules(cfg *config.Config) *policy.Set {
	return policy.Compile(policy.FromConfig("policy", cfg.Policy.Rules), cfg.Policy.Groups)
}

// modelRules is what a config says of the calls of the hub's own models.
type modelRules struct {
	cfg *config.Config // that it was read from
	own call.Agent     // of the chat host, and of records that do not say whose model it was
	by  map[string]call.Agent
}

// agentRules is what the config in effect says of the calls of one of the hub's
// own models. What it is not offered it cannot reach by way of others either.
func (h *Hub) agentRules(name string) call.Agent {
	cfg := h.config()
	m := h.modelRules.Load()
	if m == nil || m.cfg != cfg {
		m = readModelRules(cfg)
		h.modelRules.Store(m)
	}
	if name == "" {
		return m.own
	}
	if a, ok := m.by[strings.ToLower(name)]; ok {
		return a
	}
	// An agent that was taken out of the config, and whose work is taken up: what
	// it was to use is not known any more, so it is nothing.
	return call.Agent{Rules: m.own.Rules, Tools: [][]string{{nobody}}}
}

func readModelRules(cfg *config.Config) *modelRules {
	compile := func(name string, r config.Rules) *policy.Set {
		return policy.Compile(policy.FromConfig(name, r), cfg.Policy.Groups)
	}
	all := compile("chat.approvals", cfg.Chat.Approvals)
	m := &modelRules{cfg: cfg, own: call.Agent{Rules: []*policy.Set{all}, Tools: [][]string{cfg.Chat.Tools}}, by: map[string]call.Agent{}}
	for i := range cfg.Agents {
		a := &cfg.Agents[i]
		about := call.Agent{Rules: []*policy.Set{compile("agents."+a.Name+".approvals", a.Approvals), all}, Tools: [][]string{cfg.Chat.Tools, a.Tools}}
		m.by[strings.ToLower(a.Name)], m.by[strings.ToLower(a.Called())] = about, about
	}
	return m
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
					h.logger("policy").Warn("what was decided for a session that ended could not be forgotten", obs.KeySession, obs.Short(s.Name()), obs.KeyErr, err)
				}
			}
		}
	})
}
