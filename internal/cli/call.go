package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/call"
	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/schema"
	"github.com/stoahub/stoa/internal/wire"
)

type callCmd struct {
	reach
	faceFlags
	asJSON
	SaveAs  string        `help:"Keep the result in the session under this name; needs --session." placeholder:"NAME"`
	Fresh   bool          `help:"Have the server answer, also where a result is cached."`
	Timeout time.Duration `help:"Give up after this time; without it the hub decides." placeholder:"30s"`
	Name    string        `arg:"" help:"Name of the tool, as in stoa tools."`
	Args    []string      `arg:"" optional:"" name:"arguments" help:"key=value pairs, or one of a JSON object, @file and - (stdin)."`
}

func (c *callCmd) Help() string {
	return `The value of key=value is text where the tool's schema allows text, else JSON if it is valid JSON (n=3, ok=true, tags='["a"]'), else text. ` +
		`key:=JSON is always JSON, key.sub=value sets a member of an object, and a key that is an array may be given more than once. ` +
		`In a session (--session), the text @name or @name.path in a value stands for what is kept there; --save-as keeps the result, and long results are kept anyway and shown as a card. ` +
		`What the tool asks you while it works is asked at the terminal; without one it is declined, and the exit code is 5. ` +
		`The exit code is 3 if the tool itself reports an error.`
}

// server is the configured server that a name begins with, if it does.
func (c *callCmd) server() string {
	name := strings.TrimPrefix(c.Name, "mcp:")
	for _, separator := range []string{"__", ":"} {
		if server, _, ok := strings.Cut(name, separator); ok {
			return server
		}
	}
	return ""
}

func (c *callCmd) Run(ctx context.Context, s std) error {
	if c.SaveAs != "" && c.Session == "" {
		return failed(exitUsage, "Name one with --session; it comes to be with the first thing that is kept.", "--save-as needs a session to keep the result in")
	}
	hub, face, err := c.dial(ctx, s, &c.reach, c.server())
	if err != nil {
		return doing("call", c.Name, err)
	}
	defer hub.close()
	defer face.Close()
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("no answer within %v", c.Timeout))
		defer cancel()
	}
	fail := func(err error) error {
		return doing("call", c.Name, hub.explained(ctx, cmp.Or(c.Agent, c.server()), err))
	}
	o, err := c.outgoing(ctx, s, face)
	if err != nil {
		return fail(err)
	}
	line := newProgressLine(s)
	o.Stream = line
	q := newQuestioner(s)
	q.before = line.clear
	result, err := face.asked(ctx, o, q)
	line.clear()
	if err != nil {
		return fail(q.settled(err))
	}
	err = c.show(s, result)
	if no := q.settled(err); no != err {
		return doing("call", c.Name, no)
	}
	return err
}

// outgoing makes the request. The tool's definition tells how to read the
// arguments; a tool that is not listed is asked for all the same, and the hub
// says what is wrong with it.
func (c *callCmd) outgoing(ctx context.Context, s std, f *face) (*mcp.Outgoing, error) {
	all, err := f.offered(ctx, "tools/list", "tools")
	if err != nil {
		return nil, err
	}
	def := c.find(all)
	args, err := arguments(c.Args, newShape(def.InputSchema), s.in)
	if err != nil {
		return nil, err
	}
	o, err := request("tools/call", map[string]string{"name": c.Name})
	if err != nil {
		return nil, err
	}
	o.Replace("arguments", args)
	o.Name = c.Name
	o.Headers = mirrored(def.InputSchema, args)
	if c.SaveAs != "" {
		o.Annotate("stoa/saveAs", wire.Quote(c.SaveAs))
	}
	if c.Fresh {
		o.Annotate(call.MetaFresh, []byte("true"))
	}
	o.Token = []byte("1") // a tool that tells its progress is given more time
	descend(o)
	return o, nil
}

// descend makes a call that an agent's command makes one of the call that the
// agent serves: in its chain, so that loops end, and in its trace.
func descend(o *mcp.Outgoing) {
	for name, variable := range map[string]string{call.MetaChain: "STOA_CHAIN", "traceparent": "TRACEPARENT", "tracestate": "TRACESTATE", "baggage": "BAGGAGE"} {
		if value := os.Getenv(variable); value != "" {
			o.Annotate(name, wire.Quote(value))
		}
	}
}

