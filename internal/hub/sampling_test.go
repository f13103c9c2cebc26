package hub_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/policy"
)

// samplingSpec is a server that asks for models.
func samplingSpec() peer.Spec {
	spec := interviewSpec()
	spec.Tools = append(spec.Tools, peer.Tool{Name: "assisted", Behaviour: peer.Do(peer.Assisted)},
		peer.Tool{Name: "look", Behaviour: peer.Behaviour{Kind: peer.Sample, Raw: `{"messages":[{"role":"user","content":{"type":"image","data":"AA==","mimeType":"image/png"}}],"maxTokens":9}`}},
		peer.Tool{Name: "long", Behaviour: peer.Behaviour{Kind: peer.Sample, Raw: `{"messages":[{"role":"user","content":{"type":"text","text":"echo one two three"}}],"maxTokens":9,"modelPreferences":{"hints":[{"name":"slow"}]}}`}})
	return spec
}

func byHost(s *config.Server) { s.Sampling = config.SamplingHost }

// allowSampling is a rule by which nobody has to be asked.
func allowSampling(c *config.Config) {
	c.Policy.Rules.Rules = []config.Rule{{Tools: []string{"up*:sampling"}, Action: "allow"}}
}

// approver answers what people are asked.
type approver struct {
	*hubtest.Hub
	next uint64
}

// newApprover makes somebody be there.
func newApprover(t *testing.T, h *hubtest.Hub) *approver {
	t.Helper()
	a := &approver{Hub: h}
	a.page(t, "")
	return a
}

func (a *approver) page(t *testing.T, after string) []policy.Approval {
	t.Helper()
	status, b := a.Get("/api/v1/approvals?wait=20s" + after)
	if status != 200 {
		t.Fatalf("approvals: %d %s", status, b)
	}
	page := hubtest.Decode[struct {
		Approvals []policy.Approval
		Next      uint64
	}](b)
	a.next = page.Next
	return page.Approvals
}

// await returns the approval that is asked for next.
func (a *approver) await(t *testing.T) policy.Approval {
	t.Helper()
	for {
		if all := a.page(t, fmt.Sprintf("&after=%d", a.next)); len(all) > 0 {
			return all[0]
		}
	}
}

func (a *approver) decide(t *testing.T, id, body string) {
	t.Helper()
	apiClient{t, a.Hub, a.Token}.ok(http.MethodPost, "/api/v1/approvals/"+id, body)
}

// A client that knows no sampling calls tools that ask for a model, which the
// hub answers; its own answers to the rest still reach the server.
func TestHostAnswersSampling(t *testing.T) {
	hubtest.Parallel(t)
	for _, mixed := range []bool{false, true} {
		o := worldOptions{client: hubtest.ClientOptions{Capabilities: `{"elicitation":{}}`}, server: byHost, mixed: mixed, edits: []hubtest.Edit{hubtest.Config(allowSampling)}}
		t.Run(fmt.Sprintf("mixed %v", mixed), func(t *testing.T) {
			oneHub(t, samplingSpec(), o, func(t *testing.T, w *world) {
				for tool, want := range map[string][]string{
					"sample":   {`"model":"script"`, "You said: | Say hello", `"stopReason":"endTurn"`},
					"survey":   {compact(elicited)[:20], "You said: | Say hello"},
					"assisted": {`"type":"tool_use"`, `"stopReason":"toolUse"`, `add answered:\n| 3`},
				} {
					m, asked, err := converse(w.client, w.name("up", tool), `{"message":"Wer?"}`)
					if err != nil {
						t.Fatalf("%s: %v", tool, err)
					}
					for _, s := range want {
						if !strings.Contains(m.Text(), s) {
							t.Errorf("%s: %s lacks %s", tool, m.Raw, s)
						}
					}
					for _, q := range asked {
						if strings.HasPrefix(q, "sampling") {
							t.Errorf("%s: the client was asked %s", tool, q)
						}
					}
				}
				if m, _, err := converse(w.client, w.name("up", "look"), ""); err != nil || !strings.Contains(string(m.Raw), "text only") {
					t.Errorf("an image: %s, %v", m.Raw, err)
				}
			})
		})
	}
}

