//go:build unix

package peer

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest/await"
)

func TestStdioLegacy(t *testing.T) {
	c := startChild(t, everything())
	c.send(`{"jsonrpc":"2.0","id":0,"method":"tools/list"}`)
	if m := c.read(); (reply{err: m.Error}).code() != codeInvalidRequest {
		t.Fatalf("before initialize: %s %s", m.Result, m.Error)
	}
	c.initialize()
	c.call("1", "echo", `{"n":9223372036854775807,"s":"<b>"}`)
	want := `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"{\"n\":9223372036854775807,\"s\":\"<b>\"}"}],"structuredContent":{"n":9223372036854775807,"s":"<b>"}}}`
	if got, _ := c.next(); got != want {
		t.Errorf("echo:\n got %s\nwant %s", got, want)
	}
	spec := everything()
	raw := spec.Tools[slices.IndexFunc(spec.Tools, func(t Tool) bool { return t.Name == "raw" })].Behaviour.Raw
	c.call(`"x"`, "raw", "{}")
	if got, _ := c.next(); got != `{"jsonrpc":"2.0","id":"x","result":`+string(raw)+"}" {
		t.Errorf("raw: %s", got)
	}
	c.call("2", "error", "{}")
	if got, _ := c.next(); got != `{"jsonrpc":"2.0","id":2,"error":{"code":-31999,"message":"no","data":{"n":9223372036854775807}}}` {
		t.Errorf("error: %s", got)
	}
	c.call("3", "progress", "{}")
	var order []string
	for m := c.read(); ; m = c.read() {
		order = append(order, strings.TrimPrefix(m.Method, "notifications/"))
		if m.Method == "" {
			break
		}
	}
	if got := strings.Join(order, " "); got != "progress message progress message progress message " {
		t.Errorf("order: %q", got)
	}
	c.call("4", "env", "{}")
	if m := c.read(); !strings.Contains(toolText(t, m.Result), `"cwd":"`) || strings.Contains(string(m.Result), specVar) {
		t.Errorf("env: %s", m.Result)
	}
	c.call("5", "twice", `{"a":1}`)
	if a, b := c.read(), c.read(); string(a.Result) != string(b.Result) || string(a.ID) != "5" {
		t.Errorf("twice: %s then %s", a.Result, b.Result)
	}
	c.call("6", "notify", "{}")
	if m := c.read(); m.Method != "notifications/tools/list_changed" {
		t.Errorf("notify: %s", m.Method)
	}
	if m := c.read(); toolText(t, m.Result) != "extra_1" {
		t.Errorf("notify: %s", m.Result)
	}
}

func TestStdioLegacyResources(t *testing.T) {
	c := startChild(t, everything())
	c.initialize()
	c.call("1", "touch", "{}")
	if m := c.read(); toolText(t, m.Result) != "version 1" {
		t.Fatalf("a touch that nobody subscribed to: %s %s", m.Method, m.Result)
	}
	c.send(`{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"mem://a"}}`)
	c.read()
	c.call("3", "touch", "{}")
	if m := c.read(); m.Method != "notifications/resources/updated" || string(m.Params) != `{"uri":"mem://a"}` {
		t.Errorf("updated: %s %s", m.Method, m.Params)
	}
	c.read()
	for uri, want := range map[string]string{"mem://a": "alpha (version 2)", "file:///x/y": "file:///x/y", "mem://none": "-32002"} {
		c.send(`{"jsonrpc":"2.0","id":4,"method":"resources/read","params":{"uri":"` + uri + `"}}`)
		if m := c.read(); !strings.Contains(string(m.Result)+string(m.Error), want) {
			t.Errorf("read %s: %s %s", uri, m.Result, m.Error)
		}
	}
}

