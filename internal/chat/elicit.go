package chat

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/suspect"
	"github.com/stoahub/stoa/internal/wire"
)

// Elicitation is what a server asks the person for whom one of its tools runs:
// to fill in a form, or to go to an address.
type Elicitation struct {
	ID       string          `json:"id"`
	Call     string          `json:"call,omitempty"`
	Tool     string          `json:"tool,omitempty"`
	Upstream string          `json:"upstream,omitempty"`
	Message  string          `json:"message,omitempty"`
	Schema   json.RawMessage `json:"requestedSchema,omitempty"` // of the form
	URL      string          `json:"url,omitempty"`             // where to go, if there is no form
	Expires  time.Time       `json:"expires,omitzero"`
}

// What a person does with an elicitation.
const (
	Accept  = "accept"
	Decline = "decline"
	Cancel  = "cancel"
)

// Reply is what became of an elicitation. What was filled in is the server's
// alone, and in no log.
type Reply struct {
	Action  string          `json:"action"`
	Content json.RawMessage `json:"content,omitempty"`
	Reason  string          `json:"reason,omitempty"` // why nobody replied
}

const (
	elicitTime  = 5 * time.Minute  // for a person to reply
	elicitAway  = 30 * time.Second // for one who can to come back
	elicitMost  = 20               // rounds of one call
	elicitBytes = 64 << 10         // of a form
)

// Announce says to a client that knows nothing of elicitations what is asked.
func (e *Elicitation) Announce() string {
	text := fmt.Sprintf("The server %s asks while %s runs: %s", e.Upstream, e.Tool, suspect.Visible(shorten(e.Message, 500)))
	if e.URL != "" {
		text += " (at " + suspect.Visible(shorten(e.URL, 500)) + ")"
	}
	return text
}

// Report says what became of it.
func (e *Elicitation) Report(r *Reply) string {
	what := map[string]string{Accept: "was answered", Decline: "was declined", Cancel: "was dismissed"}[r.Action]
	text := fmt.Sprintf("The question of the server %s %s", e.Upstream, what)
	if r.Reason != "" {
		text += ": " + r.Reason
	}
	return text + "."
}

// replies are the elicitations of a conversation that wait, and those who can
// reply to them.
type replies struct {
	mu      sync.Mutex
	waiting []*waiting
	able    int // clients that can reply
}

type waiting struct {
	Elicitation
	reply chan Reply // of one
	done  bool       // it has one, or had
}

// nobodyReplies is the reply where nobody can.
var nobodyReplies = Reply{Action: Decline, Reason: "nobody here can answer it; `stoa chat` can, and so can clients that say so when they connect"}

// CanReply says that a client is there that can reply to elicitations, until
// leave is called.
func (c *Conversation) CanReply() (leave func()) {
	r := &c.replies
	r.mu.Lock()
	r.able++
	r.mu.Unlock()
	return sync.OnceFunc(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.able--; r.able == 0 && len(r.waiting) > 0 {
			time.AfterFunc(elicitAway, r.abandon)
		}
	})
}

// abandon replies to what waits when everybody has gone.
func (r *replies) abandon() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.able > 0 {
		return
	}
	for _, w := range r.waiting {
		w.settle(Reply{Action: Cancel, Reason: "everybody who could answer it has gone"})
	}
}

// settle replies, unless somebody has. It is called with mu held.
func (w *waiting) settle(r Reply) bool {
	if w.done {
		return false
	}
	w.done = true
	w.reply <- r
	return true
}

// Elicitations are those that wait for a reply.
func (c *Conversation) Elicitations() []Elicitation {
	r := &c.replies
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []Elicitation
	for _, w := range r.waiting {
		out = append(out, w.Elicitation)
	}
	return out
}

// Reply answers an elicitation.
func (c *Conversation) Reply(id string, reply Reply) error {
	if reply.Action != Accept {
		reply.Content = nil
	}
	r := &c.replies
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.waiting {
		if w.ID == id && w.settle(reply) {
			return nil
		}
	}
	f := fault.New(fault.ResourceNotFound, id, "no question of that id waits for an answer")
	f.Hint = "It was answered already, or its time is over."
	return f
}

