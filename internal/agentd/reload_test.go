package agentd

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/secret"
)

func TestReload(t *testing.T) {
	s := open(t, "tools: {one: {command: [echo, one]}}\n")
	listen := s.client(hubtest.Modern).Listen(`{"toolsListChanged":true,"promptsListChanged":true}`)
	legacy := s.client(hubtest.Legacy)
	stream := legacy.Listen("")
	s.write("agent.yaml", "agent: 1\nname: desk\ntools: {two: {command: [echo, two]}}\n")
	for _, x := range []*hubtest.Exchange{listen, stream} {
		if m := x.Next(); m.Method != "notifications/tools/list_changed" {
			t.Errorf("%s", m.Raw)
		}
	}
	if got := decode(t, legacy.Tool("two", "")); got.Content[0].Text != "two\n" {
		t.Errorf("%+v", got)
	}
	if f := legacy.Tool("one", "").Fault(); f.Data.Kind != "unknown_tool" {
		t.Errorf("%+v", f)
	}

	// A broken one is refused whole, and said once.
	s.write("agent.yaml", "agent: 1\ntools: {three: {command: [echo]}, four: {comand: [echo]}}\n")
	await.Until(t, "it is refused", func() bool { return strings.Contains(s.log.String(), "did you mean \\\"command") })
	if err := s.Reload(); err == nil {
		t.Error("a broken manifest was taken")
	}
	if n := strings.Count(s.log.String(), "manifest refused"); n != 1 {
		t.Errorf("it was said %d times", n)
	}
	if m := legacy.Call("tools/list", "{}"); !strings.Contains(string(m.Result), `"two"`) || strings.Contains(string(m.Result), `"three"`) {
		t.Errorf("%s", m.Raw)
	}

	s.write("agent.yaml", "agent: 1\nname: desk\ntools: {two: {command: [echo, three]}}\nprompts: {p: {text: x}}\n")
	if m := listen.Next(); m.Method != "notifications/prompts/list_changed" {
		t.Errorf("after the repair: %s", m.Raw)
	}
	// The list is as it was, and the command another.
	if got := decode(t, legacy.Tool("two", "")); got.Content[0].Text != "three\n" {
		t.Errorf("%+v", got)
	}
}

// A call ends as it began, whatever happens to its tool.
func TestReloadDuringCall(t *testing.T) {
	s := open(t, "tools: {one: {command: [sh, -c, 'echo $$$$ >self; while [ ! -e go ]; do sleep 0.01; done; echo one']}}\n")
	x := s.client(hubtest.Modern).Go("tools/call", hubtest.ToolParams("one", ""))
	s.pid("self")
	s.write("agent.yaml", "agent: 1\n")
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	s.write("go", "")
	if got := decode(t, x.Response()); got.Content[0].Text != "one\n" {
		t.Errorf("%+v", got)
	}
}

func TestWhoMayAsk(t *testing.T) {
	s := open(t, "tools: {one: {command: [echo]}}\n")
	c := s.client(hubtest.Legacy)
	for _, tc := range []struct {
		name string
		sent hubtest.Sent
		want int
	}{
		{"a foreign page", hubtest.Sent{Header: http.Header{"Origin": {"https://evil.example"}}}, 403},
		{"a foreign name", hubtest.Sent{Host: "evil.example"}, 403},
		{"a wrong token", hubtest.Sent{Header: http.Header{"Authorization": {"Bearer wrong"}}}, 401},
		{"a proxy without one", hubtest.Sent{Header: http.Header{"X-Forwarded-For": {"10.0.0.1"}}}, 401},
		{"too much", hubtest.Sent{Body: `{"x":"` + strings.Repeat("x", 10<<20) + `"}`}, 413},
	} {
		if tc.sent.Body == "" {
			tc.sent.Body = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
		}
		if a := c.Do(tc.sent); a.Status != tc.want {
			t.Errorf("%s: status %d, want %d: %s", tc.name, a.Status, tc.want, a.Body)
		}
	}
	if a := hubtest.Dial(t, s.url, hubtest.ClientOptions{Face: "/nothing"}).Do(hubtest.Sent{Verb: "GET"}); a.Status != 404 || !strings.Contains(string(a.Body), "/mcp") {
		t.Errorf("a wrong path: %d %s", a.Status, a.Body)
	}
	if a := hubtest.Dial(t, s.url, hubtest.ClientOptions{Face: "/healthz"}).Do(hubtest.Sent{Verb: "GET"}); a.Status != 200 || !strings.Contains(string(a.Body), `"stoa agent"`) {
		t.Errorf("health: %d %s", a.Status, a.Body)
	}
	// Where there is a token, nobody comes in without it, on this machine neither.
	for _, address := range []string{"127.0.0.1:0", "0.0.0.0:0"} {
		open := s.serve(address, "letmein")
		for token, want := range map[string]int{"": 401, "wrong": 401, "letmein": 200} {
			c := hubtest.Dial(t, open, hubtest.ClientOptions{Era: hubtest.Legacy, Sessionless: true, Token: token})
			if a := c.Do(hubtest.Sent{Body: `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`}); a.Status != want {
				t.Errorf("%s with token %q: status %d: %s", address, token, a.Status, a.Body)
			}
			for _, face := range []string{"/status", "/"} {
				c.Face = face
				if a := c.Do(hubtest.Sent{Verb: "GET"}); a.Status != want {
					t.Errorf("%s at %s with token %q: status %d", face, address, token, a.Status)
				}
			}
			if want == 200 {
				continue // a socket that is let in has no end
			}
			c.Face = "/mcp/ws"
			upgrade := http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="}}
			if a := c.Do(hubtest.Sent{Verb: "GET", Header: upgrade}); a.Status != want {
				t.Errorf("a socket at %s with token %q: status %d", address, token, a.Status)
			}
		}
	}
	ln, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(context.Background(), ln, secret.String{}); !errors.Is(err, ErrNoToken) {
		t.Errorf("everybody was let in: %v", err)
	}
}

