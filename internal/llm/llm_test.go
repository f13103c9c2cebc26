package llm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func call(id string) Part {
	return Part{Call: &ToolCall{ID: id, Name: "t", Args: json.RawMessage("{}")}}
}
func result(id, s string) Part {
	return Part{Result: &ToolResult{ID: id, Name: "t", Content: s}}
}
func msg(r Role, parts ...Part) Message { return Message{r, parts} }

func TestRepair(t *testing.T) {
	lost := Part{Result: &ToolResult{ID: "b", Name: "t", Content: "cancelled", IsError: true}}
	for _, tc := range []struct {
		name     string
		in, want []Message
	}{
		{"whole", []Message{Say(User, "q"), msg(Assistant, call("a")), msg(FromTool, result("a", "1"))}, []Message{Say(User, "q"), msg(Assistant, call("a")), msg(FromTool, result("a", "1"))}},
		{"a result is missing", []Message{msg(Assistant, call("a"), call("b")), msg(FromTool, result("a", "1"))}, []Message{msg(Assistant, call("a"), call("b")), msg(FromTool, result("a", "1"), lost)}},
		{"all are missing before the next question", []Message{msg(Assistant, call("b")), Say(User, "well?")}, []Message{msg(Assistant, call("b")), msg(FromTool, lost), Say(User, "well?")}},
		{"out of order, in two messages", []Message{msg(Assistant, call("a"), call("c")), msg(FromTool, result("c", "2")), msg(FromTool, result("a", "1"))}, []Message{msg(Assistant, call("a"), call("c")), msg(FromTool, result("a", "1"), result("c", "2"))}},
		{"a result of nothing", []Message{Say(User, "q"), msg(FromTool, result("a", "1"))}, []Message{Say(User, "q")}},
		{"a result too many", []Message{msg(Assistant, call("a")), msg(FromTool, result("a", "1"), result("a", "2"))}, []Message{msg(Assistant, call("a")), msg(FromTool, result("a", "1"))}},
		{"an id used again in a later turn", []Message{msg(Assistant, call("b")), Say(User, "no"), msg(Assistant, call("b")), msg(FromTool, result("b", "2"))}, []Message{msg(Assistant, call("b")), msg(FromTool, lost), Say(User, "no"), msg(Assistant, call("b")), msg(FromTool, result("b", "2"))}},
		{"nothing said", []Message{Say(User, "q"), msg(Assistant), Say(Assistant, ""), Say(User, "?")}, []Message{Say(User, "q"), Say(User, "?")}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if d := cmp.Diff(tc.want, Repair(tc.in, "cancelled")); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

// Whatever the history, what Repair returns has each call answered once, and
// repairing it again changes nothing.
func TestRepairAlways(t *testing.T) {
	part := rapid.Custom(func(t *rapid.T) Part {
		id := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "id")
		return []Part{call(id), result(id, "r"), {Text: "t"}, {}}[rapid.IntRange(0, 3).Draw(t, "kind")]
	})
	rapid.Check(t, func(t *rapid.T) {
		var in []Message
		for range rapid.IntRange(0, 8).Draw(t, "messages") {
			role := rapid.SampledFrom([]Role{User, Assistant, FromTool}).Draw(t, "role")
			in = append(in, Message{role, rapid.SliceOfN(part, 0, 4).Draw(t, "parts")})
		}
		out := Repair(in, "gone")
		for i, m := range out {
			if len(m.Calls()) == 0 {
				continue
			}
			if m.Role != Assistant || i+1 == len(out) || out[i+1].Role != FromTool || len(out[i+1].Parts) != len(m.Calls()) {
				t.Fatalf("calls without results: %+v", out)
			}
			for j, c := range m.Calls() {
				if r := out[i+1].Parts[j].Result; r == nil || r.ID != c.ID {
					t.Fatalf("result %d is not of call %s", j, c.ID)
				}
			}
		}
		if d := cmp.Diff(out, Repair(out, "again")); d != "" {
			t.Fatalf("repaired again: %s", d)
		}
	})
}

// play is a model that says what it is given and remembers what it was asked.
type play struct {
	deltas []Delta
	err    error
	asked  *Request
}

func (p play) Stream(_ context.Context, req Request) iter.Seq2[Delta, error] {
	return func(yield func(Delta, error) bool) {
		*p.asked = req
		for _, d := range p.deltas {
			if !yield(d, nil) {
				return
			}
		}
		if p.err != nil {
			yield(Delta{}, p.err)
		}
	}
}

func TestFenced(t *testing.T) {
	var asked Request
	m := Fenced(play{asked: &asked, deltas: []Delta{
		{Kind: Text, Text: "So.\n``"}, {Kind: Text, Text: "`tool\n{\"tool\":\"fs:read\",\"arguments\":{}}"}, {Kind: Text, Text: "\n```\n```tool\n{oops\n```"},
		{Kind: Used, Usage: Usage{Input: 1, Output: 2}}, {Kind: Stopped, Stop: Done},
	}})
	a, err := Collect(m.Stream(t.Context(), Request{
		System: "Be brief.",
		Tools:  []Tool{{Name: "fs:read", Description: "Read.", Schema: json.RawMessage(`{"type":"object"}`)}},
		Messages: []Message{Say(User, "q"), {Assistant, []Part{{Call: &ToolCall{ID: "call_1", Name: "fs:read", Args: json.RawMessage(`{"p":1}`)}}}},
			{FromTool, []Part{{Result: &ToolResult{ID: "call_1", Name: "fs:read", Content: "no", IsError: true}}}}},
	}))
	if err != nil {
		t.Fatal(err)
	}
	want := Answer{Message: msg(Assistant, Part{Text: "So.\n"},
		Part{Call: &ToolCall{ID: "call_2", Name: "fs:read", Args: json.RawMessage("{}")}},
		Part{Call: &ToolCall{ID: "call_3", Args: json.RawMessage("{}"), Malformed: "\n{oops\n"}}), Usage: Usage{Input: 1, Output: 2}, Stop: Calls}
	if d := cmp.Diff(want, a); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if len(asked.Tools) != 0 || !strings.HasPrefix(asked.System, "Be brief.\n\n"+FenceRules) || !strings.Contains(asked.System, "- fs:read: Read.\n  arguments: {\"type\":\"object\"}") {
		t.Errorf("asked with %+v", asked)
	}
	wantHistory := []Message{Say(User, "q"), Say(Assistant, "\n```tool\n{\"tool\": \"fs:read\", \"arguments\": {\"p\":1}}\n```\n"), Say(User, "Error of tool fs:read:\nno\n")}
	if d := cmp.Diff(wantHistory, asked.Messages); d != "" {
		t.Errorf("history -want +got:\n%s", d)
	}
	// What the model is shown of its calls is what it has to write.
	if got := through(asked.Messages[1].Text()); got != "text \"\\n\"\ncall fs:read {\"p\":1}\n" {
		t.Errorf("its own call reads as %s", got)
	}
}

func TestFencedFails(t *testing.T) {
	var asked Request
	m := Fenced(play{asked: &asked, deltas: []Delta{{Kind: Text, Text: "Half ```tool"}}, err: &Error{Cause: Network}})
	a, err := Collect(m.Stream(t.Context(), Request{}))
	if e := (*Error)(nil); !errors.As(err, &e) || e.Cause != Network || len(a.Message.Calls()) != 0 || a.Stop != "" {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestAnswer(t *testing.T) {
	sig := &Opaque{"p", json.RawMessage(`1`)}
	var a Answer
	for _, d := range []Delta{
		{Kind: LeftOut, Tool: "x", Text: "too deep"}, {Kind: Retrying}, {Kind: Warned, Text: "w"},
		{Kind: Reason, Text: "h"}, {Kind: Reason, Text: "m"}, {Kind: ReasonEnd, Opaque: sig}, {Kind: ReasonEnd, Opaque: sig},
		{Kind: Text, Text: "a"}, {Kind: Text, Text: "b"}, {Kind: Text, Opaque: sig}, {Kind: Text, Text: "c"},
		{Kind: CallStart}, {Kind: CallStart, Index: 1}, {Kind: CallEnd, Call: ToolCall{ID: "1"}, Opaque: sig},
		{Kind: Used, Usage: Usage{Input: 3}},
	} {
		a.Add(d)
	}
	want := Answer{
		Message: msg(Assistant, Part{Reasoning: "hm", Opaque: sig}, Part{Opaque: sig}, Part{Text: "ab", Opaque: sig}, Part{Text: "c"}, Part{Call: &ToolCall{ID: "1"}, Opaque: sig}),
		Usage:   Usage{Input: 3}, LeftOut: []Missing{{"x", "too deep"}}, Warnings: []string{"w"}, Retries: 1,
	}
	if d := cmp.Diff(want, a); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	b, err := json.Marshal(a.Message)
	if err != nil {
		t.Fatal(err)
	}
	var back Message
	a.Message.Parts[4].Call.Args = json.RawMessage("null") // no arguments are none after storage too
	if err := json.Unmarshal(b, &back); err != nil || cmp.Diff(a.Message, back) != "" {
		t.Errorf("stored as %s, read as %+v: %v", b, back, err)
	}
}

func TestMeter(t *testing.T) {
	var m Meter
	req := Request{Model: "m", System: strings.Repeat("häh ", 1000)}
	if n := m.Estimate(req); n != 1000 {
		t.Errorf("at first %d", n)
	}
	m.Learn(req, Usage{Input: 1500})
	if n := m.Estimate(req); n != 1500 {
		t.Errorf("after one answer %d", n)
	}
	m.Learn(req, Usage{Input: 1000})
	if n := m.Estimate(req); n <= 1000 || n >= 1500 {
		t.Errorf("after another %d", n)
	}
	req.Model = "other"
	if n := m.Estimate(req); n != 1000 {
		t.Errorf("another model learned from the first: %d", n)
	}
	m.Learn(req, Usage{Input: 1})
	if n := m.Estimate(req); n < 250 {
		t.Errorf("a wrong count makes us blind: %d", n)
	}
	m.Learn(Request{Model: "small", System: "x"}, Usage{Input: 50})
	if n := m.EstimateText("small", "12345678"); n != 2 {
		t.Errorf("learned from a request that says nothing: %d", n)
	}
}

func TestCost(t *testing.T) {
	u := Usage{Input: 1000, Output: 500, CacheRead: 400, CacheWrite: 100}.Plus(Usage{Input: 1000, Output: 500, CacheRead: 400, CacheWrite: 100})
	for _, tc := range []struct {
		p    Price
		want string
	}{{Price{Input: 1, Output: 10}, "0.0120"}, {Price{Input: 1, Output: 10, CacheRead: 0.5, CacheWrite: 2}, "0.0118"}, {Price{}, "0.0000"}} {
		if got := fmt.Sprintf("%.4f", tc.p.Cost(u)); got != tc.want {
			t.Errorf("%+v: %s, want %s", tc.p, got, tc.want)
		}
	}
}

func TestErrorText(t *testing.T) {
	e := &Error{Cause: RateLimited, Provider: "gemini", Model: "m", Status: 429, Attempts: 4, Wait: 2 * time.Second, Detail: "slow down", Err: context.Canceled}
	want := "gemini m: the provider takes no more requests for now (HTTP 429): slow down; tried 4 times; it asks to wait 2s; wait, or use another model"
	if e.Error() != want || !errors.Is(e, context.Canceled) || !e.Retryable() {
		t.Errorf("%q", e.Error())
	}
}

func TestOptions(t *testing.T) {
	o := Options{Model: "m", SystemPrompt: "s", MaxTokens: 5}.Defaults()
	if o.MaxRetries != 3 || o.RetryDelay != time.Second || (Options{MaxRetries: -1}).Defaults().MaxRetries != 0 {
		t.Errorf("%+v", o)
	}
	got := o.Fill(Request{MaxTokens: 7})
	if got.Model != "m" || got.System != "s" || got.MaxTokens != 7 {
		t.Errorf("%+v", got)
	}
}
