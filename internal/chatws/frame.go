package chatws

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/stoahub/stoa/internal/chat"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/policy"
	"github.com/stoahub/stoa/internal/wire"
)

// The states of a connection.
const (
	stateConnected    = "connected"
	stateReconnected  = "reconnected"
	stateReconnecting = "reconnecting" // the hub stops: come back
	stateError        = "error"
)

// outgoing is a frame that a client is sent. Text has a form of its own, which is the same
// on the wire.
type outgoing struct {
	Type    string     `json:"type"`
	Seq     uint64     `json:"seq,omitempty"`
	Time    *time.Time `json:"ts,omitempty"`
	Turn    string     `json:"turn,omitempty"`
	Call    string     `json:"call,omitempty"`
	Payload any        `json:"payload,omitempty"`
}

// connection is the payload of the first frame, and of the last one where the
// hub ends it.
type connection struct {
	State   string `json:"state"`
	Message string `json:"message"`
	Session string `json:"sessionId"`

	Seq       uint64            `json:"seq,omitempty"`       // the last event that the history has
	History   []Message         `json:"history,omitempty"`   // what was said
	Truncated bool              `json:"truncated,omitempty"` // the history begins later than the conversation
	Turn      string            `json:"turn,omitempty"`      // that runs
	Approvals []policy.Approval `json:"approvals,omitempty"` // that wait

	Elicitations []chat.Elicitation `json:"elicitations,omitempty"` // that wait for a reply

	Kind string `json:"kind,omitempty"` // of an error
	Hint string `json:"hint,omitempty"`
}

// status is the payload of a frame about a call, or about the hub.
type status struct {
	State   string          `json:"state"` // processing or complete
	Tool    string          `json:"tool,omitempty"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`

	IsError bool   `json:"isError,omitempty"`
	Status  string `json:"status,omitempty"`
	TookMS  int64  `json:"tookMs,omitempty"`
	Bytes   int    `json:"bytes,omitempty"`
	Saved   string `json:"saved,omitempty"`
	Edited  bool   `json:"edited,omitempty"`
	Event   string `json:"event,omitempty"` // the type of the frame that says the same; see restater
}

// encode renders a frame. What we make can always be rendered, save a float
// that is no number; then the frame says so.
func encode(f outgoing) []byte {
	b, err := plain(f)
	if err != nil {
		return encode(outgoing{Type: "error", Seq: f.Seq, Payload: map[string]string{"kind": fault.Internal.String(), "message": "a frame of type " + f.Type + " could not be encoded"}})
	}
	return b
}

