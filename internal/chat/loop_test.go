package chat

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/policy"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
)

func TestATurnWithTools(t *testing.T) {
	for name, st := range map[string]*store.Store{"memory": nil, "store": storetest.Open(t, store.Options{})} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, staged{store: st, script: "-- a --\nLet me look.\n```tool\n{\"tool\":\"srv__echo\",\"arguments\":{\"text\":\"hi\"}}\n```\n-- b --\nIt says hi.\n"})
			c := s.open("one")
			s.send(c, "what does it say?")
			s.turns(c, 1)
			got := describe(s.log(c))
			want := strings.Join([]string{
				`1 input i1 "what does it say?"`, `2 turn.started`, `3 context`, `4 text "Let me look.\n"`, `5 call c5 srv__echo {"text":"hi"}`, `6 answer calls`,
				`7 call.started c5 srv__echo {"text":"hi"}`, `8 call.done c5 ok "hi"`, `9 context`, `10 text "It says hi.\n"`, `11 answer done`, `12 turn.ended done`, ``}, "\n")
			if got != want {
				t.Fatal(cmp.Diff(want, got))
			}
			var roles []string
			for _, m := range s.state(c).Messages {
				roles = append(roles, string(m.Role))
			}
			if got := strings.Join(roles, " "); got != "user assistant tool assistant" {
				t.Fatalf("roles: %s", got)
			}
		})
	}
}

