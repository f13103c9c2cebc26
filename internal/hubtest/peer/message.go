package peer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// JSON-RPC and MCP error codes.
const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeUnknownMethod  = -32601
	codeInvalidParams  = -32602
	codeServer         = -32000
	codeNoSession      = -32001
	codeNoResource     = -32002
	codeHeaderMismatch = -32020
	codeNeedCapability = -32021
	codeVersion        = -32022
	codeVisitFirst     = -32042
)

const metaPrefix = "io.modelcontextprotocol/"

// message is one JSON-RPC message with its members left raw.
type message struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
	Result  json.RawMessage `json:"result"`
	Error   json.RawMessage `json:"error"`
}

func (m message) isResponse() bool     { return m.Method == "" }
func (m message) isNotification() bool { return m.Method != "" && m.ID == nil }

// parse reads one message strictly; the code says which JSON-RPC error its
// failure is.
func parse(b []byte) (m message, code int, err error) {
	if !json.Valid(b) {
		return m, codeParse, errors.New("the message is not JSON")
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return message{}, codeInvalidRequest, fmt.Errorf("the message is no JSON-RPC object: %w", err)
	}
	switch {
	case m.JSONRPC != "2.0":
		err = fmt.Errorf(`jsonrpc is %q, must be "2.0"`, m.JSONRPC)
	case m.ID != nil && !validID(m.ID):
		err = fmt.Errorf("id %s is neither a string nor an integer", m.ID)
	case m.isResponse() && (m.ID == nil || (m.Result == nil) == (m.Error == nil)):
		err = errors.New("neither a request nor a response")
	case !m.isResponse() && (m.Result != nil || m.Error != nil):
		err = errors.New("both a request and a response")
	case m.Params != nil && m.Params[0] != '{':
		err = errors.New("params must be an object")
	}
	return m, codeInvalidRequest, err
}

func validID(id json.RawMessage) bool {
	if id[0] == '"' {
		return true
	}
	_, err := strconv.ParseInt(string(id), 10, 64)
	return err == nil
}

// params holds every member of any request's params that the peer reads.
type params struct {
	Meta            map[string]json.RawMessage `json:"_meta"`
	Name            string                     `json:"name"`
	URI             string                     `json:"uri"`
	Arguments       json.RawMessage            `json:"arguments"`
	Cursor          *string                    `json:"cursor"`
	Level           string                     `json:"level"`
	ProtocolVersion string                     `json:"protocolVersion"`
	Capabilities    map[string]json.RawMessage `json:"capabilities"`
	ClientInfo      json.RawMessage            `json:"clientInfo"`
	InputResponses  map[string]json.RawMessage `json:"inputResponses"`
	RequestState    string                     `json:"requestState"`
	TaskID          string                     `json:"taskId"`
	Notifications   filter                     `json:"notifications"`
	Argument        struct {
		Value string `json:"value"`
	} `json:"argument"`
}

// metaString returns a string of _meta under the protocol's prefix.
func (p *params) metaString(key string) string {
	var s string
	if json.Unmarshal(p.Meta[metaPrefix+key], &s) != nil {
		return ""
	}
	return s
}

// reply is what becomes of a request.
type reply struct {
	result  []byte // one of result and err is set, unless none
	err     []byte
	none    bool // no response is sent
	partial bool // half of the response is sent, then the connection breaks
	abort   bool // the connection breaks at once
}

// line is the response message for a request id; result and error go in as
// they are.
func (r reply) line(id json.RawMessage) []byte {
	member, body := `,"result":`, r.result
	if r.err != nil {
		member, body = `,"error":`, r.err
	}
	return join(`{"jsonrpc":"2.0","id":`, string(id), member, string(body), "}")
}

// code is the JSON-RPC code of an error reply, 0 for a result.
func (r reply) code() int {
	var e struct {
		Code int `json:"code"`
	}
	if r.err == nil || json.Unmarshal(r.err, &e) != nil {
		return 0
	}
	return e.Code
}

func refuse(code int, data any, format string, args ...any) reply {
	e := map[string]any{"code": code, "message": fmt.Sprintf(format, args...)}
	if data != nil {
		e["data"] = data
	}
	return reply{err: encode(e)}
}

func notification(method string, params any) []byte {
	return join(`{"jsonrpc":"2.0","method":`, string(encode(method)), `,"params":`, string(encode(params)), "}")
}

// encode marshals without escaping HTML, so that the text of an answer is as
// readable on the wire as it was given. It panics on what cannot be encoded,
// which only a mistake in this package can cause.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(fmt.Sprintf("peer: encode %T: %v", v, err))
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

func join(parts ...string) []byte {
	var b []byte
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

// cancels is the id that a notifications/cancelled names.
func cancels(params json.RawMessage) json.RawMessage {
	var p struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	if json.Unmarshal(params, &p) != nil {
		return nil
	}
	return p.RequestID
}
