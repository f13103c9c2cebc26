package chat

import (
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/llm/anthropic"
	"github.com/stoahub/stoa/internal/llm/gemini"
	"github.com/stoahub/stoa/internal/llm/llmtest"
	"github.com/stoahub/stoa/internal/llm/ollama"
	"github.com/stoahub/stoa/internal/llm/openai"
	"github.com/stoahub/stoa/internal/secret"
)

// TestProviders has a turn with tools over the wire of each provider: an answer
// that is cut off is asked for again, one that is refused for a while waited
// for, and no tool runs twice. Every request is held to the provider's rules.
func TestProviders(t *testing.T) {
	open := map[string]func(llm.Options) (llm.Model, error){
		"gemini":    func(o llm.Options) (llm.Model, error) { return gemini.New(o) },
		"openai":    func(o llm.Options) (llm.Model, error) { return openai.New(o) },
		"anthropic": func(o llm.Options) (llm.Model, error) { return anthropic.New(o) },
		"ollama":    func(o llm.Options) (llm.Model, error) { return ollama.New(o) },
	}
	for _, api := range llmtest.APIs() {
		t.Run(api.Name, func(t *testing.T) {
			make := open[strings.ToLower(api.Name)]
			call := api.Say(llmtest.Said{Reasoning: []string{"hm"}, Text: []string{"Let ", "me see."}, Calls: []llmtest.Called{
				{ID: "call_1", Name: "srv__echo", Args: []string{`{"text"`, `:"x"}`}}, {ID: "call_2", Name: "srv__once", Args: []string{`{}`}}}, Input: 10, Output: 5})
			done := api.Say(llmtest.Said{Text: []string{"It is ", "x."}, Input: 20, Output: 4})
			fake := llmtest.NewFake(t, api, llmtest.InTurn(
				llmtest.Reply{Frames: call}, api.Refusal(503, "busy"), llmtest.Reply{Frames: done[:1], Cut: true}, llmtest.Reply{Frames: done}))
			client, end := fake.InMemory()
			t.Cleanup(end)
			m, err := make(llm.Options{APIKey: secret.New("k"), BaseURL: "http://provider.test", Model: "m", HTTP: client, RetryDelay: time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			s := newStage(t, staged{model: m})
			s.shop.add("srv__once", `{"destructiveHint":false}`, s.shop.wares["srv__wipe"].run)
			c := s.open("one")
			s.send(c, "what is it?")
			s.turns(c, 1)
			st := s.state(c)
			last := st.Messages[len(st.Messages)-1]
			if st.Last.Reason != ReasonDone || last.Text() != "It is x." {
				t.Errorf("%+v, %+v\n%s", st.Last, last, describe(s.log(c)))
			}
			if got := strings.Join(s.shop.called(), " "); got != "srv__echo srv__once" {
				t.Errorf("called %s", got)
			}
			if n := len(fake.Asked()); n != 4 {
				t.Errorf("asked %d times", n)
			}
		})
	}
}