func TestStdioLegacyInterview(t *testing.T) {
	c := startChild(t, everything())
	c.initialize()
	for tool, want := range map[string]string{
		"elicit": `{"r":1}`, "sample": `{"r":1}`, "roots": `{"r":1}`, "survey": `[{"r":1},{"r":2}]`, "multi": `[{"r":1},{"r":2},{"r":3}]`,
	} {
		c.call(`"`+tool+`"`, tool, "{}")
		for i := 1; ; i++ {
			m := c.read()
			if m.isResponse() {
				if got := toolText(t, m.Result); got != want {
					t.Errorf("%s: got %s, want %s", tool, got, want)
				}
				break
			}
			c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"r":%d}}`, m.ID, i))
		}
	}
	c.call("1", "elicit", "{}")
	c.send(`{"jsonrpc":"2.0","id":` + string(c.read().ID) + `,"error":{"code":-1,"message":"no"}}`)
	if m := c.read(); !strings.Contains(string(m.Result), `"isError":true`) {
		t.Errorf("refused elicitation: %s", m.Result)
	}
}

func TestStdioCancel(t *testing.T) {
	for _, meta := range []string{`"_meta":{}`, modernMeta} {
		spec := everything()
		spec.StatePath = filepath.Join(t.TempDir(), "state")
		c := startChild(t, spec)
		if meta != modernMeta {
			c.initialize()
		}
		c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow",` + meta + `}}`)
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		await.Until(t, "slow is cancelled", func() bool {
			st, err := ReadState(spec.StatePath)
			return err == nil && slices.Equal(st.Cancelled, []string{"slow"})
		})
		c.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"count",` + meta + `}}`)
		if m := c.read(); string(m.ID) != "2" {
			t.Errorf("the cancelled call was answered: %s %s", m.ID, m.Result)
		}
		// A call under way when stdin ends was not cancelled.
		c.send(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"slow",` + meta + `}}`)
		c.in.Close()
		if code := c.exit(); code != 0 {
			t.Errorf("exit %d: %s", code, c.err)
		}
		if st, err := ReadState(spec.StatePath); err != nil || len(st.Cancelled) != 1 || st.Starts != 1 {
			t.Errorf("state %+v, %v", st, err)
		}
	}
}

func TestStdioModern(t *testing.T) {
	c := startChild(t, everything())
	c.send(`{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["mem://a","no://x"]},` + modernMeta + `}}`)
	if got, _ := c.next(); got != `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"l"},"notifications":{"toolsListChanged":true,"resourceSubscriptions":["mem://a"]}}}` {
		t.Errorf("acknowledged: %s", got)
	}
	c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"notify",` + modernMeta + `}}`)
	if m := c.read(); m.Method != "notifications/tools/list_changed" || !strings.Contains(string(m.Params), `subscriptionId":"l"`) {
		t.Errorf("list_changed: %s %s", m.Method, m.Params)
	}
	if m := c.read(); !strings.Contains(string(m.Result), `"resultType":"complete"`) {
		t.Errorf("no resultType: %s", m.Result)
	}
	for line, want := range map[string]string{
		`"server/discover","params":{` + modernMeta + `}`:                                                            `"supportedVersions":["2026-07-28","2025-11-25"`,
		`"resources/read","params":{"uri":"mem://a",` + modernMeta + `}`:                                             `"ttlMs":0`,
		`"resources/read","params":{"uri":"no://x",` + modernMeta + `}`:                                              `-32602`,
		`"ping","params":{` + modernMeta + `}`:                                                                       `-32601`,
		`"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`:                   `-32602`,
		`"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2099-01-01"}}`:                   `-32022`,
		`"tools/call","params":{"name":"elicit",` + strings.Replace(modernMeta, `"elicitation":{},`, "", 1) + `}`:    `-32021`,
		`"tools/call","params":{"name":"elicit","requestState":"forged",` + modernMeta + `}`:                         `-32602`,
		`"completion/complete","params":{"argument":{"name":"a","value":"v"},"ref":{"type":"x"},` + modernMeta + `}`: `"v-1"`,
		`"prompts/get","params":{"name":"greet","arguments":{"a":"b"},` + modernMeta + `}`:                           `{\"a\":\"b\"}`,
		`"tools/call","params":{"name":"client",` + modernMeta + `}`:                                                 `"era":"modern"`,
		`"tools/call","params":{"name":"headers",` + modernMeta + `}`:                                                `"null"`,
		`"tools/call","params":{"name":"nonesuch",` + modernMeta + `}`:                                               `-32602`,
		`"tools/call","params":{"name":"big",` + modernMeta + `}`:                                                    `"xxx"`,
		`"tools/list","params":{"cursor":"",` + modernMeta + `}`:                                                     `-32602`,
		`"tools/call","params":{"name":"params","extra":[1, 2],` + modernMeta + `}`:                                  `\"extra\":[1, 2]`,
		`"subscriptions/listen","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`:         `-32602`,
		`"resources/subscribe","params":{"uri":"mem://a",` + modernMeta + `}`:                                        `-32601`,
		`"resources/templates/list","params":{` + modernMeta + `}`:                                                   `"resourceTemplates":[{"uriTemplate":"file:///{+path}"`,
	} {
		c.send(`{"jsonrpc":"2.0","id":2,"method":` + line + `}`)
		if m := c.read(); !strings.Contains(string(m.Result)+string(m.Error), want) {
			t.Errorf("%s:\n got %s%s\nwant %s", line, m.Result, m.Error, want)
		}
	}
}