// find returns the definition of the tool that is meant, in any form of name
// that the hub takes.
func (c *callCmd) find(all []json.RawMessage) tool {
	want := c.Name
	if server, bare, ok := strings.Cut(strings.TrimPrefix(c.Name, "mcp:"), ":"); ok && c.Agent == "" {
		want = catalog.Expose(server, bare)
	}
	var found []tool
	for _, raw := range all {
		t := parseTool(raw)
		if t.Name == want {
			return t
		}
		if _, bare, ok := strings.Cut(t.Name, "__"); ok && bare == want && c.Agent == "" {
			found = append(found, t)
		}
	}
	if len(found) == 1 {
		return found[0]
	}
	return tool{}
}

// mirrored are the headers that repeat arguments, where a schema wants them.
func mirrored(input json.RawMessage, args []byte) (headers [][2]string) {
	bindings, err := schema.Headers(input)
	if err != nil {
		return nil // the hub asks for none either
	}
	for _, b := range bindings {
		value := args
		for _, step := range b.Path {
			value = wire.Get(value, step)
		}
		text, isText := wire.String(value)
		switch {
		case isText:
		case len(value) == 0 || value[0] == '{' || value[0] == '[' || string(value) == "null":
			continue
		default:
			text = string(value)
		}
		headers = append(headers, [2]string{"Mcp-Param-" + b.Header, mcp.EncodeHeader(text)})
	}
	return headers
}

// progressLine shows on a terminal how far a call is. What the hub itself says
// of the call, such as that it waits for an approval, is a line of its own, whole
// and also where there is no terminal: else the command would wait in silence.
type progressLine struct {
	s     std
	width int // 0: nobody looks

	mu    sync.Mutex
	shown bool
}

func newProgressLine(s std) *progressLine { return &progressLine{s: s, width: width(s.err)} }

func (p *progressLine) Notify(method string, params []byte) {
	if method != "notifications/progress" {
		return
	}
	var n struct {
		Progress float64 `json:"progress"`
		Total    float64 `json:"total"`
		Message  string  `json:"message"`
	}
	if json.Unmarshal(params, &n) != nil {
		return
	}
	if n.Progress < mcp.BeforeQueue/2 && n.Message != "" {
		p.clear()
		p.s.note("%s", n.Message)
		return
	}
	text := fmt.Sprintf("%g ", n.Progress)
	switch {
	case p.width == 0:
		return
	case n.Progress < 0: // a place in a queue, which the words tell
		text = ""
	case n.Total > 0:
		text = fmt.Sprintf("%3.0f%% ", min(100*n.Progress/n.Total, 100))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.s.err, "\r\x1b[2K%s", cut(text+printable(n.Message), p.width-1))
	p.shown = true
}

// clear takes the line away.
func (p *progressLine) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		fmt.Fprint(p.s.err, "\r\x1b[2K")
		p.shown = false
	}
}

func (p *progressLine) Flush() {} // nothing is held back

func (p *progressLine) CanAsk() bool { return false }

func (p *progressLine) Ask(ctx context.Context, method string, params []byte) (mcp.Response, error) {
	return mcp.Discard.Ask(ctx, method, params)
}

var _ mcp.Stream = (*progressLine)(nil)

// show prints the result of a tool.
func (c *callCmd) show(s std, raw []byte) error {
	var r toolResult
	if err := json.Unmarshal(raw, &r); err != nil {
		return failed(exitFailed, "Use --json to see it as it is.", "call %s: the result is not of the protocol's form: %w", c.Name, err)
	}
	if object := r.Meta["stoa/error"]; r.IsError && object != nil {
		return doing("call", c.Name, refusal(object))
	}
	if c.JSON {
		if _, err := s.out.Write(append(raw, '\n')); err != nil {
			return err
		}
	} else if err := s.text(r.text()); err != nil {
		return err
	} else if age := wire.Get(r.Meta[call.MetaCached], "ageMs"); age != nil {
		s.note("this is a cached result, %s ms old; --fresh asks the server", age)
	}
	if r.IsError {
		return failed(exitToolSaidNo, "", "call %s: the tool reports an error", c.Name)
	}
	return nil
}
