package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/llm/models"
	"github.com/stoahub/stoa/internal/obs"
)

// makeModels makes the models of a config. It asks nothing of any of them.
func (h *Hub) makeModels(cfg *config.Config) (*models.Set, error) {
	set, err := models.New(cfg, models.Options{HTTP: h.asks, Logger: h.logger("llm")})
	if err != nil {
		return nil, fmt.Errorf("models: %w", err)
	}
	return set, nil
}

// openModels makes the models that the hub begins with.
func (h *Hub) openModels() error {
	h.asks = &http.Client{Transport: models.Transport()}
	h.opened(h.asks.CloseIdleConnections)
	set, err := h.makeModels(h.cfg)
	if err == nil {
		h.models.Store(set)
	}
	return err
}

// spanned is a model whose answers are spans of traces, where there are any.
func (h *Hub) spanned(m *models.Model) llm.Model {
	if h.tracer == nil {
		return m.Model
	}
	return &spannedModel{of: m, tracer: h.tracer}
}

type spannedModel struct {
	of     *models.Model
	tracer *obs.Tracer
}

// Stream asks the model below the span of ctx. What was said is not told.
func (m *spannedModel) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Delta, error] {
	return func(yield func(llm.Delta, error) bool) {
		ctx, span := m.tracer.Start(ctx, "model "+m.of.Name, obs.Parent{}, "gen_ai.operation.name", "chat",
			"gen_ai.provider.name", string(m.of.Provider), "gen_ai.request.model", cmp.Or(m.of.ID, m.of.Name))
		kind, stop := "", llm.Stop("")
		defer func() { span.End(kind, "gen_ai.response.finish_reason", string(stop)) }()
		for d, err := range m.of.Model.Stream(ctx, req) {
			switch le := (*llm.Error)(nil); {
			case errors.As(err, &le):
				kind = string(le.Cause)
			case err != nil:
				kind = fault.Internal.String()
			case d.Kind == llm.Used:
				span.Count("gen_ai.usage.input_tokens", d.Usage.Input)
				span.Count("gen_ai.usage.output_tokens", d.Usage.Output)
			case d.Kind == llm.Stopped:
				stop = d.Stop
			}
			if !yield(d, err) {
				return
			}
		}
	}
}

var _ llm.Model = (*spannedModel)(nil)
