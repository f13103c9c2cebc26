package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/stoahub/stoa/internal/suspect"
)

// frame is one message of a conversation's socket, in either direction.
// docs/chat.md has them all; those that are not known here pass by.
type frame struct {
	Type    string          `json:"type"`
	Seq     uint64          `json:"seq,omitempty"`
	Turn    string          `json:"turn,omitempty"`
	Call    string          `json:"call,omitempty"`
	Offset  int             `json:"offset,omitempty"` // where a piece of text begins in its part, in bytes
	End     int             `json:"end,omitempty"`    // and where it ends
	Last    bool            `json:"last,omitempty"`   // the part is whole
	Payload json.RawMessage `json:"payload,omitempty"`

	raw    []byte // as it came, on one line
	forgot bool   // of connection: the hub has less of the conversation than was seen
}

// parseFrame reads what the hub sent.
func parseFrame(b []byte) (frame, error) {
	var f frame
	if err := json.Unmarshal(b, &f); err != nil {
		return f, failed(exitFailed, "Are the hub and this program of the same version?", "the hub sent a frame that cannot be read: %w", err)
	}
	var line bytes.Buffer
	if err := json.Compact(&line, b); err != nil {
		return f, err
	}
	f.raw = line.Bytes()
	return f, nil
}

// makeFrame makes a frame for the hub.
func makeFrame(kind string, payload any) frame {
	f := frame{Type: kind}
	if payload != nil {
		f.Payload, _ = json.Marshal(payload) // of strings and JSON that has been read
	}
	f.raw, _ = json.Marshal(f)
	return f
}

// read gives a payload its form. A payload of another form leaves what it has
// not at its zero value: an unknown hub must not end a conversation.
func (f *frame) read(into any) { _ = json.Unmarshal(f.Payload, into) }

// saidText is the payload of text and reasoning.
type saidText struct {
	Content string `json:"content"`
	Notice  bool   `json:"notice,omitempty"` // the hub's words, not the model's
}

// connectionState is the payload of connection.
type connectionState struct {
	State   string        `json:"state"`
	Message string        `json:"message"`
	Session string        `json:"sessionId"`
	Hint    string        `json:"hint,omitempty"`
	Kind    string        `json:"kind,omitempty"`
	History []saidMessage `json:"history,omitempty"`

	Seq       uint64           `json:"seq,omitempty"` // the last event that the history has
	Turn      string           `json:"turn,omitempty"`
	Approvals []*askedApproval `json:"approvals,omitempty"`

	Elicitations []*askedElicitation `json:"elicitations,omitempty"`
}

