package hub

import (
	"cmp"
	"context"
	"slices"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/policy"
	"github.com/stoahub/stoa/internal/sample"
	"github.com/stoahub/stoa/internal/upstream"
	"github.com/stoahub/stoa/internal/wire"
)

// openSampling opens what answers servers by models of the hub.
func (h *Hub) openSampling() {
	h.sampling = sample.New(sample.Options{Models: h.samplers, Desk: h.desk, Rules: h.samplingRules, Logger: h.logger("sample")})
}

// samplers are the models that servers can have, the default one first.
func (h *Hub) samplers() (out []sample.Model) {
	set := h.models.Load()
	first, _ := set.Get("") // nil if there is none
	for _, m := range set.All() {
		one := sample.Model{Model: h.spanned(m), Name: m.Name, Says: m.ID, Unready: m.Missing != ""}
		if m == first {
			out = slices.Insert(out, 0, one)
		} else {
			out = append(out, one)
		}
	}
	return out
}

// samplingRules are the rules in effect, those of the agent before the hub's.
func (h *Hub) samplingRules(agent string) []policy.Rules {
	cfg := h.config()
	var rules []policy.Rules
	if agent == chatAgent {
		rules = append(rules, policyRules(cfg.Chat.Approvals))
	}
	for i := range cfg.Agents {
		if a := &cfg.Agents[i]; agent != "" && (a.Name == agent || a.Title == agent) {
			rules = append(rules, policyRules(a.Approvals))
		}
	}
	return append(rules, policyRules(cfg.Policy.Rules))
}

// chatAgent is how calls of the chat that is no configured agent name it.
const chatAgent = "chat"

// samplingOf is who answers where a server asks for a model; nil means the
// client of the call.
func (h *Hub) samplingOf(s *config.Server) *upstream.Sampling {
	switch s.Sampling {
	case config.SamplingOff:
		return &upstream.Sampling{}
	case config.SamplingHost:
		name, model := s.Name, s.SamplingModel
		return &upstream.Sampling{Answer: func(ctx context.Context, q upstream.Sample) ([]byte, error) {
			client, _ := wire.String(wire.Get(q.Client.Info, "name"))
			return h.sampling.Answer(ctx, sample.Request{
				Server: name, Model: model, Principal: q.Client.Principal.Name, Session: q.Session, Agent: q.Agent, Client: client,
				Call: cmp.Or(q.Name, q.Method), Params: q.Params,
			})
		}}
	}
	return nil
}
