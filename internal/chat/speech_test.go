package chat

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/stoahub/stoa/internal/ailumina"
	"github.com/stoahub/stoa/internal/policy"
)

func TestSentences(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "",
		"Hello":                   "",
		"Hello.":                  "", // it may go on: Hello.World
		"Hello. ":                 "Hello. ",
		"Hello. How are you? I":   "Hello. How are you? ",
		"It is 3.14 or so":        "",
		"See a.b.c! Then":         "See a.b.c! ",
		"He said \"no.\" Then":    "He said \"no.\" ",
		"a\nb":                    "a\n",
		"你好。世界":                   "你好。",
		"Wait... what":            "Wait... ",
		"one:\n- two\n- three, f": "one:\n- two\n",
	} {
		if got := text[:sentences([]byte(text))]; got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// told runs events through a Speech and returns what was told.
func told(events ...Event) (lines []string, text string) {
	s := NewSpeech(func(e ailumina.Event) { lines = append(lines, string(e.Append(nil))) }, announced)
	for _, e := range events {
		s.Hear(e)
	}
	return lines, s.End()
}

func announced(a *policy.Approval) string { return "waiting for " + a.Tool }

func TestSpeech(t *testing.T) {
	live := func(seq uint64, offset int, text string) Event {
		return Event{Seq: seq, Type: TextPart, Offset: offset, Text: text, Live: true}
	}
	call := func(t Type) Event {
		return Event{Type: t, Call: &Call{ID: "c1", Name: "fs__read"}, Result: &Result{Call: "c1", Name: "fs__read"}}
	}
	lines, text := told(
		live(3, 0, "Let me"), live(3, 6, " see. I"), Event{Seq: 3, Type: TextPart, Text: "Let me see. I look"},
		Event{Type: ReasoningPart, Text: "hidden"},
		Event{Type: AnswerDone}, call(CallMade), call(CallStarted), call(CallDone),
		Event{Type: CallDone, Result: &Result{Call: "c2", Name: "fs__write"}}, // denied: it never ran
		live(9, 0, "It is 5"), Event{Seq: 9, Type: TextPart, Offset: 7}, Event{Type: AnswerDone})
	want := []string{
		`{"type":"sentence","sentence":"Let me see. "}`, `{"type":"sentence","sentence":"I look"}`,
		`{"type":"tool_running","tool_name":"fs__read"}`, `{"type":"tool_complete","tool_name":"fs__read"}`,
		`{"type":"sentence","sentence":"\n\nIt is 5"}`,
	}
	if diff := cmp.Diff(want, lines); diff != "" || text != "Let me see. I look\n\nIt is 5" {
		t.Errorf("%q\n%s", text, diff)
	}
}

// Words do not wait longer than they may for the end of their sentence.
func TestSpeechInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		var when []time.Duration
		s := NewSpeech(func(ailumina.Event) { when = append(when, time.Since(begun)) }, announced)
		for i := range 10 {
			s.Hear(Event{Seq: 1, Type: TextPart, Live: true, Offset: 2 * i, Text: "a "})
			<-time.After(100 * time.Millisecond)
		}
		s.End()
		<-time.After(time.Second) // nothing more is told
		synctest.Wait()
		if diff := cmp.Diff([]time.Duration{250 * time.Millisecond, 550 * time.Millisecond, 850 * time.Millisecond, time.Second}, when); diff != "" {
			t.Error(diff)
		}
	})
}

// However the text is cut, the sentences are the text.
func TestSpeechIsWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOf(rapid.StringMatching(`[a. ?\n。é]{0,6}`)).Draw(t, "pieces")
		s := strings.Join(pieces, "")
		var got strings.Builder
		speech := NewSpeech(func(e ailumina.Event) {
			if e.Text == "" {
				t.Error("an empty sentence")
			}
			got.WriteString(e.Text)
		}, announced)
		offset := 0
		for _, p := range pieces {
			speech.Hear(Event{Seq: 1, Type: TextPart, Live: true, Offset: offset, Text: p})
			offset += len(p)
		}
		speech.Hear(Event{Seq: 1, Type: TextPart, Text: s}) // the part as it is in the log
		if end := speech.End(); end != s || got.String() != s {
			t.Errorf("told %q, ended with %q; want %q", got.String(), end, s)
		}
	})
}

// What makes an agent wait is told, and is no part of its answer; nor is what it
// said in an answer that broke off.
func TestSpeechNotices(t *testing.T) {
	live := func(seq uint64, text string) Event {
		return Event{Seq: seq, Type: TextPart, Text: text, Live: true}
	}
	asked := &policy.Approval{ID: "a_1", Tool: "fs__write"}
	lines, text := told(
		live(3, "First."), Event{Type: AnswerDone},
		Event{Type: ApprovalAsked, Approval: asked},
		Event{Type: ApprovalDecided, Approval: asked, Decision: &policy.Decision{By: "ann", Reason: "not now"}},
		Event{Type: ApprovalDecided, Approval: &policy.Approval{Tool: "fs__write"}, Decision: &policy.Decision{Approve: true}}, // nobody was asked
		Event{Type: CallProgress, Progress: &Progress{Call: "c1", Name: "fs__read", Progress: -2, Message: "waiting for fs: place 2 in its queue"}},
		Event{Type: CallProgress, Progress: &Progress{Call: "c1", Name: "fs__read", Progress: -1, Message: "waiting for fs: place 1 in its queue"}},
		live(9, "Once upon. A ti"), Event{Type: ModelRetry, Retry: &Retry{Attempt: 2, Discard: true}},
		live(11, "Once more"), Event{Type: AnswerDone},
		Event{Type: ModelRetry, Retry: &Retry{Attempt: 2, WaitMS: 30_000, Reason: "busy"}}, Event{Type: ModelRetry, Retry: &Retry{Attempt: 3, WaitMS: 100, Reason: "busy"}})
	want := []string{
		`{"type":"sentence","sentence":"First."}`,
		`{"type":"sentence","sentence":"\n\n[waiting for fs__write]\n\n","notice":true}`,
		`{"type":"sentence","sentence":"\n\n[fs__write was not approved: ann does not want it: not now.]\n\n","notice":true}`,
		`{"type":"sentence","sentence":"\n\n[fs__read: waiting for fs: place 2 in its queue]\n\n","notice":true}`,
		`{"type":"sentence","sentence":"\n\nOnce upon. "}`,
		`{"type":"sentence","sentence":"\n\n[The answer broke off and begins again.]\n\n","notice":true,"void":13}`,
		`{"type":"sentence","sentence":"\n\nOnce more"}`,
		`{"type":"sentence","sentence":"\n\n[The model is asked again in 30s: busy.]\n\n","notice":true}`,
	}
	if diff := cmp.Diff(want, lines); diff != "" || text != "First.\n\nOnce more" {
		t.Errorf("%q\n%s", text, diff)
	}
	var a ailumina.Answer
	for _, line := range lines {
		e, err := ailumina.DecodeEvent([]byte(line))
		if err != nil || a.Add(e) != nil {
			t.Fatal(line, err)
		}
	}
	if a.Text() != text {
		t.Errorf("over a socket it is %q", a.Text())
	}
}
