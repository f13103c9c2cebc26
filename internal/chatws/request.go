package chatws

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/stoahub/stoa/internal/chat"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/spell"
	"github.com/stoahub/stoa/internal/wire"
)

// The frames that a client may send.
const (
	askMessage = "message"
	askAbort   = "abort"
	askApprove = "approve"
	askReply   = "reply"
	askResume  = "resume"
	askPing    = "ping"
)

var askTypes = []string{askMessage, askAbort, askApprove, askReply, askResume, askPing}

// The ways to answer an approval.
const (
	sayApprove = "approve"
	sayDeny    = "deny"
	sayEdit    = "edit"
)

// The bounds of what a client says, in bytes. The text has those of the frame.
const (
	maxName   = 256 // agents, files, turns, approvals, Sessions
	maxKey    = 200
	maxReason = 4096
)

// request is what a client asks for, by a frame or by the body of a POST. Only
// the members of its type are set.
type request struct {
	Type string

	Session string // of a body: a socket has one already
	Follow  bool   // of a body: there may be nothing to send

	Text   string // message
	Agent  string
	FileID string
	Key    string

	Turn   string // abort
	Call   string
	Queued bool

	ID       string // approve, reply
	Action   string
	Content  json.RawMessage
	Decision string
	Args     json.RawMessage
	Remember string
	Reason   string

	After  uint64 // resume
	Offset int
}

// parse reads a frame. What is wrong with it is a fault for the client, and
// request then says what was understood of it.
func parse(b []byte, textBytes int) (request, *fault.Error) {
	var q request
	if f := validJSON(b, "the frame"); f != nil {
		return q, f
	}
	m := membersOf(b, "")
	if m == nil {
		return q, shape("", "the frame is %s, and must be an object such as %s", kindOf(b), example)
	}
	q.Type = m.text("type", true, maxName)
	if m.err == nil && !slices.Contains(askTypes, q.Type) {
		f := shape("/type", "%q is no type of frame", clip(q.Type))
		f.Hint = among(q.Type, "The types are", askTypes)
		return q, f.With("allowed", askTypes)
	}
	payload := m.object("payload", q.Type != askPing && q.Type != askAbort)
	m.done("of a frame")
	if m.err != nil {
		return q, m.err
	}
	if payload == nil {
		payload = json.RawMessage("{}")
	}
	p := membersOf(payload, "/payload")
	q.read(p, textBytes)
	p.done("of the payload of a frame of type " + q.Type)
	return q, p.err
}

const example = `{"type":"message","payload":{"text":"Hello"}}`

// parseBody reads the body of a POST: what would be the payload of a frame of
// that type, with the Session in sessionId.
func parseBody(b []byte, kind string, follow bool, textBytes int) (request, *fault.Error) {
	q := request{Type: kind, Follow: follow}
	if f := validJSON(b, "the body"); f != nil {
		return q, f
	}
	m := membersOf(b, "")
	if m == nil {
		return q, shape("", "the body is %s, and must be an object", kindOf(b))
	}
	q.Session = m.text("sessionId", false, maxName)
	q.read(m, textBytes)
	m.done("of this request")
	return q, m.err
}

func (q *request) read(m *members, textBytes int) {
	switch q.Type {
	case askMessage:
		q.FileID = m.text("fileId", false, maxName)
		q.Text = m.text("text", q.FileID == "" && !q.Follow, textBytes)
		if m.err == nil && q.FileID == "" && !q.Follow && strings.TrimSpace(q.Text) == "" {
			m.fail("text", "the text is empty: there is nothing to answer")
		}
		q.Agent = m.text("agent", false, maxName)
		q.Key = m.text("key", false, maxKey)
	case askAbort:
		q.Turn = m.text("turn", false, maxName)
		q.Call = m.text("call", false, maxName)
		q.Queued = m.flag("queued")
	case askApprove:
		q.ID = m.text("id", true, maxName)
		q.Decision = m.word("decision", true, sayApprove, sayDeny, sayEdit)
		q.Args = m.object("args", q.Decision == sayEdit)
		if m.err == nil && q.Args != nil && q.Decision != sayEdit {
			m.fail("args", "arguments come with the decision %q only; this one is %q", sayEdit, q.Decision)
		}
		q.Remember = m.word("remember", false, "once", "session", "tool", "server")
		q.Reason = m.text("reason", false, maxReason)
	case askReply:
		q.ID = m.text("id", true, maxName)
		q.Action = m.word("action", true, chat.Accept, chat.Decline, chat.Cancel)
		q.Content = m.object("content", false)
		if m.err == nil && q.Content != nil && q.Action != chat.Accept {
			m.fail("content", "content comes with the action %q only; this one is %q", chat.Accept, q.Action)
		}
	case askResume:
		q.After = m.number("after_seq", true)
		q.Offset = int(m.number("offset", false))
	}
}

// validJSON says what is wrong with text that should be JSON.
func validJSON(b []byte, what string) *fault.Error {
	err := wire.Valid(b, wire.FromClient)
	if err == nil {
		return nil
	}
	f := fault.New(fault.Parse, "", "%s is not JSON: %v", what, err)
	f.Hint = "Send one JSON object in UTF-8, such as " + example + "."
	return f
}

