// Package envelope owns the result form {success, data, message, error, code}
// of built-in tools and of POST /api/tools/{tool}, and the only conversion
// between it and the result of a tool in MCP.
//
// Data stays bytes: what a tool said is not decoded and encoded again.
package envelope

import (
	"encoding/json"
	"strings"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/wire"
)

// OK is the code of a result that went well, and Failed that of one whose tool
// says only that it failed.
const (
	OK     = "SUCCESS"
	Failed = "TOOL_ERROR"
)

// Envelope is one result.
type Envelope struct {
	Success bool
	Data    []byte // raw JSON; nil means null
	Message string
	Error   string // empty means null
	Code    string
}

// Good returns the envelope of what went well.
func Good(data []byte, message string) Envelope {
	return Envelope{Success: true, Data: data, Message: message, Code: OK}
}

// Bad returns the envelope of a fault. Its code is the Kind's name in capitals.
func Bad(err error) Envelope {
	f := fault.Of(err)
	e := Envelope{Message: f.Advice(), Error: f.Text(), Code: strings.ToUpper(f.Kind.String())}
	if len(f.Data) > 0 {
		if b, err := json.Marshal(f.Data); err == nil {
			e.Data = b
		}
	}
	return e
}

// JSON renders the envelope.
func (e Envelope) JSON() []byte {
	dst := make([]byte, 0, len(e.Data)+len(e.Message)+len(e.Error)+96)
	if e.Success {
		dst = append(dst, `{"success":true,"data":`...)
	} else {
		dst = append(dst, `{"success":false,"data":`...)
	}
	if e.Data == nil {
		dst = append(dst, "null"...)
	} else {
		dst = append(dst, e.Data...)
	}
	dst = wire.AppendString(append(dst, `,"message":`...), e.Message)
	dst = append(dst, `,"error":`...)
	if e.Error == "" {
		dst = append(dst, "null"...)
	} else {
		dst = wire.AppendString(dst, e.Error)
	}
	dst = wire.AppendString(append(dst, `,"code":`...), e.Code)
	return append(dst, '}')
}

// Result renders the envelope as the result of a tool: as text, and as
// structured content.
func (e Envelope) Result() []byte {
	body := e.JSON()
	dst := append(make([]byte, 0, 2*len(body)+96), `{"content":[{"type":"text","text":`...)
	dst = wire.AppendString(dst, string(body))
	dst = append(append(dst, `}],"structuredContent":`...), body...)
	if e.Success {
		return append(dst, '}')
	}
	return append(dst, `,"isError":true}`...)
}

// Refused returns the envelope of a JSON-RPC error object with which a server
// answered a call.
func Refused(object []byte) Envelope {
	e := Envelope{Code: Failed, Data: wire.Get(object, "data")}
	e.Error, _ = wire.String(wire.Get(object, "message"))
	if e.Error == "" {
		e.Error = "the server refused the call and did not say why"
	}
	return e
}

// Of makes an envelope of the result of a tool. A result that is an envelope
// already is taken as it is. Else data is the structured content if there is
// any, a single text that is a JSON object or array as that, a single text as
// a string, and the content as it is otherwise. Where a card has taken the
// place of the result, data is the card. The message tells what was kept.
func Of(result []byte) Envelope {
	var isError bool
	var content, structured, meta []byte
	for _, f := range wire.Members(result) {
		switch string(f.Name) {
		case "isError":
			isError = string(f.Value) == "true"
		case "content":
			content = f.Value
		case "structuredContent":
			structured = f.Value
		case "_meta":
			meta = f.Value
		}
	}
	if failure := wire.Get(meta, MetaError); failure != nil && isError {
		return fromFault(failure)
	}
	if e, ok := parse(structured); ok {
		return e.kept(meta)
	}
	if card := wire.Get(meta, metaCard); card != nil && !isError {
		return Good(card, keptAs(card))
	}
	e := Envelope{Success: !isError, Data: Value(content, structured), Code: OK}
	if isError {
		e.Code, e.Error = Failed, Text(content)
		if e.Error == "" {
			e.Error = "the tool failed and did not say why"
		}
	}
	return e.kept(meta)
}

