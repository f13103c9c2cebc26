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

func TestWasCut(t *testing.T) {
	for _, tc := range []struct {
		read, estimate, size int
		want                 bool
	}{
		{7000, 7900, 8192, false},
		{4098, 8000, 8192, true},  // half of the context: the prompt was longer than all of it
		{4098, 4200, 8192, false}, // it just is that long
		{2051, 15750, 16384, true},
		{300, 900, 8192, false}, // too short to tell
		{0, 5000, 8192, false},  // not told
	} {
		if got := wasCut(tc.read, tc.estimate, tc.size); got != tc.want {
			t.Errorf("%+v: %t", tc, got)
		}
	}
}
