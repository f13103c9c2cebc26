package mcp

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/wire"
)

func TestTranslate(t *testing.T) {
	for name, tc := range map[string]struct {
		method, result, failed string
		to                     Era
		want, wantErr          string
		kind                   fault.Kind
	}{
		"call to modern":             {method: "tools/call", result: `{"content":[]}`, to: Modern, want: `{"content":[],"resultType":"complete"}`},
		"list to modern":             {method: "tools/list", result: `{"tools":[]}`, to: Modern, want: `{"tools":[],"resultType":"complete","ttlMs":0,"cacheScope":"private"}`},
		"templates to modern":        {method: "resources/templates/list", result: `{}`, to: Modern, want: `{"resultType":"complete","ttlMs":0,"cacheScope":"private"}`},
		"read to modern":             {method: "resources/read", result: `{"ttlMs":5}`, to: Modern, want: `{"ttlMs":5,"resultType":"complete","cacheScope":"private"}`},
		"complete to modern":         {method: "completion/complete", result: `{ "completion" : {} }`, to: Modern, want: `{"completion":{},"resultType":"complete"}`},
		"no object to modern":        {method: "tools/call", result: `[1]`, to: Modern, want: `[1]`},
		"not found to modern":        {method: "resources/read", failed: `{"code":-32002,"message":"gone","data":{"uri":"x"}}`, to: Modern, wantErr: `{"code":-32602,"message":"gone","data":{"uri":"x"}}`},
		"other error to modern":      {method: "tools/call", failed: `{"code":-32000,"message":"?"}`, to: Modern, wantErr: `{"code":-32000,"message":"?"}`},
		"addresses to modern":        {method: "tools/call", failed: `{"code":-32042,"message":"?","data":{"elicitations":[{"mode":"url","elicitationId":"1","url":"https://x.example/","message":"go"}]}}`, to: Modern, want: `{"resultType":"input_required","inputRequests":{"url1":{"method":"elicitation/create","params":{"mode":"url","url":"https://x.example/","message":"go"}}}}`},
		"addresses without any":      {method: "tools/call", failed: `{"code":-32042,"message":"?"}`, to: Modern, wantErr: `{"code":-32021,"message":"?"}`},
		"modern code to legacy":      {method: "tools/call", failed: `{"code":-32021,"message":"needs x"}`, to: Legacy, wantErr: `{"code":-32603,"message":"needs x"}`},
		"call to legacy":             {method: "tools/call", result: `{"content":[],"resultType":"complete","ttlMs":1}`, to: Legacy, want: `{"content":[],"ttlMs":1}`},
		"list to legacy":             {method: "tools/list", result: `{"tools":[],"resultType":"complete","ttlMs":1,"cacheScope":"public"}`, to: Legacy, want: `{"tools":[]}`},
		"tools to legacy":            {method: "tools/list", result: `{"tools":[{"name":"a","outputSchema":{"type":"array"}},{"name":"b"}],"nextCursor":"n"}`, to: Legacy, want: `{"tools":[{"name":"a"},{"name":"b"}],"nextCursor":"n"}`},
		"tools to modern":            {method: "tools/list", result: `{"tools":[{"name":"a","execution":{}}]}`, to: Modern, want: `{"tools":[{"name":"a"}],"resultType":"complete","ttlMs":0,"cacheScope":"private"}`},
		"untouched to legacy":        {method: "tools/call", result: `{ "content" : [] }`, to: Legacy, want: `{ "content" : [] }`},
		"structured object":          {method: "tools/call", result: `{"structuredContent":{"a":1},"resultType":"complete"}`, to: Legacy, want: `{"structuredContent":{"a":1}}`},
		"structured, but no object":  {method: "tools/call", result: `{"content":[],"structuredContent":[1],"resultType":"complete"}`, to: Legacy, want: `{"content":[]}`},
		"input required to legacy":   {method: "tools/call", result: `{"resultType":"input_required","inputRequests":{}}`, to: Legacy, kind: fault.MissingCapability},
		"unknown result to legacy":   {method: "tools/call", result: `{"resultType":"task"}`, to: Legacy, kind: fault.MissingCapability},
		"not found to legacy, as is": {method: "resources/read", failed: `{"code":-32602,"message":"gone"}`, to: Legacy, wantErr: `{"code":-32602,"message":"gone"}`},
	} {
		t.Run(name, func(t *testing.T) {
			resp := Response{Result: []byte(tc.result)}
			if tc.failed != "" {
				resp = Response{Error: []byte(tc.failed)}
			}
			got, err := Translate(tc.method, resp, &Client{Era: tc.to, Capabilities: []byte(`{"elicitation":{"url":{}}}`)})
			switch {
			case tc.kind != 0:
				if !fault.Is(err, tc.kind) {
					t.Errorf("got %v", err)
				}
			case err != nil || string(got.Result) != tc.want || string(got.Error) != tc.wantErr:
				t.Errorf("got result %s, error %s, %v", got.Result, got.Error, err)
			}
		})
	}
}

// Complete adds and never changes, and there and back is where we were.
func TestCompleteIsUndone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		method := rapid.SampledFrom([]string{"tools/call", "tools/list", "resources/read", "prompts/get"}).Draw(t, "method")
		result := []byte(`{"a":` + rawJSON(2).Draw(t, "a") + `,"b":` + rawJSON(1).Draw(t, "b") + `}`)
		full := Complete(method, result)
		if again := Complete(method, full); string(again) != string(full) {
			t.Errorf("twice: %s", again)
		}
		back, err := Translate(method, Response{Result: full}, &Client{Era: Legacy})
		if err != nil || string(back.Result) != string(wire.EditFields(nil, wire.Members(result))) {
			t.Errorf("%s came back as %s, %v", result, back.Result, err)
		}
	})
}

func TestUntag(t *testing.T) {
	for in, want := range map[string]string{
		`{"uri":"x"}`: `{"uri":"x"}`,
		`{"uri":"x","_meta":{"io.modelcontextprotocol/subscriptionId":1}}`:         `{"uri":"x"}`,
		`{"uri":"x","_meta":{"io.modelcontextprotocol/subscriptionId":"a","k":1}}`: `{"uri":"x","_meta":{"k":1}}`,
		``: ``,
	} {
		if got := string(Untag([]byte(in))); got != want {
			t.Errorf("Untag(%s) = %s, want %s", in, got, want)
		}
	}
}
