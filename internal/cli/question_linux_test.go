package cli

import (
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest/peer"
)

const sizes = `{"type":"object","required":["size"],"properties":{
	"size":{"type":"string","title":"Size","oneOf":[{"const":"s","title":"s"},{"const":"m","title":"Medium"}]},
	"count":{"type":"integer","minimum":1},
	"tags":{"type":"array","items":{"type":"string","enum":["red","blue"]}},
	"sure":{"type":"boolean","default":true},
	"mail":{"type":"string","format":"email"}}}`

// curious runs stoa on a terminal over servers that ask things, one of each era.
func curious(t *testing.T, args ...string) *screen {
	t.Helper()
	return onTerminalOver(t, t.TempDir(), curiousServers(), []string{"NO_COLOR=1"}, args...)
}

func curiousServers() map[string]any {
	servers := map[string]any{}
	for name, era := range map[string]peer.Era{"new": peer.EraModern, "old": peer.EraLegacy} {
		servers[name] = entry(peer.Spec{Name: name, Era: era, Tools: []peer.Tool{
			{Name: "ask", Behaviour: peer.Do(peer.Elicit)}, {Name: "visit", Behaviour: peer.Do(peer.Visit)},
			{Name: "form", Behaviour: peer.Behaviour{Kind: peer.Elicit, Raw: sizes}},
		}})
	}
	return servers
}

// What a server asks during a call is asked at the terminal, in both eras of
// the server.
func TestTerminalAnswersQuestions(t *testing.T) {
	for name, tc := range map[string]struct {
		answers [][2]string // what is shown, and what is pressed then
		want    string      // in the end
	}{
		"answered":  {[][2]string{{"It wants to know: name", ""}, {"answer? [y]es, [n]o, [c]ancel > ", "y\n"}, {"name > ", "\n"}, {"Something has to be written here", ""}, {"name > ", "Ann \"A\"\n"}}, `{"action":"accept","content":{"name":"Ann \"A\""}}`},
		"declined":  {[][2]string{{"answer? [y]es, [n]o, [c]ancel > ", "no\n"}}, `{"action":"decline"}`},
		"cancelled": {[][2]string{{"answer? [y]es, [n]o, [c]ancel > ", "perhaps\n"}, {"That is no answer.", ""}, {"answer? [y]es, [n]o, [c]ancel > ", "c\n"}}, `{"action":"cancel"}`},
		"ended":     {[][2]string{{"answer? [y]es, [n]o, [c]ancel > ", "y\n"}, {"name > ", "\x04"}}, `{"action":"cancel"}`},
	} {
		for _, tool := range []string{"new__ask", "old__ask"} {
			t.Run(name+"/"+tool, func(t *testing.T) {
				s := curious(t, "call", tool, "message=Who are\u202e you?")
				s.shows(t, `? the server asks: Who are\u202e you?`)
				for _, a := range tc.answers {
					s.shows(t, a[0])
					s.press(t, a[1])
				}
				if code := s.end(t); code != exitOK || !strings.Contains(s.text(), tc.want) {
					t.Errorf("exit code %d\n%s", code, s.text())
				}
			})
		}
	}
}

func TestTerminalForm(t *testing.T) {
	s := curious(t, "call", "new__form")
	say := func(prompt, line string) string {
		t.Helper()
		said := s.shows(t, prompt)
		s.press(t, line+"\n")
		return said
	}
	say("answer? [y]es, [n]o, [c]ancel > ", "y")
	said := say("Size (one of these) > ", "4")
	if !strings.Contains(said, "1. s\r\n") || !strings.Contains(said, "2. Medium (m)") {
		t.Errorf("the options:\n%s", said)
	}
	say("Size (one of these) > ", "medium")
	say("count (a whole number; may be left empty) > ", "many")
	say("count (a whole number; may be left empty) > ", "0")
	say("count (a whole number; may be left empty) > ", "3")
	say("tags (any of these, with commas between; may be left empty) > ", "2, red")
	say("sure (yes or no; may be left empty; empty means true) > ", "")
	say("mail (email; may be left empty) > ", "")
	say("[e]dit > ", "e")
	say("Size (one of these) > ", "1")
	say("count (a whole number; may be left empty) > ", "")
	say("tags (any of these, with commas between; may be left empty) > ", "1")
	say("sure (yes or no; may be left empty; empty means true) > ", "n")
	say("mail (email; may be left empty) > ", "")
	say("[e]dit > ", "y")
	if code := s.end(t); code != exitOK || !strings.Contains(s.text(), `{"size":"s","tags":["red"],"sure":false}`) {
		t.Errorf("exit code %d\n%s", code, s.text())
	}
}

func TestTerminalAddress(t *testing.T) {
	s := curious(t, "call", "new__visit")
	s.shows(t, "Please log in")
	s.shows(t, "https://login.example/")
	s.shows(t, "[c]ancel > ")
	s.press(t, "y\n")
	if code := s.end(t); code != exitOK || !strings.Contains(s.text(), `{"action":"accept"}`) {
		t.Errorf("exit code %d\n%s", code, s.text())
	}
}

func TestTerminalInterruptsQuestion(t *testing.T) {
	s := curious(t, "call", "new__ask")
	s.shows(t, "answer? ")
	s.press(t, "\x03")
	if code := s.end(t); code != exitInterrupted {
		t.Errorf("exit code %d\n%s", code, s.text())
	}
}

// Who interrupts a question leaves nothing behind that keeps others from being
// asked: the server has its answer, and the call ends.
func TestInterruptedQuestionIsCancelled(t *testing.T) {
	work, servers := t.TempDir(), curiousServers()
	hub := onTerminalOver(t, work, servers, nil, "serve", "--listen", "127.0.0.1:0")
	hub.shows(t, "Ctrl-C stops the hub.")
	for range 2 {
		left := onTerminalOver(t, work, servers, nil, "call", "old__ask")
		left.shows(t, "answer? ")
		left.press(t, keyCtrlC)
		left.ended(t, exitInterrupted)
	}
	s := onTerminalOver(t, work, servers, nil, "call", "old__ask")
	s.shows(t, "answer? ")
	s.press(t, "n\n")
	s.shows(t, `{"action":"decline"}`)
	s.ended(t, exitOK)
	hub.press(t, keyCtrlC)
	hub.end(t)
}
