package openai

import (
	"flag"
	"testing"

	"go.uber.org/goleak"

	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/llm/llmtest"
	"github.com/stoahub/stoa/internal/llm/shape"
	"github.com/stoahub/stoa/internal/secret"
)

var whole = llmtest.Whole{
	Check: llmtest.CheckOpenAI,
	First: "data: {\"choices\":[{\"delta\":{\"content\":\"One \"}}]}\n\n",
	Rest:  "data: {\"choices\":[{\"delta\":{\"content\":\"two.\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
}

var _ = flag.Bool("update", false, "write the records anew") // read by llmtest

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(o llm.Options) (llm.Model, error) {
	o.Model = "test-model"
	return New(o)
}

func TestRecords(t *testing.T) { llmtest.Records(t, open, llmtest.CheckOpenAI) }

func TestRules(t *testing.T) { llmtest.Rules(t, open, whole) }

func TestHistories(t *testing.T) {
	m, err := New(llm.Options{Model: "m", APIKey: secret.New(llmtest.Key)})
	if err != nil {
		t.Fatal(err)
	}
	llmtest.Histories(t, func(req llm.Request) any {
		b, _ := m.body(req, shape.NewNames(nameRule, req))
		return b
	}, llmtest.CheckOpenAI)
}
