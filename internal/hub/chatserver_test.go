package hub_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/ailumina"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/llm/llmtest"
)

// What two servers say of themselves reaches the model, each by its name.
func TestChatTellsInstructions(t *testing.T) {
	hubtest.Parallel(t)
	var mu sync.Mutex
	var body string
	answer := func(_ int, a llmtest.Asked) llmtest.Reply {
		mu.Lock()
		defer mu.Unlock()
		body = string(a.Body)
		return llmtest.OpenAI.Answer(llmtest.Said{Text: []string{"ok"}})
	}
	h := hubtest.New(t, faked(t, make(chan time.Time, 64), answer),
		hubtest.Stdio("one", peer.Spec{Instructions: "Paths begin with /one.", Tools: []peer.Tool{{Name: "echo"}}}),
		hubtest.Stdio("two", peer.Spec{Instructions: "Ask before noon.", Era: peer.EraLegacy, Tools: []peer.Tool{{Name: "echo"}}}))
	client := h.Client(t, hubtest.ClientOptions{})
	await.Until(t, "the servers are there", func() bool { return offers(client, "one__echo") && offers(client, "two__echo") })
	if got := dial(t, h, "/ws").say("hello"); got != "ok" {
		t.Fatalf("it says %q", got)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, want := range []string{`<server name=\"one\">\nPaths begin with /one.\n</server>`, `<server name=\"two\">\nAsk before noon.\n</server>`} {
		if !strings.Contains(strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(body), want) {
			t.Errorf("%s is not in %s", want, body)
		}
	}
}

// A server of either era that asks a person in the middle of a call is answered
// in the chat, in as many rounds as it needs; also after the call was approved,
// once.
func TestChatElicitation(t *testing.T) {
	hubtest.Parallel(t)
	for _, era := range []peer.Era{peer.EraLegacy, peer.EraModern} {
		t.Run(string(era), func(t *testing.T) {
			h := hubtest.New(t, hubtest.Stdio("up", peer.Spec{Era: era, Tools: []peer.Tool{
				{Name: "multi", Behaviour: peer.Behaviour{Kind: peer.Multi, N: 2}}, {Name: "visit", Behaviour: peer.Do(peer.Visit)}}}))
			client := h.Client(t, hubtest.ClientOptions{})
			await.Until(t, "the server is there", func() bool { return offers(client, "up__multi") })
			c := dial(t, h, "/ws?can=elicitation")
			c.next()
			type asked struct {
				Payload struct {
					Elicitation struct {
						ID, Message, URL string
						RequestedSchema  json.RawMessage
					}
				}
			}
			ask := func(text, reply string) (questions []asked, answer string, approvals int) {
				c.send(`{"type":"message","payload":{"text":` + quoted(text) + `}}`)
				for {
					switch f := c.next(); f.Type {
					case "text":
						answer += f.Payload.Content
					case "approval.asked":
						approvals++
						c.send(`{"type":"approve","payload":{"id":` + quoted(idIn(f.raw)) + `,"decision":"approve"}}`)
					case "elicitation.asked":
						q := hubtest.Decode[asked]([]byte(f.raw))
						questions = append(questions, q)
						c.send(`{"type":"reply","payload":{"id":` + quoted(q.Payload.Elicitation.ID) + `,` + reply + `}}`)
					case "error":
						t.Fatalf("an error: %s", f.raw)
					case "turn.ended":
						return questions, answer, approvals
					}
				}
			}
			questions, answer, approvals := ask("call up__multi {}", `"action":"accept","content":{"name":"Zoë"}`)
			if len(questions) != 2 || approvals != 1 || strings.Count(answer, "Zoë") != 2 {
				t.Fatalf("%d questions, %d approvals, %q", len(questions), approvals, answer)
			}
			if e := questions[0].Payload.Elicitation; e.Message != "What is your name?" || !strings.Contains(string(e.RequestedSchema), `"name"`) {
				t.Errorf("asked %+v", e)
			}
			questions, answer, _ = ask("call up__visit {}", `"action":"decline"`)
			if len(questions) != 1 || questions[0].Payload.Elicitation.URL == "" || !strings.Contains(answer, "decline") {
				t.Errorf("%+v, %q", questions, answer)
			}
		})
	}
}

// A client that cannot answer is told what was asked, and that it was declined.
func TestChatElicitationOfSimpleClients(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, hubtest.Stdio("up", peer.Spec{Tools: []peer.Tool{{Name: "ask", Behaviour: peer.Do(peer.Elicit)}}}), allowAll())
	client := h.Client(t, hubtest.ClientOptions{})
	await.Until(t, "the server is there", func() bool { return offers(client, "up__ask") })
	c := dial(t, h, "/ws")
	c.next()
	c.send(`{"type":"message","payload":{"text":"call up__ask {}"}}`)
	told := ""
	for {
		f := c.next()
		if f.Type == "approval.asked" {
			c.send(`{"type":"approve","payload":{"id":` + quoted(idIn(f.raw)) + `,"decision":"approve"}}`)
		}
		if f.Type == "status" && strings.Contains(f.Payload.Message, "The server up asks") {
			told = f.Payload.Message
		}
		if f.Type == "turn.ended" {
			break
		}
	}
	if !strings.Contains(told, "What is your name?") || !strings.Contains(told, "was declined: nobody here can answer it") {
		t.Errorf("told %q", told)
	}
	// Nor does an agent wait for somebody, and who asked it is told so.
	u, err := ailumina.ParseURL(h.URL)
	if err != nil {
		t.Fatal(err)
	}
	agent, err := ailumina.Dial(t.Context(), ailumina.Endpoint(u, "AIlumina"), ailumina.Options{Retries: -1, Timeout: await.Patience})
	if err != nil {
		t.Fatal(err)
	}
	defer agent.Close()
	notice := ""
	text, err := agent.Chat(t.Context(), ailumina.Question{Input: "call up__ask {}"}, func(e ailumina.Event) {
		if e.Notice {
			notice = e.Text
		}
	})
	if err != nil || !strings.Contains(text, `"decline"`) || !strings.Contains(notice, "What is your name?") || !strings.Contains(notice, "was declined") {
		t.Errorf("%q, %v after %q", text, err, notice)
	}
}