// ask puts an elicitation to whoever can reply. asked is called when somebody is
// asked.
func (r *replies) ask(ctx context.Context, e Elicitation, asked func(Elicitation) error) (Reply, error) {
	r.mu.Lock()
	if r.able == 0 {
		r.mu.Unlock()
		return nobodyReplies, nil
	}
	e.ID, e.Expires = "e_"+strings.ToLower(rand.Text()), time.Now().Add(elicitTime).UTC()
	w := &waiting{Elicitation: e, reply: make(chan Reply, 1)}
	r.waiting = append(r.waiting, w)
	r.mu.Unlock()
	defer r.forget(w)
	if err := asked(e); err != nil {
		return Reply{}, err
	}
	timer := time.NewTimer(elicitTime)
	defer timer.Stop()
	select {
	case reply := <-w.reply:
		return reply, nil
	case <-timer.C:
		return Reply{Action: Cancel, Reason: "nobody answered in time"}, nil
	case <-ctx.Done():
		return Reply{Action: Cancel, Reason: "the call was stopped"}, context.Cause(ctx)
	}
}

func (r *replies) forget(w *waiting) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.waiting {
		if r.waiting[i] == w {
			r.waiting = append(r.waiting[:i:i], r.waiting[i+1:]...)
			return
		}
	}
}

// rounds goes on with a call for as long as its server needs input.
func (m *making) rounds(ctx context.Context, resp mcp.Response, call func(*mcp.Request) (mcp.Response, error)) (mcp.Response, error) {
	for round := 0; resp.Error == nil && mcp.NeedsInput(resp.Result); round++ {
		if round == elicitMost {
			return resp, fault.New(fault.Limit, m.call.Name, "the server asked for input %d times during one call", elicitMost)
		}
		if len(wire.Members(wire.Get(resp.Result, "inputRequests"))) == 0 {
			return resp, nil // it needs something, and does not say what
		}
		answers, err := m.answers(ctx, resp.Result)
		if err != nil {
			return resp, err
		}
		state := bytes.Clone(wire.Get(resp.Result, "requestState"))
		resp.Release()
		if resp, err = call(m.request(answers, state)); err != nil {
			return resp, err
		}
	}
	return resp, nil
}

// answers is what a person replies to all that a server asks at once.
func (m *making) answers(ctx context.Context, result []byte) ([]byte, error) {
	var out []wire.Change
	for _, f := range wire.Members(wire.Get(result, "inputRequests")) {
		params := wire.Get(f.Value, "params")
		if method, _ := wire.String(wire.Get(f.Value, "method")); method != "elicitation/create" {
			return nil, fault.New(fault.MissingCapability, m.call.Name, "the server asks for %s, which this chat cannot give", method)
		}
		reply, err := m.elicit(ctx, params)
		if err != nil {
			return nil, err
		}
		said := wire.AppendString([]byte(`{"action":`), reply.Action)
		if reply.Action == Accept && wire.Get(params, "url") == nil {
			content := reply.Content
			if content == nil {
				content = []byte("{}")
			}
			said = append(append(said, `,"content":`...), content...)
		}
		out = append(out, wire.Change{Name: string(f.Name), Value: append(said, '}')})
	}
	return wire.Edit(nil, []byte("{}"), out...), nil
}

// elicit puts one question to the person, and lets the conversation see that.
func (m *making) elicit(ctx context.Context, params []byte) (Reply, error) {
	t := m.t
	e := Elicitation{Call: m.call.ID, Tool: m.call.Name, Upstream: m.call.Upstream}
	e.Message, _ = wire.String(wire.Get(params, "message"))
	e.URL, _ = wire.String(wire.Get(params, "url"))
	e.Schema = bytes.Clone(wire.Get(params, "requestedSchema"))
	reply, err := nobodyReplies, error(nil)
	switch {
	case len(e.Schema) > elicitBytes:
		reply.Reason = fmt.Sprintf("the form is larger than %d bytes", elicitBytes)
	case t.replies != nil:
		reply, err = t.replies.ask(ctx, e, func(asked Elicitation) error {
			e = asked
			return t.note(ctx, &Event{Type: ElicitationAsked, Elicitation: &asked})
		})
	}
	about := Elicitation{ID: e.ID, Call: e.Call, Tool: e.Tool, Upstream: e.Upstream}
	if e.ID == "" {
		about.Message, about.URL = e.Message, e.URL // nobody has seen it
	}
	told := Reply{Action: reply.Action, Reason: reply.Reason}
	if failed := t.note(ctx, &Event{Type: ElicitationAnswered, Elicitation: &about, Reply: &told}); err == nil {
		err = failed
	}
	return reply, err
}