func TestStdioModernOnly(t *testing.T) {
	spec := everything()
	spec.Era = EraModern
	c := startChild(t, spec)
	c.send(initLine)
	if m := c.read(); !strings.Contains(string(m.Error), `"supported":["2026-07-28"]`) {
		t.Errorf("initialize: %s %s", m.Result, m.Error)
	}
}

func TestStdioPages(t *testing.T) {
	spec := everything()
	spec.Tools = []Tool{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}, {Name: "e"}}
	spec.List.PageSize = 2
	c := startChild(t, spec)
	c.initialize()
	for _, step := range []struct{ cursor, want string }{
		{``, `"nextCursor":""`}, {`"cursor":""`, `"nextCursor":"page-2"`}, {`"cursor":"page-2"`, `{"name":"e","inputSchema":{"type":"object"}}]}`},
		{`"cursor":"page-1"`, "-32602"}, {`"cursor":"page-3"`, "-32602"},
	} {
		c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + step.cursor + `}}`)
		if m := c.read(); !strings.Contains(string(m.Result)+string(m.Error), step.want) {
			t.Errorf("%s: got %s%s, want %s", step.cursor, m.Result, m.Error, step.want)
		}
	}
}

func TestStdioBadMessages(t *testing.T) {
	c := startChild(t, everything())
	for line, want := range map[string]string{
		`{`: "-32700", `[]`: "-32600", `{"jsonrpc":"2.0","id":null,"method":"ping"}`: "-32600",
		`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`: "-32600", `{"id":1,"method":"ping"}`: "-32600",
		`{"jsonrpc":"2.0","id":1,"method":"ping","x":1}`: "-32600", `{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}`: "-32600",
		`{"jsonrpc":"2.0","id":1,"method":"ping"}`: `"result":{}`,
	} {
		c.send(line)
		if got, _ := c.next(); !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", line, got, want)
		}
	}
}