// members are those of an object that is being read. The first fault is kept.
type members struct {
	at     string // a JSON pointer to the object
	fields []wire.Field
	known  []string
	err    *fault.Error
}

// membersOf returns the members of an object, nil if b is none.
func membersOf(b []byte, at string) *members {
	if kindOf(b) != "an object" {
		return nil
	}
	return &members{at: at, fields: wire.Members(b)}
}

func (m *members) fail(name, format string, args ...any) {
	if m.err == nil {
		m.err = shape(m.at+"/"+name, format, args...)
	}
}

// take returns the value of a member, nil if it is missing or null.
func (m *members) take(name string, need bool) []byte {
	m.known = append(m.known, name)
	for _, f := range m.fields {
		if string(f.Name) == name && string(f.Value) != "null" {
			return f.Value
		}
	}
	if need {
		if near := m.misspelt(name); near != "" {
			m.fail(name, "it is missing; %q is not it", near)
		} else {
			m.fail(name, "it is missing")
		}
	}
	return nil
}

// misspelt finds a member that is there in place of one that is missing.
func (m *members) misspelt(name string) string {
	var have []string
	for _, f := range m.fields {
		if len(f.Name) <= maxName {
			have = append(have, string(f.Name))
		}
	}
	if near := spell.Near(name, have, 1); len(near) > 0 && near[0] != name {
		return near[0]
	}
	return ""
}

func (m *members) text(name string, need bool, limit int) string {
	raw := m.take(name, need)
	if raw == nil {
		return ""
	}
	s, ok := wire.String(raw)
	switch {
	case !ok:
		m.fail(name, "it is %s, and must be a string", kindOf(raw))
	case len(s) > limit:
		if m.err == nil {
			m.err = fault.New(fault.TooLarge, m.at+"/"+name, "it has %d bytes, and may have %d", len(s), limit).With("at", m.at+"/"+name)
			m.err.Hint = "Send less."
		}
	default:
		return s
	}
	return ""
}

func (m *members) word(name string, need bool, allowed ...string) string {
	raw := m.take(name, need)
	if raw == nil {
		return ""
	}
	s, ok := wire.String(raw)
	if ok && slices.Contains(allowed, s) {
		return s
	}
	said := kindOf(raw)
	if ok {
		said = strconv.Quote(clip(s))
	}
	if m.err == nil {
		m.fail(name, "it is %s", said)
		m.err.Hint = among(s, "It may be", allowed)
		m.err.With("allowed", allowed)
	}
	return ""
}

func (m *members) number(name string, need bool) uint64 {
	raw := m.take(name, need)
	if raw == nil {
		return 0
	}
	n, err := strconv.ParseUint(string(raw), 10, 53)
	if err != nil {
		said := kindOf(raw)
		if said == "a number" {
			said = clip(string(raw))
		}
		m.fail(name, "it is %s, and must be a whole number from 0 to 2^53-1", said)
	}
	return n
}

func (m *members) flag(name string) bool {
	raw := m.take(name, false)
	if raw != nil && kindOf(raw) != "true or false" {
		m.fail(name, "it is %s, and must be true or false", kindOf(raw))
	}
	return string(raw) == "true"
}

func (m *members) object(name string, need bool) json.RawMessage {
	raw := m.take(name, need)
	if raw == nil {
		return nil
	}
	if kindOf(raw) != "an object" {
		m.fail(name, "it is %s, and must be an object", kindOf(raw))
		return nil
	}
	return slices.Clone(raw) // it outlives the frame
}

// done looks for members that mean nothing: a misspelt one that is passed over
// is a wish that is not granted.
func (m *members) done(where string) {
	if m.err != nil {
		return
	}
	for _, f := range m.fields {
		name := string(f.Name)
		if slices.Contains(m.known, name) {
			continue
		}
		m.fail(clip(name), "there is no such member %s", where)
		m.err.Hint = among(name, "The members are", m.known)
		m.err.With("allowed", m.known)
		return
	}
}

// shape is the fault of what has not the form it must have. at is where: a JSON
// pointer, "" for all of it.
func shape(at, format string, args ...any) *fault.Error {
	f := fault.New(fault.InvalidParams, at, format, args...)
	f.Hint = "docs/chat.md has every frame."
	if at != "" {
		f.With("at", at)
	}
	return f
}

// among is the hint for a word that is none of those allowed.
func among(word, intro string, allowed []string) string {
	hint := intro + " " + strings.Join(allowed, ", ") + "."
	if near := spell.Near(clip(word), allowed, 1); len(near) > 0 && near[0] != word {
		hint = fmt.Sprintf("Did you mean %s? ", near[0]) + hint
	}
	return hint
}

// kindOf says what a JSON value is.
func kindOf(raw []byte) string {
	for _, c := range raw {
		switch c {
		case ' ', '\t', '\r', '\n':
			continue
		case '{':
			return "an object"
		case '[':
			return "an array"
		case '"':
			return "a string"
		case 't', 'f':
			return "true or false"
		case 'n':
			return "null"
		}
		return "a number"
	}
	return "nothing"
}

// clip shortens what a client sent to what can be shown.
func clip(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
