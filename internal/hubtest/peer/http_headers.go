package peer

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
)

// hasVersion reports whether a modern _meta stands in the params.
func hasVersion(raw json.RawMessage) bool {
	var p struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	return raw != nil && json.Unmarshal(raw, &p) == nil && p.Meta[metaPrefix+"protocolVersion"] != nil
}

// checkHeaders holds the headers of a modern request against its body.
func (s *server) checkHeaders(r *request) (reply, bool) {
	mismatch := func(format string, args ...any) (reply, bool) {
		return refuse(codeHeaderMismatch, nil, format, args...), false
	}
	var p params
	if r.raw != nil {
		if err := json.Unmarshal(r.raw, &p); err != nil {
			return refuse(codeInvalidParams, nil, "%s: read params: %v", r.method, err), false
		}
	}
	header, body := r.header.Get("Mcp-Protocol-Version"), p.metaString("protocolVersion")
	if body == "" && header < Modern && (header != "" || r.method == "initialize") {
		// A legacy client at a modern server: say what is spoken here.
		if r.method == "initialize" {
			header = p.ProtocolVersion
		}
		return s.refuseVersion(header), false
	}
	if header == "" {
		return mismatch("the header MCP-Protocol-Version is missing")
	}
	if body != "" && header != body {
		return mismatch("MCP-Protocol-Version is %q, but the body says %q", header, body)
	}
	if header != Modern {
		return s.refuseVersion(header), false
	}
	if got := r.header.Get("Mcp-Method"); got != r.method {
		return mismatch("Mcp-Method is %q, but the body says %q", got, r.method)
	}
	want, named := p.Name, true
	switch r.method {
	case "tools/call", "prompts/get":
	case "resources/read":
		want = p.URI
	case "tasks/get", "tasks/update", "tasks/cancel":
		want = p.TaskID
	default:
		named = false
	}
	if got, ok := headerValue(r.header, "Mcp-Name"); named && (!ok || got != want) {
		return mismatch("Mcp-Name is %q, but the body says %q", r.header.Get("Mcp-Name"), want)
	}
	if r.method == "tools/call" {
		return s.checkParamHeaders(r, p)
	}
	return reply{}, true
}

// headerValue decodes a header; ok is false if it is missing or not decodable.
func headerValue(h http.Header, name string) (value string, ok bool) {
	vs := h.Values(name)
	if len(vs) != 1 {
		return "", false
	}
	enc, isEnc := strings.CutPrefix(vs[0], "=?base64?")
	enc, closed := strings.CutSuffix(enc, "?=")
	if !isEnc || !closed {
		return vs[0], true
	}
	b, err := base64.StdEncoding.DecodeString(enc)
	return string(b), err == nil
}

// schema is as much of a JSON Schema as mirrored headers need.
type schema struct {
	Header     string            `json:"x-mcp-header"`
	Properties map[string]schema `json:"properties"`
}

// checkParamHeaders demands that arguments marked x-mcp-header are mirrored.
func (s *server) checkParamHeaders(r *request, p params) (reply, bool) {
	t, ok := s.tool(p.Name)
	var def struct {
		InputSchema schema `json:"inputSchema"`
	}
	if !ok || json.Unmarshal([]byte(t.RawDefinition), &def) != nil {
		return reply{}, true
	}
	if bad := mirrored(r.header, def.InputSchema, p.Arguments); bad != "" {
		return refuse(codeHeaderMismatch, nil, "Mcp-Param-%s does not mirror its argument", bad), false
	}
	return reply{}, true
}

// mirrored returns the first header that differs from its argument.
func mirrored(h http.Header, sc schema, value json.RawMessage) string {
	var args map[string]json.RawMessage
	_ = json.Unmarshal(value, &args) // what is no object has no members
	for name, sub := range sc.Properties {
		arg := args[name]
		if sub.Header != "" {
			got, sent := headerValue(h, "Mcp-Param-"+sub.Header)
			present := arg != nil && string(arg) != "null"
			want := string(arg)
			if present && arg[0] == '"' {
				_ = json.Unmarshal(arg, &want) // valid: the message was parsed before
			}
			if present != sent || present && got != want {
				return sub.Header
			}
		}
		if bad := mirrored(h, sub, arg); bad != "" {
			return bad
		}
	}
	return ""
}
