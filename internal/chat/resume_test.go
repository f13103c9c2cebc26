package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/journal"
	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/policy"
	"github.com/stoahub/stoa/internal/session"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// TestReconnectEverywhere reads from every position that there is, at every
// moment of a turn: what a reader has and what it gets make up the whole.
func TestReconnectEverywhere(t *testing.T) {
	step, took := make(chan struct{}), make(chan struct{})
	gated := func(ds ...llm.Delta) answer {
		return func(_ context.Context, _ llm.Request, say func(llm.Delta) bool) error {
			for _, d := range ds {
				<-step
				if !say(d) {
					return nil
				}
				took <- struct{}{}
			}
			return nil
		}
	}
	m := &spoken{answers: []answer{
		gated(llm.Delta{Kind: llm.Reason, Text: "hm"}, llm.Delta{Kind: llm.Reason, Text: "m."}, llm.Delta{Kind: llm.Text, Text: "Let "}, llm.Delta{Kind: llm.Text, Text: "me see."},
			llm.Delta{Kind: llm.CallEnd, Call: llm.ToolCall{ID: "a", Name: "srv__echo", Args: json.RawMessage(`{"text":"x"}`)}}, llm.Delta{Kind: llm.Stopped, Stop: llm.Calls}),
		gated(llm.Delta{Kind: llm.Text, Text: "It "}, llm.Delta{Kind: llm.Text, Text: "is "}, llm.Delta{Kind: llm.Text, Text: "x."}, llm.Delta{Kind: llm.Stopped, Stop: llm.Done}),
	}}
	s := newStage(t, staged{store: storetest.Open(t, store.Options{}), model: m})
	c := s.open("one")
	s.send(c, "go")
	for range 10 {
		step <- struct{}{}
		<-took
		everywhere(t, s, c)
	}
	s.turns(c, 1)
	everywhere(t, s, c)
	var got []string
	for _, ev := range s.log(c) {
		if ev.Text != "" {
			got = append(got, ev.Text)
		}
	}
	if all := strings.Join(got, ""); all != "hmm.Let me see.It is x." {
		t.Errorf("%q", got)
	}
}

// everywhere reads from each position to what is there now.
func everywhere(t *testing.T, s *stage, c *Conversation) {
	t.Helper()
	whole := read(t, c, Position{}, nil, s.state(c).Seq)
	for seq := range whole {
		for offset := 0; offset == 0 || offset <= len(whole[seq].Text); offset++ {
			p := Position{Seq: uint64(seq), Offset: offset}
			have := append([]Event(nil), whole[:seq]...)
			if offset > 0 {
				part := whole[seq]
				part.Text = part.Text[:offset]
				have = append(have, part)
			}
			got := read(t, c, p, have, s.state(c).Seq)
			if len(got) > len(whole) { // it has gone on meanwhile
				got = got[:len(whole)]
			}
			if d := cmp.Diff(texts(whole[:len(whole)-1]), texts(got[:len(whole)-1])); d != "" {
				t.Fatalf("from %+v: %s", p, d)
			}
		}
	}
}

func texts(events []Event) (out []string) {
	for _, ev := range events {
		out = append(out, fmt.Sprint(ev.Seq, " ", ev.Type, " ", ev.Text))
	}
	return out
}

// read reads up to an event and what is live after it.
func read(t *testing.T, c *Conversation, pos Position, have []Event, last uint64) []Event {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // what is there comes all the same, and then it does not wait
	for {
		events, next, err := c.Next(ctx, pos, 3)
		if err != nil {
			if pos.Seq < last {
				t.Fatalf("after %d: %v", pos.Seq, err)
			}
			return have
		}
		for _, ev := range events {
			if n := len(have); n > 0 && have[n-1].Seq == ev.Seq { // the rest of a part
				if ev.Offset != len(have[n-1].Text) {
					t.Fatalf("part %d goes on at %d after %d bytes", ev.Seq, ev.Offset, len(have[n-1].Text))
				}
				have[n-1].Text += ev.Text
				continue
			}
			if ev.Offset != 0 || ev.Seq != uint64(len(have))+1 {
				t.Fatalf("event %d at %d after %d events", ev.Seq, ev.Offset, len(have))
			}
			have = append(have, ev)
		}
		pos = next
	}
}

// killed opens a stage whose hub can be killed: kill makes it write nothing
// more.
func killed(t *testing.T, st *store.Store, o staged) (s *stage, kill func()) {
	dead := &atomic.Bool{}
	o.store, o.over = st, func(l journal.Log) journal.Log { return &mortal{l, dead} }
	s = newStage(t, o)
	return s, func() {
		dead.Store(true)
		s.e.Close()
	}
}

