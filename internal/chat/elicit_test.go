package chat

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/wire"
)

// asking is a face whose tool needs input before it answers: a name, then an age.
func (s *stage) asking() {
	s.shop.result("srv__ask", `{"readOnlyHint":true}`, func(req *mcp.Request) string {
		if !req.Client.Can(mcp.Elicitation) || !req.Client.Can(mcp.Addresses) {
			s.t.Error("the model's client cannot be asked")
		}
		state, _ := req.Text("requestState")
		answers := string(req.Param("inputResponses"))
		if state == "2" || strings.Contains(answers, `"decline"`) || strings.Contains(answers, `"cancel"`) {
			return fmt.Sprintf(`{"content":[{"type":"text","text":%s}]}`, wire.Quote(state+" "+answers))
		}
		next := map[string]string{"": "1", "1": "2"}[state]
		return `{"resultType":"input_required","requestState":"` + next + `","inputRequests":{"q` + next + `":{"method":"elicitation/create","params":{"message":"Who?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}}}}`
	})
}

// A server that asks for input in the middle of a call gets what a person says,
// and the call goes on.
func TestElicitation(t *testing.T) {
	s := newStage(t, staged{model: &spoken{answers: []answer{says("", `srv__ask`), says("ok")}}})
	s.asking()
	c := s.open("one")
	defer c.CanReply()()
	s.send(c, "go")
	for i, name := range []string{"ann", "ben"} {
		n := 0
		events := s.until(c, func(ev *Event) bool {
			if ev.Type == ElicitationAsked {
				n++
			}
			return n == i+1
		})
		e := events[len(events)-1].Elicitation
		if e.Message != "Who?" || e.Tool != "srv__ask" || e.Upstream != "srv" || !strings.Contains(string(e.Schema), `"name"`) || e.Expires.IsZero() {
			t.Fatalf("%+v", e)
		}
		if waits := c.Elicitations(); len(waits) != 1 || waits[0].ID != e.ID {
			t.Fatalf("%+v waits", waits)
		}
		if err := c.Reply(e.ID, Reply{Action: Accept, Content: json.RawMessage(`{"name":"` + name + `"}`)}); err != nil {
			t.Fatal(err)
		}
		if err := c.Reply(e.ID, Reply{Action: Decline}); err == nil {
			t.Error("it was answered twice")
		}
	}
	s.turns(c, 1)
	log := describe(s.log(c))
	if !strings.Contains(log, `2 {\"q2\":{\"action\":\"accept\",\"content\":{\"name\":\"ben\"}}}`) || strings.Count(log, "call.started") != 1 {
		t.Error(log)
	}
	for _, ev := range s.log(c) {
		if ev.Type == ElicitationAnswered && (ev.Reply.Action != Accept || ev.Reply.Content != nil) {
			t.Errorf("%+v", ev.Reply) // what a person filled in is not kept
		}
	}
}

// Where nobody can reply, the server is told so at once, and the person why.
func TestElicitationOfNobody(t *testing.T) {
	s := newStage(t, staged{model: &spoken{answers: []answer{says("", `srv__ask`), says("ok")}}})
	s.asking()
	c := s.open("one")
	c.CanReply()() // who has gone
	s.send(c, "go")
	s.turns(c, 1)
	var got *Event
	for _, ev := range s.log(c) {
		if ev.Type == ElicitationAsked {
			t.Error("nobody was there to be asked")
		}
		if ev.Type == ElicitationAnswered {
			got = &ev
		}
	}
	if got == nil || got.Reply.Action != Decline || got.Elicitation.Message != "Who?" || !strings.Contains(got.Elicitation.Report(got.Reply), "nobody here can answer") {
		t.Errorf("%+v\n%s", got, describe(s.log(c)))
	}
	if st := s.state(c); st.Last.Reason != ReasonDone {
		t.Errorf("%+v", st.Last)
	}
}

// One call is stopped, and the turn goes on: while it runs, while a person is
// asked whether it may, and while one is asked what its server wants to know.
func TestAbortOfOneCall(t *testing.T) {
	for _, c := range []struct {
		tool  string
		until Type
		want  string
	}{
		{"srv__wait", CallStarted, "while it ran"},
		{"srv__wipe", ApprovalAsked, "before it was made"},
		{"srv__ask", ElicitationAsked, "while it ran"},
	} {
		t.Run(c.tool, func(t *testing.T) {
			s := newStage(t, staged{model: &spoken{answers: []answer{says("", c.tool, `srv__echo {"text":"other"}`), says("went on")}}})
			s.asking()
			conv := s.open("one")
			defer conv.CanReply()()
			s.send(conv, "go")
			events := s.until(conv, func(ev *Event) bool { return ev.Type == c.until && (ev.Call == nil || ev.Call.Name == c.tool) })
			id := ""
			for _, ev := range events {
				if ev.Type == CallMade && ev.Call.Name == c.tool {
					id = ev.Call.ID
				}
			}
			for name, want := range map[string]bool{"c999": false, id: true} {
				if got, err := conv.AbortCall(name); got != want || err != nil {
					t.Fatalf("stopping call %q: %v %v", name, got, err)
				}
			}
			s.turns(conv, 1)
			log, st := describe(s.log(conv)), s.state(conv)
			if !strings.Contains(log, id+` cancelled "cancelled: the user stopped this call `+c.want) || !strings.Contains(log, `ok "other"`) || !strings.Contains(log, `"went on"`) || st.Last.Reason != ReasonDone {
				t.Errorf("%+v\n%s", st.Last, log)
			}
			if c.until == ApprovalAsked && (!strings.Contains(log, "approval.decided "+id+" aborted") || len(s.desk.Pending(s.who.Name)) != 0) {
				t.Error(log)
			}
			if ok, err := conv.AbortCall(id); ok || err != nil || len(conv.Elicitations()) != 0 {
				t.Error("something of the call is left")
			}
		})
	}
}

// result adds a tool whose whole result is given.
func (s *shop) result(name, about string, run func(*mcp.Request) string) {
	s.add(name, about, func(context.Context, *mcp.Request, json.RawMessage) (string, error) { return "", nil })
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.whole == nil {
		s.whole = map[string]func(*mcp.Request) string{}
	}
	s.whole[name] = run
}
