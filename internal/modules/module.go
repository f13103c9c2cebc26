// Package modules owns the built-in tools, one file per module: context, task,
// file and debug. A module is an mcp.Handler, so that it is listed, called, limited
// and counted as any upstream is; its tools are exposed under bare names.
//
// Every tool checks its arguments itself, since a module can also be called by
// itself, and answers with an envelope. What goes wrong is a result that a
// model can read, never an error of the protocol.
package modules

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/stoahub/stoa/internal/envelope"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/schema"
	"github.com/stoahub/stoa/internal/wire"
)

// Tool is one built-in tool.
type Tool struct {
	Name        string
	Title       string
	Description string
	Input       string // the JSON Schema of the arguments, an object's
	Strict      string // what they are held to, where Input says less: every client is sent Input with every request
	ReadOnly    bool   // it changes nothing
	Idempotent  bool   // calling it again changes nothing more
	Destructive bool   // it can lose something
	// Run does the work. args fit Input. What it returns is encoded as the
	// data of the envelope, unless it is an Answer.
	Run func(ctx context.Context, req *mcp.Request, args json.RawMessage) (any, error)

	schema *schema.Schema
	log    *slog.Logger
}

// Answer is what a tool returns that has more to say than data. Raw data is
// passed on byte by byte.
type Answer struct {
	Data    any // encoded as JSON, or raw as json.RawMessage; nil means null
	Message string
	// Error says that it went wrong, though there is something to show: what is
	// answered is then no success.
	Error string
	// Whole returns what is answered in place of this where the answer is kept and
	// nothing may be left out of it. nil means that nothing was.
	Whole func(ctx context.Context) (any, error)
	// SaveAs asks that Data be kept under this name: what is answered is then
	// {"result": Data, "saveAs": SaveAs}, and kept where there is a Session.
	SaveAs string
}

// Resources are what a module offers to read; nil where it offers nothing.
type Resources struct {
	// Templates are the definitions, as JSON.
	Templates []string
	// Read returns the contents of a resource: the members of the array.
	Read func(ctx context.Context, req *mcp.Request, uri string) ([]byte, error)
}

// Module is a set of tools that are on or off together.
type Module struct {
	name         string
	instructions string
	offer        atomic.Pointer[offer]
	log          *slog.Logger
	most         int // bytes of a result; 0 means any
	resources    *Resources
	templates    []byte
	close        func() error // nil where nothing is held
}

// offer is what a module offers to call. It is replaced as a whole.
type offer struct {
	tools  map[string]*Tool
	listed []byte
}

// New returns a module. A tool with a broken definition is a mistake of the
// program, so it panics.
func New(name, instructions string, resources *Resources, tools ...Tool) *Module {
	m := &Module{name: name, instructions: instructions, resources: resources, log: slog.New(slog.DiscardHandler)}
	m.templates = []byte(`{"resourceTemplates":[]}`)
	if resources != nil {
		m.templates = []byte(`{"resourceTemplates":[` + strings.Join(resources.Templates, ",") + `]}`)
	}
	m.Offer(tools...)
	return m
}

// Offer offers these tools in place of those before. Calls that are under way go
// on. Whoever keeps a list of them has to read it again.
func (m *Module) Offer(tools ...Tool) {
	o := &offer{tools: map[string]*Tool{}}
	defs := make([]string, 0, len(tools))
	for _, t := range tools {
		s, err := compiled(cmp.Or(t.Strict, t.Input))
		if err != nil {
			panic(fmt.Sprintf("modules: input schema of %s: %v", t.Name, err))
		}
		t.schema, t.log = s, m.log
		o.tools[t.Name] = &t
		defs = append(defs, string(t.definition()))
	}
	o.listed = []byte(`{"tools":[` + strings.Join(defs, ",") + `]}`)
	m.offer.Store(o)
}

// schemas are compiled ones by their text: all hubs of a process offer the same
// tools, and who offers its tools anew has most of them from before.
var schemas struct {
	sync.Mutex
	of map[string]*schema.Schema
}

// maxSchemas bounds them, since published plans bring their own.
const maxSchemas = 500

