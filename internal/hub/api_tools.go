package hub

import (
	"bytes"
	"net/http"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/call"
	"github.com/stoahub/stoa/internal/envelope"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/wire"
)

// postTool calls a tool. A tool that says no has been called, so its envelope
// comes with status 200.
func (h *Hub) postTool(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	q, err := query(r, "session", "saveAs", "cards", "asks", "fresh")
	if err != nil {
		return err
	}
	cards := q.Get("cards")
	if cards != "" && cards != "on" && cards != "off" {
		return fault.New(fault.InvalidParams, "cards", "%q is neither on nor off", cards)
	}
	for _, name := range []string{"asks", "fresh"} {
		if v := q.Get(name); v != "" && v != "true" && v != "false" {
			return fault.New(fault.InvalidParams, name, "%q is neither true nor false", v)
		}
	}
	args, err := h.body(w, r)
	if err != nil {
		return err
	}
	var round []wire.Change
	asks := q.Get("asks") == "true"
	if asks {
		if args, round, err = roundOf(args); err != nil {
			return err
		}
	}
	name := r.Header.Get(mcp.HeaderSession)
	if name == "" {
		name = q.Get("session")
	}
	client := apiClient(who)
	if asks {
		client.Capabilities = []byte(`{"elicitation":{"form":{},"url":{}}}`)
	}
	if _, err := call.Bind(h.state.sessions, client, name); err != nil {
		return err
	}
	req := toolRequest(r.PathValue("tool"), args, q.Get("saveAs"), q.Get("fresh") == "true", obs.ParentOf(r.Header))
	if round != nil {
		req.Params = wire.Edit(nil, req.Params, round...)
		req.Fields = wire.Members(req.Params)
	}
	req.Client, req.Session = client, name
	resp, err := h.gateway.Call(r.Context(), req, cards == "on")
	if err != nil {
		return err
	}
	defer resp.Release()
	if ms := wire.Get(wire.Get(wire.Get(resp.Result, "_meta"), call.MetaCached), "ageMs"); ms != nil {
		w.Header().Set("Stoa-Cached-Ms", string(ms))
	}
	if asks && mcp.NeedsInput(resp.Result) {
		write(w, http.StatusOK, asked(resp.Result).JSON())
		return nil
	}
	e, err := answer(r.PathValue("tool"), resp)
	if err != nil {
		return err
	}
	write(w, http.StatusOK, e.JSON())
	return nil
}

// inputRequired is the code of an answer by which a tool's server asks something.
const inputRequired = "INPUT_REQUIRED"

// asked is the envelope of what a server asks.
func asked(result []byte) envelope.Envelope {
	var data []wire.Change
	for _, name := range []string{"inputRequests", "requestState"} {
		if v := wire.Get(result, name); v != nil {
			data = append(data, wire.Change{Name: name, Value: v})
		}
	}
	return envelope.Envelope{Data: wire.Edit(nil, []byte("{}"), data...), Code: inputRequired, Error: "the tool asks for input",
		Message: "Send the same arguments again, with inputResponses and the requestState."}
}

// roundOf takes apart the body of a call whose caller can be asked: the arguments,
// and from the second round on the answers.
func roundOf(body []byte) (args []byte, round []wire.Change, err error) {
	args = []byte("{}")
	for _, f := range wire.Members(body) {
		switch name := string(f.Name); name {
		case "arguments":
			if args = f.Value; args[0] != '{' {
				return nil, nil, fault.New(fault.InvalidParams, name, "it is not an object")
			}
		case "inputResponses", "requestState":
			round = append(round, wire.Change{Name: name, Value: f.Value})
		default:
			return nil, nil, &fault.Error{Kind: fault.InvalidParams, Subject: name, Msg: "it is not a member of the body of a call with asks=true", Hint: "Send arguments, inputResponses and requestState."}
		}
	}
	return args, round, nil
}

// body reads the arguments of a call.
func (h *Hub) body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	args, err := h.endpoint.Body(w, r)
	if err != nil {
		return nil, err
	}
	if args = bytes.TrimSpace(args); len(args) == 0 {
		return []byte("{}"), nil
	}
	if err := wire.Valid(args, wire.FromClient); err != nil {
		f := fault.New(fault.Parse, "", "the body is not JSON: %v", err)
		f.Hint = "Send the arguments as a JSON object."
		return nil, f
	}
	if args[0] != '{' {
		return nil, &fault.Error{Kind: fault.InvalidArguments, Msg: "the body is not a JSON object", Hint: `Send the arguments as an object, such as {"path":"todo.md"}.`}
	}
	return args, nil
}

// toolRequest is the call of a tool as the protocol has it.
func toolRequest(tool string, args []byte, saveAs string, fresh bool, from obs.Parent) *mcp.Request {
	req := &mcp.Request{Method: "tools/call", Stream: mcp.Discard}
	params := wire.AppendString([]byte(`{"name":`), tool)
	params = append(append(params, `,"arguments":`...), args...)
	var about []wire.Change
	for _, m := range [][2]string{{call.MetaSaveAs, saveAs}, {"traceparent", from.Traceparent}, {"tracestate", from.Tracestate}} {
		if m[1] != "" {
			about = append(about, wire.Change{Name: m[0], Value: wire.Quote(m[1])})
		}
	}
	if fresh {
		about = append(about, wire.Change{Name: call.MetaFresh, Value: []byte("true")})
	}
	if about != nil {
		meta := wire.Edit(nil, []byte("{}"), about...)
		params = append(append(params, `,"_meta":`...), meta...)
		req.Meta = wire.Members(meta)
	}
	req.Params = append(params, '}')
	req.Fields = wire.Members(req.Params)
	return req
}

// answer makes an envelope of what a tool's server said.
func answer(tool string, resp mcp.Response) (envelope.Envelope, error) {
	if resp.Error != nil {
		return envelope.Refused(resp.Error), nil
	}
	if string(wire.Get(resp.Result, "resultType")) == `"input_required"` {
		return envelope.Envelope{}, &fault.Error{Kind: fault.MissingCapability, Subject: tool, Msg: "the tool asks for input, which cannot be given here",
			Hint: "Call it with asks=true and answer, or by MCP from a client that can ask its user."}
	}
	return envelope.Of(resp.Result), nil
}
