package ailumina

import (
	"fmt"
	"strconv"

	"github.com/stoahub/stoa/internal/wire"
)

// Kind says what an event is.
type Kind uint8

// The kinds of events. All but Chat are told apart by the member type.
const (
	Other        Kind = iota // of a type that is not known; it means nothing to us
	Sentence                 // a part of the answer
	ToolRunning              // the agent has begun to use a tool
	ToolComplete             // the tool has ended
	Complete                 // the answer is complete: the last event
	Failure                  // there will be no answer: the last event
	Chat                     // a whole message of the conversation
)

// types are the names of kinds on the wire.
var types = map[Kind]string{Sentence: "sentence", ToolRunning: "tool_running", ToolComplete: "tool_complete", Complete: "complete", Failure: "error"}

var kinds = func() map[string]Kind {
	m := map[string]Kind{}
	for k, name := range types {
		m[name] = k
	}
	return m
}()

// Event is one message of an agent.
type Event struct {
	Kind Kind
	Text string // of a Sentence, a Failure or a Chat
	Tool string // the name, of ToolRunning and ToolComplete
	Role string // who says it, of a Chat
	Type string // as it came, of an Other; may be empty

	// Notice says that a Sentence is no part of the answer: it is about what the
	// agent waits for. Clients that do not know that show it like the others.
	Notice bool
	// Void is, of a notice, how many bytes of the sentences before it do not count
	// any more: the agent begins that part of its answer anew.
	Void int
}

// Name is the event's type, for the log.
func (e Event) Name() string {
	switch name, ok := types[e.Kind]; {
	case ok:
		return name
	case e.Kind == Chat:
		return "chat"
	}
	return e.Type
}

// DecodeEvent reads a message of an agent. A type that is not known is no
// error; a known one whose members are not of its form is.
func DecodeEvent(b []byte) (Event, error) {
	if len(b) > MessageBytes {
		return Event{}, tooLong(MessageBytes)
	}
	if err := wire.Valid(b, wire.FromUpstream); err != nil {
		return Event{}, fmt.Errorf("the message is not JSON: %w", err)
	}
	if !isObject(b) {
		return Event{}, fmt.Errorf("the message is not a JSON object")
	}
	name, ok := "", true
	if raw := wire.Get(b, "type"); !isNull(raw) {
		if name, ok = wire.String(raw); !ok {
			return Event{}, fmt.Errorf("the message's type is not a string")
		}
	}
	e := Event{Kind: kinds[name]}
	switch e.Kind {
	case Sentence:
		if e.Notice = string(wire.Get(b, "notice")) == "true"; e.Notice {
			n, err := strconv.Atoi(string(wire.Get(b, "void")))
			if e.Void = n; err != nil || n < 0 {
				e.Void = 0
			}
		}
		return e.text(b, "sentence")
	case Failure:
		return e.text(b, "error")
	case ToolRunning, ToolComplete:
		if e.Tool, ok = wire.String(wire.Get(b, "tool_name")); !ok {
			return Event{}, fmt.Errorf("a message of type %s has no tool_name that is a string", name)
		}
		return e, nil
	case Complete:
		return e, nil
	}
	if wire.Get(b, "role") == nil {
		return Event{Type: name}, nil
	}
	return decodeChat(b)
}

// text sets the text of an event, which is in one member.
func (e Event) text(b []byte, member string) (Event, error) {
	var ok bool
	if e.Text, ok = wire.String(wire.Get(b, member)); !ok {
		return Event{}, fmt.Errorf("a message of type %s has no %s that is a string", types[e.Kind], member)
	}
	return e, nil
}

// decodeChat reads a message of the conversation: its content or, where there
// is none, the text of its parts.
func decodeChat(b []byte) (Event, error) {
	e := Event{Kind: Chat}
	var ok bool
	if e.Role, ok = wire.String(wire.Get(b, "role")); !ok {
		return Event{}, fmt.Errorf("the role of a chat message is not a string")
	}
	if raw := wire.Get(b, "content"); !isNull(raw) {
		if e.Text, ok = wire.String(raw); !ok {
			return Event{}, fmt.Errorf("the content of a chat message is not a string")
		}
	}
	raw := wire.Get(b, "parts")
	if e.Text != "" || isNull(raw) {
		return e, nil
	}
	parts, ok := wire.Elements(raw)
	if !ok {
		return Event{}, fmt.Errorf("the parts of a chat message are not an array")
	}
	var text []byte
	for _, p := range parts {
		// Parts may be something other than text.
		if s, ok := wire.String(wire.Get(p, "text")); ok {
			text = append(text, s...)
		}
	}
	e.Text = string(text)
	return e, nil
}

// Append appends the event as it is sent.
func (e Event) Append(dst []byte) []byte {
	if e.Kind == Chat {
		dst = wire.AppendString(append(dst, `{"role":`...), e.Role)
		dst = wire.AppendString(append(dst, `,"content":`...), e.Text)
		dst = wire.AppendString(append(dst, `,"parts":[{"text":`...), e.Text)
		return append(dst, `}]}`...)
	}
	name, ok := types[e.Kind]
	if !ok {
		name = e.Type
	}
	dst = wire.AppendString(append(dst, `{"type":`...), name)
	switch e.Kind {
	case Sentence:
		dst = wire.AppendString(append(dst, `,"sentence":`...), e.Text)
		if e.Notice {
			dst = append(dst, `,"notice":true`...)
		}
		if e.Void > 0 {
			dst = strconv.AppendInt(append(dst, `,"void":`...), int64(e.Void), 10)
		}
	case ToolRunning, ToolComplete:
		dst = wire.AppendString(append(dst, `,"tool_name":`...), e.Tool)
	case Failure:
		dst = wire.AppendString(append(dst, `,"error":`...), e.Text)
	}
	return append(dst, '}')
}
