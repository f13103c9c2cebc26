package matrix

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest"
)

// Capabilities are what every client of the matrix declares.
const Capabilities = `{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}`

// Raw is the make of our own clients of an era at a hub, http://host:port.
// They write and read the bytes themselves.
func Raw(base string, era hubtest.Era) Make {
	return Make{Name: string(era), Connect: func(t testing.TB, face string) Client {
		o := hubtest.ClientOptions{Era: era, Face: face, Capabilities: Capabilities}
		return &raw{Client: hubtest.Dial(t, base, o), heard: map[string]int{}}
	}}
}

type raw struct {
	*hubtest.Client
	level string
	last  Outcome

	mu    sync.Mutex
	heard map[string]int // by method
	once  sync.Once      // opens the stream of a legacy client
}

func (c *raw) Era() hubtest.Era { return c.Client.Era }

func (c *raw) meta() []hubtest.Meta {
	m := []hubtest.Meta{`"progressToken":"p"`}
	if c.level != "" && c.Era() == hubtest.Modern {
		m = append(m, hubtest.Meta(`"io.modelcontextprotocol/logLevel":`+hubtest.Quote(c.level)))
	}
	return m
}

func (c *raw) Call(t testing.TB, tool, args string) Outcome {
	t.Helper()
	c.last = Outcome{}
	o := &c.last
	params := hubtest.ToolParams(tool, args)
	for extra := ""; ; {
		x := c.Go("tools/call", strings.TrimSuffix(params, "}")+extra+"}", c.meta()...)
		m := c.follow(t, x, o)
		x.Close()
		r := hubtest.Decode[struct {
			ResultType    string
			RequestState  json.RawMessage
			InputRequests map[string]struct {
				Method string
				Params json.RawMessage
			}
			IsError bool
		}](m.Result)
		if r.ResultType != "input_required" {
			e := hubtest.Decode[struct {
				Code int
				Data json.RawMessage
			}](m.Error)
			o.Text, o.IsError, o.Code, o.Data = m.Text(), r.IsError, e.Code, string(e.Data)
			return *o
		}
		var responses []string
		for key, q := range r.InputRequests {
			responses = append(responses, hubtest.Quote(key)+":"+o.answer(q.Method, q.Params))
		}
		extra = `,"inputResponses":{` + strings.Join(responses, ",") + "}"
		if r.RequestState != nil {
			extra += `,"requestState":` + string(r.RequestState)
		}
	}
}

func (c *raw) Last(testing.TB) Outcome { return c.last }

// follow reads what comes until the response and answers a legacy server.
func (c *raw) follow(t testing.TB, x *hubtest.Exchange, o *Outcome) hubtest.Message {
	t.Helper()
	for {
		m := x.Next()
		p := hubtest.Decode[struct {
			Progress float64
			Data     string
		}](m.Params)
		switch {
		case m.IsResponse():
			return m
		case m.ID != nil:
			c.Answer(m, "result", o.answer(m.Method, m.Params))
		case m.Method == "notifications/progress":
			o.Progress = append(o.Progress, p.Progress)
		case m.Method == "notifications/message":
			o.Logs = append(o.Logs, p.Data)
		default:
			c.note(m.Method)
		}
	}
}

// answer notes a question and answers it.
func (o *Outcome) answer(method string, params json.RawMessage) string {
	q := hubtest.Decode[Question](params)
	q.Method = method
	o.Asked = append(o.Asked, q)
	switch {
	case method == "sampling/createMessage":
		return `{"role":"assistant","model":"m","content":{"type":"text","text":` + hubtest.Quote(Sampled) + `}}`
	case method == "roots/list":
		return `{"roots":[{"uri":` + hubtest.Quote(Root) + `,"name":"colonnade"}]}`
	case q.Mode == "url":
		return `{"action":"accept"}`
	}
	return fmt.Sprintf(`{"action":"accept","content":{"name":"Ada %d"}}`, len(o.Asked))
}

func (c *raw) Begin(t testing.TB, tool string) func() {
	t.Helper()
	x := c.Go("tools/call", hubtest.ToolParams(tool, "{}"))
	return func() {
		if c.Era() == hubtest.Legacy {
			c.Notify("notifications/cancelled", `{"requestId":`+x.ID+`}`)
		}
		x.Close()
	}
}

func (c *raw) Level(t testing.TB, level string) {
	t.Helper()
	c.level = level
	if c.Era() == hubtest.Legacy {
		if m := c.Client.Call("logging/setLevel", `{"level":`+hubtest.Quote(level)+`}`); m.Error != nil {
			t.Fatalf("set the level: %s", m.Error)
		}
	}
}

func (c *raw) Listen(t testing.TB, uri string) func(string) int {
	t.Helper()
	if c.Era() == hubtest.Legacy {
		c.once.Do(func() { go c.hear(c.Client.Listen("")) })
		if m := c.Client.Call("resources/subscribe", `{"uri":`+hubtest.Quote(uri)+`}`); m.Error != nil {
			t.Fatalf("subscribe: %s", m.Error)
		}
	} else {
		go c.hear(c.Client.Listen(`{"toolsListChanged":true,"resourceSubscriptions":[` + hubtest.Quote(uri) + `]}`))
	}
	return func(method string) int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.heard[method]
	}
}

// hear counts what comes on a stream until it is closed, at the latest when
// its test ends.
func (c *raw) hear(x *hubtest.Exchange) {
	for {
		m, err := x.Read()
		if err != nil {
			return
		}
		c.note(m.Method)
	}
}

func (c *raw) note(method string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard[method]++
}

func (c *raw) Tools(t testing.TB) []string {
	t.Helper()
	var names []string
	for params := "{}"; ; {
		r := hubtest.Decode[struct {
			Tools      []struct{ Name string }
			NextCursor *string
		}](c.Client.Call("tools/list", params).Result)
		for _, tool := range r.Tools {
			names = append(names, tool.Name)
		}
		if r.NextCursor == nil {
			return names
		}
		params = `{"cursor":` + hubtest.Quote(*r.NextCursor) + `}`
	}
}

var _ Client = (*raw)(nil)
