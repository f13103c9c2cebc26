package hub

import (
	"fmt"
	"net/http"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/llm/models"
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
