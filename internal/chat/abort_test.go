package chat

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/mcp"
)

// TestAbort ends a turn wherever it is, without waiting for a tool that does not
// listen, and leaves every call with a result. How long it takes is measured
// where it can be felt, over a whole hub.
func TestAbort(t *testing.T) {
	for _, c := range []struct {
		name    string
		answers []answer
		at      Type
		want    string // in the log
	}{
		{"the model says nothing", []answer{hangs("")}, ContextUsed, ""},
		{"the model is speaking", []answer{hangs("I am ")}, TextPart, `text "I am "`},
		{"a tool runs", []answer{says("", "srv__wait", "srv__wipe")}, CallStarted, `cancelled "cancelled: the user stopped this while it ran; whether it took effect is not known"`},
		{"a tool runs that does not listen", []answer{says("", "srv__deaf")}, CallStarted, `cancelled "cancelled: the user stopped this while it ran; whether it took effect is not known"`},
		{"a person is asked", []answer{says("", "srv__wipe")}, ApprovalAsked, `cancelled "cancelled: not called, the user stopped before"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t, staged{model: &spoken{answers: append(c.answers, says("fine"))}})
			release, ended := make(chan struct{}), make(chan error, 8)
			s.shop.add("srv__deaf", `{"readOnlyHint":true}`, func(context.Context, *mcp.Request, json.RawMessage) (string, error) {
				<-release
				return "late", nil
			})
			wait := s.shop.wares["srv__wait"].run
			s.shop.add("srv__wait", `{"readOnlyHint":true}`, func(ctx context.Context, r *mcp.Request, a json.RawMessage) (string, error) {
				text, err := wait(ctx, r, a)
				ended <- err
				return text, err
			})
			conv := s.open("one")
			s.send(conv, "go")
			s.until(conv, func(ev *Event) bool { return ev.Type == c.at })
			if ok, err := conv.Abort("", false); !ok || err != nil {
				t.Fatal(ok, err)
			}
			events := s.turns(conv, 1)
			close(release)
			log := describe(s.log(conv))
			if end := events[len(events)-1].End; end.Reason != ReasonAborted || !strings.Contains(log, c.want) {
				t.Errorf("%+v\n%s", end, log)
			}
			if strings.Count(log, " call c") != strings.Count(log, " call.done ") || strings.Count(log, "approval.asked") != strings.Count(log, "approval.decided") {
				t.Errorf("something is left open:\n%s", log)
			}
			if c.at == CallStarted && strings.Contains(log, "srv__wait") {
				if err := <-ended; err == nil {
					t.Error("the tool was not told")
				}
			}
			if p := s.desk.Pending(s.who.Name); len(p) > 0 {
				t.Errorf("still asked: %+v", p)
			}
			s.send(conv, "go on")
			s.turns(conv, 2)
			if st := s.state(conv); st.Last.Reason != ReasonDone {
				t.Errorf("afterwards: %+v", st.Last)
			}
		})
	}
}

// TestAbortBeforeItBegins aborts what was sent just before.
func TestAbortBeforeItBegins(t *testing.T) {
	s := newStage(t, staged{model: &spoken{answers: []answer{hangs("")}}})
	c := s.open("one")
	s.send(c, "go")
	if ok, err := c.Abort("", false); !ok || err != nil {
		t.Fatal(ok, err)
	}
	events := s.turns(c, 1)
	if end := events[len(events)-1].End; end.Reason != ReasonAborted {
		t.Fatalf("%+v", end)
	}
	if ok, err := c.Abort("", false); ok || err != nil {
		t.Fatal("nothing runs, but it was aborted", err)
	}
}

// TestQueue lets inputs wait, up to a bound, each in its order, and takes one
// with the same key once.
func TestQueue(t *testing.T) {
	s := newStage(t, staged{model: &spoken{answers: []answer{hangs("")}}})
	c := s.open("one")
	first, err := c.Send(t.Context(), Input{Text: "0", Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	s.until(c, func(ev *Event) bool { return ev.Type == TurnStarted })
	for i := range 8 {
		s.send(c, fmt.Sprint(i+1))
	}
	_, err = c.Send(t.Context(), Input{Text: "9"})
	if !fault.Is(err, fault.Limit) || !strings.Contains(err.Error(), DefaultTexts.RateLimited) {
		t.Fatalf("the ninth: %v", err)
	}
	again, err := c.Send(t.Context(), Input{Text: "0", Key: "k"})
	if err != nil || again.Seq != first.Seq || again.Input.ID != first.Input.ID {
		t.Fatalf("again: %+v, %v", again, err)
	}
	if ok, err := c.Abort("t99", false); ok || err != nil {
		t.Fatal("a turn of another name was aborted", err)
	}
	if _, err := c.Abort("", false); err != nil {
		t.Fatal(err)
	}
	started := 0
	s.until(c, func(ev *Event) bool {
		if ev.Type == TurnStarted {
			started++
		}
		return started == 2
	})
	if st := s.state(c); st.Turn == nil || st.Turn.Input.Text != "1" {
		t.Fatalf("%+v follows", st.Turn)
	}
	if ok, err := c.Abort("", true); !ok || err != nil {
		t.Fatal(ok, err)
	}
	s.turns(c, 2)
	if st := s.state(c); len(st.Queue) != 0 || len(st.Messages) != 2 {
		t.Fatalf("left: %+v, %d messages", st.Queue, len(st.Messages))
	}
}

func TestBadInputs(t *testing.T) {
	s := newStage(t, staged{settings: Settings{InputBytes: 10, Agents: []Agent{{Name: "News"}}}})
	c := s.open("one")
	for kind, in := range map[fault.Kind]Input{fault.InvalidParams: {}, fault.TooLarge: {Text: "01234567890"}, fault.UnknownAgent: {Text: "x", Agent: "newz"}} {
		if _, err := c.Send(t.Context(), in); !fault.Is(err, kind) {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if _, err := c.Send(t.Context(), Input{Text: "x", Agent: "newz"}); err == nil || !strings.Contains(err.Error(), "did you mean News?") {
		t.Error(err)
	}
	if ev, err := c.Send(t.Context(), Input{Text: "x", Agent: "news"}); err != nil || ev.Input.Agent != "News" {
		t.Error(ev, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.e.Drain(ctx)
	if _, err := c.Send(t.Context(), Input{Text: "x"}); !fault.Is(err, fault.Unreachable) || !strings.Contains(err.Error(), DefaultTexts.Maintenance) {
		t.Error(err)
	}
}

// TestAThousandAborts leaves nothing behind.
func TestAThousandAborts(t *testing.T) {
	s := newStage(t, staged{model: &spoken{answers: []answer{says("", "srv__wait"), hangs("x")}}})
	c := s.open("one")
	before := 0
	var pos Position
	for i := range 1000 {
		s.send(c, "go")
		if _, err := c.Abort("", false); err != nil {
			t.Fatal(err)
		}
		for ended := false; !ended; {
			events, next, err := c.Next(t.Context(), pos, 0)
			if err != nil {
				t.Fatal(err)
			}
			pos = next
			for _, ev := range events {
				ended = ended || ev.Type == TurnEnded
			}
		}
		if i == 10 {
			before = runtime.NumGoroutine()
		}
	}
	await.NoError(t, "the goroutines have ended", func() error {
		if n := runtime.NumGoroutine(); n > before+2 {
			buf := make([]byte, 1<<20)
			return fmt.Errorf("%d goroutines, and %d before\n%s", n, before, buf[:runtime.Stack(buf, true)])
		}
		return nil
	})
}
