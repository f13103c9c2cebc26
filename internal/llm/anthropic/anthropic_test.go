package anthropic

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
	Check: llmtest.CheckAnthropic,
	First: "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"One \"}}\n\n",
	Rest: "data: {\"type\":\"content_block_stop\",\"index\":0}\n\n" +
		"data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":4}}\n\n" +
		"data: {\"type\":\"message_stop\"}\n\n",
}

var _ = flag.Bool("update", false, "write the records anew") // read by llmtest

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(o llm.Options) (llm.Model, error) {
	o.Model = "test-model"
	return New(o)
}

func TestRecords(t *testing.T) { llmtest.Records(t, open, llmtest.CheckAnthropic) }

func TestRules(t *testing.T) { llmtest.Rules(t, open, whole) }

func TestHistories(t *testing.T) {
	for name, thinking := range map[string]int{"plain": 0, "thinking": 2000} {
		m, err := New(llm.Options{Model: "m", APIKey: secret.New(llmtest.Key), Thinking: thinking})
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			llmtest.Histories(t, func(req llm.Request) any {
				b, _ := m.body(req, shape.NewNames(nameRule, req))
				return b
			}, llmtest.CheckAnthropic)
		})
	}
}