// TestKilled takes a conversation up again after its hub was killed: what ran
// is said truly, and what waited is answered.
func TestKilled(t *testing.T) {
	for _, c := range []struct {
		name string
		say  answer
		at   Type
		want []string // the log after what was there
	}{
		{"while a tool ran", says("Wait.", "srv__wait", "srv__wipe"), CallStarted, []string{
			`call.done interrupted "the hub stopped while this ran; whether it took effect is not known"`, `call.done interrupted "not called: the hub stopped before"`, `turn.ended interrupted cancelled`}},
		{"while a person was asked", says("", "srv__wipe"), ApprovalAsked, []string{`approval.decided aborted`, `call.done interrupted "not called: the hub stopped before"`, `turn.ended interrupted cancelled`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := storetest.Open(t, store.Options{})
			s, kill := killed(t, st, staged{model: &spoken{answers: []answer{c.say}}})
			conv := s.open("one")
			s.send(conv, "go")
			s.send(conv, "and then?")
			s.until(conv, func(ev *Event) bool { return ev.Type == c.at })
			before := len(s.log(conv))
			kill()

			s = newStage(t, staged{store: st, model: &spoken{answers: []answer{says("Then that.")}}})
			conv = s.open("one")
			s.turns(conv, 2)
			var got []string
			for _, ev := range s.log(conv)[before:] {
				got = append(got, line(ev))
			}
			for i := range c.want {
				if i >= len(got) || !strings.HasPrefix(got[i], c.want[i]) {
					t.Fatalf("got %q, want %q", got, c.want)
				}
			}
			now := s.state(conv)
			last := now.Messages[len(now.Messages)-1]
			if now.Last.Reason != ReasonDone || last.Text() != "Then that." {
				t.Errorf("%+v %+v", now.Last, last)
			}
			if x := newExaminer(t); x.examine(llm.Request{Messages: llm.Repair(now.History(), lost)}) != nil {
				t.Error(x.err)
			}
		})
	}
}

// TestAskedAfterAKill lets an input that waited ask for approval before anybody
// could be back: it waits for them.
func TestAskedAfterAKill(t *testing.T) {
	st := storetest.Open(t, store.Options{})
	s, kill := killed(t, st, staged{model: &spoken{answers: []answer{hangs("Well, ")}}})
	conv := s.open("one")
	s.send(conv, "go")
	s.send(conv, "and wipe it")
	s.until(conv, func(ev *Event) bool { return ev.Type == TextPart })
	kill()

	s = newStage(t, staged{store: st, quiet: true, model: &spoken{answers: []answer{says("", "srv__wipe"), says("Done.")}}})
	conv = s.open("one")
	events := s.until(conv, func(ev *Event) bool { return ev.Type == ApprovalAsked || ev.Type == CallDone })
	last := events[len(events)-1]
	if last.Type != ApprovalAsked {
		t.Fatalf("nobody was asked:\n%s", describe(events))
	}
	if err := s.desk.Decide(s.who, last.Approval.ID, policy.Decision{Approve: true}); err != nil {
		t.Fatal(err)
	}
	s.turns(conv, 2)
	if got := s.shop.called(); len(got) != 1 {
		t.Errorf("called: %q", got)
	}
}

// TestStopped interrupts what runs when the hub ends in order, and goes on with
// what waited when it is back.
func TestStopped(t *testing.T) {
	st := storetest.Open(t, store.Options{})
	s := newStage(t, staged{store: st, model: &spoken{answers: []answer{hangs("Once upon ")}}})
	c := s.open("one")
	s.send(c, "tell me a story")
	s.send(c, "thanks")
	s.until(c, func(ev *Event) bool { return ev.Type == TextPart })
	s.e.Close()
	if _, _, err := c.Next(t.Context(), Position{Seq: 99}, 0); !errors.Is(err, ErrClosed) {
		t.Errorf("Next: %v", err)
	}
	s = newStage(t, staged{store: st, model: &spoken{answers: []answer{says("Welcome.")}}})
	c = s.open("one")
	s.turns(c, 2)
	var got []string
	for _, m := range s.state(c).Messages {
		got = append(got, string(m.Role)+": "+m.Text())
	}
	if d := cmp.Diff([]string{"user: tell me a story", "assistant: Once upon ", "user: thanks", "assistant: Welcome."}, got); d != "" {
		t.Error(d)
	}
}

