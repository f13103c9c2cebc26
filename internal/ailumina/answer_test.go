package ailumina

import (
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/fault"
)

func says(s string) Event  { return Event{Kind: Sentence, Text: s} }
func whole(s string) Event { return Event{Kind: Chat, Role: "assistant", Text: s} }

func TestAnswer(t *testing.T) {
	tool := Event{Kind: ToolRunning, Tool: "x"}
	for name, tc := range map[string]struct {
		events []Event
		want   string
	}{
		"nothing":                    {nil, ""},
		"sentences":                  {[]Event{says("Hel"), says("lo "), says("John.")}, "Hello John."},
		"tools are no part of it":    {[]Event{says("a"), tool, says("b")}, "ab"},
		"a chat message alone":       {[]Event{whole("All of it.")}, "All of it."},
		"streamed, then whole":       {[]Event{says("Hello."), says("How are you?"), whole("Hello. How are you?")}, "Hello. How are you?"},
		"the whole has more":         {[]Event{says("Hello"), whole("Hello John")}, "Hello John"},
		"the whole is the last part": {[]Event{says("I look. "), tool, says("It is 5."), whole("It is 5.")}, "I look. It is 5."},
		"another message":            {[]Event{says("I look."), whole("It is 5.")}, "I look.\nIt is 5."},
		"two messages":               {[]Event{whole("One."), whole("Two.")}, "One.\nTwo."},
		"message, then sentences":    {[]Event{whole("I look."), tool, says("It "), says("is 5.")}, "I look.\nIt is 5."},
		"message, sentences, whole":  {[]Event{whole("I look."), says("It is"), says("5."), whole("It is 5.")}, "I look.\nIt is 5."},
		"everything once more":       {[]Event{says("I look."), whole("I look."), says("5."), whole("5."), whole("I look. 5.")}, "I look. 5."},
		"an empty message":           {[]Event{says("a"), whole(" "), says("b")}, "ab"},
		"spaces, then a message":     {[]Event{says(" \n"), whole("a")}, " \na"},
		"the question once more":     {[]Event{{Kind: Chat, Role: "user", Text: "Who?"}, {Kind: Chat, Role: "system", Text: "Be kind."}, says("Me.")}, "Me."},
		"as Gemini calls it":         {[]Event{{Kind: Chat, Role: "model", Text: "Me."}}, "Me."},
		"what is not known":          {[]Event{says("a"), {Type: "thinking", Text: "hm"}}, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			var a Answer
			for _, e := range tc.events {
				if err := a.Add(e); err != nil {
					t.Fatal(err)
				}
			}
			if got := a.Text(); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestAnswerIsBounded(t *testing.T) {
	var a Answer
	if err := a.Add(says(strings.Repeat("x", AnswerBytes))); err != nil {
		t.Fatal(err)
	}
	if err := a.Add(says("x")); !fault.Is(err, fault.Limit) {
		t.Errorf("one byte more: %v", err)
	}
}
