package hub_test

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

const askable = `{"elicitation":{},"sampling":{},"roots":{"listChanged":true}}`

func interviewSpec() peer.Spec {
	var spec peer.Spec
	for _, k := range []peer.Kind{peer.Elicit, peer.Sample, peer.Roots, peer.Multi, peer.Survey, peer.Echo, peer.Client} {
		spec.Tools = append(spec.Tools, peer.Tool{Name: string(k), Behaviour: peer.Do(k)})
	}
	return spec
}

// odd answers: what the client says must reach the server as it is.
const (
	elicited = `{"action":"accept","content":{ "name":"Zoë \u0041","n":9223372036854775807 },"x":1.0}`
	sampled  = `{"role":"assistant","content":{"type":"text","text":"hi\u0021"},"model":"m","stopReason":"endTurn","v":1e2}`
	rooted   = `{"roots":[{"uri":"file:///a","name":"a"}]}`
)

var answers = map[string]string{"elicitation/create": elicited, "sampling/createMessage": sampled, "roots/list": rooted}

// converse makes a call and answers what the server asks, in the way of the
// client's era. It returns the response and the questions.
func converse(c *hubtest.Client, tool, args string) (hubtest.Message, []string, error) {
	var asked []string
	if c.Era == hubtest.Legacy {
		x := c.Go("tools/call", hubtest.ToolParams(tool, args))
		for {
			m, err := x.Read()
			if err != nil || m.IsResponse() {
				x.Close()
				return m, asked, err
			}
			if m.ID != nil {
				asked = append(asked, m.Method+" "+string(m.Params))
				c.Answer(m, "result", answers[m.Method])
			}
		}
	}
	params := hubtest.ToolParams(tool, args)
	for extra := ""; ; {
		m, err := read(c.Go("tools/call", strings.TrimSuffix(params, "}")+extra+"}"))
		r := hubtest.Decode[struct {
			ResultType    string
			RequestState  json.RawMessage
			InputRequests map[string]struct {
				Method string
				Params json.RawMessage
			}
		}](m.Result)
		if err != nil || r.ResultType != "input_required" {
			return m, asked, err
		}
		var responses []string
		for key, q := range r.InputRequests {
			asked = append(asked, q.Method+" "+string(q.Params))
			responses = append(responses, hubtest.Quote(key)+":"+answers[q.Method])
		}
		extra = `,"inputResponses":{` + strings.Join(responses, ",") + `},"requestState":` + string(r.RequestState)
	}
}

func read(x *hubtest.Exchange) (hubtest.Message, error) {
	defer x.Close()
	for {
		m, err := x.Read()
		if err != nil || m.IsResponse() {
			return m, err
		}
	}
}

func TestServersAskClientsOfTheirEra(t *testing.T) {
	hubtest.Parallel(t)
	oneHub(t, interviewSpec(), worldOptions{client: hubtest.ClientOptions{Capabilities: askable}}, interview)
}

// interview calls the tools that ask, and expects the server to be told what
// the client answered.
func interview(t *testing.T, w *world) {
	for tool, want := range map[string]string{
		"elicit": elicited, "sample": sampled,
		"multi": "[" + elicited + "," + elicited + "," + elicited + "]", "survey": "[" + elicited + "," + sampled + "]",
	} {
		m, asked, err := converse(w.client, w.name("up", tool), `{"message":"Wer? \u00e9"}`)
		if err != nil {
			t.Fatalf("%s: %v", tool, err)
		}
		if got, want := compact(m.Text()), compact(want); got != want {
			t.Errorf("%s:\n got %s\nwant %s\nasked %q", tool, m.Raw, want, asked)
		}
		for _, q := range asked {
			if strings.HasPrefix(q, "elicitation") && !strings.Contains(q, `"message":"Wer? é"`) {
				t.Errorf("%s: asked %s", tool, q)
			}
		}
	}
}

// compact lets texts be compared that the peer has put together itself.
func compact(s string) string {
	var v json.RawMessage
	if json.Unmarshal([]byte(s), &v) != nil {
		return s
	}
	b, err := json.Marshal(v)
	if err != nil {
		return s
	}
	return string(b)
}

