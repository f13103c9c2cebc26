package chatws

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/call"
	"github.com/stoahub/stoa/internal/chat"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/hubtest/await"
	door "github.com/stoahub/stoa/internal/hubtest/gate"
	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/policy"
	"github.com/stoahub/stoa/internal/session"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/wire"
)

// patience is how long a test waits for something that must happen.
const patience = await.Patience

// bench is a chat host on a real listener. Its model says what the test says,
// when the test says so; everything between that and the sockets is real.
type bench struct {
	t        *testing.T
	url      string
	engine   *chat.Engine
	desk     *policy.Desk
	sessions *session.Registry
	host     *Host
	model    *puppet
	tools    *toolbox
	http     *http.Client
	server   *httptest.Server
	once     sync.Once
}

func open(t *testing.T, opts Options, edits ...func(*chat.Settings)) *bench {
	t.Helper()
	return openOn(t, nil, opts, edits...)
}

// openOn is open over a store; with nil nothing is kept.
func openOn(t *testing.T, st *store.Store, opts Options, edits ...func(*chat.Settings)) *bench {
	t.Helper()
	b := &bench{t: t, model: &puppet{lines: make(chan line)}, tools: &toolbox{}}
	sessions, err := session.Open(t.Context(), st, session.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if b.desk, err = policy.OpenDesk(t.Context(), st, policy.DeskOptions{}); err != nil {
		t.Fatal(err)
	}
	b.sessions = sessions
	var settings chat.Settings
	for _, edit := range edits {
		edit(&settings)
	}
	b.engine, err = chat.Open(t.Context(), st, chat.Options{
		Face:   func(string) call.Face { return door.Face(b.tools, door.Options{}) },
		Models: func(string) (chat.Model, error) { return chat.Model{Model: b.model, Name: "puppet", ID: "puppet"}, nil },
		Desk:   b.desk, Sessions: sessions, Principal: known,
	}, settings)
	if err != nil {
		t.Fatal(err)
	}
	b.engine.Resume()
	b.serve(opts)
	t.Cleanup(func() {
		b.close()
		sessions.Close()
	})
	return b
}

// beside is one more host of the same conversations, with bounds of its own.
func (b *bench) beside(opts Options) *bench {
	b.t.Helper()
	other := &bench{t: b.t, engine: b.engine, desk: b.desk, sessions: b.sessions, model: b.model, tools: b.tools}
	other.serve(opts)
	b.t.Cleanup(other.leave)
	return other
}

// serve opens the host on a listener.
func (b *bench) serve(opts Options) {
	b.t.Helper()
	b.host = New(b.engine, b.desk, opts)
	guard, err := auth.NewGuard(auth.Options{Loopback: true, Verifier: names{}})
	if err != nil {
		b.t.Fatal(err)
	}
	mux := http.NewServeMux()
	b.host.Route(mux, guard.Accept, guard.Accept, func(w http.ResponseWriter, _ *http.Request, err error) {
		refuse(w, http.StatusBadRequest, fault.Of(err))
	})
	b.server = httptest.NewServer(mux)
	b.url = b.server.URL
	b.http = &http.Client{Transport: &http.Transport{DisableCompression: true}}
}

// close stops everything, as a hub does.
func (b *bench) close() {
	b.once.Do(func() {
		b.leave()
		b.engine.Close()
		b.desk.Close()
	})
}

// leave closes the host and its listener.
func (b *bench) leave() {
	b.host.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	b.host.Wait(ctx)
	b.server.Close()
	b.http.CloseIdleConnections()
}

// line is what the model does next.
type line struct {
	delta llm.Delta
	fail  error
	done  bool
}

// puppet is a model that says what it is told to, when it is told to.
type puppet struct{ lines chan line }

func (p *puppet) Stream(ctx context.Context, _ llm.Request) iter.Seq2[llm.Delta, error] {
	return func(yield func(llm.Delta, error) bool) {
		calls := 0
		for {
			var l line
			select {
			case l = <-p.lines:
			case <-ctx.Done():
				yield(llm.Delta{}, &llm.Error{Cause: llm.Cancelled, Provider: "puppet", Attempts: 1, Err: ctx.Err()})
				return
			}
			switch {
			case l.fail != nil:
				yield(llm.Delta{}, l.fail)
				return
			case l.done:
				stop := llm.Done
				if calls > 0 {
					stop = llm.Calls
				}
				yield(llm.Delta{Kind: llm.Stopped, Stop: stop}, nil)
				return
			}
			if l.delta.Kind == llm.CallEnd {
				l.delta.Index = calls
				l.delta.Call.ID = fmt.Sprintf("call_%d", calls)
				calls++
			}
			if !yield(l.delta, nil) {
				return
			}
		}
	}
}

func (b *bench) play(l line) {
	b.t.Helper()
	select {
	case b.model.lines <- l:
	case <-time.After(patience):
		b.t.Fatal("nobody asks the model")
	}
}

func (b *bench) says(text string) {
	b.t.Helper()
	b.play(line{delta: llm.Delta{Kind: llm.Text, Text: text}})
}

func (b *bench) thinks(text string) {
	b.t.Helper()
	b.play(line{delta: llm.Delta{Kind: llm.Reason, Text: text}})
}

func (b *bench) calls(tool, args string) {
	b.t.Helper()
	b.play(line{delta: llm.Delta{Kind: llm.CallEnd, Call: llm.ToolCall{Name: tool, Args: json.RawMessage(args)}}})
}

func (b *bench) stops() { b.t.Helper(); b.play(line{done: true}) }

// toolbox offers search_files, which changes nothing, write_file, for which a
// person is asked, and broken, which fails.
type toolbox struct{}

func (x *toolbox) Handle(ctx context.Context, req *mcp.Request) (mcp.Response, error) {
	switch req.Method {
	case "tools/list":
		return mcp.Response{Result: []byte(`{"tools":[
			{"name":"search_files","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},
			{"name":"write_file","inputSchema":{"type":"object"}},
			{"name":"broken","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}`)}, nil
	case "prompts/list":
		return mcp.Response{Result: []byte(`{"prompts":[]}`)}, nil
	case "tools/call":
		name, _ := wire.String(wire.Get(req.Params, "name"))
		switch name {
		case "search_files":
			return mcp.Response{Result: []byte(`{"content":[{"type":"text","text":"{\"files\":[\"file1.txt\"]}"}]}`)}, nil
		case "write_file":
			return mcp.Response{Result: []byte(`{"content":[{"type":"text","text":"written: ` + strings.ReplaceAll(string(wire.Get(req.Params, "arguments")), `"`, `\"`) + `"}]}`)}, nil
		case "broken":
			return mcp.Response{Result: []byte(`{"content":[{"type":"text","text":"no such disk"}],"isError":true}`)}, nil
		}
	}
	return mcp.Response{}, fault.New(fault.UnknownMethod, "", "there is no %s", req.Method)
}

func (x *toolbox) Attach(*mcp.Listener) func() { return func() {} }

func (x *toolbox) Subscribe(context.Context, *mcp.Listener, string) error   { return nil }
func (x *toolbox) Unsubscribe(context.Context, *mcp.Listener, string) error { return nil }

// said is a frame as a client sees it.
type said struct {
	Type    string          `json:"type"`
	Seq     uint64          `json:"seq"`
	Turn    string          `json:"turn"`
	Call    string          `json:"call"`
	Offset  int             `json:"offset"`
	End     int             `json:"end"`
	Last    bool            `json:"last"`
	Payload json.RawMessage `json:"payload"`
	raw     string
}

func (s said) get(name string) string {
	raw := wire.Get(s.Payload, name)
	if text, ok := wire.String(raw); ok {
		return text
	}
	return string(raw)
}

// client is a socket of a client.
type client struct {
	t  *testing.T
	ws *websocket.Conn
}

// dial opens a socket; query is that of the URL, who may be empty.
func (b *bench) dial(query, who string) *client {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	header := http.Header{}
	if who != "" {
		header.Set("Authorization", "Bearer "+who)
	}
	ws, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(b.url, "http")+"/ws?"+query, &websocket.DialOptions{HTTPHeader: header, HTTPClient: b.http})
	if err != nil {
		b.t.Fatalf("dial: %v", err)
	}
	ws.SetReadLimit(64 << 20)
	b.t.Cleanup(func() { ws.CloseNow() })
	return &client{b.t, ws}
}