// plain is JSON as it is read best: nobody puts it into a page as it is.
func plain(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// appendText renders a piece of a part. end is where the piece ends in the
// part, in bytes: a client that counts otherwise needs not count at all. A
// notice is not the model's words but the hub's.
func appendText(dst []byte, e *chat.Event, last, notice bool) []byte {
	kind := e.Type
	if notice {
		kind = chat.TextPart
	}
	dst = append(dst, `{"type":"`...)
	dst = append(dst, kind...)
	dst = append(dst, `","seq":`...)
	dst = strconv.AppendUint(dst, e.Seq, 10)
	if e.Turn != "" {
		dst = append(dst, `,"turn":`...)
		dst = wire.AppendString(dst, e.Turn)
	}
	dst = append(dst, `,"offset":`...)
	dst = strconv.AppendInt(dst, int64(e.Offset), 10)
	dst = append(dst, `,"end":`...)
	dst = strconv.AppendInt(dst, int64(e.Offset+len(e.Text)), 10)
	if last {
		dst = append(dst, `,"last":true`...)
	}
	dst = append(dst, `,"payload":{"content":`...)
	dst = wire.AppendString(dst, e.Text)
	if notice {
		dst = append(dst, `,"notice":true`...)
	}
	return append(dst, '}', '}')
}

// frames renders an event for a client that has seen offset bytes of it: one
// frame, or two for a turn whose end has words for the user.
func frames(e *chat.Event, offset int) [][]byte {
	switch {
	case e.Type == chat.TextPart || e.Type == chat.ReasoningPart:
		return [][]byte{appendText(nil, e, !e.Live, false)}
	case e.Type == chat.CallStarted && e.Call != nil:
		return [][]byte{encode(outgoing{Type: "status", Seq: e.Seq, Time: &e.Time, Turn: e.Turn, Call: e.Call.ID, Payload: processing(e.Call)})}
	case e.Type == chat.CallDone && e.Result != nil:
		return [][]byte{encode(outgoing{Type: "status", Seq: e.Seq, Time: &e.Time, Turn: e.Turn, Call: e.Result.Call, Payload: complete(e.Result)})}
	case e.Type == chat.TurnEnded && e.End != nil && e.End.Text != "" && offset < len(e.End.Text):
		// A client that knows the frames of the source alone sees why there is
		// no answer. It is the first half of this event, so that who is cut
		// off between the two is not told twice.
		said := &chat.Event{Seq: e.Seq, Turn: e.Turn, Text: e.End.Text[offset:], Offset: offset}
		return [][]byte{appendText(nil, said, false, true), encode(other(e))}
	}
	return [][]byte{encode(other(e))}
}

func processing(c *chat.Call) status {
	s := status{State: "processing", Tool: c.Name, Message: "Running " + c.Name + ".", Edited: c.Edited}
	if len(c.Args) > 0 {
		s.Data = append(append([]byte(`{"arguments":`), c.Args...), '}')
	}
	return s
}

func complete(r *chat.Result) status {
	s := status{State: "complete", Tool: r.Name, Message: r.Text, Data: object(r.Content), IsError: r.IsError, Status: r.Status, TookMS: r.TookMS, Bytes: r.Bytes, Saved: r.Saved}
	switch {
	case s.Message != "":
	case r.IsError:
		s.Message = fmt.Sprintf("%s: %s.", r.Name, r.Status)
	default:
		s.Message = r.Name + " is done."
	}
	return s
}

// object is what a tool said as an object, which status.data is in the source:
// an object as it is, anything else under the name of what it is.
func object(content string) json.RawMessage {
	if v := structured(content); v != nil && v[0] == '{' {
		return v
	} else if v != nil {
		return append(append([]byte(`{"result":`), v...), '}')
	}
	return append(wire.AppendString([]byte(`{"text":`), content), '}')
}

// structured returns content if it is a JSON object or array, else nil.
func structured(content string) json.RawMessage {
	b := bytes.TrimSpace([]byte(content))
	if len(b) == 0 || b[0] != '{' && b[0] != '[' || wire.Valid(b, wire.FromUpstream) != nil {
		return nil
	}
	return b
}

// other is the frame of an event that the source does not know: its members
// are the payload.
func other(e *chat.Event) outgoing {
	f := outgoing{Type: string(e.Type), Seq: e.Seq, Turn: e.Turn}
	if !e.Time.IsZero() {
		f.Time = &e.Time
	}
	if e.Live {
		f.Seq = 0 // it is in no log
	}
	switch {
	case e.Call != nil:
		f.Call = e.Call.ID
	case e.Progress != nil:
		f.Call = e.Progress.Call
	case e.Approval != nil:
		f.Call = e.Approval.Call
	case e.Elicitation != nil:
		f.Call = e.Elicitation.Call
	}
	rest := *e
	rest.Opaque = nil // the provider's, and of no use to anybody else
	if e.Input != nil {
		in := *e.Input
		in.Principal, in.Session, in.Actor = "", "", nil // the client's own
		rest.Input = &in
	}
	b, err := plain(&rest)
	if err != nil {
		f.Payload = map[string]string{"error": "this event could not be encoded"}
		return f
	}
	f.Payload = json.RawMessage(wire.Edit(nil, b, wire.Change{Name: "seq"}, wire.Change{Name: "ts"}, wire.Change{Name: "type"}, wire.Change{Name: "turn"}, wire.Change{Name: "live"}))
	return f
}

// errorFrame tells a client what was wrong with what it sent.
func errorFrame(q request, f *fault.Error) []byte {
	p := map[string]any{}
	for _, name := range []string{"at", "allowed"} {
		if v, ok := f.Data[name]; ok {
			p[name] = v
		}
	}
	p["kind"], p["message"], p["hint"] = f.Kind.String(), f.Text(), f.Advice()
	if f.Retryable() || f.Kind == fault.Limit {
		p["retryable"] = true
	}
	for name, v := range map[string]string{"frame": clip(q.Type), "key": q.Key, "id": q.ID} {
		if v != "" {
			p[name] = v
		}
	}
	return encode(outgoing{Type: "error", Payload: p})
}

// noticeFrame is a text of the hub's own, which is no part of the conversation:
// it has no seq.
func noticeFrame(text string) []byte {
	return encode(outgoing{Type: "text", Payload: notice{Content: text, Notice: true}})
}

// notice is the payload of a text that is the hub's own.
type notice struct {
	Content string `json:"content"`
	Notice  bool   `json:"notice"`
	Event   string `json:"event,omitempty"` // as that of status
}
