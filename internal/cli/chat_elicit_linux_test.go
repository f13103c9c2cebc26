package cli

import (
	"encoding/json"
	"strings"
	"testing"
)

// What a server asks in the middle of a call is asked in the terminal, and the
// call that runs can be stopped by itself.
func TestTerminalChatElicitation(t *testing.T) {
	s := onTerminal(t, nil, "chat")
	s.shows(t, "> ")
	s.press(t, "call alpha__ask {}\r")
	s.shows(t, "allow? > ")
	s.press(t, "y\r")
	if got := s.shows(t, "name > "); !strings.Contains(got, "What is your name?") {
		t.Errorf("it asks %q", got)
	}
	s.press(t, "\r")
	s.shows(t, "name is needed")
	s.shows(t, "name > ")
	s.press(t, "Zoe\r")
	s.shows(t, `"name":"Zoe"`)
	s.shows(t, ready)
	s.press(t, "call alpha__ask {}\r")
	s.shows(t, "allow? > ")
	s.press(t, "y\r")
	s.shows(t, "name > ")
	s.press(t, "/decline\r")
	s.shows(t, `"decline"`)
	s.shows(t, ready)
	s.press(t, "call alpha__hang {}\r")
	s.shows(t, "allow? > ")
	s.press(t, "y\r")
	s.shows(t, "▸")
	s.press(t, "/skip\r")
	s.shows(t, "cancelled: ")
	s.shows(t, ready)
	s.press(t, keyCtrlD)
	s.ended(t, exitOK)
}

// Each kind of field is read as its schema says.
func TestFields(t *testing.T) {
	f := newForm(&askedElicitation{Schema: json.RawMessage(`{"properties":{
		"name":{"type":"string","title":"Your name"},"age":{"type":"integer"},"sure":{"type":"boolean","default":true},
		"size":{"type":"string","enum":["s","m"]},"tags":{"type":"array","items":{"anyOf":[{"const":"a","title":"A"},{"const":"b"}]}}},"required":["name","size"]}`)})
	for i, c := range []struct{ good, value, bad string }{
		{"Zoe", `"Zoe"`, " "}, {"7", "7", "7.5"}, {"", "true", "perhaps"}, {"m", `"m"`, "xl"}, {"a, b", `["a","b"]`, "a,c"},
	} {
		v, ok, err := f.fields[i].parse(c.good)
		if b, _ := json.Marshal(v); err != nil || !ok || string(b) != c.value {
			t.Errorf("%s: %s, %v, %v", f.fields[i].name, b, ok, err)
		}
		if _, _, err := f.fields[i].parse(c.bad); err == nil {
			t.Errorf("%s may be %q", f.fields[i].name, c.bad)
		}
	}
	if _, ok, err := f.fields[1].parse(""); ok || err != nil {
		t.Error("an optional field cannot be left out")
	}
}
