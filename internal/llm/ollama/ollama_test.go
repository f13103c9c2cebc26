package ollama

import (
	"flag"
	"testing"

	"go.uber.org/goleak"

	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/llm/llmtest"
	"github.com/stoahub/stoa/internal/llm/shape"
)

var whole = llmtest.Whole{
	Check:  llmtest.CheckOllama,
	Before: "{\"capabilities\":[\"tools\"]}\n",
	First:  "{\"message\":{\"content\":\"One \"},\"done\":false}\n",
	Rest:   "{\"message\":{\"content\":\"two.\"},\"done\":true,\"done_reason\":\"stop\"}\n",
}

var _ = flag.Bool("update", false, "write the records anew") // read by llmtest

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(o llm.Options) (llm.Model, error) {
	o.Model = "test-model"
	return New(o)
}

func TestRecords(t *testing.T) { llmtest.Records(t, open, llmtest.CheckOllama) }

func TestRules(t *testing.T) { llmtest.Rules(t, open, whole) }

func TestHistories(t *testing.T) {
	llmtest.Histories(t, func(req llm.Request) any {
		b, _ := newBody(req, shape.NewNames(nameRule, req), 4096)
		return b
	}, llmtest.CheckOllama)
}
