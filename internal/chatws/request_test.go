package chatws

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/fault"
)

func TestParse(t *testing.T) {
	for frame, want := range map[string]request{
		`{"type":"message","payload":{"text":"hi"}}`:                                              {Type: "message", Text: "hi"},
		` {"payload":{"key":"k","fileId":"f","agent":"a","text":" hi\u00e9 "},"type":"message"} `: {Type: "message", Text: " hié ", Agent: "a", FileID: "f", Key: "k"},
		`{"type":"message","payload":{"text":"hi","agent":null}}`:                                 {Type: "message", Text: "hi"},
		`{"type":"abort"}`:                                                                                {Type: "abort"},
		`{"type":"abort","payload":null}`:                                                                 {Type: "abort"},
		`{"type":"abort","payload":{"turn":"t1"}}`:                                                        {Type: "abort", Turn: "t1"},
		`{"type":"abort","payload":{"queued":true}}`:                                                      {Type: "abort", Queued: true},
		`{"type":"ping"}`:                                                                                 {Type: "ping"},
		`{"type":"ping","payload":{}}`:                                                                    {Type: "ping"},
		`{"type":"resume","payload":{"after_seq":0}}`:                                                     {Type: "resume"},
		`{"type":"resume","payload":{"after_seq":7,"offset":12}}`:                                         {Type: "resume", After: 7, Offset: 12},
		`{"type":"approve","payload":{"id":"a1","decision":"approve","remember":"tool"}}`:                 {Type: "approve", ID: "a1", Decision: "approve", Remember: "tool"},
		`{"type":"approve","payload":{"id":"a1","decision":"deny","reason":"not today"}}`:                 {Type: "approve", ID: "a1", Decision: "deny", Reason: "not today"},
		`{"type":"approve","payload":{"id":"a1","decision":"edit","args":{"n":12345678901234567890123}}}`: {Type: "approve", ID: "a1", Decision: "edit", Args: json.RawMessage(`{"n":12345678901234567890123}`)},
	} {
		got, f := parse([]byte(frame), 1000)
		if f != nil {
			t.Errorf("%s: %v", frame, f)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s:\n%s", frame, diff)
		}
	}
}

// badFrames are frames that nobody can act on, with what the sender is told:
// the kind, where, and a part of the message or the hint. They are sent to a
// real socket too.
var badFrames = []struct{ frame, kind, at, say string }{
	{``, "parse", "", "not JSON"},
	{`hello`, "parse", "", "not JSON"},
	{`{"type":"message"`, "parse", "", "not JSON"},
	{`{"type":"message","type":"ping"}`, "parse", "", "type"},
	{`{"type":"ping"} {"type":"ping"}`, "parse", "", "data after"},
	{"{\"type\":\"ping\xff\"}", "parse", "", "not JSON"},
	{`{"type":"message","payload":{"text":"\ud800"}}`, "parse", "", "not JSON"},
	{`[]`, "invalid_params", "", "an array"},
	{`"message"`, "invalid_params", "", "a string"},
	{`null`, "invalid_params", "", "null"},
	{`7`, "invalid_params", "", "a number"},
	{`{}`, "invalid_params", "/type", "missing"},
	{`{"Type":"ping"}`, "invalid_params", "/type", `"Type" is not it`},
	{`{"type":7}`, "invalid_params", "/type", "a number"},
	{`{"type":"mesage","payload":{"text":"x"}}`, "invalid_params", "/type", "Did you mean message?"},
	{`{"type":"text","payload":{"content":"x"}}`, "invalid_params", "/type", "message, abort, approve, reply, resume, ping"},
	{`{"type":"message"}`, "invalid_params", "/payload", "missing"},
	{`{"type":"message","payload":"hi"}`, "invalid_params", "/payload", "a string"},
	{`{"type":"message","payload":[]}`, "invalid_params", "/payload", "an array"},
	{`{"type":"message","text":"hi","payload":{"text":"hi"}}`, "invalid_params", "/text", "type, payload"},
	{`{"type":"message","payload":{}}`, "invalid_params", "/payload/text", "missing"},
	{`{"type":"message","payload":{"txt":"hi"}}`, "invalid_params", "/payload/text", `"txt" is not it`},
	{`{"type":"message","payload":{"text":5}}`, "invalid_params", "/payload/text", "must be a string"},
	{`{"type":"message","payload":{"text":" \n"}}`, "invalid_params", "/payload/text", "empty"},
	{`{"type":"message","payload":{"text":"hi","agnet":"news"}}`, "invalid_params", "/payload/agnet", "Did you mean agent?"},
	{`{"type":"message","payload":{"text":"hi","agent":{}}}`, "invalid_params", "/payload/agent", "an object"},
	{`{"type":"message","payload":{"text":"` + strings.Repeat("x", 1001) + `"}}`, "too_large", "/payload/text", "1001 bytes, and may have 1000"},
	{`{"type":"message","payload":{"text":"hi","key":"` + strings.Repeat("k", 201) + `"}}`, "too_large", "/payload/key", "201"},
	{`{"type":"abort","payload":{"turn":1}}`, "invalid_params", "/payload/turn", "a number"},
	{`{"type":"abort","payload":{"queued":"yes"}}`, "invalid_params", "/payload/queued", "true or false"},
	{`{"type":"resume","payload":{}}`, "invalid_params", "/payload/after_seq", "missing"},
	{`{"type":"resume","payload":{"after_seq":-1}}`, "invalid_params", "/payload/after_seq", "-1"},
	{`{"type":"resume","payload":{"after_seq":1.5}}`, "invalid_params", "/payload/after_seq", "1.5"},
	{`{"type":"resume","payload":{"after_seq":"7"}}`, "invalid_params", "/payload/after_seq", "a string"},
	{`{"type":"resume","payload":{"after_seq":9007199254740992}}`, "invalid_params", "/payload/after_seq", "2^53-1"},
	{`{"type":"approve","payload":{"decision":"approve"}}`, "invalid_params", "/payload/id", "missing"},
	{`{"type":"approve","payload":{"id":"x"}}`, "invalid_params", "/payload/decision", "missing"},
	{`{"type":"approve","payload":{"id":"x","decision":"yes"}}`, "invalid_params", "/payload/decision", "approve, deny, edit"},
	{`{"type":"approve","payload":{"id":"x","decision":true}}`, "invalid_params", "/payload/decision", "true or false"},
	{`{"type":"approve","payload":{"id":"x","decision":"edit"}}`, "invalid_params", "/payload/args", "missing"},
	{`{"type":"approve","payload":{"id":"x","decision":"edit","args":[1]}}`, "invalid_params", "/payload/args", "an array"},
	{`{"type":"approve","payload":{"id":"x","decision":"deny","args":{}}}`, "invalid_params", "/payload/args", `"deny"`},
	{`{"type":"approve","payload":{"id":"x","decision":"approve","remember":"always"}}`, "invalid_params", "/payload/remember", "once, session, tool, server"},
	{`{"type":"ping","payload":{"n":1}}`, "invalid_params", "/payload/n", "no such member"},
}

