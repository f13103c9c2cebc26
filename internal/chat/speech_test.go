package chat

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/stoahub/stoa/internal/ailumina"
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
	s := NewSpeech(func(e ailumina.Event) { lines = append(lines, string(e.Append(nil))) })
	for _, e := range events {
		s.Hear(e)
	}
	return lines, s.End()
}

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
		s := NewSpeech(func(ailumina.Event) { when = append(when, time.Since(begun)) })
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
		})
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
