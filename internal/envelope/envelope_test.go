package envelope

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/fault"
)

func TestWhatAToolSaid(t *testing.T) {
	for name, tc := range map[string]struct{ result, want string }{
		"structured": {`{"content":[{"type":"text","text":"x"}],"structuredContent":{"n":12345678901234567890}}`,
			`{"success":true,"data":{"n":12345678901234567890},"message":"","error":null,"code":"SUCCESS"}`},
		"text":           {`{"content":[{"type":"text","text":"hello"}]}`, `{"success":true,"data":"hello","message":"","error":null,"code":"SUCCESS"}`},
		"text with JSON": {`{"content":[{"type":"text","text":" {\"a\":1}\n"}]}`, `{"success":true,"data":{"a":1},"message":"","error":null,"code":"SUCCESS"}`},
		"a number stays text": {`{"content":[{"type":"text","text":"17"}]}`,
			`{"success":true,"data":"17","message":"","error":null,"code":"SUCCESS"}`},
		"JSON with duplicates stays text": {`{"content":[{"type":"text","text":"{\"a\":1,\"a\":2}"}]}`,
			`{"success":true,"data":"{\"a\":1,\"a\":2}","message":"","error":null,"code":"SUCCESS"}`},
		"several blocks": {`{"content":[{"type":"text","text":"a"},{"type":"image","data":"AA==","mimeType":"image/png"}]}`,
			`{"success":true,"data":[{"type":"text","text":"a"},{"type":"image","data":"AA==","mimeType":"image/png"}],"message":"","error":null,"code":"SUCCESS"}`},
		"failure": {`{"content":[{"type":"text","text":"no such file"}],"isError":true}`,
			`{"success":false,"data":"no such file","message":"","error":"no such file","code":"TOOL_ERROR"}`},
		"silent failure": {`{"content":[],"isError":true}`,
			`{"success":false,"data":[],"message":"","error":"the tool failed and did not say why","code":"TOOL_ERROR"}`},
	} {
		if diff := cmp.Diff(tc.want, string(Of([]byte(tc.result)).JSON())); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// What was made a result comes back as it was.
func TestThereAndBack(t *testing.T) {
	for _, e := range []Envelope{
		Good([]byte(`{"a":[1,2,3]}`), `it is "done"`),
		Good(nil, ""),
		Bad(fault.New(fault.BadReference, "x", "no such value").With("near", []string{"y"})),
		Bad(errors.New("broken")),
	} {
		r := e.Result()
		if !json.Valid(r) {
			t.Fatalf("%s is no JSON", r)
		}
		if diff := cmp.Diff(e, Of(r)); diff != "" {
			t.Error(diff)
		}
	}
	want := `{"success":false,"data":{"near":["y"]},"message":"Use one of the names that are listed.","error":"x: no such value","code":"BAD_REFERENCE"}`
	if diff := cmp.Diff(want, string(Bad(fault.New(fault.BadReference, "x", "no such value").With("near", []string{"y"})).JSON())); diff != "" {
		t.Error(diff)
	}
}