func TestParseBadFrames(t *testing.T) {
	for _, tc := range badFrames {
		_, f := parse([]byte(tc.frame), 1000)
		if f == nil {
			t.Errorf("%s: taken", clip(tc.frame))
			continue
		}
		at, _ := f.Data["at"].(string)
		if f.Kind.String() != tc.kind || at != tc.at || !strings.Contains(f.Text()+" "+f.Advice(), tc.say) {
			t.Errorf("%s:\n%s at %q: %s\n%s", clip(tc.frame), f.Kind, at, f.Text(), f.Advice())
		}
	}
}

func TestParseBody(t *testing.T) {
	got, f := parseBody([]byte(`{"sessionId":"s","text":"hi","key":"k"}`), askMessage, false, 100)
	if f != nil || got.Session != "s" || got.Text != "hi" || got.Key != "k" {
		t.Errorf("%+v, %v", got, f)
	}
	for body, say := range map[string]string{
		`{"type":"message","payload":{"text":"hi"}}`: "text", // a frame is no body
		`{"text":"hi","session":"s"}`:                "sessionId",
		`[]`:                                         "an array",
		``:                                           "not JSON",
	} {
		if _, f := parseBody([]byte(body), askMessage, false, 100); f == nil || !strings.Contains(f.Text()+f.Advice(), say) {
			t.Errorf("%s: %v", body, f)
		}
	}
}

// FuzzParse: whatever comes, it is either a frame within its bounds, or a fault
// that can be told to the client.
func FuzzParse(f *testing.F) {
	for _, tc := range badFrames {
		f.Add([]byte(tc.frame))
	}
	f.Add([]byte(`{"type":"approve","payload":{"id":"a1","decision":"edit","args":{"n":1}}}`))
	f.Add([]byte(`{"type":"resume","payload":{"after_seq":7,"offset":12}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		q, fail := parse(b, 100)
		if fail != nil {
			if fail.Text() == "" || fail.Advice() == "" || !utf8.ValidString(fail.Text()+fail.Advice()) || len(fail.Text()) > 2000 || fail.Kind == fault.Internal {
				t.Fatalf("%q: %q, %q", b, fail.Text(), fail.Advice())
			}
			return
		}
		if !json.Valid(b) {
			t.Fatalf("%q is no JSON", b)
		}
		if len(q.Text) > 100 || len(q.Key) > maxName || q.Offset < 0 || q.Type == askMessage && q.FileID == "" && strings.TrimSpace(q.Text) == "" {
			t.Fatalf("%q: %+v", b, q)
		}
		if q.Args != nil && (q.Decision != sayEdit || q.Args[0] != '{' || !json.Valid(q.Args)) {
			t.Fatalf("%q: %+v", b, q)
		}
	})
}
