package chatws

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/chat"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/policy"
)

// watch makes the tail look around when there is a reason to, until stop is
// called: at once, when approvals change, and with every heartbeat. No goroutine
// waits for it, since each would be one for each of many sockets.
func (s *socket) watch() (stop func()) {
	s.look = true // nobody else knows s yet
	s.beat = time.AfterFunc(s.h.opts.Heartbeat, func() { s.nudge(true) })
	leave := s.h.desk.Watch(func() { s.nudge(false) })
	return func() {
		leave()
		s.beat.Stop()
	}
}

// nudge makes the tail look around.
func (s *socket) nudge(beat bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.look, s.due = true, s.due || beat
	if s.wake != nil {
		s.wake()
	}
}

// around does what is no part of the conversation: it tells the client of
// approvals of calls that others make in its Session, which whoever attends is
// asked about, and of upstreams that do not work; and if that is due, it looks
// whether the client lives. It reports whether that goes on.
func (s *socket) around(ctx context.Context, beat bool) bool {
	if s.approvals() != nil || s.health() != nil {
		return false
	}
	every := s.h.opts.Heartbeat
	switch {
	case !beat:
	case s.l.stale(every):
		s.log.Debug("client is silent and cut off", obs.KeyAction, "heartbeat")
		s.l.cut()
		return false
	default:
		s.pings.Go(func() { s.l.ping(ctx, every) }) // it waits for the answer
		s.beat.Reset(every)
	}
	return true
}

// approvals tells of those that have come or gone since the last time.
func (s *socket) approvals() error {
	waiting := map[string]bool{}
	for _, a := range s.h.desk.Pending(s.who.Name) {
		if a.Session != s.conv.Name() || a.Turn != "" {
			continue // another's, or the conversation tells of it
		}
		waiting[a.ID] = true
		if _, told := s.shown[a.ID]; told {
			continue
		}
		s.shown[a.ID] = a
		if err := s.both(s.tells.waiting(&a), outgoing{Type: string(chat.ApprovalAsked), Call: a.Call, Payload: map[string]policy.Approval{"approval": a}}); err != nil {
			return err
		}
	}
	for id, a := range s.shown {
		if waiting[id] {
			continue
		}
		delete(s.shown, id)
		if a.Turn != "" {
			continue
		}
		dec, _ := s.h.desk.Decided(id)
		told := restated(chat.ApprovalDecided, "", status{State: "complete", Tool: a.Tool, Message: a.Report(&dec)})
		if err := s.both(told, outgoing{Type: string(chat.ApprovalDecided), Payload: map[string]any{"approval": map[string]string{"id": id}}}); err != nil {
			return err
		}
	}
	return nil
}

// both sends a frame, and before it the one that says the same to clients which
// do not know its type.
func (s *socket) both(simple []byte, f outgoing) error {
	if err := s.l.send(simple); err != nil {
		return err
	}
	return s.l.send(encode(f))
}

// Degraded is an upstream that does not work.
type Degraded struct{ Name, Reason string }

// health tells of upstreams that do not work, when there are others than the
// last time.
func (s *socket) health() error {
	names, reasons := []string{}, []string{}
	for _, d := range s.h.opts.Degraded(s.who) {
		names, reasons = append(names, d.Name), append(reasons, d.Name+": "+d.Reason)
	}
	now := strings.Join(names, "\n")
	if now == s.degraded {
		return nil
	}
	s.degraded = now
	st := status{State: "complete", Message: "These servers cannot be used now; the others work. " + strings.Join(reasons, "; ")}
	if len(names) == 0 {
		st.Message = "All servers work again."
	}
	st.Data, _ = json.Marshal(map[string][]string{"degraded": names}) // strings
	return s.l.send(encode(outgoing{Type: "status", Payload: st}))
}