// TestLoop is the table of what becomes of a turn. Events of context, input and
// start are left out.
func TestLoop(t *testing.T) {
	same := says("", `srv__echo {"text":"x"}`)
	for _, c := range []struct {
		name    string
		answers []answer
		set     Settings
		rule    policy.Rule // the one by which the face decides
		want    []string
		calls   string // of tools
		text    string // of the end, a part
	}{
		{name: "an unknown tool", answers: []answer{says("", "srv__ecko"), says("sorry")}, want: []string{
			`call srv__ecko {}`, `answer calls`, `call.done refused "There is no tool \"srv__ecko\". Did you mean srv__echo?"`, `text "sorry"`, `answer done`, `turn.ended done`}},
		{name: "a tool by its ref", answers: []answer{says("", `srv:echo {"text":"a"}`), says("ok")}, calls: "srv__echo", want: []string{
			`call srv:echo {"text":"a"}`, `answer calls`, `call.started srv__echo {"text":"a"}`, `call.done ok "a"`, `text "ok"`, `answer done`, `turn.ended done`}},
		{name: "a call that cannot be read", answers: []answer{malformed("srv__echo", "{oops"), malformed("", "{oops"), says("ok")}, want: []string{
			`call srv__echo {}`, `answer calls`, `call.done refused "The arguments of srv__echo could not be read: they have to be one JSON object."`,
			`call  {}`, `answer calls`, `call.done refused "The call could not be read. Write one JSON object with the name of a tool and its arguments, closed properly. Tools are: srv__echo, srv__fail, srv__wipe, srv__wait, srv__clock."`,
			`text "ok"`, `answer done`, `turn.ended done`}},
		{name: "a tool that cannot be reached", answers: []answer{says("", "srv__fail"), says("too bad")}, calls: "srv__fail", want: []string{
			`call srv__fail {}`, `answer calls`, `call.started srv__fail {}`, "call.done failed \"srv: nobody is there. See `stoa servers` for its state and last error output.\"", `text "too bad"`, `answer done`, `turn.ended done`}},
		{name: "the same call over and over", answers: []answer{same}, calls: "srv__echo srv__echo srv__echo srv__echo", text: "same call 5 times", want: []string{
			`call srv__echo {"text":"x"}`, `answer calls`, `call.started srv__echo {"text":"x"}`, `call.done ok "x"`,
			`call srv__echo {"text":"x"}`, `answer calls`, `call.started srv__echo {"text":"x"}`, `call.done ok "x"`,
			`call srv__echo {"text":"x"}`, `answer calls`, `call.started srv__echo {"text":"x"}`, `call.done ok "x\n\nYou have now made this same call 3 times in a row, and the same came of it each time. Do something else, or tell the user what you have."`,
			`call srv__echo {"text":"x"}`, `answer calls`, `call.started srv__echo {"text":"x"}`, `call.done ok "x"`,
			`call srv__echo {"text":"x"}`, `answer calls`, `call.done cancelled "not called: the turn ended before"`, `turn.ended loop`}},
		{name: "too many steps", answers: []answer{says("", `srv__echo {"text":"1"}`), says("", "srv__fail"), says("", `srv__echo {"text":"2"}`)}, set: Settings{MaxSteps: 2}, calls: "srv__echo srv__fail",
			text: "I encountered an error when using the srv__fail tool: srv: nobody is there.", want: []string{
				`call srv__echo {"text":"1"}`, `answer calls`, `call.started srv__echo {"text":"1"}`, `call.done ok "1"`,
				`call srv__fail {}`, `answer calls`, `call.started srv__fail {}`, "call.done failed \"srv: nobody is there. See `stoa servers` for its state and last error output.\"", `turn.ended steps`}},
		{name: "a model that gives no answer", answers: []answer{breaks("", llm.Overloaded)}, text: "the provider is overloaded or out of order", want: []string{`turn.ended failed overloaded`}},
		{name: "an answer that breaks off", answers: []answer{breaks("I wi", llm.Network), says("I will", `srv__echo {"text":"1"}`), breaks("He", llm.Network), says("Here")}, calls: "srv__echo", want: []string{
			`text "I wi"`, `retry 2`, `text "ll"`, `call srv__echo {"text":"1"}`, `answer calls`, `call.started srv__echo {"text":"1"}`, `call.done ok "1"`,
			`text "He"`, `retry 2`, `text "re"`, `answer done`, `turn.ended done`}},
		{name: "one that begins in other words", answers: []answer{breaks("I will", llm.Network), breaks("I wish", llm.Network), says("I wi")}, want: []string{
			`text "I will"`, `retry 2`, `retry 2 discard`, `text "I wish"`, `retry 3`, `retry 3 discard`, `text "I wi"`, `answer done`, `turn.ended done`}},
		{name: "one that calls a tool this time", answers: []answer{breaks("I will", llm.Network), says("", `srv__echo {"text":"1"}`), says("ok")}, calls: "srv__echo", want: []string{
			`text "I will"`, `retry 2`, `retry 2 discard`, `call srv__echo {"text":"1"}`, `answer calls`, `call.started srv__echo {"text":"1"}`, `call.done ok "1"`, `text "ok"`, `answer done`, `turn.ended done`}},
		{name: "one that breaks off for good", answers: []answer{breaks("I wi", llm.Network)}, text: "tried 4 times", want: []string{
			`text "I wi"`, `retry 2`, `retry 3`, `retry 4`, `turn.ended failed network`}},
		{name: "as often as is wanted", answers: []answer{breaks("I wi", llm.Network)}, set: Settings{RetryAttempts: 1}, text: "tried 2 times", want: []string{
			`text "I wi"`, `retry 2`, `turn.ended failed network`}},
		{name: "and not at all", answers: []answer{breaks("I wi", llm.Network)}, set: Settings{RetryAttempts: -1}, text: "broke off", want: []string{
			`text "I wi"`, `turn.ended failed network`}},
		{name: "a call whose results differ", answers: append(slices.Repeat([]answer{says("", `srv__clock`)}, 8), says("done")), calls: strings.TrimSpace(strings.Repeat("srv__clock ", 8)),
			want: append(ticks(8), `text "done"`, `answer done`, `turn.ended done`)},
		{name: "a rule that denies", answers: []answer{says("", `srv__echo {"text":"x"}`), says("ok")}, rule: policy.Rule{Tools: []string{"srv"}, Args: map[string]policy.Cond{"text": {Is: json.RawMessage(`"x"`)}}, Action: policy.Deny, Reason: "nobody may"}, want: []string{
			`call srv__echo {"text":"x"}`, `answer calls`, `call.done denied "srv__echo was not called: the policy does not allow this call: nobody may."`, `text "ok"`, `answer done`, `turn.ended done`}},
		{name: "a tool that is not offered", answers: []answer{says("", "srv__echo"), says("ok")}, rule: policy.Rule{Tools: []string{"srv:[^f]*"}, Action: policy.Deny}, want: []string{
			`call srv__echo {}`, `answer calls`, `call.done refused "There is no tool \"srv__echo\". Did you mean srv__fail?"`, `text "ok"`, `answer done`, `turn.ended done`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var rules policy.Rules
			if c.rule.Action != "" {
				rules.Rules = []policy.Rule{c.rule}
			}
			s := newStage(t, staged{model: &spoken{answers: c.answers}, settings: c.set, rules: rules})
			n := 0
			s.shop.add("srv__clock", `{"destructiveHint":false}`, func(context.Context, *mcp.Request, json.RawMessage) (string, error) {
				n++
				return strconv.Itoa(n), nil
			})
			conv := s.open("one")
			s.send(conv, "go")
			s.turns(conv, 1)
			var got []string
			for _, ev := range s.log(conv) {
				if ev.Type != InputAdded && ev.Type != TurnStarted && ev.Type != ContextUsed {
					got = append(got, line(ev))
				}
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
			if got := strings.Join(s.shop.called(), " "); got != c.calls {
				t.Errorf("called %q, not %q", got, c.calls)
			}
			if end := s.state(conv).Last; !strings.Contains(end.Text, c.text) {
				t.Errorf("the user is told %q", end.Text)
			}
		})
	}
}

// ticks is what a call tells that says something new each time.
func ticks(n int) (out []string) {
	for i := range n {
		out = append(out, `call srv__clock {}`, `answer calls`, `call.started srv__clock {}`, fmt.Sprintf("call.done ok \"%d\"", i+1))
	}
	return out
}

func malformed(name, text string) answer {
	return func(_ context.Context, _ llm.Request, say func(llm.Delta) bool) error {
		_ = say(llm.Delta{Kind: llm.CallEnd, Call: llm.ToolCall{ID: "call_0", Name: name, Args: json.RawMessage("{}"), Malformed: text}}) && say(llm.Delta{Kind: llm.Stopped, Stop: llm.Calls})
		return nil
	}
}

// line is describe for one event, without what counts.
func line(ev Event) string {
	text := strings.TrimSpace(describe([]Event{ev}))
	fields := strings.SplitN(text, " ", 4)
	switch {
	case ev.Retry != nil && ev.Retry.Discard:
		return fmt.Sprintf("retry %d discard", ev.Retry.Attempt)
	case ev.Retry != nil:
		return fmt.Sprintf("retry %d", ev.Retry.Attempt)
	case ev.Call != nil || ev.Result != nil || ev.Decision != nil || ev.Approval != nil:
		return fields[1] + " " + fields[3]
	}
	return strings.TrimSpace(strings.Join(fields[1:], " "))
}

// TestCallsAtOnce wants calls that change nothing to run beside each other, up
// to a bound, the others one by one, and results in the order of the calls.
func TestCallsAtOnce(t *testing.T) {
	m := &spoken{answers: []answer{says("", `srv__meet {"n":1}`, `srv__meet {"n":2}`, `srv__meet {"n":3}`, `srv__meet {"n":4}`, `srv__meet {"n":5}`, `srv__alone {"n":1}`, `srv__alone {"n":2}`, `srv__meet {"n":6}`), says("ok")}}
	s := newStage(t, staged{model: m, settings: Settings{Parallel: 3}})
	came, leave := make(chan string), make(chan bool)
	s.shop.add("srv__meet", `{"idempotentHint":true,"destructiveHint":false}`, func(ctx context.Context, _ *mcp.Request, args json.RawMessage) (string, error) {
		came <- string(args)
		<-leave
		return string(args), nil
	})
	s.shop.add("srv__alone", `{"destructiveHint":false}`, func(context.Context, *mcp.Request, json.RawMessage) (string, error) {
		came <- "alone"
		<-leave
		return "alone", nil
	})
	c := s.open("one")
	s.send(c, "go")
	for range 3 { // three at once; a fourth would come before the first may go on
		<-came
	}
	if n := len(s.shop.called()); n != 3 {
		t.Fatalf("%d calls run", n)
	}
	leave <- true
	<-came // the fourth
	leave <- true
	<-came // the fifth
	for range 3 {
		leave <- true
	}
	for range 2 {
		<-came
		if got := s.shop.called(); got[len(got)-1] != "srv__alone" {
			t.Fatalf("%v", got)
		}
		leave <- true
	}
	<-came
	leave <- true
	s.turns(c, 1)
	var got []string
	for _, m := range s.state(c).Messages {
		for _, p := range m.Parts {
			if p.Result != nil {
				got = append(got, p.Result.Content)
			}
		}
	}
	if d := cmp.Diff([]string{`{"n":1}`, `{"n":2}`, `{"n":3}`, `{"n":4}`, `{"n":5}`, "alone", "alone", `{"n":6}`}, got); d != "" {
		t.Error(d)
	}
}