// callStatus is the payload of status: a call that begins or has ended, or
// without a call something about the hub.
type callStatus struct {
	State   string          `json:"state"` // processing or complete
	Tool    string          `json:"tool"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
	IsError bool            `json:"isError"`
	Status  string          `json:"status"`
	TookMS  int64           `json:"tookMs"`
	Bytes   int             `json:"bytes"`
	Saved   string          `json:"saved"`
}

// reply is the payload of ack and error.
type reply struct {
	Frame string `json:"frame"` // the type of what it answers
	Key   string `json:"key"`
	ID    string `json:"id"`
	Input string `json:"input"` // what a message became

	Kind    string `json:"kind"`
	Message string `json:"message"`
	Hint    string `json:"hint"`
}

// answers reports whether a frame is the reply to one of that type, and of that
// key or id.
func (f *frame) answers(kind, id string) bool {
	if f.Type != "error" && f.Type != "ack" {
		return false
	}
	var r reply
	f.read(&r)
	return r.Frame == kind && (id == "" || r.Key == id || r.ID == id)
}

// saidMessage is one message of a history.
type saidMessage struct {
	Role    string          `json:"role"`
	Content string          `json:"content"`
	Tool    string          `json:"toolName"`
	Kind    string          `json:"kind"` // start for a call, complete for its result
	Data    json.RawMessage `json:"data"`
}

// heldTalk is what the API says of a conversation.
type heldTalk struct {
	Messages []saidMessage `json:"messages"`
	Context  *contextMeter `json:"context"`
	Usage    struct {
		Input  int `json:"input"`
		Output int `json:"output"`
	} `json:"usage"`
	Cost float64 `json:"cost"`
}

// outgoing payloads.
type (
	messagePayload struct {
		Text  string `json:"text"`
		Agent string `json:"agent,omitempty"`
		Key   string `json:"key"`
	}
	abortPayload struct {
		Turn   string `json:"turn,omitempty"`
		Call   string `json:"call,omitempty"`
		Queued bool   `json:"queued,omitempty"`
	}
	approvePayload struct {
		ID       string          `json:"id"`
		Decision string          `json:"decision"`
		Args     json.RawMessage `json:"args,omitempty"`
		Remember string          `json:"remember,omitempty"`
		Reason   string          `json:"reason,omitempty"`
	}
)

// took is a number of milliseconds for a person.
func took(ms int64) string {
	if ms < 1000 {
		return fmt.Sprintf("%d ms", ms)
	}
	return fmt.Sprintf("%.1f s", float64(ms)/1000)
}

// happening is the payload of all other frames: what happened, by its type.
type happening struct {
	Input *struct {
		ID    string `json:"id"`
		Text  string `json:"text"`
		Agent string `json:"agent"`
		Key   string `json:"key"`
	} `json:"input"`
	Start *struct {
		Input string `json:"input"`
		Model string `json:"model"`
		Agent string `json:"agent"`
	} `json:"start"`
	Call     *startedCall   `json:"call"`
	Result   *callResult    `json:"result"`
	Progress *callProgress  `json:"progress"`
	Approval *askedApproval `json:"approval"`
	Decision *madeDecision  `json:"decision"`

	Elicitation *askedElicitation `json:"elicitation"`

	End        *turnEnd    `json:"end"`
	Retry      *modelRetry `json:"retry"`
	Note       *hubNote    `json:"note"`
	Compaction *struct {
		Kind   string `json:"kind"`
		Before int    `json:"before"`
		After  int    `json:"after"`
	} `json:"compaction"`
}

// what happened in a frame. A status becomes the call that it is about.
func (f *frame) happened() (kind string, h happening) {
	if f.restates() {
		return "restated", h
	}
	if f.Type != "status" {
		f.read(&h)
		return f.Type, h
	}
	var s callStatus
	f.read(&s)
	switch {
	case f.Call == "":
		h.Note = &hubNote{Text: s.Message}
		return "note", h
	case s.State == "processing":
		var sent struct {
			Args json.RawMessage `json:"arguments"`
		}
		_ = json.Unmarshal(s.Data, &sent) // a call may have none
		h.Call = &startedCall{ID: f.Call, Name: s.Tool, Args: sent.Args}
		return "call.started", h
	}
	h.Result = &callResult{Call: f.Call, callStatus: s}
	return "call.done", h
}

// restates reports whether a frame says for simpler clients what another one
// says, too.
func (f *frame) restates() bool {
	if f.Seq != 0 || f.Type != "status" && f.Type != "text" {
		return false
	}
	var p struct {
		Event string `json:"event"`
	}
	f.read(&p)
	return p.Event != ""
}

type startedCall struct {
	ID   string          `json:"id"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

type callResult struct {
	Call string `json:"call"`
	callStatus
}

// content is what a tool said, for a person.
func (r *callResult) content() string {
	var said struct {
		Text *string `json:"text"`
	}
	if json.Unmarshal(r.Data, &said) == nil && said.Text != nil {
		return *said.Text
	}
	return oneLine(r.Data)
}

type hubNote struct {
	Text string `json:"text"`
}

type callProgress struct {
	Call     string  `json:"call"`
	Progress float64 `json:"progress"`
	Total    float64 `json:"total"`
	Message  string  `json:"message"`
}

type askedApproval struct {
	ID       string          `json:"id"`
	Turn     string          `json:"turn"`
	Tool     string          `json:"tool"`
	Upstream string          `json:"upstream"`
	Kind     string          `json:"kind"` // tool or sampling
	Args     json.RawMessage `json:"args"`
	Reason   string          `json:"reason"`
	Change   string          `json:"change"` // how the tool's definition differs from the one before
	Flags    []suspect.Flag  `json:"flags"`
	Expires  time.Time       `json:"expires"`
}

type madeDecision struct {
	Approve bool   `json:"approve"`
	By      string `json:"by"`
	Reason  string `json:"reason"`
}

type contextMeter struct {
	Used    int `json:"used"`
	Limit   int `json:"limit"`
	System  int `json:"system"`
	Tools   int `json:"tools"`
	History int `json:"history"`
}

type turnEnd struct {
	Reason string  `json:"reason"` // done, aborted, failed, steps, loop, budget, interrupted
	Text   string  `json:"text"`
	Error  string  `json:"error"`
	Kind   string  `json:"kind"`
	Cost   float64 `json:"cost"`
}

type modelRetry struct {
	Attempt int    `json:"attempt"`
	WaitMS  int64  `json:"waitMs"`
	Reason  string `json:"reason"`
	Discard bool   `json:"discard"`
}
