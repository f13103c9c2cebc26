package stoa

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/wire"
)

// module serves the program's own tools to the hub.
type module struct {
	log   *slog.Logger
	mu    sync.RWMutex
	tools []ownTool // in the order in which they were added
}

type ownTool struct {
	Tool
	def []byte
}

// add reports false if there is a tool of that name.
func (m *module) add(t Tool, def []byte) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if slices.ContainsFunc(m.tools, func(o ownTool) bool { return o.Name == t.Name }) {
		return false
	}
	m.tools = append(m.tools, ownTool{t, def})
	return true
}

func (m *module) remove(match func(name string) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tools = slices.DeleteFunc(slices.Clone(m.tools), func(o ownTool) bool { return match(o.Name) })
}

// Handle answers one request of the hub.
func (m *module) Handle(ctx context.Context, req *mcp.Request) (mcp.Response, error) {
	switch req.Method {
	case "initialize", "server/discover":
		return mcp.Introduce(req.Client, []byte(`{"tools":{"listChanged":true}}`), []byte(`{"name":"local","version":"1"}`), "")
	case "tools/list":
		return result(req, m.list())
	case "tools/call":
		return m.call(ctx, req)
	}
	if req.IsNote {
		return mcp.Response{}, nil
	}
	return mcp.Response{}, fault.New(fault.UnknownMethod, "", "method %q is not offered here", req.Method)
}

func result(req *mcp.Request, raw []byte) (mcp.Response, error) {
	if req.Client.Era == mcp.Modern {
		raw = mcp.Complete(req.Method, raw)
	}
	return mcp.Response{Result: raw}, nil
}

func (m *module) list() []byte {
	m.mu.RLock()
	defer m.mu.RUnlock()
	out := []byte(`{"tools":[`)
	for i, t := range m.tools {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, t.def...)
	}
	return append(out, "]}"...)
}

func (m *module) call(ctx context.Context, req *mcp.Request) (mcp.Response, error) {
	name, _ := req.Text("name")
	m.mu.RLock()
	i := slices.IndexFunc(m.tools, func(o ownTool) bool { return o.Name == name })
	var t ownTool
	if i >= 0 {
		t = m.tools[i]
	}
	m.mu.RUnlock()
	if i < 0 {
		return mcp.Response{}, fault.New(fault.UnknownTool, name, "unknown tool")
	}
	args := req.Param("arguments")
	if args == nil {
		args = []byte("{}")
	}
	value, err := m.run(ctx, t, args)
	if ctx.Err() != nil {
		return mcp.Response{}, context.Cause(ctx)
	}
	raw, err := render(value, err)
	if err != nil {
		return mcp.Response{}, fault.New(fault.Internal, name, "what the tool returned cannot be encoded: %v", err)
	}
	return result(req, raw)
}

// run calls the program's code, which must not take the hub down with it.
func (m *module) run(ctx context.Context, t ownTool, args []byte) (value any, err error) {
	defer func() {
		if p := recover(); p != nil {
			m.log.Error("panic in a tool", "tool", t.Name, "err", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("the tool panicked: %v", p)
		}
	}()
	return t.Handler(ctx, args)
}

type block struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// render makes a tool's result of what its Handler returned.
func render(value any, failed error) ([]byte, error) {
	if failed != nil {
		return json.Marshal(map[string]any{"content": []block{{"text", failed.Error()}}, "isError": true})
	}
	switch v := value.(type) {
	case nil:
		return []byte(`{"content":[]}`), nil
	case string:
		return json.Marshal(map[string]any{"content": []block{{"text", v}}})
	case *Result:
		return v.render()
	}
	raw, err := encode(value)
	if err != nil {
		return nil, err
	}
	out := map[string]any{"content": []block{{"text", string(raw)}}}
	if len(raw) > 0 && raw[0] == '{' {
		out["structuredContent"] = json.RawMessage(raw)
	}
	return json.Marshal(out)
}

// render is the result on the wire: Raw if it is given, else its parts.
func (r *Result) render() ([]byte, error) {
	if r == nil {
		return []byte(`{"content":[]}`), nil
	}
	if r.Raw != nil {
		return r.Raw, wire.Valid(r.Raw, wire.FromClient)
	}
	out := map[string]any{"content": json.RawMessage("[]")}
	if r.Content != nil {
		out["content"] = r.Content
	}
	if r.Structured != nil {
		out["structuredContent"] = r.Structured
	}
	if r.IsError {
		out["isError"] = true
	}
	return json.Marshal(out)
}

// Attach has nobody to tell: AddTool makes the hub read the list anew.
func (m *module) Attach(*mcp.Listener) (stop func()) { return func() {} }

// Subscribe fails: there are no resources.
func (m *module) Subscribe(_ context.Context, _ *mcp.Listener, uri string) error {
	return fault.New(fault.ResourceNotFound, uri, "the program's own tools have no resources")
}

// Unsubscribe has nothing to undo.
func (m *module) Unsubscribe(context.Context, *mcp.Listener, string) error { return nil }

var _ mcp.Handler = (*module)(nil)
