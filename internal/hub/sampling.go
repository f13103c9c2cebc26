package hub

import (
	"cmp"
	"context"
	"slices"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/policy"
	"github.com/stoahub/stoa/internal/sample"
	"github.com/stoahub/stoa/internal/upstream"
)

// openSampling opens what answers servers by models of the hub.
func (h *Hub) openSampling() {
	h.sampling = sample.New(sample.Options{Models: h.samplers, Logger: h.logger("sample"),
		Allow: func(ctx context.Context, c *mcp.Client, server string, a policy.Approval) (policy.Decision, error) {
			return h.door.Sampling(ctx, c, server, a)
		}})
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

// samplingOf is who answers where a server asks for a model; nil means the
// client of the call.
func (h *Hub) samplingOf(s *config.Server) *upstream.Sampling {
	switch s.Sampling {
	case config.SamplingOff:
		return &upstream.Sampling{}
	case config.SamplingHost:
		name, model := s.Name, s.SamplingModel
		return &upstream.Sampling{Answer: func(ctx context.Context, q upstream.Sample) ([]byte, error) {
			return h.sampling.Answer(ctx, sample.Request{
				Server: name, Model: model, Client: q.Client, Session: q.Session,
				Call: cmp.Or(q.Name, q.Method), Params: q.Params,
			})
		}}
	}
	return nil
}
