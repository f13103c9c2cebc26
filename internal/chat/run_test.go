package chat

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/event"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/policy"
)

// TestRun is a turn of an agent that keeps nothing: its own prompt, the tools
// that its face offers to its model, the history that comes with it, and the
// chain of the call that it comes of.
func TestRun(t *testing.T) {
	m := &spoken{answers: []answer{says("I ", `srv__echo {"text":"x"}`, "srv__fail", "srv__wipe"), says("see.")}}
	agent := Agent{Name: "news", SystemPrompt: "You read the news."}
	rules := policy.Rules{Rules: []policy.Rule{
		{Tools: []string{"srv__fail", "srv__wait"}, Action: policy.Deny}, // which are not offered then
		{Tools: []string{"srv__wipe"}, Args: map[string]policy.Cond{"sure": {Present: new(false)}}, Action: policy.Deny},
	}}
	s := newStage(t, staged{model: m, settings: Settings{Agents: []Agent{agent}}, rules: rules})
	by := actor.New(actor.Chat, s.who)
	s.shop.ran = func(req *mcp.Request) {
		if a := req.Client.Actor; !a.Equal(by.By(actor.ByModel("news"))) {
			t.Errorf("called by %+v", a.Record())
		}
	}
	var events []Event
	end, err := s.e.Run(t.Context(), Run{By: by, Agent: "News", Input: "what is new?", Chain: "stoac1.abc",
		History: []llm.Message{llm.Say(llm.User, "hi"), llm.Say(llm.Assistant, "hello")}}, func(ev Event) { events = append(events, ev) })
	if err != nil || end.Reason != ReasonDone || end.Steps != 2 || end.Usage.Output != 20 {
		t.Fatal(end, err)
	}
	var text strings.Builder
	seq := uint64(0)
	var got []string
	for _, ev := range events {
		if ev.Type == TextPart {
			text.WriteString(ev.Text)
		}
		if ev.Live {
			if ev.Seq != seq+1 {
				t.Errorf("a live piece of %d after %d", ev.Seq, seq)
			}
			continue
		}
		if seq++; ev.Seq != seq {
			t.Errorf("%d after %d", ev.Seq, seq-1)
		}
		if ev.Type == CallDone {
			got = append(got, ev.Result.Name+" "+ev.Result.Status)
		}
	}
	if text.String() != "I see." {
		t.Errorf("text: %q", text.String())
	}
	if d := cmp.Diff([]string{"srv__echo ok", "srv__fail refused", "srv__wipe denied"}, got); d != "" {
		t.Error(d)
	}
	req := m.requests()[0]
	if !strings.HasPrefix(req.System, "You read the news.") || len(req.Messages) != 3 || req.Messages[2].Text() != "what is new?" || len(req.Tools) != 2 {
		t.Errorf("%+v", req)
	}
	if meta := s.shop.metas[0]; !strings.Contains(meta, `"stoa/chain":"stoac1.abc"`) {
		t.Error(meta)
	}
	if _, err := s.e.Run(t.Context(), Run{By: by, Agent: "weather", Input: "x"}, nil); !fault.Is(err, fault.UnknownAgent) {
		t.Error(err)
	}
}

// TestRunEndsWithWhoAsks ends a run when its caller goes, and when the hub
// does.
func TestRunEndsWithWhoAsks(t *testing.T) {
	s := newStage(t, staged{model: &spoken{answers: []answer{hangs("x")}}})
	for _, reason := range []string{ReasonAborted, ReasonInterrupted} {
		ctx, cancel := context.WithCancelCause(t.Context())
		end, err := s.e.Run(ctx, Run{By: actor.New(actor.Chat, s.who), Input: "go"}, func(ev Event) {
			switch {
			case !ev.Live:
			case reason == ReasonAborted:
				cancel(errors.New("gone"))
			default:
				s.e.stop(ErrClosed)
			}
		})
		if err != nil || end.Reason != reason {
			t.Errorf("%+v, %v", end, err)
		}
		cancel(nil)
	}
}

// TestTurnsAreTold puts turns among the events of the hub.
func TestTurnsAreTold(t *testing.T) {
	bus := event.New(0)
	s := newStage(t, staged{model: &spoken{answers: []answer{says("x"), breaks("", llm.Auth)}}, options: Options{Events: bus}})
	c := s.open("one")
	for i := range 2 {
		s.send(c, "go")
		s.turns(c, i+1)
	}
	s.e.Close()
	records, _, _ := bus.After(0, 10)
	var got []string
	for _, r := range records {
		got = append(got, strings.TrimSpace(strings.Join([]string{r.Type, r.Session, r.Principal, r.Kind}, " ")))
	}
	if d := cmp.Diff([]string{"turn.started one local", "turn.ended one local done", "turn.started one local", "turn.ended one local failed"}, got); d != "" {
		t.Error(d)
	}
}
