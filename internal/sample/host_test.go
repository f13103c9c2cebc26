package sample

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/call"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/llm/openai"
	"github.com/stoahub/stoa/internal/llm/script"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/policy"
	"github.com/stoahub/stoa/internal/secret"
)

func scripted(t *testing.T, name, text string, pace time.Duration) Model {
	t.Helper()
	m, err := script.New(script.Options{Script: text, Pace: pace})
	if err != nil {
		t.Fatal(err)
	}
	return Model{Model: m, Name: name, Says: name + "-1"}
}

// ann is on whose behalf servers work.
var ann = &auth.Principal{Name: "ann", Scopes: auth.Scopes{"*"}, Rights: auth.Rights{auth.RightApprove}}

// stage is a host that asks a door with those rules, whose people are asked at
// desk.
func stage(t *testing.T, rules policy.Rules, models ...Model) (*Host, *policy.Desk) {
	t.Helper()
	desk, err := policy.OpenDesk(t.Context(), nil, policy.DeskOptions{Linger: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(desk.Close)
	door := call.New(call.Options{Desk: desk, Rules: policy.Compile(rules, nil)})
	return New(Options{Models: func() []Model { return models }, Allow: door.Sampling}), desk
}

func says(text string, extra string) Request {
	return Request{Server: "up", Client: &mcp.Client{Actor: actor.New(actor.HTTP, ann)}, Session: "s1", Call: "tool",
		Params: []byte(`{"messages":[{"role":"user","content":{"type":"text","text":"` + text + `"}}],"maxTokens":50` + extra + `}`)}
}

var allow = policy.Rules{Rules: []policy.Rule{{Tools: []string{"up:sampling"}, Action: policy.Allow}}}

func TestAnswers(t *testing.T) {
	fast := scripted(t, "fast", "", 0)
	slow := scripted(t, "slow", "", 0)
	keyless := scripted(t, "keyless-slow", "", 0)
	keyless.Unready = true
	h, _ := stage(t, allow, fast, keyless, slow)
	for name, tc := range map[string]struct {
		r    Request
		want string
	}{
		"text":             {says("echo hello", ""), `{"content":{"text":"hello","type":"text"},"model":"fast-1","role":"assistant","stopReason":"endTurn"}`},
		"a stop sequence":  {says("echo one two END three", `,"stopSequences":["three","END"]`), `{"content":{"text":"one two ","type":"text"},"model":"fast-1","role":"assistant","stopReason":"stopSequence"}`},
		"over two pieces":  {says("echo one two three", `,"stopSequences":["wo thr"]`), `{"content":{"text":"one t","type":"text"},"model":"fast-1","role":"assistant","stopReason":"stopSequence"}`},
		"a hint":           {says("echo x", `,"modelPreferences":{"hints":[{"name":"gpt"},{},{"name":"SLOW"}]}`), `{"content":{"text":"x","type":"text"},"model":"slow-1","role":"assistant","stopReason":"endTurn"}`},
		"a hint in vain":   {says("echo x", `,"modelPreferences":{"hints":[{"name":"gpt"}]}`), `{"content":{"text":"x","type":"text"},"model":"fast-1","role":"assistant","stopReason":"endTurn"}`},
		"use of a tool":    {says(`call add {\"a\":1}`, `,"tools":[{"name":"add"}]`), `{"content":[{"id":"ID","input":{"a":1},"name":"add","type":"tool_use"}],"model":"fast-1","role":"assistant","stopReason":"toolUse"}`},
		"no tools, no use": {says(`call add {\"a\":1}`, ""), "add"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := h.Answer(t.Context(), tc.r)
			var said struct{ Content []struct{ ID string } }
			if json.Unmarshal(out, &said) == nil && len(said.Content) > 0 {
				out = []byte(strings.Replace(string(out), said.Content[0].ID, "ID", 1))
			}
			if err != nil || (string(out) != tc.want && !(tc.want[0] != '{' && strings.Contains(string(out), tc.want))) {
				t.Errorf("got %s, %v\nwant %s", out, err, tc.want)
			}
		})
	}
	named := says("echo x", `,"modelPreferences":{"hints":[{"name":"fast"}]}`)
	named.Model = "slow"
	if out, err := h.Answer(t.Context(), named); err != nil || !strings.Contains(string(out), "slow-1") {
		t.Errorf("the configured model: %s, %v", out, err)
	}
	named.Model = "gone"
	if out, err := h.Answer(t.Context(), named); !fault.Is(err, fault.Unreachable) {
		t.Errorf("a model that is not there: %s, %v", out, err)
	}
}

// A use of a tool goes back to the server and comes again with its result.
func TestToolUseRoundTrip(t *testing.T) {
	h, _ := stage(t, allow, scripted(t, "m", "", 0))
	first := says(`call add {\"a\":1,\"b\":2}`, `,"tools":[{"name":"add"}]`)
	out, err := h.Answer(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	var said struct {
		Content json.RawMessage
	}
	var uses []struct{ ID string }
	if err := errors.Join(json.Unmarshal(out, &said), json.Unmarshal(said.Content, &uses)); err != nil || len(uses) != 1 {
		t.Fatalf("%s: %v", out, err)
	}
	again := strings.Replace(string(first.Params), `}],"maxTokens"`, `},{"role":"assistant","content":`+string(said.Content)+`},
		{"role":"user","content":[{"type":"tool_result","toolUseId":"`+uses[0].ID+`","content":[{"type":"text","text":"3"}]}]}],"maxTokens"`, 1)
	second := first
	second.Params = []byte(again)
	if out, err := h.Answer(t.Context(), second); err != nil || !strings.Contains(string(out), `add answered:\n| 3`) || !strings.Contains(string(out), "endTurn") {
		t.Errorf("got %s, %v", out, err)
	}
}

func TestPeopleDecide(t *testing.T) {
	edit := json.RawMessage(`{"messages":[{"role":"user","content":{"type":"text","text":"echo edited"}}],"maxTokens":5}`)
	for name, tc := range map[string]struct {
		decide policy.Decision
		want   string // of the answer, or of the rejection
	}{
		"yes":    {policy.Decision{Approve: true}, "hello"},
		"edited": {policy.Decision{Approve: true, Args: edit}, "edited"},
		"no":     {policy.Decision{Reason: "too dear"}, "User rejected sampling request: ann does not want it: too dear"},
		"broken": {policy.Decision{Approve: true, Args: json.RawMessage(`{"messages":[]}`)}, "no messages"},
	} {
		t.Run(name, func(t *testing.T) {
			h, desk := stage(t, policy.Rules{Default: policy.Allow}, scripted(t, "m", "", 0)) // which is said of tools
			defer desk.Attend("ann", "s1")()
			_, changed := desk.Changed()
			type answer struct {
				out []byte
				err error
			}
			done := make(chan answer, 1)
			r := says("echo hello", "")
			go func() {
				out, err := h.Answer(t.Context(), r)
				done <- answer{out, err}
			}()
			<-changed
			waits := desk.Pending("ann")
			if len(waits) != 1 || waits[0].Kind != policy.KindSampling || waits[0].Session != "s1" || waits[0].Ref != "up:sampling" || string(waits[0].Args) != string(r.Params) {
				t.Fatalf("what waits: %+v", waits)
			}
			if err := desk.Decide(ann, waits[0].ID, tc.decide); err != nil {
				t.Fatal(err)
			}
			a := <-done
			switch {
			case name == "no":
				if !fault.Is(a.err, fault.Denied) || fault.Of(a.err).Msg != tc.want {
					t.Errorf("got %s, %v", a.out, a.err)
				}
			case name == "broken":
				if a.err == nil || !strings.Contains(a.err.Error(), tc.want) {
					t.Errorf("got %s, %v", a.out, a.err)
				}
			case a.err != nil || !strings.Contains(string(a.out), `"text":"`+tc.want+`"`):
				t.Errorf("got %s, %v", a.out, a.err)
			}
		})
	}
}

func TestRulesDecide(t *testing.T) {
	rule := func(glob string, a policy.Action) policy.Rules {
		return policy.Rules{Rules: []policy.Rule{{Tools: []string{glob}, Action: a, Reason: "so it is"}}}
	}
	for name, tc := range map[string]struct {
		rules policy.Rules
		want  string // of the error; empty if it is allowed
	}{
		"nothing said, nobody there": {policy.Rules{}, "nobody is there"},
		"a default for tools":        {policy.Rules{Default: policy.Allow}, "nobody is there"},
		"a default that denies":      {policy.Rules{Default: policy.Deny}, "does not allow"},
		"allowed by name":            {rule("up:sampling", policy.Allow), ""},
		"allowed by server":          {rule("up", policy.Allow), ""},
		"another server":             {rule("down", policy.Allow), "nobody is there"},
		"tools of the server":        {rule("up__*", policy.Allow), "nobody is there"},
		"denied":                     {rule("*:sampling", policy.Deny), "so it is"},
	} {
		h, _ := stage(t, tc.rules, scripted(t, "m", "", 0))
		out, err := h.Answer(t.Context(), says("echo hello", ""))
		if tc.want == "" && (err != nil || !strings.Contains(string(out), "hello")) || tc.want != "" && (!fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %s, %v", name, out, err)
		}
	}
}

func TestBounds(t *testing.T) {
	h, _ := stage(t, allow, scripted(t, "m", "", 50*time.Millisecond))
	h.o.MaxBytes, h.o.Timeout = 200, 10*time.Millisecond
	if _, err := h.Answer(t.Context(), says("echo "+strings.Repeat("x", 300), "")); !fault.Is(err, fault.Limit) {
		t.Errorf("a large request: %v", err)
	}
	if _, err := h.Answer(t.Context(), says("echo a b c", "")); !fault.Is(err, fault.Unreachable) || !strings.Contains(err.Error(), "timeout") {
		t.Errorf("a slow model: %v", err)
	}
	if _, err := New(Options{Models: func() []Model { return nil }}).Answer(t.Context(), says("x", "")); !fault.Is(err, fault.Unreachable) {
		t.Errorf("no model: %v", err)
	}
}

// The end of a call ends the stream of its model, and an approval that waits.
func TestEndsWithTheCall(t *testing.T) {
	h, desk := stage(t, allow, scripted(t, "m", "", time.Hour))
	gone := errors.New("the client went away")
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := h.Answer(ctx, says("echo hello", ""))
		done <- err
	}()
	cancel(gone)
	if err := <-done; !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
	defer desk.Attend("ann", "")()
	asking := New(Options{Models: h.o.Models, Allow: call.New(call.Options{Desk: desk}).Sampling})
	ctx, cancel = context.WithCancelCause(t.Context())
	_, changed := desk.Changed()
	go func() {
		_, err := asking.Answer(ctx, says("echo hello", ""))
		done <- err
	}()
	<-changed
	cancel(gone)
	if err := <-done; !errors.Is(err, gone) || len(desk.Pending("ann")) != 0 {
		t.Errorf("got %v, and %v waits", err, desk.Pending("ann"))
	}
}

// What reaches a provider, and what its words for the end of an answer become.
// Its own words for a failure are not for servers.
func TestProvider(t *testing.T) {
	var sent string
	status, body := 200, "data: {\"choices\":[{\"delta\":{\"content\":\"cut\"},\"finish_reason\":\"length\"}]}\n\ndata: [DONE]\n\n"
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		sent = string(b)
		if status == 200 {
			w.Header().Set("Content-Type", "text/event-stream")
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
	}))
	defer web.Close()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	m, err := openai.New(llm.Options{APIKey: secret.New("k"), BaseURL: web.URL, Model: "gpt", MaxRetries: -1, SystemPrompt: "of the chat", HTTP: client})
	if err != nil {
		t.Fatal(err)
	}
	h, _ := stage(t, allow, Model{Model: m, Name: "m"})
	out, err := h.Answer(t.Context(), says("hello", `,"temperature":0.25`))
	if err != nil || string(out) != `{"content":{"text":"cut","type":"text"},"model":"m","role":"assistant","stopReason":"maxTokens"}` {
		t.Errorf("got %s, %v", out, err)
	}
	for _, want := range []string{`"temperature":0.25`, "50", "hello"} {
		if !strings.Contains(sent, want) {
			t.Errorf("%s is not in %s", want, sent)
		}
	}
	if strings.Contains(sent, "of the chat") {
		t.Errorf("a server is told what chats are told: %s", sent)
	}
	status, body = 401, `{"error":{"message":"Incorrect API key provided: k-account-7"}}`
	if _, err := h.Answer(t.Context(), says("hello", "")); !fault.Is(err, fault.Unreachable) || fault.Of(err).Msg != "the hub's model gave no answer (auth)" {
		t.Errorf("got %v", err)
	}
}
