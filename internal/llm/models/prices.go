package models

import (
	"regexp"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/llm"
)

// PricesOf is the month in which the list prices below were written down.
const PricesOf = "2025-11"

// prices are list prices in US dollars for a million tokens, of models that
// have one price whatever the length of a request. What is not here has no
// cost: none is better than a wrong one. The config can say others.
var prices = map[config.Provider]map[string]llm.Price{
	config.Gemini: {
		"gemini-2.5-flash":      {Input: 0.30, Output: 2.50, CacheRead: 0.03},
		"gemini-2.5-flash-lite": {Input: 0.10, Output: 0.40, CacheRead: 0.01},
	},
	config.OpenAI: {
		"gpt-4.1":      {Input: 2.00, Output: 8.00, CacheRead: 0.50},
		"gpt-4.1-mini": {Input: 0.40, Output: 1.60, CacheRead: 0.10},
		"gpt-4.1-nano": {Input: 0.10, Output: 0.40, CacheRead: 0.025},
		"gpt-4o":       {Input: 2.50, Output: 10.00, CacheRead: 1.25},
		"gpt-4o-mini":  {Input: 0.15, Output: 0.60, CacheRead: 0.075},
	},
	config.Anthropic: {
		"claude-sonnet-4-5": {Input: 3.00, Output: 15.00, CacheRead: 0.30, CacheWrite: 3.75},
		"claude-haiku-4-5":  {Input: 1.00, Output: 5.00, CacheRead: 0.10, CacheWrite: 1.25},
	},
}

// snapshot is the date at the end of a model's name; the price is that of the
// model without it.
var snapshot = regexp.MustCompile(`-(20\d{6}|20\d\d-\d\d-\d\d)$`)

// price settles what the model costs: what the config says, else the list price
// at the provider's own address.
func (m *Model) price(c *config.Model, own bool) {
	if p := c.Price; p != nil && p.Input != nil && p.Output != nil {
		m.Price, m.Priced = llm.Price{Input: *p.Input, Output: *p.Output}, true
		if p.CacheRead != nil {
			m.Price.CacheRead = *p.CacheRead
		}
		if p.CacheWrite != nil {
			m.Price.CacheWrite = *p.CacheWrite
		}
		return
	}
	if own {
		m.Price, m.Priced = prices[m.Provider][snapshot.ReplaceAllString(m.ID, "")], false
		m.Priced = m.Price != llm.Price{}
	}
}
