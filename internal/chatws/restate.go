package chatws

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/stoahub/stoa/internal/chat"
	"github.com/stoahub/stoa/internal/policy"
)

// A client may know no other frames than text, status and connection. What makes
// it wait, and what becomes of that, it is told by such a frame too, before the
// one that has all of it. The frame has no seq, since it is no event, and its
// payload says by event which one it is about: who knows that passes it by.

// progressEvery is how often a client is told so how far a call is.
const progressEvery = time.Second

// restater makes these frames for one client.
type restater struct {
	desk  *policy.Desk
	since time.Time // when the client came: of what happened before it need not be told so
	last  time.Time // when it was told how far a call is
}

func (h *Host) restater() restater { return restater{desk: h.desk, since: time.Now()} }

// frames renders an event for a client that has seen offset bytes of it.
func (r *restater) frames(e *chat.Event, offset int) [][]byte {
	out := frames(e, offset)
	if f := r.restate(e); f != nil {
		return append([][]byte{f}, out...)
	}
	return out
}

// restate is the frame that says an event to a client which does not know its
// type; nil if there is none.
func (r *restater) restate(e *chat.Event) []byte {
	switch {
	case e.Time.Before(r.since):
	case e.Type == chat.ApprovalAsked && e.Approval != nil:
		return r.waiting(e.Approval)
	case e.Type == chat.ApprovalDecided && e.Approval != nil && e.Decision != nil && e.Approval.ID != "":
		return restated(e.Type, e.Turn, status{State: "processing", Tool: e.Approval.Tool, Message: e.Approval.Report(e.Decision)})
	case e.Type == chat.ElicitationAsked && e.Elicitation != nil:
		return restated(e.Type, e.Turn, status{State: "processing", Tool: e.Elicitation.Tool, Message: e.Elicitation.Announce() + " It waits until " + e.Elicitation.Expires.Format(time.RFC3339) + " for an answer by another client of this conversation, such as `stoa chat`."})
	case e.Type == chat.ElicitationAnswered && e.Elicitation != nil && e.Reply != nil:
		return restated(e.Type, e.Turn, status{State: "processing", Tool: e.Elicitation.Tool, Message: answered(e)})
	case e.Type == chat.ModelRetry && e.Retry != nil && e.Retry.Discard:
		return discarded(e)
	case e.Type == chat.ModelRetry && e.Retry != nil:
		wait := (time.Duration(e.Retry.WaitMS) * time.Millisecond).Round(100 * time.Millisecond)
		return restated(e.Type, e.Turn, status{State: "processing", Message: fmt.Sprintf("The model is asked again in %v (attempt %d): %s.", wait, e.Retry.Attempt, e.Retry.Reason)})
	case e.Type == chat.CallProgress && e.Progress != nil:
		return r.progress(e)
	}
	return nil
}

// answered is what became of an elicitation, and what was asked if nobody has seen it.
func answered(e *chat.Event) string {
	text := e.Elicitation.Report(e.Reply)
	if e.Elicitation.ID == "" {
		text = e.Elicitation.Announce() + " " + text
	}
	return text
}

// waiting tells of an approval that waits.
func (r *restater) waiting(a *policy.Approval) []byte {
	s := status{State: "processing", Tool: a.Tool, Message: r.desk.Announce(a)}
	s.Data, _ = json.Marshal(map[string]any{"approval": a.ID, "expires": a.Expires}) // it can be encoded
	return restated(chat.ApprovalAsked, a.Turn, s)
}

// progress tells how far a call is, now and then.
func (r *restater) progress(e *chat.Event) []byte {
	if now := time.Now(); now.Sub(r.last) >= progressEvery {
		r.last = now
	} else {
		return nil
	}
	p := e.Progress
	s := status{State: "processing", Tool: p.Name, Message: p.Message}
	if s.Message == "" {
		s.Message = fmt.Sprintf("%s: %g", p.Name, p.Progress)
		if p.Total > 0 {
			s.Message += fmt.Sprintf(" of %g", p.Total)
		}
	}
	return restated(e.Type, e.Turn, s)
}

func restated(event chat.Type, turn string, s status) []byte {
	s.Event = string(event)
	return encode(outgoing{Type: "status", Turn: turn, Payload: s})
}

// discarded says that the answer begins anew: what the client has shown of it
// cannot be taken back by one that only adds.
func discarded(e *chat.Event) []byte {
	return encode(outgoing{Type: "text", Turn: e.Turn, Payload: notice{Content: "\n\n[The answer broke off and begins again.]\n\n", Notice: true, Event: string(e.Type)}})
}
