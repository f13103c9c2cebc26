package chat

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/mcp"
)

// TestSystemPrompt is put together of the base, the rules and what servers say,
// and asks them again only when what they offer changes.
func TestSystemPrompt(t *testing.T) {
	m := &spoken{answers: []answer{says("ok")}}
	s := newStage(t, staged{model: m, settings: Settings{SystemPrompt: "Be kind."}})
	s.shop.add("own__look", `{"readOnlyHint":true}`, nil)
	s.shop.add("odd__look", `{"readOnlyHint":true}`, nil)
	s.shop.add("gone__look", `{"readOnlyHint":true}`, nil)
	s.shop.prompts = map[string]string{
		"own__tool-descriptions":  `{"messages":[{"role":"user","content":{"type":"text","text":"Look first."}}]}`,
		"odd__tool-descriptions":  `{"messages":[{"role":"assistant","content":{"type":"text","text":"I am odd."}}]}`,
		"gone__tool-descriptions": ``,
		"own__else":               `{"messages":[]}`,
	}
	c := s.open("one")
	turn := 0
	ask := func() string {
		turn++
		s.send(c, "hello")
		s.turns(c, turn)
		reqs := m.requests()
		return reqs[len(reqs)-1].System
	}
	got := ask()
	for _, want := range []string{
		"Be kind.\n\n" + rules, "Guidance for Server srv:\nAvailable tools: srv__*\n",
		"Guidance for Server own, in its own words:\n<server name=\"own\">\nLook first.\n</server>", "Guidance for Server odd:\nAvailable tools: odd__*\n", "Guidance for Server gone:\nAvailable tools: gone__*",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if strings.Contains(got, "I am odd") || strings.Contains(got, "Server own:") || strings.Contains(got, "The tool srv__echo") { // that is in its definition
		t.Error(got)
	}
	asked := s.shop.gets
	if again := ask(); again != got || s.shop.gets != asked {
		t.Errorf("asked %d times, then %d", asked, s.shop.gets)
	}
	s.shop.mu.Lock()
	s.shop.prompts["own__tool-descriptions"] = `{"messages":[{"role":"user","content":{"type":"text","text":"Look twice."}}]}`
	s.shop.mu.Unlock()
	if again := ask(); again != got {
		t.Errorf("it was asked again, though nothing changed:\n%s", again)
	}
	s.shop.add("own__more", `{"readOnlyHint":true}`, nil)
	if again := ask(); !strings.Contains(again, "Look twice.") || strings.Contains(again, "Look first.") {
		t.Errorf("it was not asked again:\n%s", again)
	}
}

// TestWhatIsTold tells once of tools that are left out, and in each turn of
// servers that are not there.
func TestWhatIsTold(t *testing.T) {
	warns := func(_ context.Context, _ llm.Request, say func(llm.Delta) bool) error {
		_ = say(llm.Delta{Kind: llm.LeftOut, Tool: "srv__echo", Text: "its schema"}) && say(llm.Delta{Kind: llm.Warned, Text: "slow"}) &&
			say(llm.Delta{Kind: llm.Retrying, Attempt: 1, Wait: 2e9, Text: "busy"}) && say(llm.Delta{Kind: llm.Text, Text: "a"}) && say(llm.Delta{Kind: llm.Stopped, Stop: llm.CutOff})
		return nil
	}
	s := newStage(t, staged{model: &spoken{answers: []answer{warns}}})
	s.shop.stale = []string{"far"}
	c := s.open("one")
	for i := range 2 {
		s.send(c, "hello")
		s.turns(c, i+1)
	}
	log := describe(s.log(c))
	for text, n := range map[string]int{`note left_out srv__echo "its schema"`: 1, `note warning  "slow"`: 1, `note degraded far "The server far is not connected: its tools may fail`: 2, `note cut_off`: 2, `retry {Attempt:1 WaitMS:2000 Reason:busy Discard:false}`: 2} {
		if got := strings.Count(log, text); got != n {
			t.Errorf("%q: %d times", text, got)
		}
	}
	if t.Failed() {
		t.Log(log)
	}
}

// TestProgress is told while a call runs, and not kept.
func TestProgress(t *testing.T) {
	s := newStage(t, staged{model: &spoken{answers: []answer{says("", "srv__slow"), says("ok")}}})
	release := make(chan struct{})
	s.shop.add("srv__slow", `{"readOnlyHint":true}`, func(_ context.Context, req *mcp.Request, _ json.RawMessage) (string, error) {
		if a := req.Client.Actor; string(req.Token) != `"c4"` || !a.Equal(actor.New(actor.Chat, s.who).By(actor.ByModel(""))) {
			t.Errorf("token %s, on behalf of %+v", req.Token, a.Record())
		}
		req.Stream.Notify(mcp.NoteProgress, []byte(`{"progressToken":"c4","progress":1,"total":2,"message":"half"}`))
		<-release
		return "ok", nil
	})
	c := s.open("one")
	s.send(c, "go")
	events := s.until(c, func(ev *Event) bool { return ev.Type == CallProgress })
	if got := *events[len(events)-1].Progress; got != (Progress{Call: "c4", Name: "srv__slow", Progress: 1, Total: 2, Message: "half"}) {
		t.Errorf("%+v", got)
	}
	close(release)
	s.turns(c, 1)
	for _, ev := range s.log(c) {
		if ev.Type == CallProgress {
			t.Error("it is in the log")
		}
	}
}
