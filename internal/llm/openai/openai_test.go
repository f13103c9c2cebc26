package openai

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/llm/llmtest"
)

var whole = llmtest.Whole{
	First: "data: {\"choices\":[{\"delta\":{\"content\":\"One \"}}]}\n\n",
	Rest:  "data: {\"choices\":[{\"delta\":{\"content\":\"two.\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(o llm.Options) (llm.Model, error) {
	o.Model = "test-model"
	return New(o)
}

func TestRecords(t *testing.T) { llmtest.Records(t, open) }

func TestRules(t *testing.T) { llmtest.Rules(t, open, whole) }
