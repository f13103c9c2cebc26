package ailumina

import (
	"fmt"

	"github.com/stoahub/stoa/internal/wire"
)

// Question is what a client sends: the one message of its side.
type Question struct {
	Input   string // what the user says
	History []Turn // what was said before, oldest first
	FileID  string // a file that was uploaded before; empty for none
}

// Turn is one message of a conversation.
type Turn struct {
	Role    string // user or assistant, mostly
	Content string
	// Raw is the message as it came, with members that are not known here. If
	// it is not nil it is what is sent.
	Raw []byte
}

// DecodeQuestion reads a question. It is strict: what is not of the form is
// refused, by an error that a person can read. Members that are not known are
// passed over. The question keeps parts of b.
func DecodeQuestion(b []byte) (Question, error) {
	var q Question
	if len(b) > MessageBytes {
		return q, tooLong(MessageBytes)
	}
	if err := wire.Valid(b, wire.FromClient); err != nil {
		return q, fmt.Errorf("the message is not JSON: %w", err)
	}
	if !isObject(b) {
		return q, fmt.Errorf("the message is not a JSON object")
	}
	input, ok := wire.String(wire.Get(b, "user_input"))
	if !ok {
		return q, fmt.Errorf("user_input is missing or not a string")
	}
	q.Input = input
	if raw := wire.Get(b, "fileId"); !isNull(raw) {
		if q.FileID, ok = wire.String(raw); !ok {
			return q, fmt.Errorf("fileId is not a string")
		}
	}
	if raw := wire.Get(b, "chat_messages"); !isNull(raw) {
		history, err := DecodeHistory(raw)
		if err != nil {
			return q, err
		}
		q.History = history
	}
	return q, nil
}

// DecodeHistory reads the value of chat_messages, which is known to be JSON.
// The turns keep parts of b.
func DecodeHistory(b []byte) ([]Turn, error) {
	elements, ok := wire.Elements(b)
	switch {
	case !ok:
		return nil, fmt.Errorf("chat_messages is not an array")
	case len(elements) > Turns:
		return nil, fmt.Errorf("chat_messages has %d messages; more than %d are not taken", len(elements), Turns)
	}
	var turns []Turn
	for i, raw := range elements {
		if !isObject(raw) {
			return nil, fmt.Errorf("chat_messages[%d] is not an object", i)
		}
		t := Turn{Raw: raw}
		if t.Role, ok = wire.String(wire.Get(raw, "role")); !ok || t.Role == "" {
			return nil, fmt.Errorf("chat_messages[%d].role is missing or not a string", i)
		}
		if t.Content, ok = wire.String(wire.Get(raw, "content")); !ok {
			return nil, fmt.Errorf("chat_messages[%d].content is missing or not a string", i)
		}
		turns = append(turns, t)
	}
	return turns, nil
}

// Append appends the question as it is sent.
func (q Question) Append(dst []byte) []byte {
	dst = wire.AppendString(append(dst, `{"user_input":`...), q.Input)
	dst = append(dst, `,"chat_messages":[`...)
	for i, t := range q.History {
		if i > 0 {
			dst = append(dst, ',')
		}
		if t.Raw != nil {
			dst = append(dst, t.Raw...)
			continue
		}
		dst = wire.AppendString(append(dst, `{"role":`...), t.Role)
		dst = wire.AppendString(append(dst, `,"content":`...), t.Content)
		dst = append(dst, '}')
	}
	dst = append(dst, ']')
	if q.FileID != "" {
		dst = wire.AppendString(append(dst, `,"fileId":`...), q.FileID)
	}
	return append(dst, '}')
}

func tooLong(limit int) error {
	return fmt.Errorf("the message is longer than %d bytes", limit)
}

// isObject reports whether valid JSON is an object.
func isObject(raw []byte) bool {
	for _, c := range raw {
		switch c {
		case ' ', '\t', '\r', '\n':
		default:
			return c == '{'
		}
	}
	return false
}

// isNull reports whether a member is missing or null.
func isNull(raw []byte) bool { return raw == nil || string(raw) == "null" }
