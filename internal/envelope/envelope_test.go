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
	want := `{"success":false,"data":{"near":["y"]},"message":"Correct the reference; context_list shows what is kept, and context_get a value.","error":"x: no such value","code":"BAD_REFERENCE"}`
	if diff := cmp.Diff(want, string(Bad(fault.New(fault.BadReference, "x", "no such value").With("near", []string{"y"})).JSON())); diff != "" {
		t.Error(diff)
	}
}

// What the hub adds to a result that it was asked to keep is in the message,
// and a card is the data.
func TestKept(t *testing.T) {
	for _, test := range []struct{ result, data, message string }{
		{`{"content":[{"type":"text","text":"[1]"}],"_meta":{"stoa/saved":{"name":"x"}}}`, `[1]`, "The result is kept as @x."},
		{`{"content":[{"type":"text","text":"…"}],"_meta":{"stoa/card":{"name":"x","size":9}}}`, `{"name":"x","size":9}`, "The result is kept as @x."},
		{`{"content":[{"type":"text","text":"[1]"}],"_meta":{"stoa/saveError":{"message":"full"}}}`, `[1]`, "The result could not be kept: full"},
		{`{"structuredContent":{"success":true,"data":1,"message":"done","error":null,"code":"SUCCESS"},"_meta":{"stoa/saved":{"name":"x"}}}`, `1`, "done. The result is kept as @x."},
	} {
		if e := Of([]byte(test.result)); !e.Success || string(e.Data) != test.data || e.Message != test.message || e.Code != OK {
			t.Errorf("%s: %s", test.result, e.JSON())
		}
	}
	if e := Refused([]byte(`{"code":-1,"message":"no","data":[2]}`)); e.Success || e.Error != "no" || string(e.Data) != `[2]` || e.Code != Failed {
		t.Errorf("refused: %s", e.JSON())
	}
	if e := Refused([]byte(`{"code":-1}`)); e.Success || e.Error == "" {
		t.Errorf("refused without a word: %s", e.JSON())
	}
}

// The kind of the hub's own fault is found where results carry it.
func TestFaultKind(t *testing.T) {
	wire := string(fault.New(fault.InvalidArguments, "x", "no").Wire(true))
	for result, want := range map[string]string{
		`{"isError":true,"content":[],"_meta":{"` + MetaError + `":` + wire + `}}`: "invalid_arguments",
		`{"isError":true,"content":[]}`:                                            "",
		`{"content":[],"_meta":{"kind":"x"}}`:                                      "",
	} {
		if got := FaultKind([]byte(result)); got != want {
			t.Errorf("%s: %q, not %q", result, got, want)
		}
	}
}