// A person sees the whole request under the Session of the call, and decides.
func TestPeopleDecideAboutSampling(t *testing.T) {
	hubtest.Parallel(t)
	const edit = `{"decision":"edit","args":{"messages":[{"role":"user","content":{"type":"text","text":"echo edited"}}],"maxTokens":9}}`
	for _, era := range []hubtest.Era{hubtest.Legacy, hubtest.Modern} {
		for _, transport := range []string{"stdio", "sse"} {
			c := cell{era, transport, true}
			t.Run(c.String(), func(t *testing.T) {
				w := newWorld(t, c, samplingSpec(), worldOptions{server: byHost, client: hubtest.ClientOptions{Header: map[string][]string{"Stoa-Session": {"desk-1"}}}})
				if m := w.call("sample", ""); !strings.Contains(string(m.Raw), "nobody is there to be asked") || era == hubtest.Legacy && !strings.Contains(m.Text(), `"code":-1`) {
					t.Errorf("nobody there: %s", m.Raw)
				}
				a := newApprover(t, w.Hub)
				for _, tc := range []struct{ decision, want string }{
					{`{"decision":"approve"}`, "You said: | Say hello"},
					{edit, `"text":"edited"`},
					{`{"decision":"deny","reason":"too dear"}`, "User rejected sampling request: local does not want it: too dear"},
					{`{"decision":"approve","remember":"server"}`, "You said: | Say hello"},
				} {
					x := w.client.Go("tools/call", hubtest.ToolParams("up__sample", ""))
					asked := a.await(t)
					var args struct {
						Messages  []json.RawMessage
						MaxTokens int
					}
					if json.Unmarshal(asked.Args, &args) != nil || len(args.Messages) != 1 || args.MaxTokens != 16 ||
						asked.Kind != "sampling" || asked.Session != "desk-1" || asked.Upstream != "up" || asked.Client == "" {
						t.Fatalf("asked %+v", asked)
					}
					a.decide(t, asked.ID, tc.decision)
					if m, err := read(x); err != nil || !strings.Contains(string(m.Raw), tc.want) && !strings.Contains(m.Text(), tc.want) {
						t.Errorf("%s: %s, %v", tc.decision, m.Raw, err)
					}
				}
				if m := w.call("sample", ""); !strings.Contains(m.Text(), "You said") {
					t.Errorf("remembered: %s", m.Raw)
				}
			})
		}
	}
}

// With sampling off nobody is asked, whatever the client knows.
func TestSamplingOffForAServer(t *testing.T) {
	hubtest.Parallel(t)
	o := worldOptions{client: hubtest.ClientOptions{Capabilities: askable}, server: func(s *config.Server) { s.Sampling = config.SamplingOff }}
	oneHub(t, samplingSpec(), o, func(t *testing.T, w *world) {
		m, asked, err := converse(w.client, w.name("up", "sample"), "")
		if err != nil || !strings.Contains(string(m.Raw), "sampling") || strings.Contains(string(m.Raw), "assistant") || len(asked) > 0 {
			t.Errorf("got %s, %v, asked %q", m.Raw, err, asked)
		}
		if m, _, err := converse(w.client, w.name("up", "elicit"), ""); err != nil || m.Text() != elicited {
			t.Errorf("elicit: %s, %v", m.Raw, err)
		}
	})
}