func (c *client) try() (said, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, raw, err := c.ws.Read(ctx)
	if err != nil {
		return said{}, err
	}
	s := parseSaid(c.t, raw)
	if testing.Verbose() {
		c.t.Log(string(raw))
	}
	return s, nil
}

func parseSaid(t *testing.T, raw []byte) said {
	s := said{raw: string(raw)}
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Errorf("%s: %v", raw, err)
	}
	return s
}

func (c *client) next() said {
	c.t.Helper()
	s, err := c.try()
	if err != nil {
		c.t.Fatalf("read: %v", err)
	}
	return s
}

// until reads frames up to the first of a type.
func (c *client) until(kind string) []said {
	c.t.Helper()
	var out []said
	for {
		s := c.next()
		if out = append(out, s); s.Type == kind {
			return out
		}
	}
}

// find reads up to the first frame of a type and returns that.
func (c *client) find(kind string) said {
	c.t.Helper()
	all := c.until(kind)
	return all[len(all)-1]
}

// upTo is find for a socket that may be closed before.
func (c *client) upTo(kind string) (said, error) {
	for {
		if s, err := c.try(); err != nil || s.Type == kind {
			return s, err
		}
	}
}

func (c *client) send(frame string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := c.ws.Write(ctx, websocket.MessageText, []byte(frame)); err != nil {
		c.t.Fatalf("write: %v", err)
	}
}

func (c *client) message(text string) {
	c.t.Helper()
	c.send(`{"type":"message","payload":{"text":` + string(wire.Quote(text)) + `}}`)
}

// closed reads until the socket is closed, and returns by which status.
func (c *client) closed() websocket.StatusCode {
	c.t.Helper()
	for {
		if _, err := c.try(); err != nil {
			return websocket.CloseStatus(err)
		}
	}
}

// post sends a body and returns the answer.
func (b *bench) post(path, body string, header ...string) *http.Response {
	b.t.Helper()
	req, err := http.NewRequest(http.MethodPost, b.url+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	return b.ask(req, header)
}

func (b *bench) get(path string, header ...string) *http.Response {
	b.t.Helper()
	req, err := http.NewRequest(http.MethodGet, b.url+path, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return b.ask(req, header)
}

func (b *bench) ask(req *http.Request, header []string) *http.Response {
	b.t.Helper()
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := b.http.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func body(t *testing.T, resp *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func query(pairs ...any) string {
	q := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		q.Set(pairs[i].(string), fmt.Sprint(pairs[i+1]))
	}
	return q.Encode()
}