// TestMemoryIsGivenBack reads a conversation again that was put away, and
// events that memory no longer has.
func TestMemoryIsGivenBack(t *testing.T) {
	s := newStage(t, staged{store: storetest.Open(t, store.Options{}), model: &spoken{answers: []answer{says("yes")}}, options: Options{Idle: time.Hour}})
	c := s.open("one")
	for i := range 30 {
		s.send(c, fmt.Sprint(i))
		s.turns(c, i+1)
	}
	before, log := s.state(c), describe(s.log(c))
	s.e.Sweep(t.Context(), time.Now().Add(2*time.Hour))
	if c.book != nil {
		t.Fatal("it is still in memory")
	}
	if d := cmp.Diff(before, s.state(c), cmp.AllowUnexported(State{})); d != "" {
		t.Error(d)
	}
	if again := describe(s.log(c)); again != log || strings.Count(log, "\n") < 150 {
		t.Errorf("was\n%s\nis\n%s", log, again)
	}
}

// TestLargeEvents keeps what no entry of the store could hold.
func TestLargeEvents(t *testing.T) {
	st := storetest.Open(t, store.Options{})
	big := strings.Repeat("x", 700<<10)
	m := &spoken{answers: []answer{says("", `srv__size {"text":"`+big+`"}`), says("done")}}
	s := newStage(t, staged{store: st, model: m, settings: Settings{ResultBytes: 800 << 10}})
	s.shop.add("srv__size", `{"readOnlyHint":true}`, func(_ context.Context, _ *mcp.Request, args json.RawMessage) (string, error) {
		return fmt.Sprint(len(args)) + big, nil
	})
	c := s.open("one")
	s.send(c, "a"+big)
	s.turns(c, 1)
	s.e.Close()
	s = newStage(t, staged{store: st})
	now := s.state(s.open("one"))
	if now.Last.Reason != ReasonDone || len(now.Messages) != 4 || now.Messages[0].Text() != "a"+big ||
		len(now.Messages[1].Message.Calls()[0].Args) != len(big)+11 || now.Messages[2].Parts[0].Result.Content != fmt.Sprint(len(big)+11)+big {
		t.Errorf("%d messages, %+v", len(now.Messages), now.Last)
	}
}

// TestConversationsEndWithTheirSession forgets all of one, also what is in the
// store.
func TestConversationsEndWithTheirSession(t *testing.T) {
	st := storetest.Open(t, store.Options{})
	for _, c := range []struct {
		name string
		end  func(*testing.T, *stage)
	}{
		{"removed", func(t *testing.T, s *stage) {
			if err := s.reg.Remove(t.Context(), s.reg.Find(s.who.Name, "removed")); err != nil {
				t.Fatal(err)
			}
		}},
		{"idle", func(t *testing.T, s *stage) { s.e.Sweep(t.Context(), time.Now().Add(2*time.Hour)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t, staged{store: st, model: &spoken{answers: []answer{says("yes")}}, options: Options{Expire: time.Hour}})
			conv := s.open(c.name)
			s.send(conv, "hello")
			s.turns(conv, 1)
			if c.name == "removed" {
				bound, err := s.reg.Bind(session.Binding{Principal: s.who.Name, Name: c.name})
				if err != nil {
					t.Fatal(err)
				}
				if _, _, err := bound.Put(t.Context(), session.New{Name: "v", Data: []byte("1")}); err != nil {
					t.Fatal(err)
				}
				s.e.Sweep(t.Context(), time.Now().Add(2*time.Hour))
				if s.state(conv).Seq == 0 {
					t.Fatal("it ended before its session")
				}
			}
			// Who answers lets go of it a moment after the end of the turn.
			await.Until(t, "nobody has it in hand", conv.unused)
			c.end(t, s)
			await.Until(t, "it is gone", func() bool { return s.state(fresh(t, s, c.name, conv)).Seq == 0 })
			if _, err := conv.State(); !errors.Is(err, ErrEnded) {
				t.Errorf("the one that ended: %v", err)
			}
			l, err := st.Log(t.Context(), store.LogOptions{Name: logName, Subjects: []string{subjectPrefix + ">"}})
			if err != nil {
				t.Fatal(err)
			}
			await.Until(t, "it is gone from the store", func() bool {
				s.e.journal.Bury(t.Context(), time.Now())
				_, err := l.Last(t.Context(), subjectPrefix+conv.id+subjectSuffix)
				return errors.Is(err, store.ErrNotFound)
			})
		})
	}
}

// fresh returns the conversation of a name once it is another than old.
func fresh(t *testing.T, s *stage, name string, old *Conversation) (c *Conversation) {
	t.Helper()
	await.Until(t, "it is another", func() bool { c = s.open(name); return c != old })
	return c
}
