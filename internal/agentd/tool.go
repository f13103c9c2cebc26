package agentd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/stoahub/stoa/internal/call"
	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/schema"
	"github.com/stoahub/stoa/internal/spell"
	"github.com/stoahub/stoa/internal/wire"
)

// tool is a compiled tool.
type tool struct {
	name       string
	definition []byte
	input      *schema.Schema
	headers    []schema.Binding
	output     *schema.Schema // nil for none
	isJSON     bool
	codes      []int // exit codes that are no failure
	command    *command
}

const noArguments = `{"type":"object","additionalProperties":false}`

func (c *compiler) tool(m *config.ManifestTool) *tool {
	path := "/tools/" + pointer(m.Name)
	t := &tool{name: m.Name, isJSON: m.Form == "json", codes: append([]int{0}, m.ExitCodes...)}
	input := m.Input
	if input == nil {
		input = json.RawMessage(noArguments)
	}
	if kind, _ := wire.String(wire.Get(input, "type")); kind != "object" {
		c.wrong(path+"/inputSchema", `write "type": "object"`, "arguments are an object, and the schema does not say so")
	}
	t.input = c.schema(path+"/inputSchema", input)
	if t.input != nil {
		var err error
		if t.headers, err = schema.Headers(input); err != nil {
			c.wrong(path+"/inputSchema", "correct the annotation", "%v", err)
		}
	}
	if m.Output != nil {
		t.output = c.schema(path+"/outputSchema", m.Output)
	}
	t.command = c.command(path, &m.Exec, properties(input))
	def := map[string]any{"name": m.Name, "title": m.Title, "description": m.Description, "inputSchema": input}
	if m.Output != nil {
		def["outputSchema"] = m.Output
	}
	hints := map[string]bool{}
	for name, v := range map[string]*bool{"readOnlyHint": m.Hints.ReadOnly, "destructiveHint": m.Hints.Destructive, "idempotentHint": m.Hints.Idempotent, "openWorldHint": m.Hints.OpenWorld} {
		if v != nil {
			hints[name] = *v
		}
	}
	if len(hints) > 0 {
		def["annotations"] = hints
	}
	t.definition = definition(def)
	return t
}

func (c *compiler) schema(path string, raw []byte) *schema.Schema {
	s, err := schema.Compile(raw)
	if err != nil {
		c.wrong(path, "correct the schema", "%v", err)
	}
	return s
}

// properties are the names of the arguments that a schema describes.
func properties(s []byte) (names []string) {
	for _, f := range wire.Members(wire.Get(s, "properties")) {
		names = append(names, string(f.Name))
	}
	return names
}

func pointer(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

// call answers tools/call.
func (a *Agent) call(ctx context.Context, req *mcp.Request) (mcp.Response, error) {
	name, ok := req.Text("name")
	if !ok {
		return mcp.Response{}, fault.New(fault.InvalidParams, req.Method, "name is missing or not a string")
	}
	o := a.offer.Load()
	t := o.tools[name]
	if t == nil {
		f := fault.New(fault.UnknownTool, name, "unknown tool")
		if near := spell.Nearest(name, o.names); near != "" {
			f.Hint = "Did you mean " + near + "?"
		}
		return mcp.Response{}, f
	}
	args := req.Param("arguments")
	if args == nil || string(args) == "null" {
		args = []byte("{}")
	}
	if req.Header != nil {
		if err := call.CheckHeaders(req.Header, t.headers, args); err != nil {
			return mcp.Response{}, err
		}
	}
	if err := t.fits(args); err != nil {
		return call.AsResult(req, nil, err)
	}
	j, err := t.command.job(t.name, args, readValues(args))
	if err != nil {
		return call.AsResult(req, nil, err)
	}
	raw := []byte(nil)
	err = a.queued(ctx, req, func(ctx context.Context) (ok bool, err error) {
		out, err := a.exec(ctx, req, t.name, t.command, j)
		if raw, err = t.result(req, out, err); err != nil {
			return false, err
		}
		return wire.Get(raw, "isError") == nil, nil
	})
	if err != nil {
		return mcp.Response{}, about(t.name, err)
	}
	return answer(req, raw)
}

// about names the subject of a fault that has none.
func about(subject string, err error) error {
	if f, ok := errors.AsType[*fault.Error](err); ok && f.Subject == "" {
		f.Subject = subject
	}
	return err
}

func (t *tool) fits(args []byte) error {
	faults := t.input.Validate(args)
	if len(faults) == 0 {
		return nil
	}
	return fault.New(fault.InvalidArguments, t.name, "the arguments do not fit the tool's schema: %s", told(faults)).With("faults", faults)
}

func told(faults []schema.Fault) string {
	var all []string
	for _, f := range faults {
		at := f.Pointer
		if at == "" {
			at = "(arguments)"
		}
		all = append(all, at+" "+f.Message)
	}
	return strings.Join(all, "; ")
}

// result makes the result of a call of how the command ended. What the command
// did wrong is a result too; only what is ours is an error.
func (t *tool) result(req *mcp.Request, out *outcome, err error) ([]byte, error) {
	if large, ok := errors.AsType[*tooMuch](err); ok {
		return failure(large.Error()+". Ask for less, or raise outputBytes in the manifest.", nil), nil
	}
	if start, ok := errors.AsType[*errStart](err); ok {
		return failure(fmt.Sprintf("the command cannot be started: %v", start), nil), nil
	}
	if err != nil {
		return nil, err
	}
	if !slices.Contains(t.codes, out.code) {
		text := fmt.Sprintf("the command failed: %s", out.state)
		if out.stderr != "" {
			text += "\n" + out.stderr
		}
		// What it had printed by then often says more.
		if said := lastOf(out.stdout, false); said != "" {
			text += "\n" + said
		}
		return failure(text, &out.code), nil
	}
	if !utf8.Valid(out.stdout) {
		return failure("the output of the command is not UTF-8 text", nil), nil
	}
	if !t.isJSON {
		return content(string(out.stdout), nil), nil
	}
	raw := []byte(strings.TrimSpace(string(out.stdout)))
	if err := wire.Valid(raw, wire.FromUpstream); err != nil {
		return failure(fmt.Sprintf("the output of the command is not JSON: %v\n%s", err, lastOf(out.stdout, false)), nil), nil
	}
	if t.output != nil {
		if faults := t.output.Validate(raw); len(faults) > 0 {
			return failure("the output of the command does not fit the tool's output schema: "+told(faults), nil), nil
		}
	}
	if raw[0] != '{' && req.Client.Era == mcp.Legacy {
		return content(string(raw), nil), nil // that era knows objects only
	}
	return content(string(raw), raw), nil
}

func content(text string, structured []byte) []byte {
	out := append(wire.AppendString([]byte(`{"content":[{"type":"text","text":`), text), "}]"...)
	if structured != nil {
		out = append(append(out, `,"structuredContent":`...), structured...)
	}
	return append(out, '}')
}

// failure is the result of a command that failed. Its exit code, where there is
// one, is in _meta.
func failure(text string, code *int) []byte {
	out := content(text, nil)
	out = append(out[:len(out)-1], `,"isError":true`...)
	if code != nil {
		out = append(out, fmt.Sprintf(`,"_meta":{"stoa/exitCode":%d}`, *code)...)
	}
	return append(out, '}')
}

func answer(req *mcp.Request, raw []byte) (mcp.Response, error) {
	if req.Client.Era == mcp.Modern {
		raw = mcp.Complete(req.Method, raw)
	}
	return mcp.Response{Result: raw}, nil
}

// inherited are the variables that every command gets.
var inherited = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "TMPDIR", "ROUTER_HOST", "ROUTER_PORT"}