func TestStdioExits(t *testing.T) {
	for name, tc := range map[string]struct {
		quirks Quirks
		line   string
		want   int
	}{
		"crash":       {Quirks{}, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"crash",` + modernMeta + `}}`, 3},
		"partial":     {Quirks{}, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"partial",` + modernMeta + `}}`, 3},
		"frame":       {Quirks{PartialFrame: true}, initLine, 3},
		"probe":       {Quirks{ExitOnProbe: true}, `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{` + modernMeta + `}}`, 1},
		"crash every": {Quirks{CrashEvery: 50 * time.Millisecond}, ``, 3},
	} {
		t.Run(name, func(t *testing.T) {
			spec := everything()
			spec.Quirks = tc.quirks
			c := startChild(t, spec)
			c.send(tc.line)
			if name == "partial" || name == "frame" {
				line, _ := c.next()
				if _, code, err := parse([]byte(line)); err == nil || code != codeParse {
					t.Errorf("not half a frame: %q", line)
				}
			}
			if code := c.exit(); code != tc.want {
				t.Errorf("exit %d, want %d: %s", code, tc.want, c.err)
			}
		})
	}
}

func TestStdioSilence(t *testing.T) {
	spec := everything()
	spec.Era = EraLegacy
	spec.Quirks = Quirks{SilentOnUnknown: true, HangInitialize: true, StderrNoise: 3, SlowStart: 10 * time.Millisecond}
	c := startChild(t, spec)
	c.send(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{` + modernMeta + `}}`)
	c.send(initLine)
	c.send(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	if m := c.read(); string(m.ID) != "2" {
		t.Errorf("answered %s: %s %s", m.ID, m.Result, m.Error)
	}
	c.in.Close()
	if c.exit(); !strings.Contains(c.err.String(), "noise 3") {
		t.Errorf("stderr: %q", c.err)
	}
}

func TestStdioGarbageAndRecord(t *testing.T) {
	spec := everything()
	spec.Quirks.Garbage = true
	spec.RecordPath = filepath.Join(t.TempDir(), "record")
	c := startChild(t, spec)
	c.send(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	var junk int
	for line, _ := c.next(); line != `{"jsonrpc":"2.0","id":1,"result":{}}`; line, _ = c.next() {
		junk++
	}
	if junk == 0 {
		t.Error("no garbage before the frame")
	}
	if b, err := os.ReadFile(spec.RecordPath); err != nil || string(b) != `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n" {
		t.Errorf("record %q, %v", b, err)
	}
}

func TestStdioStubborn(t *testing.T) {
	spec := everything()
	spec.Quirks = Quirks{IgnoreSIGTERM: true, IgnoreEOF: true, SpawnGrandchild: true}
	spec.StatePath = filepath.Join(t.TempDir(), "state")
	c := startChild(t, spec)
	c.send(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	c.read()
	c.in.Close()
	if err := terminate(c.cmd); err != nil {
		t.Fatal(err)
	}
	var st State
	await.Until(t, "the signal is noted", func() bool {
		var err error
		st, err = ReadState(spec.StatePath)
		return err == nil && st.Terms == 1
	})
	if len(st.Grandchildren) != 1 || st.Pids[0] != c.cmd.Process.Pid {
		t.Fatalf("state %+v", st)
	}
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// The grandchild holds stdout, which ends only with the whole group.
	held := time.NewTimer(50 * time.Millisecond)
	defer held.Stop()
	select {
	case _, ok := <-c.lines:
		t.Errorf("stdout ended or spoke (%v) while the grandchild lives", ok)
	case <-held.C:
	}
	killGroup(c.cmd)
	if code := c.exit(); code != -1 {
		t.Errorf("exit %d, want a signal", code)
	}
}

func TestCommandLargeSpec(t *testing.T) {
	spec := Spec{Era: EraLegacy}
	for i := range 200 {
		spec.Tools = append(spec.Tools, Tool{Name: fmt.Sprint("t", i), RawDefinition: Raw(fmt.Sprintf(
			`{"name":"t%d","description":%q,"inputSchema":{"type":"object"}}`, i, strings.Repeat("long ", 1000)))})
	}
	c := startChild(t, spec)
	c.initialize()
	c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	if m := c.read(); len(m.Result) < 1_000_000 {
		t.Errorf("the list has %d bytes", len(m.Result))
	}
}
