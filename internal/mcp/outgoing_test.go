package mcp

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/stoahub/stoa/internal/wire"
)

// rawJSON draws the bytes of a JSON value, with spaces, escapes and numbers
// that would not survive decoding.
func rawJSON(depth int) *rapid.Generator[string] {
	leaf := rapid.SampledFrom([]string{`null`, `true`, `0`, `-0.0`, `1e400`, `12345678901234567890`, `"a"`, `"\u00e9\/"`, `""`, `{}`, `[]`, `"é\n"`})
	if depth == 0 {
		return leaf
	}
	inner := rawJSON(depth - 1)
	return rapid.OneOf(leaf,
		rapid.Custom(func(t *rapid.T) string {
			return "[" + strings.Join(rapid.SliceOfN(inner, 0, 3).Draw(t, "elements"), " , ") + "]"
		}),
		rapid.Custom(func(t *rapid.T) string {
			var parts []string
			for i, v := range rapid.SliceOfN(inner, 0, 3).Draw(t, "values") {
				parts = append(parts, `"k`+strconv.Itoa(i)+`" : `+v)
			}
			return "{ " + strings.Join(parts, ",") + "}"
		}))
}

// drawRequest draws a request as it comes from a client of an era.
func drawRequest(t *rapid.T, era Era) (*Request, *wire.Message) {
	var meta []string
	seen := map[string]bool{}
	add := func(name, value string) {
		if !seen[name] {
			seen[name] = true
			meta = append(meta, string(wire.Quote(name))+":"+value)
		}
	}
	for _, n := range rapid.SliceOfN(rapid.SampledFrom([]string{"traceparent", "tracestate", "baggage", "vendor.example/x", "stoa/session", "y"}), 0, 4).Draw(t, "meta") {
		add(n, rawJSON(1).Draw(t, n))
	}
	client := &Client{Era: era, Version: LegacyVersion}
	if rapid.Bool().Draw(t, "progress") {
		add(metaProgress, rapid.SampledFrom([]string{`1`, `"tok"`}).Draw(t, "token"))
	}
	caps := rapid.SampledFrom([]string{`{}`, `{"elicitation":{}}`, `{"extensions":{"io.modelcontextprotocol/tasks":{},"x/y":{}}}`, `{"extensions":{"io.modelcontextprotocol\/tasks":{}}}`}).Draw(t, "caps")
	if era == Modern {
		client.Version = ModernVersion
		add(metaVersion, `"2026-07-28"`)
		add(metaClientCaps, caps)
		if rapid.Bool().Draw(t, "info") {
			add(metaClientInfo, `{"name":"c"}`)
		}
		if rapid.Bool().Draw(t, "level") {
			add(metaLogLevel, `"info"`)
		}
	} else {
		client.Capabilities = []byte(caps)
		if rapid.Bool().Draw(t, "info") {
			client.Info = []byte(`{"name":"c"}`)
		}
		if rapid.Bool().Draw(t, "level") {
			client.setLogLevel("warning")
		}
	}
	params := []string{`"name": "tool"`, `"arguments":` + rawJSON(3).Draw(t, "arguments")}
	if len(meta) > 0 {
		params = append(params, `"_meta":{`+strings.Join(meta, ",")+`}`)
	}
	if rapid.Bool().Draw(t, "more") {
		params = append(params, `"cursor":"x"`)
	}
	frame := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + strings.Join(params, ",") + `}}`
	m := &wire.Message{}
	if err := m.Scan([]byte(frame), wire.FromClient); err != nil {
		t.Fatalf("%s: %v", frame, err)
	}
	if era == Modern {
		client.Info, client.Capabilities = m.MetaValue(metaClientInfo), m.MetaValue(metaClientCaps)
	}
	req := &Request{Method: m.Method, Params: m.Params, Fields: m.Fields, Meta: m.Meta, Client: client, Token: progressToken(m)}
	req.LogLevel, _ = wire.String(m.MetaValue(metaLogLevel))
	return req, m
}

// In all four cells what is not reserved goes through byte by byte, and what
// is reserved is right for the server's era.
func TestParamsInAllCells(t *testing.T) {
	for _, from := range []Era{Legacy, Modern} {
		for _, to := range []Era{Legacy, Modern} {
			t.Run(from.String()+" to "+to.String(), func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) { checkCell(t, from, to) })
			})
		}
	}
}