// A modern question passes unchanged, with its state: whoever answers it may
// be another instance.
func TestModernStatePassesUnchanged(t *testing.T) {
	hubtest.Parallel(t)
	for _, transport := range []string{"stdio", "sse"} {
		t.Run(transport, func(t *testing.T) {
			o := worldOptions{client: hubtest.ClientOptions{Capabilities: askable}}
			w := newWorld(t, cell{hubtest.Modern, transport, true}, interviewSpec(), o)
			m := w.call("elicit", `{"message":"a"}`)
			r := hubtest.Decode[struct{ RequestState string }](m.Result)
			w.crash(t) // the state is all that is left
			again := hubtest.ToolParams("up__elicit", `{"message":"a"}`)
			m = w.client.Call("tools/call", strings.TrimSuffix(again, "}")+`,"inputResponses":{"elicit":`+elicited+`},"requestState":`+hubtest.Quote(r.RequestState)+"}")
			if m.Text() != elicited {
				t.Errorf("got %s", m.Raw)
			}
		})
	}
}

func TestRootsOfUnsharedServer(t *testing.T) {
	hubtest.Parallel(t)
	for _, transport := range []string{"stdio", "sse"} {
		for _, merged := range []bool{true, false} {
			c := cell{hubtest.Legacy, transport, merged}
			t.Run(c.String(), func(t *testing.T) {
				o := worldOptions{client: hubtest.ClientOptions{Capabilities: askable}, server: func(s *config.Server) { s.Sharing = config.PerSession }}
				w := newWorld(t, c, interviewSpec(), o)
				if m, _, err := converse(w.client, w.name("up", "roots"), ""); err != nil || m.Text() != rooted {
					t.Errorf("got %s, %v", m.Raw, err)
				}
				bare := w.Hub.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy, Face: w.face("up")})
				if m := bare.Tool(w.name("up", "roots"), ""); !strings.Contains(m.Text(), "does not support roots") {
					t.Errorf("a client without roots: %s", m.Raw)
				}
				before := status(t, w.Hub, "up").Connections
				bare.End()
				await.Until(t, "the client's own connection is closed", func() bool {
					return status(t, w.Hub, "up").Connections < before
				})
			})
		}
	}
}

// On a shared connection roots are not declared, and nobody's are told.
func TestSharedServerGetsNoRoots(t *testing.T) {
	hubtest.Parallel(t)
	w := newWorld(t, cell{hubtest.Legacy, "stdio", true}, interviewSpec(), worldOptions{client: hubtest.ClientOptions{Capabilities: askable}})
	if m := w.call("roots", ""); !strings.Contains(m.Text(), "does not support roots") {
		t.Errorf("got %s", m.Raw)
	}
}

// A question that belongs to no client that could answer is refused and seen.
func TestUnattributableQuestionIsRefused(t *testing.T) {
	hubtest.Parallel(t)
	for _, transport := range []string{"stdio", "sse"} {
		t.Run(transport, func(t *testing.T) {
			w := newWorld(t, cell{hubtest.Legacy, transport, true}, interviewSpec(), worldOptions{})
			if m := w.call("elicit", ""); !strings.Contains(m.Text(), "missing_capability") {
				t.Errorf("a client that cannot be asked: %s", m.Raw)
			}
			if s := status(t, w.Hub, "up"); !hasHealth(s, "unattributed") {
				t.Errorf("health: %+v", s.Health)
			}
		})
	}
}

// Two clients with calls in flight on one shared server never get each
// other's questions: they get their own, or none.
func TestQuestionsNeverGoToAnotherClient(t *testing.T) {
	hubtest.Parallel(t)
	for _, transport := range []string{"stdio", "sse"} {
		t.Run(transport, func(t *testing.T) {
			o := worldOptions{client: hubtest.ClientOptions{Capabilities: askable}}
			w := newWorld(t, cell{hubtest.Legacy, transport, true}, interviewSpec(), o)
			errs := make([]error, 4)
			answered := make([]int, 4)
			var wg sync.WaitGroup
			for i := range errs {
				c := w.Hub.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy, Capabilities: askable})
				wg.Go(func() { answered[i], errs[i] = askOften(c, fmt.Sprintf("client %d", i), soak(25, 250)) })
			}
			wg.Wait()
			for i, err := range errs {
				if err != nil {
					t.Errorf("client %d: %v", i, err)
				}
				if transport == "sse" && answered[i] != soak(25, 250) {
					t.Errorf("client %d: %d questions were answered", i, answered[i])
				}
			}
		})
	}
}