// What the hub adds to the _meta of a result: what became of the wish to keep it.
const (
	metaCard      = "stoa/card"
	metaSaved     = "stoa/saved"
	metaSaveError = "stoa/saveError"
	metaCached    = "stoa/cached" // it is that of a call before
)

// kept adds to the message what became of the wish to keep the result.
func (e Envelope) kept(meta []byte) Envelope {
	text := ""
	if saved := wire.Get(meta, metaSaved); saved != nil {
		text = keptAs(saved)
	} else if object := wire.Get(meta, metaSaveError); object != nil {
		why, _ := wire.String(wire.Get(object, "message"))
		text = "The result could not be kept: " + why
	}
	e.say(text)
	if age := wire.Get(wire.Get(meta, metaCached), "ageMs"); age != nil {
		e.say("This is a cached result, " + string(age) + " ms old.")
	}
	return e
}

// say adds a sentence to the message.
func (e *Envelope) say(text string) {
	if e.Message != "" && text != "" {
		e.Message = strings.TrimSuffix(e.Message, ".") + ". "
	}
	e.Message += text
}

func keptAs(card []byte) string {
	name, _ := wire.String(wire.Get(card, "name"))
	return "The result is kept as @" + name + "."
}

// MetaError is where the result of a call that could not be made says why.
const MetaError = "stoa/error"

// FaultKind is the kind of the hub's own fault that a result tells a model of;
// empty if the tool spoke itself.
func FaultKind(result []byte) string {
	object := wire.Get(wire.Get(result, "_meta"), MetaError)
	kind, _ := wire.String(wire.Get(wire.Get(object, "data"), "kind"))
	return kind
}

// fromFault makes an envelope of a fault in its form for the wire.
func fromFault(object []byte) Envelope {
	e := Envelope{Data: wire.Get(object, "data")}
	e.Error, _ = wire.String(wire.Get(object, "message"))
	e.Message, _ = wire.String(wire.Get(e.Data, "hint"))
	kind, _ := wire.String(wire.Get(e.Data, "kind"))
	e.Code = strings.ToUpper(kind)
	return e
}

// Value is what a result says, as one JSON value: see Of.
func Value(content, structured []byte) []byte {
	if len(structured) > 0 && string(structured) != "null" {
		return structured
	}
	blocks, ok := wire.Elements(content)
	if !ok {
		return nil
	}
	if len(blocks) != 1 || string(wire.Get(blocks[0], "type")) != `"text"` {
		return content
	}
	raw := wire.Get(blocks[0], "text")
	text, ok := wire.String(raw)
	if !ok {
		return content
	}
	if inner := strings.TrimSpace(text); inner != "" && (inner[0] == '{' || inner[0] == '[') && wire.Valid([]byte(inner), wire.FromClient) == nil {
		return []byte(inner)
	}
	return raw
}

// Text is the text of a content array, one block per line.
func Text(content []byte) string {
	blocks, _ := wire.Elements(content)
	var parts []string
	for _, b := range blocks {
		if string(wire.Get(b, "type")) == `"text"` {
			if s, ok := wire.String(wire.Get(b, "text")); ok {
				parts = append(parts, s)
			}
		}
	}
	return strings.Join(parts, "\n")
}

// parse reads an envelope of ours.
func parse(raw []byte) (Envelope, bool) {
	var e Envelope
	seen := 0
	for _, f := range wire.Members(raw) {
		ok := true
		switch string(f.Name) {
		case "success":
			e.Success = string(f.Value) == "true"
		case "data":
			if e.Data = f.Value; string(f.Value) == "null" {
				e.Data = nil
			}
		case "message":
			e.Message, ok = wire.String(f.Value)
		case "error":
			if string(f.Value) != "null" {
				e.Error, ok = wire.String(f.Value)
			}
		case "code":
			e.Code, ok = wire.String(f.Value)
		default:
			return Envelope{}, false
		}
		if !ok {
			return Envelope{}, false
		}
		seen++
	}
	return e, seen == 5
}