func checkCell(t *rapid.T, from, to Era) {
	req, m := drawRequest(t, from)
	o := Forward(req)
	rename := rapid.Bool().Draw(t, "rename")
	if rename {
		o.Rename("name", "other")
	}
	var token []byte
	if o.Token != nil {
		token = []byte("42")
	}
	version := map[Era]string{Legacy: LegacyVersion, Modern: ModernVersion}[to]
	got := o.params(to, version, token)
	if err := wire.Valid(got, wire.FromClient); err != nil {
		t.Fatalf("%s: %v", got, err)
	}
	for _, f := range m.Fields {
		want := f.Value
		if rename && string(f.Name) == "name" {
			want = []byte(`"other"`)
		}
		if string(f.Name) != "_meta" && !bytes.Equal(wire.Get(got, string(f.Name)), want) {
			t.Errorf("param %s is %s, was %s", f.Name, wire.Get(got, string(f.Name)), f.Value)
		}
	}
	meta := wire.Get(got, "_meta")
	for _, f := range m.Meta {
		name := string(f.Name)
		if name == metaProgress || strings.HasPrefix(name, metaPrefix) {
			continue
		}
		want := f.Value
		if strings.HasPrefix(name, ownPrefix) {
			want = nil // for the hub alone
		}
		if !bytes.Equal(wire.Get(meta, name), want) {
			t.Errorf("_meta %s is %s, was %s", name, wire.Get(meta, name), f.Value)
		}
	}
	if p := wire.Get(meta, metaProgress); !bytes.Equal(p, token) {
		t.Errorf("progressToken is %s, ours is %s", p, token)
	}
	checkReserved(t, req, meta, to)
	if !rename && token == nil && from == to && m.MetaValue(MetaSession) == nil && (to == Legacy || !bytes.Contains(req.Client.Capabilities, []byte("tasks"))) && !bytes.Equal(got, m.Params) {
		t.Errorf("nothing had to change, yet\n%s became\n%s", m.Params, got)
	}
	if string(meta) == "{}" && len(m.Meta) > 0 {
		t.Errorf("an empty _meta is left: %s", got)
	}
}

func checkReserved(t *rapid.T, req *Request, meta []byte, to Era) {
	if to == Legacy {
		for _, f := range wire.Members(meta) {
			if bytes.HasPrefix(f.Name, []byte(metaPrefix)) {
				t.Errorf("a legacy server is told %s", f.Name)
			}
		}
		return
	}
	if v, _ := wire.String(wire.Get(meta, metaVersion)); v != ModernVersion {
		t.Errorf("version %q", v)
	}
	caps := wire.Get(meta, metaClientCaps)
	if len(caps) == 0 || caps[0] != '{' || wire.Get(wire.Get(caps, "extensions"), TasksExtension) != nil {
		t.Errorf("capabilities %s", caps)
	}
	if wire.Get(req.Client.Capabilities, "elicitation") != nil && wire.Get(caps, "elicitation") == nil {
		t.Error("a capability of the client is lost")
	}
	want := req.Client.Info
	if want == nil && req.Client.Era == Legacy {
		want = ownInfo
	}
	if got := wire.Get(meta, metaClientInfo); !bytes.Equal(got, want) {
		t.Errorf("clientInfo %s, want %s", got, want)
	}
	level := req.LogLevel
	if level == "" {
		level = req.Client.LogLevel()
	}
	if got, _ := wire.String(wire.Get(meta, metaLogLevel)); got != level {
		t.Errorf("logLevel %q, want %q", got, level)
	}
}

func TestParamsOfTheHubItself(t *testing.T) {
	o := &Outgoing{Method: "tools/list"}
	if got := o.params(Legacy, LegacyVersion, nil); got != nil {
		t.Errorf("to a legacy server: %s", got)
	}
	want := `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":` + string(ownInfo) + `,"io.modelcontextprotocol/clientCapabilities":{}}}`
	if got := string(o.params(Modern, ModernVersion, nil)); got != want {
		t.Error(cmp.Diff(want, got))
	}
}

func TestRenameTouchesNothingElse(t *testing.T) {
	req := &Request{Method: "prompts/get", Params: []byte(`{"name":"a"}`), Fields: members(`{"name":"a"}`)}
	o := Forward(req)
	o.Rename("name", "b")
	o.Replace("ref", []byte(`{"x":1}`))
	if string(req.Fields[0].Value) != `"a"` || len(req.Fields) != 1 {
		t.Error("the client's request was changed")
	}
	if got := string(o.params(Legacy, LegacyVersion, nil)); got != `{"name":"b","ref":{"x":1}}` || o.Name != "b" {
		t.Errorf("params %s, Mcp-Name %q", got, o.Name)
	}
}

func TestHeaderValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.StringMatching(`[ -~]{0,20}`), rapid.StringMatching(`(=\?base64\?)?[A-Za-z=?]{0,8}(\?=)?`),
			rapid.Custom(func(t *rapid.T) string { return string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) })).Draw(t, "value")
		v := EncodeHeader(s)
		for i := range len(v) {
			if v[i] < 0x20 || v[i] > 0x7e {
				t.Fatalf("%q is written as %q, which is no header value", s, v)
			}
		}
		if strings.TrimSpace(v) != v {
			t.Fatalf("%q is written as %q, which loses its spaces on the way", s, v)
		}
		if back, ok := DecodeHeader(v); !ok || back != s {
			t.Fatalf("%q is written as %q and read as %q", s, v, back)
		}
	})
	for v, want := range map[string]string{"plain": "plain", "=?base64?": "=?base64?", "=?base64??=": "", "=?base64?YQ==?=": "a", "=?base64?YQ?=": "!", "=?base64?Y Q==?=": "!"} {
		got, ok := DecodeHeader(v)
		if !ok {
			got = "!"
		}
		if got != want {
			t.Errorf("DecodeHeader(%q) = %q, want %q", v, got, want)
		}
	}
}
