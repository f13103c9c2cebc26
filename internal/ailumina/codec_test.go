package ailumina

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestDecodeEvent(t *testing.T) {
	for in, want := range map[string]Event{
		`{"type":"sentence","sentence":"Partial response text..."}`: {Kind: Sentence, Text: "Partial response text..."},
		` {"sentence":"\u00fc\n", "type" : "sentence", "more":1} `:  {Kind: Sentence, Text: "ü\n"},
		`{"type":"tool_running","tool_name":"calculator"}`:          {Kind: ToolRunning, Tool: "calculator"},
		`{"type":"tool_complete","tool_name":"calculator"}`:         {Kind: ToolComplete, Tool: "calculator"},
		`{"type":"complete"}`:                          {Kind: Complete},
		`{"type":"error","error":"Error description"}`: {Kind: Failure, Text: "Error description"},
		`{"role":"assistant","content":"Full response text","parts":[{"text":"Response part"}]}`: {Kind: Chat, Role: "assistant", Text: "Full response text"},
		`{"role":"model","content":null,"parts":[{"text":"a"},{"call":1},"x",{"text":"b"}]}`:     {Kind: Chat, Role: "model", Text: "ab"},
		`{"role":"assistant"}`: {Kind: Chat, Role: "assistant"},
		`{"type":"message","role":"assistant","content":"hello"}`: {Kind: Chat, Role: "assistant", Text: "hello"},
		`{"type":"thinking","sentence":"hm"}`:                     {Type: "thinking"},
		`{"type":"Sentence","sentence":"hm"}`:                     {Type: "Sentence"},
		`{}`:                                                      {},
		`{"type":null}`:                                           {},
	} {
		got, err := DecodeEvent([]byte(in))
		if err != nil {
			t.Errorf("%s: %v", in, err)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", in, diff)
		}
	}
}