// A client that goes away ends the approval that its call waits for, and a
// reload changes who answers.
func TestSamplingEndsAndChanges(t *testing.T) {
	hubtest.Parallel(t)
	for _, era := range []hubtest.Era{hubtest.Legacy, hubtest.Modern} {
		t.Run(string(era), func(t *testing.T) {
			w := newWorld(t, cell{era, "sse", true}, samplingSpec(), worldOptions{server: byHost, client: hubtest.ClientOptions{Capabilities: askable}})
			a := newApprover(t, w.Hub)
			x := w.client.Go("tools/call", hubtest.ToolParams("up__sample", ""))
			if asked := a.await(t); asked.Upstream != "up" {
				t.Fatalf("asked %+v", asked)
			}
			if era == hubtest.Legacy {
				w.client.Notify("notifications/cancelled", `{"requestId":`+x.ID+`}`)
			}
			x.Close()
			await.Until(t, "nothing waits any more", func() bool {
				_, b := w.Get("/api/v1/approvals")
				return strings.Contains(string(b), `"approvals":[]`)
			})
			if changes, err := w.Reload(setupOf(w.Hub, hubtest.HTTP("up", w.http.URL))); err != nil || len(changes) != 1 {
				t.Fatal(changes, err)
			}
			if m, _, err := converse(w.client, "up__sample", ""); err != nil || m.Text() != sampled {
				t.Errorf("by the client: %s, %v", m.Raw, err)
			}
		})
	}
}

// Servers get the model that the config names for them, or one that they would
// like; the end of a call ends its answer, which the hub would else be waited
// for.
func TestModelsOfServers(t *testing.T) {
	hubtest.Parallel(t)
	slow := config.DefaultModel()
	slow.Name, slow.Provider, slow.Model, slow.Pace = "slow", config.Script, "tortoise", time.Hour
	quick := config.DefaultModel()
	quick.Name, quick.Provider, quick.Model = "quick", config.Script, "hare"
	models := hubtest.Config(func(c *config.Config) {
		allowSampling(c)
		c.Models.Named = []config.Model{quick, slow}
	})
	for _, era := range []hubtest.Era{hubtest.Legacy, hubtest.Modern} {
		t.Run(string(era), func(t *testing.T) {
			queued := func(s *config.Server) {
				s.Sampling, s.Queue = config.SamplingHost, &config.Queue{Concurrency: 4, Capacity: 4, Timeout: time.Minute}
			}
			w := newWorld(t, cell{era, "stdio", true}, samplingSpec(), worldOptions{server: queued, edits: []hubtest.Edit{models}})
			if m := w.call("sample", ""); !strings.Contains(m.Text(), `"model":"hare"`) {
				t.Errorf("the default: %s", m.Raw)
			}
			x := w.client.Go("tools/call", hubtest.ToolParams("up__long", ""))
			await.Until(t, "the call runs", func() bool { return status(t, w.Hub, "up").Running > 0 })
			w.client.Notify("notifications/cancelled", `{"requestId":`+x.ID+`}`)
			x.Close()
			await.Until(t, "the call has ended", func() bool { return status(t, w.Hub, "up").Running == 0 })
			named := func(s *config.Server) { s.Sampling, s.SamplingModel = config.SamplingHost, "quick" }
			w = newWorld(t, cell{era, "stdio", true}, samplingSpec(), worldOptions{server: named, edits: []hubtest.Edit{models}})
			if m := w.call("long", ""); !strings.Contains(m.Text(), `"model":"hare"`) || !strings.Contains(m.Text(), "one two three") {
				t.Errorf("the configured: %s", m.Raw)
			}
		})
	}
}

// A call that has become a task of the hub has its model too, and its client is
// asked for the rest.
func TestTasksAreSampledFor(t *testing.T) {
	hubtest.Parallel(t)
	for _, mixed := range []bool{false, true} {
		t.Run(fmt.Sprintf("mixed %v", mixed), func(t *testing.T) {
			w := newWorld(t, cell{hubtest.Modern, "stdio", true}, taskSpec(), worldOptions{mixed: mixed,
				client: hubtest.ClientOptions{Capabilities: `{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`},
				server: func(s *config.Server) { s.Task, s.Sampling = config.TaskAlways, config.SamplingHost },
				edits:  []hubtest.Edit{hubtest.Config(allowSampling)}})
			made := w.begin(t, "survey", "")
			asks := until(t, w.client, made.TaskID, "input_required")
			if len(asks.InputRequests) != 1 {
				t.Fatalf("asked %+v", asks)
			}
			for name, q := range asks.InputRequests {
				if q.Method != "elicitation/create" {
					t.Errorf("asked %+v", asks)
				}
				w.update(t, made.TaskID, `{`+hubtest.Quote(name)+`:`+elicited+`}`)
			}
			if done := until(t, w.client, made.TaskID, "completed"); !strings.Contains(string(done.Result), "You said: | Say hello") {
				t.Errorf("%s", done.Result)
			}
		})
	}
}