func TestConcurrency(t *testing.T) {
	path := t.TempDir() + "/agent.yaml"
	for _, tc := range []struct {
		manifest, env string
		flag, want    int
		bad           string
	}{
		{"", "", 0, 1, ""},
		{"", "3", 0, 3, ""},
		{"queue: {concurrency: 2}", "3", 0, 2, ""},
		{"queue: {concurrency: 2}", "3", 4, 4, ""},
		{"", "many", 0, 0, `"many" is no number`},
		{"", "0", 0, 0, "allowed: 1 to 10000"},
	} {
		if err := os.WriteFile(path, []byte("agent: 1\n"+tc.manifest+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		a, err := Open(Options{Manifest: path, Concurrency: tc.flag, Env: func(name string) (string, bool) { return tc.env, name == "AGENT_CONCURRENCY" }})
		if err != nil {
			if tc.bad == "" || !strings.Contains(err.Error(), tc.bad) {
				t.Errorf("%+v: %v", tc, err)
			}
			continue
		}
		if got := a.Status().Concurrency; got != tc.want || tc.bad != "" {
			t.Errorf("%+v: concurrency %d", tc, got)
		}
		a.Close()
	}
}

func TestWrongManifests(t *testing.T) {
	path := t.TempDir() + "/agent.yaml"
	for _, tc := range []struct{ manifest, want string }{
		{"tools: {a: {command: [echo, '{{x}}']}}", `agent.yaml:2:29: /tools/a/command/1: {{x}} is no argument; there are no arguments here`},
		{"tools: {a: {command: [echo, [-n, '{{txet}}']], inputSchema: {type: object, properties: {text: {}}}}}", "/tools/a/command/1/1: {{txet}} is no argument; did you mean {{text}}?"},
		{"tools: {a: {command: [echo, '{{}}']}}", "/tools/a/command/1: {{}} names no argument; write {{name}}"},
		{"tools: {a: {command: [echo, '{{a b}}']}}", "names no argument"},
		{"tools: {a: {command: ['{{p}}'], inputSchema: {type: object, properties: {p: {}}}}}", "the caller would choose the program"},
		{"tools: {a: {command: ['']}}", "begins with no program"},
		{"tools: {a: {command: [echo], env: {X: '{{x}}'}}}", "/tools/a/env/X: {{x}} is no argument"},
		{"tools: {a: {command: [echo], stdin: jsn}}", `/tools/a/stdin: unknown value "jsn"; allowed: json, none`},
		{"tools: {a: {command: [echo], inputSchema: {type: string}}}", "arguments are an object"},
		{"tools: {a: {command: [echo], inputSchema: {type: object, properties: {x: {type: nonsense}}}}}", "/tools/a/inputSchema: compile schema"},
		{"tools: {a: {command: [echo], output: json, outputSchema: {type: nonsense}}}", "/tools/a/outputSchema: compile schema"},
		{"tools: {a: {command: [echo], inputSchema: {type: object, properties: {x: {type: string, x-mcp-header: 'a b'}}}}}", "/tools/a/inputSchema: read x-mcp-header"},
		{"resources: {a: {uri: readme, file: x}}", `/resources/a/uri: "readme" has no scheme`},
		{"resources: {a: {uri: 'x://{+a}', file: x}}", "no variable of level 1"},
		{"resources: {a: {uri: 'x://{a', file: x}}", "no variable of level 1"},
		{"resources: {a: {uri: 'x://a}', file: x}}", "a } without a {"},
		{"resources: {a: {uri: 'x://{a}', file: '{{b}}'}}", "/resources/a/file: {{b}} is no argument; known here: a"},
		{"resources: {a: {uri: 'x://{name}', variables: {nmae: x}, file: y}}", `"nmae" is no variable of the address; did you mean "name"?`},
		{"resources: {a: {uri: 'x://a', file: x}, b: {uri: 'x://a', file: y}}", `/resources/b/uri: "a" has the same address`},
		{"prompts: {a: {text: '{{x}}'}}", "/prompts/a/text: {{x}} is no argument"},
		{"prompts: {a: {text: x, arguments: [{required: true}]}}", "an argument has no name"},
		{"prompts: {a: {text: x, arguments: [{name: y}, {name: y}]}}", `"y" is there twice`},
		{"prompts: {a: {messages: [{text: x}]}}", "nobody says the message"},
	} {
		if err := os.WriteFile(path, []byte("agent: 1\n"+tc.manifest+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, err := Check(path, nil)
		problems, _ := errors.AsType[config.Problems](err)
		if len(problems) != 1 || !strings.Contains(err.Error(), tc.want) || problems[0].Line != 2 || problems[0].Hint == "" {
			t.Errorf("%s: %v, want %q", tc.manifest, err, tc.want)
		}
	}
}
