package agentd

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/hubtest"
)

const tools = `
tools:
  argv:
    description: Prints its arguments, one a line.
    command: [./argv.sh, "{{?loud}}-v", [-n, "{{n}}"], "in={{where}};", --, "{{text}}"]
    inputSchema:
      type: object
      properties: {text: {}, n: {}, where: {}, loud: {}}
      additionalProperties: false
  bare:
    command: [./argv.sh, "{{text}}"]
    inputSchema: {type: object, properties: {text: {}}}
  stdin:
    command: [cat]
    inputSchema: {type: object, properties: {big: {type: integer}}}
  piped:
    command: [cat]
    stdin: "<{{text}}>"
    inputSchema: {type: object, properties: {text: {type: string}}, required: [text]}
  env:
    command: [./env.sh]
    env: {TEXT: "{{text}}", FIXED: "${WHO:-me}", LEFT: "{{out}}"}
    inheritEnv: [WANTED]
    inputSchema: {type: object, properties: {text: {type: string}, out: {type: string}}}
  json:
    command: [cat]
    output: json
    stdin: "{{text}}"
    inputSchema: {type: object, properties: {text: {type: string}}, required: [text]}
    outputSchema: {type: object, properties: {n: {type: integer}}, required: [n]}
  any:
    command: [printf, "%s", "[1,2]"]
    output: json
  fail:
    command: [sh, -c, "echo out; echo went wrong >&2; exit 3"]
  mute:
    command: [sh, -c, "echo only this; exit 4"]
  fine:
    command: [sh, -c, "echo none; exit 4"]
    exitCodes: [3, 4]
  region:
    command: [echo, "{{where}}"]
    inputSchema: {type: object, properties: {where: {type: string, x-mcp-header: Where}}}
  slain:
    command: [sh, -c, "kill -9 $$$$"]
  much:
    command: [sh, -c, "yes"]
    outputBytes: 1000
  bytes:
    command: [printf, '\377']
  missing:
    command: [./no-such-program]
  where:
    command: [pwd]
    cwd: sub
`

func toolStage(t *testing.T) *stage {
	s := open(t, tools)
	s.write("argv.sh", "#!/bin/sh\nfor a; do printf '%s\\n' \"$a\"; done\n")
	s.write("env.sh", "#!/bin/sh\nenv | grep -v -e ^PATH= -e ^PWD= -e ^_= -e ^SHLVL= -e ^OLDPWD= | sort\n")
	s.write("sub/x", "")
	return s
}

func TestArguments(t *testing.T) {
	s := toolStage(t)
	for _, tc := range []struct{ tool, args, want string }{
		{"argv", `{"text":"a b; $(rm -rf x) 'q'"}`, "--\na b; $(rm -rf x) 'q'\n"},
		{"argv", `{"text":"-rf","where":"a b","n":-5,"loud":true}`, "-v\n-n\n-5\nin=a b;\n--\n-rf\n"},
		{"argv", `{"text":null,"n":12345678901234567890,"loud":false}`, "-n\n12345678901234567890\n--\n"},
		{"argv", `{"text":{"a": [1, "x"]},"n":"-x"}`, "-n\n-x\n--\n" + `{"a":[1,"x"]}` + "\n"},
		{"argv", `{"text":""}`, "--\n\n"},
		{"argv", `{"text":"two\nlines"}`, "--\ntwo\nlines\n"},
		{"bare", `{"text":"a-"}`, "a-\n"},
		{"stdin", `{"big":12345678901234567890,"more":"é"}`, `{"big":12345678901234567890,"more":"é"}` + "\n"},
		{"stdin", ``, "{}\n"},
		{"piped", `{"text":"x\ny"}`, "<x\ny>"},
	} {
		for _, era := range eras {
			if got := decode(t, s.client(era).Tool(tc.tool, tc.args)); got.IsError || got.Content[0].Text != tc.want {
				t.Errorf("%s %s (%s): %+v, want %q", tc.tool, tc.args, era, got, tc.want)
			}
		}
	}
}

