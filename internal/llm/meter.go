package llm

import (
	"sync"
)

// Meter estimates how many tokens a request takes before it is sent: four
// characters each, corrected per model by what providers reported for earlier
// requests. The zero value is ready and may be used by several goroutines.
type Meter struct {
	mu     sync.Mutex
	factor map[string]float64
}

const (
	charsPerToken = 4
	perMessage    = 4    // roles and separators
	minLearn      = 200  // tokens: below, overhead says more than the text
	leastFactor   = 0.25 // a provider that counts wrong must not make us blind
	mostFactor    = 4
	newWeight     = 0.3
)

// Estimate returns about how many tokens req takes, for its model.
func (m *Meter) Estimate(req Request) int {
	return int(float64(plainEstimate(req))*m.of(req.Model) + 0.5)
}

// EstimateText returns about how many tokens a text takes for a model.
func (m *Meter) EstimateText(model, text string) int {
	return int(float64(tokens(text))*m.of(model) + 0.5)
}

func (m *Meter) of(model string) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f, ok := m.factor[model]; ok {
		return f
	}
	return 1
}

// Learn takes in what the provider counted for req.
func (m *Meter) Learn(req Request, u Usage) {
	plain := plainEstimate(req)
	if plain < minLearn || u.Input <= 0 {
		return
	}
	f := min(mostFactor, max(leastFactor, float64(u.Input)/float64(plain)))
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.factor == nil {
		m.factor = map[string]float64{}
	}
	if old, ok := m.factor[req.Model]; ok {
		f = old + newWeight*(f-old)
	}
	m.factor[req.Model] = f
}

func tokens(s string) int {
	n := 0
	for range s {
		n++
	}
	return (n + charsPerToken - 1) / charsPerToken
}

func plainEstimate(req Request) int {
	n := tokens(req.System)
	for _, t := range req.Tools {
		n += perMessage + tokens(t.Name) + tokens(t.Description) + tokens(string(t.Schema))
	}
	for _, m := range req.Messages {
		n += perMessage
		for _, p := range m.Parts {
			n += tokens(p.Text) + tokens(p.Reasoning)
			if p.Call != nil {
				n += tokens(p.Call.Name) + tokens(string(p.Call.Args))
			}
			if p.Result != nil {
				n += tokens(p.Result.Name) + tokens(p.Result.Content)
			}
		}
	}
	return n
}
