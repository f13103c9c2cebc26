package hub_test

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/call"
	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/event"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/session"
)

const storedDoc = `{"items":[{"id":12345678901234567890,"price":1.10,"tags":["x","\u00e9"]},{"id":2}],"on":true,"off":null,"text":"@doc"}`

// What comes in place of references is what was stored, byte for byte.
func TestReferencesAreReplaced(t *testing.T) {
	hubtest.Parallel(t)
	spec := peer.Spec{Tools: echoTool()}
	deep := func(s string) string { return strings.Repeat(`{"a":[`, 300) + s + strings.Repeat(`]}`, 300) }
	wide := func(s string) string { return "[" + strings.Repeat(s+",", 999) + s + "]" }
	o := worldOptions{edits: []hubtest.Edit{hubtest.Modules()}, client: hubtest.ClientOptions{Header: in("work")}}
	eachCell(t, spec, o, func(t *testing.T, w *world) {
		c := w.Hub.Client(t, hubtest.ClientOptions{Era: w.era, Header: in("work")})
		put(t, c, "doc", strings.Replace(storedDoc, `"@doc"`, `"@@doc"`, 1)) // its data are arguments, too
		put(t, c, "n-1", "-0.0")
		for args, want := range map[string]string{
			`{"v":"@doc"}`:                        `{"v":` + storedDoc + `}`,
			`{"v":"@doc.items[0].id"}`:            `{"v":12345678901234567890}`,
			`{"v":"@doc.items[0].price"}`:         `{"v":1.10}`,
			`{"v":"@doc.items[0].tags"}`:          `{"v":["x","\u00e9"]}`,
			`{"v":"@doc.on","w":"@doc.off"}`:      `{"v":true,"w":null}`,
			`{"v":"@n-1"}`:                        `{"v":-0.0}`,
			`{"v":{"$ref":"@doc.items[1]"}}`:      `{"v":{"id":2}}`,
			`{"v":{ "$ref" : "@n-1" } , "w":1.0}`: `{"v":-0.0 , "w":1.0}`,
			`{"v":"@doc.text"}`:                   `{"v":"@doc"}`, // not looked at again
			`{"v":"@@doc","w":"@@@doc"}`:          `{"v":"@doc","w":"@@doc"}`,
			`{"v":"me@doc","w":"@doc is here","x":"@ doc","y":"@","z":"@@"}`: `{"v":"me@doc","w":"@doc is here","x":"@ doc","y":"@","z":"@@"}`,
			`{"@n-1":"\u0040n-1"}`:         `{"@n-1":-0.0}`,
			`{"v":` + deep(`"@n-1"`) + `}`: `{"v":` + deep("-0.0") + `}`,
			`{"v":` + wide(`"@n-1"`) + `}`: `{"v":` + wide("-0.0") + `}`,
		} {
			if !w.merged {
				want = args // an agent's own face changes nothing
			}
			if got := w.call("echo", args).Text(); got != want {
				t.Errorf("%.100s\n got  %.200s\n want %.200s", args, got, want)
			}
		}
	})
}

