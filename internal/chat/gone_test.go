package chat

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/mcp"
)

// A turn ends with the token of its principal: it calls nothing more, asks
// nobody, and does not wait for its model.
func TestTurnEndsWithTheToken(t *testing.T) {
	for name, tc := range map[string]struct {
		answer answer
		at     Type
		calls  []string
	}{
		"between two calls":        {says("", "srv__leave", "srv__wipe", "srv__echo"), "", []string{"srv__leave"}},
		"while a tool runs":        {says("", "srv__wait", "srv__wipe"), CallStarted, []string{"srv__wait"}},
		"while the model speaks":   {hangs("I am "), TextPart, nil},
		"while somebody is asked":  {says("", "srv__wipe"), ApprovalAsked, nil},
		"after the last of a step": {says("", "srv__leave"), "", []string{"srv__leave"}},
	} {
		t.Run(name, func(t *testing.T) {
			var gone atomic.Bool
			s := newStage(t, staged{model: &spoken{answers: []answer{tc.answer, says("fine")}}, gone: &gone})
			s.who = &auth.Principal{Name: "fay", Scopes: auth.Scopes{"*"}, Via: auth.ViaToken, Token: "t_1"}
			defer s.desk.Attend("", "")()
			s.shop.add("srv__leave", `{"destructiveHint":false}`, func(context.Context, *mcp.Request, json.RawMessage) (string, error) {
				gone.Store(true)
				return "left", nil
			})
			conv := s.open("one")
			s.send(conv, "go")
			if tc.at != "" {
				s.until(conv, func(ev *Event) bool { return ev.Type == tc.at })
				gone.Store(true)
			}
			events := s.turns(conv, 1)
			if end := events[len(events)-1].End; end.Reason != ReasonFailed || end.Kind != "denied" || !strings.Contains(end.Error, "not valid any more") {
				t.Errorf("%+v", end)
			}
			if d := cmp.Diff(tc.calls, s.shop.called()); d != "" {
				t.Error(d)
			}
			log := describe(s.log(conv))
			if asked := strings.Count(log, "approval.asked"); asked != strings.Count(log, "approval.decided") || asked > 0 && tc.at != ApprovalAsked || len(s.desk.Pending("")) > 0 {
				t.Errorf("questions:\n%s", log)
			}
		})
	}
}

// While nobody can say whether a token is valid, what its principal has said waits,
// before its turn and in it, and is answered when that is known.
func TestTurnWaitsForTheToken(t *testing.T) {
	var unread atomic.Int64
	s := newStage(t, staged{model: &spoken{answers: []answer{says("", "srv__leave", "srv__echo"), says("fine"), says("fine too")}}, unread: &unread})
	s.who = &auth.Principal{Name: "fay", Scopes: auth.Scopes{"*"}, Via: auth.ViaToken, Token: "t_1"}
	s.shop.add("srv__leave", `{"destructiveHint":false}`, func(context.Context, *mcp.Request, json.RawMessage) (string, error) {
		unread.Store(1)
		return "left", nil
	})
	conv := s.open("one")
	s.send(conv, "go")
	s.turns(conv, 1)
	unread.Store(1)
	s.send(conv, "go on")
	for _, ev := range s.turns(conv, 2) {
		if ev.End != nil && ev.End.Reason != ReasonDone {
			t.Errorf("%+v", ev.End)
		}
	}
	if d := cmp.Diff([]string{"srv__leave", "srv__echo"}, s.shop.called()); d != "" {
		t.Error(d)
	}
	// Who waits can still be stopped.
	unread.Store(1 << 30)
	s.send(conv, "never mind")
	await.Until(t, "it is stopped", func() bool {
		stopped, err := conv.Abort("", false)
		return err == nil && stopped
	})
	events := s.turns(conv, 3)
	if end := events[len(events)-1].End; end.Reason != ReasonAborted {
		t.Errorf("%+v", end)
	}
}
