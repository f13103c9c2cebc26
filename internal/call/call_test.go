package call

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/upstream"
	"github.com/stoahub/stoa/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const bound = `{"name":"t","inputSchema":{"type":"object","properties":{
	"region":{"type":"string","x-mcp-header":"Region"},
	"count":{"type":"integer","x-mcp-header":"Count"},
	"dry":{"type":"boolean","x-mcp-header":"Dry-Run"},
	"at":{"type":"object","properties":{"zone":{"type":"string","x-mcp-header":"Zone"}}}}}}`

func tool(t *testing.T, raw string) *catalog.Item {
	t.Helper()
	it, err := catalog.Parse(catalog.Tool, "u", []byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return it
}

func TestParamHeadersAreChecked(t *testing.T) {
	it := tool(t, bound)
	if len(it.Bindings) != 4 || len(it.Notes) > 0 {
		t.Fatalf("bindings %v, notes %q", it.Bindings, it.Notes)
	}
	for name, tc := range map[string]struct {
		args   string
		header string // name=value, separated by spaces
		want   string // a part of the error; empty means that it fits
	}{
		"none":                      {`{}`, "", ""},
		"no arguments":              {``, "", ""},
		"string":                    {`{"region":"eu"}`, "region=eu", ""},
		"string, escaped":           {`{"region":"\u0065u"}`, "region=eu", ""},
		"string, other":             {`{"region":"us"}`, "region=eu", `says "eu", the argument /region says "us"`},
		"string, missing":           {`{"region":"us"}`, "", "must be there once"},
		"string, twice":             {`{"region":"eu"}`, "region=eu region=eu", "must be there once"},
		"header without argument":   {`{}`, "region=eu", "the header is there but the argument /region is not"},
		"header for null":           {`{"region":null}`, "region=eu", "is not"},
		"null":                      {`{"region":null}`, "", ""},
		"empty string":              {`{"region":""}`, "region=", ""},
		"base64":                    {`{"region":"zürich"}`, "region==?base64?esO8cmljaA==?=", ""},
		"base64 of plain text":      {`{"region":"eu"}`, "region==?base64?ZXU=?=", ""},
		"base64, other":             {`{"region":"us"}`, "region==?base64?ZXU=?=", `says "eu"`},
		"base64, broken":            {`{"region":"eu"}`, "region==?base64?Z*?=", "not valid Base64"},
		"integer":                   {`{"count":42}`, "count=42", ""},
		"integer, written 42.0":     {`{"count":42.0}`, "count=42", ""},
		"integer, header 42.0":      {`{"count":42}`, "count=42.0", ""},
		"integer, written 1e3":      {`{"count":1e3}`, "count=1000", ""},
		"integer, header 1e3":       {`{"count":1000}`, "count=1e3", ""},
		"integer, -0":               {`{"count":-0}`, "count=0", ""},
		"integer, other":            {`{"count":42}`, "count=43", `says "43"`},
		"integer, +42":              {`{"count":42}`, "count=+42", `says "+42"`},
		"integer, hexadecimal":      {`{"count":16}`, "count=0x1p4", `says "0x1p4"`},
		"integer, too large":        {`{"count":9007199254740993}`, "count=9007199254740993", "no header can mirror it"},
		"integer, largest":          {`{"count":9007199254740991}`, "count=9007199254740991", ""},
		"integer, a fraction":       {`{"count":1.5}`, "count=1.5", "no header can mirror it"},
		"integer, as a string":      {`{"count":"42"}`, "count=42", ""},
		"integer, as another":       {`{"count":"42"}`, "count=42.0", `says "42.0"`},
		"boolean":                   {`{"dry":true}`, "dry-run=true", ""},
		"boolean, other":            {`{"dry":false}`, "dry-run=true", `says "true"`},
		"boolean, capital":          {`{"dry":true}`, "dry-run=True", `says "True"`},
		"nested":                    {`{"at":{"zone":"a"}}`, "zone=a", ""},
		"nested, other":             {`{"at":{"zone":"b"}}`, "zone=a", "/at/zone"},
		"nested, nothing there":     {`{"at":{}}`, "", ""},
		"nested, not an object":     {`{"at":[]}`, "", ""},
		"an object in its place":    {`{"region":{}}`, "region=x", "no header can mirror it"},
		"unknown headers are spare": {`{}`, "other=x", ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := http.Header{}
			for _, pair := range strings.Fields(tc.header) {
				k, v, _ := strings.Cut(pair, "=")
				h.Add("mcp-param-"+k, v)
			}
			err := CheckHeaders(h, it.Bindings, []byte(tc.args))
			switch {
			case tc.want == "" && err != nil:
				t.Error(err)
			case tc.want != "" && (!fault.Is(err, fault.HeaderMismatch) || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestParamHeadersAreMadeAnew(t *testing.T) {
	it := tool(t, bound)
	for args, want := range map[string][]string{
		`{}`: nil,
		`{"region":"eu","count":1e3,"dry":false,"at":{"zone":"é"}}`: {"Mcp-Param-Count: 1000", "Mcp-Param-Dry-Run: false", "Mcp-Param-Region: eu", "Mcp-Param-Zone: =?base64?w6k=?="},
		`{"region":null,"count":1.5,"dry":[],"at":3}`:               nil,
		`{"region":" eu"}`: {"Mcp-Param-Region: =?base64?IGV1?="},
	} {
		// What came with the request is not believed.
		req := request(args, http.Header{"Mcp-Param-Region": {"elsewhere"}, "Mcp-Param-Other": {"x"}})
		if diff := cmp.Diff(want, lines(paramHeaders(&Call{Req: req, Item: it}, []byte(args)))); diff != "" {
			t.Errorf("%s: %s", args, diff)
		}
	}
	came := http.Header{"Mcp-Param-Region": {"eu"}, "Mcp-Param-Twice": {"a", "b"}, "Authorization": {"Bearer x"}, "Mcp-Name": {"t"}}
	if diff := cmp.Diff([]string{"Mcp-Param-Region: eu"}, lines(paramHeaders(&Call{Req: request(`{}`, came)}, nil))); diff != "" {
		t.Errorf("of an unknown tool: %s", diff)
	}
	if got := paramHeaders(&Call{Req: request(`{}`, came), Item: tool(t, `{"name":"plain"}`)}, nil); got != nil {
		t.Errorf("of a tool without bindings: %v", got)
	}
}

func request(args string, h http.Header) *mcp.Request {
	params := []byte(`{"name":"u__t","arguments":` + args + `}`)
	return &mcp.Request{Method: "tools/call", Params: params, Fields: wire.Members(params), Header: h, Client: &mcp.Client{Era: mcp.Modern}}
}

func lines(headers [][2]string) (out []string) {
	for _, h := range headers {
		out = append(out, h[0]+": "+h[1])
	}
	slices.Sort(out)
	return out
}

// All faults are told at once, so that one repair is enough.
func TestArgumentsAreValidated(t *testing.T) {
	it := tool(t, `{"name":"t","inputSchema":{"type":"object","required":["path"],"additionalProperties":false,
		"properties":{"path":{"type":"string"},"depth":{"type":"integer","maximum":5},"mode":{"enum":["a","b"]}}}}`)
	err := validate(it, []byte(`{"depth":9,"mode":"c","pathh":"x"}`))
	f := fault.Of(err)
	if f.Kind != fault.InvalidArguments || f.Subject != "u__t" {
		t.Fatalf("got %v", err)
	}
	for _, part := range []string{"/path is required", "/depth", "/mode", "/pathh"} {
		if !strings.Contains(f.Msg, part) {
			t.Errorf("%q says nothing of %s", f.Msg, part)
		}
	}
	var data struct {
		Data struct {
			Faults []struct{ Pointer, Message string }
		}
	}
	if err := json.Unmarshal(f.Wire(true), &data); err != nil || len(data.Data.Faults) < 4 {
		t.Errorf("data of %s: %v", f.Wire(true), err)
	}
	for args, ok := range map[string]bool{`{"path":"x"}`: true, `{"path":1}`: false, ``: false, `null`: false} {
		if err := validate(it, []byte(args)); (err == nil) != ok {
			t.Errorf("%s: %v", args, err)
		}
	}
	broken := tool(t, `{"name":"t","inputSchema":{"type":"object","properties":{"x":{"type":"nonsense"}}}}`)
	if err := validate(broken, []byte(`{"x":1}`)); err != nil {
		t.Errorf("a schema that does not compile checks nothing: %v", err)
	}
}

// What is refused has not reached the upstream, which here would fail in a
// way of its own, and is counted all the same.
func TestDoorRefuses(t *testing.T) {
	cat := catalog.New(0)
	pool := upstream.Open(cat, upstream.PoolOptions{})
	defer pool.Close()
	defer cat.Close()
	u, err := pool.Add(upstream.Options{Name: "u", URL: "http://127.0.0.1:1/", Lazy: true, Unusable: errors.New("not to be reached")})
	if err != nil {
		t.Fatal(err)
	}
	it := tool(t, bound)
	d := New(Options{ArgBytes: 100})
	all := &auth.Principal{Name: "all", Scopes: auth.Scopes{"*"}}
	for name, tc := range map[string]struct {
		who  *auth.Principal
		args string
		h    http.Header
		raw  bool // do not check against the schema
		want fault.Kind
	}{
		"not allowed":       {&auth.Principal{Name: "none", Scopes: auth.Scopes{"other"}}, `{}`, nil, false, fault.UnknownTool},
		"too large":         {all, `{"pad":"` + strings.Repeat("x", 100) + `"}`, nil, false, fault.Limit},
		"wrong header":      {all, `{"region":"eu"}`, http.Header{"Mcp-Param-Region": {"us"}}, false, fault.HeaderMismatch},
		"no header":         {all, `{"region":"eu"}`, http.Header{}, false, fault.HeaderMismatch},
		"wrong arguments":   {all, `{"count":"x"}`, nil, false, fault.InvalidArguments},
		"let through":       {all, `{"count":"x"}`, nil, true, fault.Unreachable},
		"all is as must be": {all, `{"region":"eu"}`, http.Header{"Mcp-Param-Region": {"eu"}}, false, fault.Unreachable},
	} {
		req := request(tc.args, tc.h)
		req.Client.Actor = actor.New(actor.HTTP, tc.who)
		_, before := it.Stat.Counts()
		_, err := d.Do(t.Context(), &Call{Req: req, Upstream: u, Item: it, Check: !tc.raw, Rename: "name", Name: "t"})
		if !fault.Is(err, tc.want) {
			t.Errorf("%s: %v, want %s", name, err, tc.want)
		}
		if _, after := it.Stat.Counts(); after != before+1 {
			t.Errorf("%s was counted %d times", name, after-before)
		}
	}
}

func TestFaultsAModelCanRepairBecomeResults(t *testing.T) {
	repairable := fault.New(fault.InvalidArguments, "u__t", "the path is missing").With("faults", []string{"a"})
	for era, extra := range map[mcp.Era]map[string]any{mcp.Legacy: {}, mcp.Modern: {"resultType": "complete"}} {
		req := &mcp.Request{Method: "tools/call", Client: &mcp.Client{Era: era}}
		resp, err := AsResult(req, nil, repairable)
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := json.Unmarshal(resp.Result, &got); err != nil {
			t.Fatal(err)
		}
		want := map[string]any{
			"isError": true,
			"content": []any{map[string]any{"type": "text", "text": "u__t: the path is missing\nRepair every fault that is listed and call again."}},
			"_meta": map[string]any{"stoa/error": map[string]any{"code": -32602.0, "message": "u__t: the path is missing",
				"data": map[string]any{"kind": "invalid_arguments", "hint": "Repair every fault that is listed and call again.", "faults": []any{"a"}}}},
		}
		for k, v := range extra {
			want[k] = v
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", era, diff)
		}
		for name, tc := range map[string]struct {
			method string
			err    error
		}{
			"a prompt":        {"prompts/get", repairable},
			"nothing a model": {"tools/call", fault.New(fault.Timeout, "u", "late")},
			"unknown tool":    {"tools/call", fault.New(fault.UnknownTool, "x", "unknown")},
		} {
			req.Method = tc.method
			if resp, err := AsResult(req, nil, tc.err); err != tc.err || resp.Result != nil {
				t.Errorf("%s can do about became %s, %v", name, resp.Result, err)
			}
		}
	}
}

func TestSaysError(t *testing.T) {
	for result, want := range map[string]bool{
		`{"isError":true}`:                      true,
		`{"isError":false}`:                     false,
		`{"content":[{"isError":true}]}`:        false,
		`{"content":[]}`:                        false,
		`{"content":[],"isError" : true,"x":1}`: true,
		``:                                      false,
		`{"content":["EEE","Error","isError"],"isError":true}`: true,
		`E"isError":true`: false,
		`Error`:           false,
	} {
		if got := saysError([]byte(result)); got != want {
			t.Errorf("saysError(%s) = %t", result, got)
		}
	}
}