func TestInnocentNamesStayLiteral(t *testing.T) {
	hubtest.Parallel(t)
	h, _ := keeping(t, peer.Spec{Tools: echoTool()})
	const args = `{"who":"@octocat","escaped":"@@octocat","of":{"$ref":"@octocat"},"at":"@team:octocat.x[0]"}`
	legacy := h.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy})
	for name, c := range map[string]*hubtest.Client{
		"legacy": legacy, "modern": h.Client(t, hubtest.ClientOptions{}), "sessionless": h.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy, Sessionless: true}),
		"a client that wants none": h.Client(t, hubtest.ClientOptions{Header: http.Header{"Stoa-Session": {"work"}, "Stoa-References": {"off"}}}),
		"an agent's face":          h.Client(t, hubtest.ClientOptions{Header: in("work"), Face: "/mcps/up/mcp"}),
	} {
		tool := "up__echo"
		if strings.HasPrefix(c.Face, "/mcps") {
			tool = "echo"
		}
		if got := c.Tool(tool, args).Text(); got != args {
			t.Errorf("%s: %s", name, got)
		}
	}
	// The first value makes them references, and its removal does not undo that.
	put(t, legacy, "octocat", `"@octocat"`) // which is not a reference yet
	if got := legacy.Tool("up__echo", `{"who":"@octocat","escaped":"@@octocat"}`).Text(); got != `{"who":"@octocat","escaped":"@octocat"}` {
		t.Errorf("a stored value: %s", got)
	}
	good(t, legacy.Tool("context_remove", `{"name":"octocat"}`))
	if m := legacy.Tool("up__echo", `{"who":"@octocat"}`); !strings.Contains(string(m.Result), `"isError":true`) {
		t.Errorf("after removal: %s", m.Raw)
	}
}

func TestReferencesCanBeOff(t *testing.T) {
	hubtest.Parallel(t)
	off, on := false, true
	spec := peer.Spec{Tools: []peer.Tool{{Name: "echo"}, {Name: "other"}}}
	h := hubtest.New(t, hubtest.Modules(),
		hubtest.Stdio("off", spec, func(s *config.Server) {
			s.References = &off
			s.Tools.Override = map[string]config.Override{"other": {References: &on}}
		}),
		hubtest.Stdio("on", spec, func(s *config.Server) {
			s.Tools.Override = map[string]config.Override{"other": {References: &off}}
		}))
	settled(t, h, "on", "off")
	for _, era := range bothEras {
		c := h.Client(t, hubtest.ClientOptions{Era: era, Header: in("work")})
		put(t, c, "doc", "1")
		for tool, want := range map[string]string{"on__echo": "1", "on__other": `"@doc"`, "off__echo": `"@doc"`, "off__other": "1"} {
			if got := c.Tool(tool, `{"v":"@doc"}`).Text(); got != `{"v":`+want+`}` {
				t.Errorf("%s, %s: %s", era, tool, got)
			}
		}
	}
}

// typedTool takes a number and a word that a header mirrors.
const typedTool = `{"name":"typed","inputSchema":{"type":"object","properties":{"n":{"type":"integer"},"region":{"type":"string","x-mcp-header":"Region"}},"additionalProperties":false}}`

func typedSpec() peer.Spec {
	return peer.Spec{Tools: []peer.Tool{{Name: "echo"}, {Name: "typed", RawDefinition: typedTool, Behaviour: peer.Do(peer.Headers)}}}
}

func TestBadReferencesAreNotSent(t *testing.T) {
	hubtest.Parallel(t)
	h, web := keeping(t, typedSpec(), hubtest.Config(func(c *config.Config) { c.Limits.ArgumentBytes = 8 << 10 }))
	for _, era := range bothEras {
		c := h.Client(t, hubtest.ClientOptions{Era: era, Header: in("work")})
		put(t, c, "report", `{"rows":[1,2],"title":"t"}`)
		put(t, c, "large", `"`+strings.Repeat("x", 5<<10)+`"`)
		before := len(web.State().Called)
		for args, want := range map[string][]string{
			`{"v":"@reprot"}`:                         {"bad_reference", "@reprot", "Did you mean @report"},
			`{"v":["@report.tilte"]}`:                 {"bad_reference", "/v/0", "title"},
			`{"v":"@report.rows[2]"}`:                 {"bad_reference", "rows", "2"},
			`{"v":"@nothing","w":"@neither"}`:         {"bad_reference", "/v", "/w", "report"},
			`{"v":{"$ref":"@zebra"}}`:                 {"bad_reference", "large", "report"},
			`{"v":"@s_00000000000000000000000000:x"}`: {"bad_reference", "there is no session"},
			`{"v":["@large","@large"]}`:               {`"limit"`, "8192"},
		} {
			m := c.Tool("up__echo", args)
			if !strings.Contains(string(m.Result), `"isError":true`) {
				t.Errorf("%s, %s: %s", era, args, m.Raw)
			}
			for _, part := range want {
				if !strings.Contains(string(m.Raw), part) {
					t.Errorf("%s, %s: no %q in %s", era, args, part, m.Raw)
				}
			}
		}
		// What does not fit is found after references are replaced.
		if m := c.Tool("up__typed", `{"n":"@report.title"}`); !strings.Contains(string(m.Result), "invalid_arguments") {
			t.Errorf("%s: a text for a number: %s", era, m.Raw)
		}
		if now := len(web.State().Called); now != before {
			t.Errorf("%s: %v were called", era, web.State().Called[before:])
		}
		if m := c.Tool("up__typed", `{"n":"@report.rows[1]"}`); strings.Contains(string(m.Result), `"isError":true`) || m.Error != nil {
			t.Errorf("%s: a number for a number: %s", era, m.Raw)
		}
	}
}