// routed adds the variables by which commands find the router, unless one of
// them is there: half of somebody else's address would lead nowhere.
func routed(environ []string, router string) []string {
	u, err := url.Parse(router)
	if err != nil || u.Hostname() == "" || slices.ContainsFunc(environ, func(kv string) bool {
		return strings.HasPrefix(kv, "ROUTER_HOST=") || strings.HasPrefix(kv, "ROUTER_PORT=")
	}) {
		return environ
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return append(slices.Clip(environ), "ROUTER_HOST="+u.Hostname(), "ROUTER_PORT="+port)
}

// exec runs a job of a request in the environment that belongs to it.
func (a *Agent) exec(ctx context.Context, req *mcp.Request, name string, c *command, j *job) (out *outcome, err error) {
	ctx, span := a.tracer.Start(ctx, req.Method+" "+name, call.Descent(req), "mcp.method.name", req.Method, "gen_ai.tool.name", name)
	defer func() {
		kind := ""
		if err != nil {
			kind = fault.Of(err).Kind.String()
		} else if out != nil {
			span.Count("process.exit.code", out.code)
		}
		span.End(kind)
	}()
	var env []string
	for _, kv := range a.environ {
		key, _, _ := strings.Cut(kv, "=")
		if slices.Contains(inherited, key) || slices.Contains(c.inherit, key) {
			env = append(env, kv)
		}
	}
	j.env = append(append(env, j.env...), "AGENT_NAME="+a.offer.Load().m.Name, "AGENT_TOOL="+name)
	j.env = append(j.env, a.descent(req, span)...)
	if text := metaText(req, call.MetaChain); text != "" && len(text) < 8<<10 && !strings.ContainsRune(text, 0) {
		j.env = append(j.env, "STOA_CHAIN="+text)
	}
	if req.Token != nil {
		last := -1.0
		j.told = func(s step) {
			if s.done > last { // the protocol wants it to grow
				last = s.done
				req.Stream.Notify(mcp.NoteProgress, mcp.Progress(req.Token, s.done, s.total, s.message))
				req.Stream.Flush()
			}
		}
	}
	return j.run(ctx, a.reaper)
}

// descent are the variables by which a command is told what it is part of: the
// span of its run, or what the request says.
func (a *Agent) descent(req *mcp.Request, span *obs.Span) (env []string) {
	from := call.Descent(req)
	if span != nil {
		from = span.Parent()
	}
	if from.Trace() != "" {
		env = append(env, "TRACEPARENT="+from.Traceparent)
		if isHeader(from.Tracestate) {
			env = append(env, "TRACESTATE="+from.Tracestate)
		}
	}
	if text := metaText(req, "baggage"); isHeader(text) {
		env = append(env, "BAGGAGE="+text)
	}
	return env
}

// isHeader reports whether a text can be the value of a header of W3C.
func isHeader(s string) bool {
	return s != "" && len(s) <= 8<<10 && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

func metaText(req *mcp.Request, name string) string {
	for i := range req.Meta {
		if string(req.Meta[i].Name) == name {
			s, _ := wire.String(req.Meta[i].Value)
			return s
		}
	}
	return ""
}