func TestRefusedArguments(t *testing.T) {
	s := toolStage(t)
	c := s.client(hubtest.Modern)
	for _, tc := range []struct{ tool, args, want string }{
		{"argv", `{"txet":"x"}`, "did you mean"},
		{"piped", `{}`, "text"},
		{"piped", `{"text":7}`, "/text"},
		{"bare", `{"text":"-rf"}`, "begins with -"},
		{"bare", `{"text":"-"}`, "begins with -"},
		{"bare", `{"text":"--"}`, "begins with -"},
		{"bare", `{"text":-1}`, "begins with -"},
		{"bare", `{"text":"a\u0000b"}`, "NUL"},
	} {
		got := decode(t, c.Tool(tc.tool, tc.args))
		if !got.IsError || !strings.Contains(strings.ToLower(got.Content[0].Text), strings.ToLower(tc.want)) || got.Meta["stoa/error"] == nil {
			t.Errorf("%s %s: %+v, want %q", tc.tool, tc.args, got, tc.want)
		}
	}
	if f := c.Tool("agrv", "{}").Fault(); f.Data.Kind != "unknown_tool" || !strings.Contains(f.Data.Hint, "argv") {
		t.Errorf("unknown tool: %+v", f)
	}
	if n := s.Status().Done; n != 0 {
		t.Errorf("%d commands were run", n)
	}
}