// Headers that mirror arguments mirror what the server gets; those that came
// are held to what came with them.
func TestMirroredReferences(t *testing.T) {
	hubtest.Parallel(t)
	h, _ := keeping(t, typedSpec())
	c := h.Client(t, hubtest.ClientOptions{Header: in("work")})
	put(t, c, "where", `{"name":"zürich"}`)
	sent := func(args string, mirror []string) hubtest.Message {
		s := c.Request("1", "tools/call", hubtest.ToolParams("up__typed", args))
		s.Header["Mcp-Param-Region"] = mirror
		m, err := hubtest.ParseMessage(c.Do(s).Body)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	for args, mirror := range map[string][]string{`{"region":"@where.name"}`: {"@where.name"}, `{"region":{"$ref":"@where.name"}}`: nil} {
		if m := sent(args, mirror); !strings.Contains(m.Text(), `"Mcp-Param-Region":["=?base64?esO8cmljaA==?="]`) {
			t.Errorf("%s: the server got %s", args, m.Raw)
		}
	}
	for _, mirror := range [][]string{{"@where"}, nil, {"=?base64?esO8cmljaA==?="}} {
		if m := sent(`{"region":"@where.name"}`, mirror); m.Fault().Data.Kind != "header_mismatch" {
			t.Errorf("mirrored as %q: %s", mirror, m.Raw)
		}
	}
}

func TestCallsThatUsedValuesAreOnRecord(t *testing.T) {
	hubtest.Parallel(t)
	h, _ := keeping(t, peer.Spec{Tools: echoTool()})
	c := h.Client(t, hubtest.ClientOptions{Header: in("work")})
	put(t, c, "doc", `"first"`)
	put(t, c, "doc", `{"k":"the secret"}`)
	put(t, c, "n", "2")
	last := h.Events().Last()
	c.Tool("up__echo", `{"v":"@doc.k","w":["@n","@n"]}`, `"stoa/saveAs":"out"`)
	c.Tool("up__echo", `{"v":1}`)
	var got []event.Record
	await.Until(t, "both calls are on record", func() bool {
		got, _, _ = h.Events().After(last, 10)
		got = slices.DeleteFunc(got, func(r event.Record) bool { return r.Type != event.CallDone })
		return len(got) == 2
	})
	tr, _ := got[0].Data.(call.Trace)
	for i := range tr.Used {
		tr.Used[i].Entry = 0 // the store numbers it
	}
	want := call.Trace{Used: []session.Used{{Name: "doc", Version: 2}, {Name: "n", Version: 1}}, Saved: "out"}
	if diff := cmp.Diff(want, tr); diff != "" || got[0].Session != "work" || got[0].Upstream != "up" || got[0].Tool != "echo" {
		t.Errorf("%+v: %s", got[0], diff)
	}
	if got[1].Data != nil {
		t.Errorf("a call without references: %+v", got[1])
	}
}

// A server that asks again gets the same arguments each time, whatever has
// become of what they referred to.
func TestRoundsUseTheSameValues(t *testing.T) {
	hubtest.Parallel(t)
	spec := peer.Spec{Tools: []peer.Tool{{Name: "ask", Behaviour: peer.Behaviour{Kind: peer.Multi, N: 3}}, {Name: "echo"}}}
	for _, upEra := range []peer.Era{peer.EraModern, peer.EraLegacy} {
		t.Run(string(upEra), func(t *testing.T) {
			spec.Era = upEra
			var other string
			h, _ := keeping(t, spec, func(s *hubtest.Setup) { other = token(t, s, "other", "*") })
			o := hubtest.ClientOptions{Header: in("work"), Capabilities: askable}
			c := h.Client(t, o)
			put(t, c, "q", `"the first question"`)
			params := `{"name":"up__ask","arguments":{"message":"@q"}}`
			m := c.Call("tools/call", params)
			for round := 1; round <= 3; round++ {
				asked := asks(t, m)
				if asked.message != "the first question" {
					t.Fatalf("round %d: asked %q: %s", round, asked.message, m.Raw)
				}
				put(t, c, "q", `"question `+strconv.Itoa(round)+`"`)
				next := strings.TrimSuffix(params, "}") + `,"requestState":` + hubtest.Quote(asked.state) + `,"inputResponses":{` + hubtest.Quote(asked.key) + `:{"action":"accept","content":{"name":"n"}}}}`
				if round == 2 {
					thief := h.Client(t, hubtest.ClientOptions{Header: in("work"), Capabilities: askable, Token: other})
					bent := asked.state[:len(asked.state)-6] + "AAAAAA"
					for what, m := range map[string]hubtest.Message{
						"another principal": thief.Call("tools/call", next),
						"other arguments":   c.Call("tools/call", strings.Replace(next, "@q", "x", 1)),
						"another tool":      c.Call("tools/call", strings.Replace(next, "up__ask", "up__echo", 1)),
						"a bent state":      c.Call("tools/call", strings.Replace(next, asked.state, bent, 1)),
					} {
						if m.Fault().Data.Kind != "invalid_params" {
							t.Errorf("%s: %s", what, m.Raw)
						}
					}
				}
				m = c.Call("tools/call", next)
			}
			if got := strings.Count(m.Text(), `"accept"`); got != 3 {
				t.Errorf("at the end: %s", m.Raw)
			}
		})
	}
}

type question struct{ key, message, state string }

// asks takes the one question out of an input_required result.
func asks(t testing.TB, m hubtest.Message) question {
	t.Helper()
	r := hubtest.Decode[struct {
		ResultType    string
		RequestState  string
		InputRequests map[string]struct {
			Params struct{ Message string }
		}
	}](m.Result)
	if r.ResultType != "input_required" || len(r.InputRequests) != 1 {
		t.Fatalf("no question: %s", m.Raw)
	}
	for key, q := range r.InputRequests {
		return question{key, q.Params.Message, r.RequestState}
	}
	return question{}
}

// A state is wrapped only if there is something to remember.
func TestStatesOfPlainCallsAreTheServers(t *testing.T) {
	hubtest.Parallel(t)
	spec := peer.Spec{Era: peer.EraModern, Tools: []peer.Tool{{Name: "ask", Behaviour: peer.Do(peer.Elicit)}}}
	h, web := keeping(t, spec)
	var states []string
	for _, face := range []string{"/mcp", "/mcps/up/mcp"} {
		c := h.Client(t, hubtest.ClientOptions{Header: in("work"), Capabilities: askable, Face: face})
		name := "up__ask"
		if face != "/mcp" {
			name = "ask"
		}
		states = append(states, asks(t, c.Tool(name, `{"message":"plain"}`)).state)
	}
	if states[0] != states[1] || !slices.Contains(web.State().Called, "ask") {
		t.Errorf("the states differ: %q", states)
	}
}