func compiled(text string) (*schema.Schema, error) {
	schemas.Lock()
	defer schemas.Unlock()
	if s := schemas.of[text]; s != nil {
		return s, nil
	}
	s, err := schema.Compile([]byte(text))
	if err != nil {
		return nil, err
	}
	if schemas.of == nil || len(schemas.of) >= maxSchemas {
		schemas.of = map[string]*schema.Schema{}
	}
	schemas.of[text] = s
	return s, nil
}

func (t *Tool) definition() []byte {
	def := map[string]any{
		"name": t.Name, "title": t.Title, "description": t.Description,
		"inputSchema": json.RawMessage(t.Input),
		"annotations": map[string]any{
			"readOnlyHint": t.ReadOnly, "idempotentHint": t.Idempotent || t.ReadOnly,
			"destructiveHint": t.Destructive, "openWorldHint": false,
		},
	}
	b, err := json.Marshal(def)
	if err != nil {
		panic(fmt.Sprintf("modules: definition of %s: %v", t.Name, err))
	}
	return b
}

// LogTo makes the module log what it stumbles over. It is called before the
// first call.
func (m *Module) LogTo(l *slog.Logger) {
	m.log = l
	for _, t := range m.offer.Load().tools {
		t.log = l
	}
}

// Bound bounds the results of the tools, as limits.messageBytes does those of
// servers. It is called before the first call.
func (m *Module) Bound(bytes int) { m.most = bytes }

// Name is the module's name, which is also that of its upstream.
func (m *Module) Name() string { return m.name }

// Close gives back what the module holds open. No call may be under way.
func (m *Module) Close() error {
	if m.close == nil {
		return nil
	}
	return m.close()
}

// Handle answers one request.
func (m *Module) Handle(ctx context.Context, req *mcp.Request) (mcp.Response, error) {
	if req.IsNote {
		return mcp.Response{}, nil
	}
	switch req.Method {
	case "initialize", "server/discover":
		caps := `{"tools":{}}`
		if m.resources != nil {
			caps = `{"tools":{},"resources":{}}`
		}
		return mcp.Introduce(req.Client, []byte(caps), mcp.ServerInfo(m.name, m.name), m.instructions)
	case "tools/list":
		return result(req, m.offer.Load().listed)
	case "tools/call":
		return m.call(ctx, req)
	case "resources/list":
		if m.resources != nil {
			return result(req, []byte(`{"resources":[]}`))
		}
	case "resources/templates/list":
		if m.resources != nil {
			return result(req, m.templates)
		}
	case "resources/read":
		if m.resources != nil {
			return m.read(ctx, req)
		}
	}
	return mcp.Response{}, fault.New(fault.UnknownMethod, "", "method %q is not offered here", req.Method)
}

func result(req *mcp.Request, raw []byte) (mcp.Response, error) {
	if req.Client.Era == mcp.Modern {
		raw = mcp.Complete(req.Method, raw)
	}
	return mcp.Response{Result: raw}, nil
}

func (m *Module) read(ctx context.Context, req *mcp.Request) (mcp.Response, error) {
	uri, ok := req.Text("uri")
	if !ok {
		return mcp.Response{}, fault.New(fault.InvalidParams, req.Method, "uri is missing or not a string")
	}
	contents, err := m.resources.Read(ctx, req, uri)
	if err != nil {
		return mcp.Response{}, err
	}
	return result(req, append(append([]byte(`{"contents":[`), contents...), "]}"...))
}

func (m *Module) call(ctx context.Context, req *mcp.Request) (mcp.Response, error) {
	name, _ := req.Text("name")
	t := m.offer.Load().tools[name]
	if t == nil {
		return mcp.Response{}, fault.New(fault.UnknownTool, name, "unknown tool")
	}
	args := req.Param("arguments")
	if args == nil {
		args = []byte("{}")
	}
	out := t.answer(ctx, req, args)
	if ctx.Err() != nil {
		return mcp.Response{}, context.Cause(ctx)
	}
	if m.most > 0 && len(out) > m.most {
		out = envelope.Bad(t.tooLong(len(out), m.most)).Result()
	}
	return result(req, out)
}