// A server that makes tasks itself is told of models only if its client could
// answer for the tasks.
func TestServersWithTasksOfTheirOwn(t *testing.T) {
	hubtest.Parallel(t)
	spec := peer.Spec{Tools: []peer.Tool{{Name: "sample", Behaviour: peer.Do(peer.Sample), Task: peer.TaskOptional}}}
	for caps, status := range map[string]string{`{"extensions":{"io.modelcontextprotocol/tasks":{}}}`: "failed", tasksCapability: "input_required", `{}`: ""} {
		w := newWorld(t, cell{hubtest.Modern, "stdio", true}, spec, worldOptions{client: hubtest.ClientOptions{Capabilities: caps}, server: byHost, edits: []hubtest.Edit{hubtest.Config(allowSampling)}})
		if status == "" {
			if m := w.call("sample", ""); !strings.Contains(m.Text(), "You said: | Say hello") {
				t.Errorf("a client without tasks: %s", m.Raw)
			}
			continue
		}
		got := until(t, w.client, w.begin(t, "sample", "").TaskID, status)
		if status == "failed" && !strings.Contains(string(got.Error), "needs the client capability sampling") || status == "input_required" && got.InputRequests["sample"].Method != "sampling/createMessage" {
			t.Errorf("%s: %+v", caps, got)
		}
	}
}

// Who talks with the hub's model by a socket sees what the servers that it
// calls want of a model, and decides there.
func TestChatDecidesAboutSampling(t *testing.T) {
	hubtest.Parallel(t)
	for _, era := range []hubtest.Era{hubtest.Legacy, hubtest.Modern} {
		t.Run(string(era), func(t *testing.T) {
			w := newWorld(t, cell{era, "stdio", true}, samplingSpec(), worldOptions{server: byHost, edits: []hubtest.Edit{hubtest.Config(func(c *config.Config) {
				c.Policy.Rules.Rules = []config.Rule{{Tools: []string{"up__*"}, Action: "allow"}} // tools, not models
			})}})
			await.Until(t, "the tools are there", func() bool { return strings.Contains(string(w.client.Call("tools/list", "{}").Raw), "up__sample") })
			ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
			defer cancel()
			conn, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(w.URL, "http")+"/ws?sessionId=talk", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + w.Token}}})
			if err != nil {
				t.Fatal(err)
			}
			defer conn.CloseNow()
			say := func(frame string) {
				if err := conn.Write(ctx, websocket.MessageText, []byte(frame)); err != nil {
					t.Fatal(err)
				}
			}
			say(`{"type":"message","payload":{"text":"call up__sample {}"}}`)
			var seen []string
			for decided := false; ; {
				_, b, err := conn.Read(ctx)
				if err != nil {
					t.Fatalf("%v after\n%s", err, strings.Join(seen, "\n"))
				}
				seen = append(seen, string(b))
				f := hubtest.Decode[struct {
					Type    string
					Payload struct{ Approval policy.Approval }
				}](b)
				if f.Type == "approval.asked" {
					if a := f.Payload.Approval; a.Kind != "sampling" || a.Upstream != "up" || a.Session != "talk" || !strings.Contains(string(a.Args), "Say hello") {
						t.Errorf("asked %s", b)
					}
					say(`{"type":"approve","payload":{"id":` + hubtest.Quote(f.Payload.Approval.ID) + `,"decision":"approve"}}`)
					decided = true
				}
				if f.Type == "turn.ended" {
					if all := strings.Join(seen, "\n"); !decided || !strings.Contains(all, "You said: | Say hello") {
						t.Errorf("decided %v:\n%s", decided, all)
					}
					return
				}
			}
		})
	}
}