func TestDecodeEventRefuses(t *testing.T) {
	for in, want := range map[string]string{
		``:                                    "not JSON",
		`hello`:                               "not JSON",
		`{"type":"complete"`:                  "not JSON",
		`{"type":"complete"}{}`:               "not JSON",
		`[{"type":"complete"}]`:               "not a JSON object",
		`"complete"`:                          "not a JSON object",
		`{"type":7}`:                          "type is not a string",
		`{"type":"sentence"}`:                 "no sentence",
		`{"type":"sentence","sentence":3}`:    "no sentence",
		`{"type":"error"}`:                    "no error",
		`{"type":"tool_running"}`:             "no tool_name",
		`{"role":1}`:                          "role of a chat message",
		`{"role":"assistant","content":[]}`:   "content of a chat message",
		`{"role":"assistant","parts":"text"}`: "parts of a chat message",
		strings.Repeat("[", 2000) + strings.Repeat("]", 2000):                        "not JSON",
		`{"type":"sentence","sentence":"` + strings.Repeat("x", MessageBytes) + `"}`: "longer than",
	} {
		if e, err := DecodeEvent([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %+v, %v; want %q", in, e, err, want)
		}
	}
}

func TestAppendEvent(t *testing.T) {
	for want, e := range map[string]Event{
		`{"type":"sentence","sentence":"a \"b\""}`:                      {Kind: Sentence, Text: `a "b"`},
		`{"type":"tool_running","tool_name":"calculator"}`:              {Kind: ToolRunning, Tool: "calculator"},
		`{"type":"tool_complete","tool_name":"calculator"}`:             {Kind: ToolComplete, Tool: "calculator"},
		`{"type":"complete"}`:                                           {Kind: Complete},
		`{"type":"error","error":"no"}`:                                 {Kind: Failure, Text: "no"},
		`{"role":"assistant","content":"all","parts":[{"text":"all"}]}`: {Kind: Chat, Role: "assistant", Text: "all"},
	} {
		if got := string(e.Append(nil)); got != want {
			t.Errorf("%+v is sent as %s, want %s", e, got, want)
		}
	}
}

func TestQuestion(t *testing.T) {
	const sent = `{"user_input":"What's my name?","chat_messages":[{"role":"user","content":"My name is John"},{"role":"assistant","content":"Hello","parts":[ 1 ]}],"fileId":"file_1"}`
	q, err := DecodeQuestion([]byte(sent))
	if err != nil {
		t.Fatal(err)
	}
	want := Question{Input: "What's my name?", FileID: "file_1", History: []Turn{
		{Role: "user", Content: "My name is John", Raw: []byte(`{"role":"user","content":"My name is John"}`)},
		{Role: "assistant", Content: "Hello", Raw: []byte(`{"role":"assistant","content":"Hello","parts":[ 1 ]}`)},
	}}
	if diff := cmp.Diff(want, q); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := string(q.Append(nil)); got != sent {
		t.Errorf("it goes on as %s", got)
	}
	plain := Question{Input: "hi", History: []Turn{{Role: "user", Content: `say "x"`}, {Role: "assistant", Content: "x"}}}
	if got, want := string(plain.Append(nil)), `{"user_input":"hi","chat_messages":[{"role":"user","content":"say \"x\""},{"role":"assistant","content":"x"}]}`; got != want {
		t.Errorf("sent as %s, want %s", got, want)
	}
	if got, want := string(Question{}.Append(nil)), `{"user_input":"","chat_messages":[]}`; got != want {
		t.Errorf("sent as %s, want %s", got, want)
	}
	if q, err := DecodeQuestion([]byte(`{"user_input":"x","chat_messages":null,"fileId":null,"other":{}}`)); err != nil || q.Input != "x" || q.History != nil || q.FileID != "" {
		t.Errorf("%+v, %v", q, err)
	}
}

func TestDecodeQuestionRefuses(t *testing.T) {
	for in, want := range map[string]string{
		`x`:                                     "not JSON",
		`[]`:                                    "not a JSON object",
		`{}`:                                    "user_input is missing",
		`{"user_input":["x"]}`:                  "user_input is missing or not a string",
		`{"user_input":"a","user_input":"b"}`:   "not JSON", // which of them is meant?
		`{"user_input":"a","fileId":3}`:         "fileId is not a string",
		`{"user_input":"a","chat_messages":{}}`: "chat_messages is not an array",
		`{"user_input":"a","chat_messages":[{"role":"user"}]}`:                        "chat_messages[0].content",
		`{"user_input":"a","chat_messages":[{"role":"","content":"x"}]}`:              "chat_messages[0].role",
		`{"user_input":"a","chat_messages":[{"role":"u","content":"x"},"y"]}`:         "chat_messages[1] is not an object",
		`{"user_input":"a","chat_messages":[` + strings.Repeat(`{},`, Turns) + `{}]}`: "more than 10000",
		`{"user_input":"` + strings.Repeat("x", MessageBytes) + `"}`:                  "longer than",
	} {
		if q, err := DecodeQuestion([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %+v, %v; want %q", in, q, err, want)
		}
	}
}

// What is understood of an event is what it says when it is sent on.
func FuzzEvent(f *testing.F) {
	for _, s := range []string{`{"type":"sentence","sentence":"a"}`, `{"type":"tool_running","tool_name":"a"}`, `{"type":"error","error":"\ud800"}`,
		`{"role":"assistant","content":"","parts":[{"text":"a"}]}`, `{"type":"x"}`, `{"type":"complete","type":"error","error":"x"}`, `[]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := DecodeEvent(b)
		if err != nil {
			return
		}
		if !json.Valid(b) {
			t.Fatalf("%q is not JSON and was taken", b)
		}
		sent := e.Append(nil)
		again, err := DecodeEvent(sent)
		if err != nil || again != e {
			t.Fatalf("%q is %+v, sent as %s, which is %+v, %v", b, e, sent, again, err)
		}
		if !utf8.ValidString(e.Text) || !utf8.Valid(sent) {
			t.Fatalf("%q gives text that is not UTF-8: %+v", b, e)
		}
	})
}

// A question that is taken goes on as it came, as far as it is known.
func FuzzQuestion(f *testing.F) {
	for _, s := range []string{`{"user_input":"a"}`, `{"user_input":"a","chat_messages":[{"role":"user","content":"x","y":[1]}],"fileId":"f"}`, `{"user_input":"a","fileId":null}`, `{"user_input":1}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		q, err := DecodeQuestion(b)
		if err != nil {
			return
		}
		sent := q.Append(nil)
		if !json.Valid(sent) {
			t.Fatalf("%q is sent as %q, which is not JSON", b, sent)
		}
		again, err := DecodeQuestion(sent)
		if err != nil {
			t.Fatalf("%q is sent as %q, which is refused: %v", b, sent, err)
		}
		if diff := cmp.Diff(q, again); diff != "" || !bytes.Equal(again.Append(nil), sent) {
			t.Fatalf("%q is sent as %q, which is another question:\n%s", b, sent, diff)
		}
	})
}
