package chatws

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/chat"
	"github.com/stoahub/stoa/internal/policy"
)

// watch tells the client what concerns its Session and is no event of the
// conversation: approvals of calls that others make in it, which whoever
// attends is asked about, and upstreams that do not work.
func (s *socket) watch(ctx context.Context) {
	tick := time.NewTicker(s.h.opts.Heartbeat)
	defer tick.Stop()
	for {
		_, changed := s.h.desk.Changed()
		if s.approvals() != nil || s.health() != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-tick.C:
		}
	}
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
		s.shown[a.ID] = true
		if err := s.l.send(encode(outgoing{Type: string(chat.ApprovalAsked), Call: a.Call, Payload: map[string]policy.Approval{"approval": a}})); err != nil {
			return err
		}
	}
	for id, outside := range s.shown {
		if waiting[id] {
			continue
		}
		delete(s.shown, id)
		if !outside {
			continue
		}
		if err := s.l.send(encode(outgoing{Type: string(chat.ApprovalDecided), Payload: map[string]any{"approval": map[string]string{"id": id}}})); err != nil {
			return err
		}
	}
	return nil
}

// health tells of upstreams that do not work, when there are others than the
// last time.
func (s *socket) health() error {
	names := s.h.opts.Degraded(s.who)
	now := strings.Join(names, "\n")
	if now == s.degraded {
		return nil
	}
	s.degraded = now
	st := status{State: "complete", Message: s.h.texts().Maintenance}
	if len(names) == 0 {
		names, st.Message = []string{}, "All servers work again."
	}
	st.Data, _ = json.Marshal(map[string][]string{"degraded": names}) // strings
	return s.l.send(encode(outgoing{Type: "status", Payload: st}))
}
