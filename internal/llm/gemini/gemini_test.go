package gemini

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/llm/llmtest"
)

var whole = llmtest.Whole{
	First: "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"One \"}]}}]}\n\n",
	Rest:  "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"two.\"}]},\"finishReason\":\"STOP\"}]}\n\n",
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(o llm.Options) (llm.Model, error) {
	o.Model = "test-model"
	return New(o)
}

func TestRecords(t *testing.T) { llmtest.Records(t, open) }

func TestRules(t *testing.T) { llmtest.Rules(t, open, whole) }