func askOften(c *hubtest.Client, name string, n int) (answered int, err error) {
	for range n {
		m, asked, err := converse(c, "up__elicit", `{"message":`+hubtest.Quote(name)+`}`)
		if err != nil && err != io.EOF {
			return answered, err
		}
		for _, q := range asked {
			if !strings.Contains(q, hubtest.Quote(name)) {
				return answered, fmt.Errorf("was asked %s", q)
			}
		}
		switch {
		case m.Text() == elicited:
			answered++
		case !strings.Contains(m.Text(), "missing_capability"):
			return answered, fmt.Errorf("got %s", m.Raw)
		}
	}
	return answered, nil
}

// Nor does a question of a call that nobody can answer go to somebody who could
// have answered one of their own.
func TestQuestionOfWhoCannotAnswerGoesToNobody(t *testing.T) {
	hubtest.Parallel(t)
	spec := interviewSpec()
	spec.Era = peer.EraLegacy
	spec.Tools = append(spec.Tools, peer.Tool{Name: "slow", Behaviour: peer.Behaviour{Kind: peer.Slow, For: time.Hour}})
	h := hubtest.New(t, hubtest.Stdio("up", spec, hubtest.Within("slow", time.Hour)))
	waitTools(t, h)
	alice, bob := tokenFor(t, h, "alice", "*"), tokenFor(t, h, "bob", "*")
	c := h.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy, Capabilities: askable, Token: bob.token})
	x := c.Go("tools/call", hubtest.ToolParams("up__slow", ""))
	await.Until(t, "bob's call runs", func() bool { return status(t, h, "up").Running == 1 })
	asked := make(chan string, 1)
	go func() {
		defer close(asked)
		if m, err := x.Read(); err == nil {
			asked <- string(m.Raw)
			c.Answer(m, "result", elicited) // or alice would wait
		}
	}()
	if _, e := alice.tool("up__elicit", `{"message":"the question of alice"}`); !strings.Contains(string(e.Error)+string(e.Data), "missing_capability") {
		t.Errorf("alice's call: %s %s", e.Error, e.Data)
	}
	x.Close()
	for q := range asked {
		t.Errorf("bob was told %s", q)
	}
}

// A legacy client on a pipe is asked there.
func TestPipeClientIsAsked(t *testing.T) {
	hubtest.Parallel(t)
	for _, transport := range []string{"stdio", "sse"} {
		t.Run(transport, func(t *testing.T) {
			w := newWorld(t, cell{hubtest.Legacy, transport, true}, interviewSpec(), worldOptions{})
			p := w.Pipe(t)
			p.Initialize(askable)
			p.Send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + hubtest.ToolParams("up__survey", "") + `}`)
			for {
				m := p.Next()
				if m.IsResponse() {
					if m.Text() != "["+elicited+","+sampled+"]" && compact(m.Text()) != compact("["+elicited+","+sampled+"]") {
						t.Errorf("got %s", m.Raw)
					}
					break
				}
				if len(m.ID) == 0 { // a notification: a list has changed meanwhile
					continue
				}
				p.Send(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":` + answers[m.Method] + `}`)
			}
		})
	}
}

// The client's refusal reaches the server, and its going away ends the wait.
func TestClientRefusesOrLeavesDuringQuestion(t *testing.T) {
	hubtest.Parallel(t)
	for _, transport := range []string{"stdio", "sse"} {
		t.Run(transport, func(t *testing.T) {
			o := worldOptions{client: hubtest.ClientOptions{Capabilities: askable, Version: "2025-06-18"}}
			w := newWorld(t, cell{hubtest.Legacy, transport, true}, interviewSpec(), o)
			x := w.client.Go("tools/call", hubtest.ToolParams("up__elicit", ""))
			w.client.Answer(x.Await("elicitation/create"), "error", `{"code":-1,"message":"no \u0041"}`)
			if m := x.Response(); m.Text() != `{"code":-1,"message":"no \u0041"}` {
				t.Errorf("after a refusal: %s", m.Raw)
			}
			x = w.client.Go("tools/call", hubtest.ToolParams("up__elicit", ""))
			x.Await("elicitation/create")
			x.Close()
			await.Until(t, "the call is over", func() bool { return status(t, w.Hub, "up").Running == 0 })
		})
	}
}