func TestEnvironment(t *testing.T) {
	s := toolStage(t)
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	got := decode(t, s.client(hubtest.Modern).Tool("env", `{"text":"a\nb"}`, `"traceparent":"`+trace+`"`, `"stoa/chain":"stoac1.x.y"`))
	want := "AGENT_NAME=desk\nAGENT_TOOL=env\nFIXED=me\nHOME=/nowhere\nROUTER_HOST=hub.example\nSTOA_CHAIN=stoac1.x.y\nTEXT=a\nTRACEPARENT=" + trace + "\nWANTED=yes\nb\n"
	if diff := cmp.Diff(want, got.Content[0].Text); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

// Commands find the router that the agent is registered at, unless its own
// environment names another.
func TestRouted(t *testing.T) {
	for _, tc := range []struct {
		environ []string
		router  string
		want    []string
	}{
		{[]string{"A=1"}, "http://127.0.0.1:8123", []string{"A=1", "ROUTER_HOST=127.0.0.1", "ROUTER_PORT=8123"}},
		{nil, "https://hub.example/", []string{"ROUTER_HOST=hub.example", "ROUTER_PORT=443"}},
		{nil, "http://[::1]:80", []string{"ROUTER_HOST=::1", "ROUTER_PORT=80"}},
		{[]string{"ROUTER_HOST=other"}, "http://127.0.0.1:8123", []string{"ROUTER_HOST=other"}},
		{[]string{"ROUTER_PORT=9"}, "http://127.0.0.1:8123", []string{"ROUTER_PORT=9"}},
		{[]string{"A=1"}, "", []string{"A=1"}},
	} {
		if diff := cmp.Diff(tc.want, routed(tc.environ, tc.router)); diff != "" {
			t.Errorf("%v registered at %q (-want +got):\n%s", tc.environ, tc.router, diff)
		}
	}
}

func TestOutput(t *testing.T) {
	s := toolStage(t)
	for _, tc := range []struct {
		tool, args string
		isError    bool
		want       string // all of the text, or a part of an error's
	}{
		{"json", `{"text":" {\"n\": 1}\n"}`, false, `{"n": 1}`},
		{"json", `{"text":"{\"n\": \"x\"}"}`, true, "does not fit the tool's output schema: /n"},
		{"json", `{"text":"{\"n\": 1"}`, true, "not JSON"},
		{"json", `{"text":""}`, true, "not JSON"},
		{"fail", ``, true, "the command failed: exit status 3\nwent wrong"},
		{"mute", ``, true, "the command failed: exit status 4\nonly this"},
		{"fine", ``, false, "none\n"},
		{"slain", ``, true, "signal: killed"},
		{"much", ``, true, "larger than 1000 bytes"},
		{"bytes", ``, true, "not UTF-8"},
		{"missing", ``, true, "no-such-program"},
		{"any", ``, false, "[1,2]"},
		{"where", ``, false, s.path("sub") + "\n"},
	} {
		for _, era := range eras {
			got := decode(t, s.client(era).Tool(tc.tool, tc.args))
			text := got.Content[0].Text
			if got.IsError != tc.isError || tc.isError && !strings.Contains(text, tc.want) || !tc.isError && text != tc.want {
				t.Errorf("%s %s (%s): %+v, want %q", tc.tool, tc.args, era, got, tc.want)
			}
		}
	}
	c := s.client(hubtest.Legacy)
	if got := decode(t, c.Tool("json", `{"text":"{\"n\": 1}"}`)); got.StructuredContent["n"] != 1.0 {
		t.Errorf("structured content: %+v", got)
	}
	if got := decode(t, c.Tool("fail", "")); got.Meta["stoa/exitCode"] != 3.0 {
		t.Errorf("exit code: %+v", got)
	}
	// Arrays are structured content of the modern era only.
	if raw := c.Tool("any", "").Result; strings.Contains(string(raw), "structuredContent") {
		t.Errorf("a legacy client got %s", raw)
	}
	if raw := s.client(hubtest.Modern).Tool("any", "").Result; !strings.Contains(string(raw), `"structuredContent":[1,2]`) {
		t.Errorf("a modern client got %s", raw)
	}
	if st := s.Status(); st.Failed == 0 || st.Failed >= st.Done || st.Running != 0 {
		t.Errorf("status %+v", st)
	}
	if !strings.Contains(s.log.String(), "no-such-program") {
		t.Error("the log does not tell of a program that is not there")
	}
}

// A modern client says some arguments twice, and must say the same.
func TestParamHeaders(t *testing.T) {
	s := toolStage(t)
	c := s.client(hubtest.Modern)
	for header, want := range map[string]string{"north": `"text":"north\n"`, "south": "header_mismatch", "": "header_mismatch"} {
		sent := c.Request("1", "tools/call", hubtest.ToolParams("region", `{"where":"north"}`))
		if header != "" {
			sent.Header.Set("Mcp-Param-Where", header)
		}
		if a := c.Do(sent); !strings.Contains(string(a.Body), want) {
			t.Errorf("%q: %s", header, a.Body)
		}
	}
}

func TestLists(t *testing.T) {
	s := open(t, `
instructions: Be brief.
tools:
  one:
    title: One
    description: The first.
    command: ["true"]
    annotations: {readOnly: true, openWorld: false}
`)
	for _, era := range eras {
		c := s.client(era)
		method := "server/discover"
		hello := c.Hello
		if era == hubtest.Modern {
			hello = c.Call(method, "{}")
		}
		if !strings.Contains(string(hello.Result), `"name":"desk"`) || !strings.Contains(string(hello.Result), "Be brief.") || !strings.Contains(string(hello.Result), `"listChanged":true`) {
			t.Errorf("%s: hello %s", era, hello.Result)
		}
		got := hubtest.Decode[struct{ Tools []json.RawMessage }](c.Call("tools/list", "{}").Result)
		want := `{"annotations":{"openWorldHint":false,"readOnlyHint":true},"description":"The first.","inputSchema":{"type":"object","additionalProperties":false},"name":"one","title":"One"}`
		if len(got.Tools) != 1 || string(got.Tools[0]) != want {
			t.Errorf("%s: tools %s", era, got.Tools)
		}
		for method, want := range map[string]string{"resources/list": `"resources":[]`, "resources/templates/list": `"resourceTemplates":[]`, "prompts/list": `"prompts":[]`} {
			if m := c.Call(method, "{}"); !strings.Contains(string(m.Result), want) {
				t.Errorf("%s %s: %s", era, method, m.Raw)
			}
		}
		if f := c.Call("tools/list", `{"cursor":"x"}`).Fault(); f.Data.Kind != "invalid_params" {
			t.Errorf("%s: a cursor gave %+v", era, f)
		}
		if f := c.Call("completion/complete", `{}`).Fault(); f.Data.Kind != "unknown_method" {
			t.Errorf("%s: an unknown method gave %+v", era, f)
		}
	}
}
