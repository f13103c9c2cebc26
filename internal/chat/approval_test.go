package chat

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/policy"
)

func TestApprovals(t *testing.T) {
	call := says("", `srv__wipe {"path":"/a"}`)
	nobody := policy.Decision{Reason: policy.ReasonNobody}
	for _, c := range []struct {
		name   string
		decide *policy.Decision // nil: nobody is there
		want   []string
		calls  int
	}{
		{"approved", &policy.Decision{Approve: true}, []string{
			`approval.asked {"path":"/a"}`, `approval.decided approved`, `call.started srv__wipe {"path":"/a"}`, `call.done ok "wiped {\"path\":\"/a\"}"`}, 1},
		{"edited", &policy.Decision{Approve: true, Args: json.RawMessage(`{"path":"/b"}`)}, []string{
			`approval.asked {"path":"/a"}`, `approval.decided approved`, `call.started srv__wipe {"path":"/b"}`,
			`call.done ok "(The user changed the arguments to {\"path\":\"/b\"} before the call.)\nwiped {\"path\":\"/b\"}"`}, 1},
		{"denied", &policy.Decision{Reason: "not today"}, []string{
			`approval.asked {"path":"/a"}`, `approval.decided denied`, `call.done denied "srv__wipe was not called: local does not want it: not today."`}, 0},
		{"nobody is there", nil, []string{`approval.decided nobody`, fmt.Sprintf("call.done denied %q", "srv__wipe was not called: "+nobody.Tell()+".")}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t, staged{model: &spoken{answers: []answer{call, says("ok")}}, quiet: c.decide == nil})
			conv := s.open("one")
			s.send(conv, "go")
			if c.decide != nil {
				events := s.until(conv, func(ev *Event) bool { return ev.Type == ApprovalAsked })
				a := events[len(events)-1].Approval
				st := s.state(conv)
				if p := st.Pending(); len(p) != 1 || p[0].ID != a.ID || string(p[0].Args) != `{"path":"/a"}` || p[0].Ref != "srv:wipe" || st.Turn.Calls[0].Status != CallIsAsked {
					t.Fatalf("pending: %+v in %+v", p, st.Turn)
				}
				if err := s.desk.Decide(s.who, a.ID, *c.decide); err != nil {
					t.Fatal(err)
				}
			}
			s.turns(conv, 1)
			var got []string
			for _, ev := range s.log(conv) {
				if strings.HasPrefix(string(ev.Type), "approval") || ev.Type == CallStarted || ev.Type == CallDone {
					got = append(got, line(ev))
				}
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
			st := s.state(conv)
			if n := len(s.shop.called()); n != c.calls || st.Last.Reason != ReasonDone {
				t.Errorf("%d calls, %+v", n, st.Last)
			}
		})
	}
}

// TestDecisionsAreRemembered asks once for what is allowed for the Session.
func TestDecisionsAreRemembered(t *testing.T) {
	s := newStage(t, staged{model: &spoken{answers: []answer{says("", `srv__wipe {"n":1}`), says("", `srv__wipe {"n":2}`), says("ok")}}})
	c := s.open("one")
	s.send(c, "go")
	events := s.until(c, func(ev *Event) bool { return ev.Type == ApprovalAsked })
	if err := s.desk.Decide(s.who, events[len(events)-1].Approval.ID, policy.Decision{Approve: true, Remember: policy.ForSession}); err != nil {
		t.Fatal(err)
	}
	s.turns(c, 1)
	var got []string
	for _, ev := range s.log(c) {
		if ev.Type == ApprovalAsked || ev.Type == ApprovalDecided {
			got = append(got, fmt.Sprint(ev.Type, " ", outcome(ev.Decision)))
		}
	}
	if d := cmp.Diff([]string{"approval.asked ", "approval.decided approved", "approval.decided remembered"}, got); d != "" {
		t.Error(d)
	}
}

func outcome(d *policy.Decision) string {
	if d == nil {
		return ""
	}
	return d.Outcome()
}
