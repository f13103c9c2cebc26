package oracle

import (
	"context"
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/llm/anthropic"
	"github.com/stoahub/stoa/internal/llm/gemini"
	"github.com/stoahub/stoa/internal/llm/llmtest"
	"github.com/stoahub/stoa/internal/llm/ollama"
	"github.com/stoahub/stoa/internal/llm/openai"
	"github.com/stoahub/stoa/internal/secret"
)

func TestMain(m *testing.M) {
	// The SDK of Gemini brings a package that starts one for good.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

const model = "test-model"

// ours opens our model of a provider.
func ours(api string, o llm.Options) (llm.Model, error) {
	o.Model, o.APIKey = model, secret.New(llmtest.Key)
	switch api {
	case "gemini":
		return gemini.New(o)
	case "openai":
		return openai.New(o)
	case "anthropic":
		return anthropic.New(o)
	case "ollama":
		return ollama.New(o)
	}
	return nil, fmt.Errorf("there is no %s", api)
}

// read is what somebody understood of an answer.
type read struct {
	Text, Reasoning string
	Calls           []string // id, name and arguments; no id where the protocol has none
	Input, Output   int
	Cut             bool
}

// byOurs is what our codec reads.
func byOurs(ctx context.Context, m llm.Model, req llm.Request) (read, error) {
	a, err := llm.Collect(m.Stream(ctx, req))
	r := read{Text: a.Message.Text(), Input: a.Usage.Input, Output: a.Usage.Output, Cut: a.Stop == llm.CutOff}
	for _, p := range a.Message.Parts {
		r.Reasoning += p.Reasoning
	}
	for _, c := range a.Message.Calls() {
		r.Calls = append(r.Calls, fmt.Sprintf("%s %s %s", c.ID, c.Name, c.Args))
	}
	return r, err
}