// tooLong says that a result is longer than a message may be.
func (t *Tool) tooLong(size, most int) error {
	e := fault.New(fault.Limit, t.Name, "the result of %d bytes is over the limit of %d (limits.messageBytes)", size, most)
	e.Hint = "Ask for a part of it, or raise limits.messageBytes."
	if !t.ReadOnly {
		e.Hint += " What the call was to do is done."
	}
	return e
}

// answer runs a tool and returns the result, which is whole where it is kept: by
// a name, or because it is so long that a card takes its place.
func (t *Tool) answer(ctx context.Context, req *mcp.Request, args []byte) []byte {
	if faults := t.schema.Validate(args); len(faults) > 0 {
		text := "the arguments do not fit:"
		for _, f := range faults {
			text += " " + f.Pointer + " " + f.Message + ";"
		}
		return envelope.Bad(fault.New(fault.InvalidArguments, t.Name, "%s", strings.TrimSuffix(text, ";")).With("faults", faults)).Result()
	}
	value, err := t.run(func() (any, error) { return t.Run(ctx, req, args) })
	a, _ := value.(Answer)
	whole := func() []byte {
		value, err := t.run(func() (any, error) { return a.Whole(ctx) })
		return t.envelope(value, err).Result()
	}
	if a.Whole != nil && (req.Kept || a.SaveAs != "") {
		return whole()
	}
	out := t.envelope(value, err).Result()
	if a.Whole != nil && req.CardAbove > 0 && len(out) > req.CardAbove {
		return whole()
	}
	return out
}

// envelope makes an envelope of what a tool returned.
func (t *Tool) envelope(value any, err error) envelope.Envelope {
	if err != nil {
		return envelope.Bad(err)
	}
	a, ok := value.(Answer)
	if !ok {
		a = Answer{Data: value}
	}
	if a.Data == nil {
		return envelope.Good(nil, a.Message)
	}
	raw, ok := a.Data.(json.RawMessage)
	if !ok {
		if raw, err = json.Marshal(a.Data); err != nil {
			return envelope.Bad(fault.New(fault.Internal, t.Name, "the answer could not be encoded").Because(err))
		}
	}
	if a.Error != "" {
		return envelope.Envelope{Data: raw, Message: a.Message, Error: a.Error, Code: envelope.Failed}
	}
	if a.SaveAs != "" {
		raw = append(append([]byte(`{"result":`), raw...), `,"saveAs":`...)
		raw = append(wire.AppendString(raw, a.SaveAs), '}')
	}
	return envelope.Good(raw, a.Message)
}

// run does what a tool does, whose mistakes must not take the hub down.
func (t *Tool) run(do func() (any, error)) (value any, err error) {
	defer func() {
		if p := recover(); p != nil {
			f := fault.New(fault.Internal, t.Name, "the tool stumbled").Because(fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
			t.log.Error("a tool stumbled", "action", "tools/call", "tool", t.Name, "err", f.Err)
			err = f
		}
	}()
	return do()
}

// Attach has nobody to tell: whoever changes the tools of a module has its list
// read again, and its resources are those of a Session, which the merged face tells of.
func (m *Module) Attach(*mcp.Listener) (stop func()) { return func() {} }

// Subscribe fails: see Attach.
func (m *Module) Subscribe(_ context.Context, _ *mcp.Listener, uri string) error {
	return fault.New(fault.ResourceNotFound, uri, "it cannot be subscribed to here")
}

// Unsubscribe has nothing to undo.
func (m *Module) Unsubscribe(context.Context, *mcp.Listener, string) error { return nil }

// inFull answers with what look returns: all there is where the answer is kept, and
// else as much as is worth showing.
func inFull(ctx context.Context, req *mcp.Request, look func(ctx context.Context, whole bool) (Answer, error)) (any, error) {
	if req.Kept {
		return look(ctx, true)
	}
	a, err := look(ctx, false)
	if err == nil {
		a.Whole = func(ctx context.Context) (any, error) { return look(ctx, true) }
	}
	return a, err
}

// decode reads arguments that fit their schema.
func decode[T any](args json.RawMessage) (T, error) {
	var v T
	if err := json.Unmarshal(args, &v); err != nil {
		return v, fault.New(fault.InvalidArguments, "", "the arguments cannot be read: %v", err)
	}
	return v, nil
}

var _ mcp.Handler = (*Module)(nil)
