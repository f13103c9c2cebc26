package mcp

import (
	"bytes"
	"encoding/json"
	"maps"
	"testing"

	"pgregory.net/rapid"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/wire"
)

var translatedMethods = []string{"tools/call", "tools/list", "prompts/list", "prompts/get", "resources/list",
	"resources/templates/list", "resources/read", "completion/complete"}

// added are the members that a modern result has for its era.
func added(method string) []string {
	if cacheable(method) {
		return []string{"resultType", "ttlMs", "cacheScope"}
	}
	return []string{"resultType"}
}

// meaning decodes an object, numbers and texts as they stand.
func meaning(object []byte) map[string]string {
	var m map[string]json.RawMessage
	if json.Unmarshal(object, &m) != nil {
		return nil
	}
	out := map[string]string{}
	for k, v := range m {
		out[k] = string(v)
	}
	return out
}

// checkThereAndBack fails if an object means something else after a trip from
// a legacy server over a modern client's form to that of a legacy client.
func checkThereAndBack(t interface{ Errorf(string, ...any) }, method string, object []byte) {
	there, err := Translate(method, Response{Result: object}, &Client{Era: Modern})
	if err != nil || wire.Valid(there.Result, wire.FromUpstream) != nil {
		t.Errorf("%s %s became %s, %v", method, object, there.Result, err)
		return
	}
	want, got := meaning(object), meaning(there.Result)
	for _, name := range added(method) {
		if got[name] == "" {
			t.Errorf("%s %s became %s, without %s", method, object, there.Result, name)
		}
		if want[name] == "" {
			delete(got, name)
		}
	}
	if !maps.Equal(want, got) {
		t.Errorf("%s %s became %s", method, object, there.Result)
	}
	back, err := Translate(method, Response{Result: there.Result}, &Client{Era: Legacy})
	if kind, ok := want["resultType"]; ok && kind != `"complete"` {
		if text, _ := wire.String([]byte(kind)); text != "complete" && !fault.Is(err, fault.MissingCapability) {
			t.Errorf("%s %s came back as %s, %v", method, object, back.Result, err)
		}
		return
	}
	for _, name := range added(method) {
		delete(want, name)
	}
	if s := want["structuredContent"]; s != "" && s[0] != '{' {
		delete(want, "structuredContent")
	}
	if err != nil || wire.Valid(back.Result, wire.FromUpstream) != nil || !maps.Equal(want, meaning(back.Result)) {
		t.Errorf("%s %s came back as %s, %v", method, object, back.Result, err)
	}
}

// Results that servers may give mean the same there and back.
func TestTranslateThereAndBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b bytes.Buffer
		b.WriteByte('{')
		names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"content", "structuredContent", "isError", "tools", "nextCursor",
			"_meta", "resultType", "ttlMs", "cacheScope", "contents", "x\u00e9\"", "messages"}), 0, 8, rapid.ID).Draw(t, "names")
		for i, name := range names {
			if i > 0 {
				b.WriteString(" ,\t")
			}
			value := rawJSON(2).Draw(t, name)
			if name == "resultType" {
				value = rapid.SampledFrom([]string{`"complete"`, `"input_required"`, `"compl\u0065te"`, `7`}).Draw(t, "kind")
			}
			b.Write(wire.Quote(name))
			b.WriteString(" : " + value)
		}
		b.WriteByte('}')
		checkThereAndBack(t, rapid.SampledFrom(translatedMethods).Draw(t, "method"), b.Bytes())
	})
}

// Questions keep their meaning too; only elicitationId comes and goes.
func TestQuestionsThereAndBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mode := rapid.SampledFrom([]string{`"url"`, `"form"`, `"u\u0072l"`, `1`}).Draw(t, "mode")
		modern := []byte(`{"mode":` + mode + `,"message":` + rawJSON(1).Draw(t, "message") + `,"x":` + rawJSON(2).Draw(t, "x") + `}`)
		legacy := LegacyQuestion("elicitation/create", modern)
		text, _ := wire.String([]byte(mode))
		if has := wire.Get(legacy, "elicitationId") != nil; has != (text == "url") {
			t.Errorf("%s became %s", modern, legacy)
		}
		if back := ModernQuestion("elicitation/create", legacy); !maps.Equal(meaning(back), meaning(modern)) {
			t.Errorf("%s came back as %s", modern, back)
		}
		if other := ModernQuestion("sampling/createMessage", modern); !bytes.Equal(other, modern) {
			t.Errorf("sampling: %s became %s", modern, other)
		}
	})
}

// FuzzTranslate feeds any answer to both directions. Whatever comes, what goes
// on is JSON, and a result with distinct members means what it meant.
func FuzzTranslate(f *testing.F) {
	for _, seed := range []string{
		`{"content":[],"structuredContent":[1]}`, `{"tools":[],"ttlMs":1,"cacheScope":"public","resultType":"complete"}`,
		`{"resultType":"input_required","inputRequests":{"a":{}}}`, `{ }`, `[1]`, `{"resultTyp\u0065":"complete"}`,
		`{"code":-32002,"message":"x"}`, `{"code":-32042,"data":{"elicitations":[{"mode":"url","elicitationId":"1"},7,null]}}`, `{"code":-32021.0}`, `{"code":"-32002"}`,
	} {
		f.Add(byte(0), []byte(seed))
		f.Add(byte(1), []byte(seed))
	}
	f.Fuzz(func(t *testing.T, which byte, in []byte) {
		if wire.Valid(in, wire.FromUpstream) != nil {
			t.Skip()
		}
		method := translatedMethods[int(which)%len(translatedMethods)]
		for _, era := range []Era{Legacy, Modern} {
			c := &Client{Era: era, Capabilities: []byte(`{"elicitation":{}}`)}
			for _, resp := range []Response{{Result: in}, {Error: in}} {
				got, err := Translate(method, resp, c)
				for _, part := range [][]byte{got.Result, got.Error} {
					if part != nil && wire.Valid(part, wire.FromUpstream) != nil {
						t.Errorf("%s became %s", in, part)
					}
				}
				if resp.Error != nil && NeedsInput(got.Result) {
					for _, q := range wire.Members(wire.Get(got.Result, "inputRequests")) {
						if p := wire.Get(q.Value, "params"); p == nil || p[0] != '{' || wire.Get(p, "elicitationId") != nil {
							t.Errorf("%s became the question %s", in, q.Value)
						}
					}
				}
				if err == nil && (got.Result == nil) == (got.Error == nil) {
					t.Errorf("%s became neither a result nor an error", in)
				}
			}
		}
		if in[0] == '{' && len(meaning(in)) == len(wire.Members(in)) {
			checkThereAndBack(t, method, in)
		}
	})
}
