package hub_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// The eras are bridged where client and server have none in common. What is
// asked of clients in such cells is in bridge_test.go; this is all the rest.

const ownError = `{"code":-31999,"message":"no \u0041","data":{ "n":9223372036854775807,"x":[1.0] }}`

func mixedSpec() peer.Spec {
	spec := slowSpec()
	more := recoverySpec()
	spec.Tools = append(spec.Tools, more.Tools...)
	spec.Resources = more.Resources
	spec.Prompts = []peer.Prompt{{Name: "greet"}}
	spec.Tools = append(spec.Tools,
		peer.Tool{Name: "rude", Behaviour: peer.Behaviour{Kind: peer.Error, Raw: ownError}},
		peer.Tool{Name: "params", Behaviour: peer.Do(peer.Params)},
		peer.Tool{Name: "client", Behaviour: peer.Do(peer.Client)})
	return spec
}

func TestCallsCrossEras(t *testing.T) {
	hubtest.Parallel(t)
	oneHub(t, mixedSpec(), worldOptions{mixed: true}, func(t *testing.T, w *world) {
		m := w.call("echo", `{"a":1.0,"b":"\u00e9"}`)
		if m.Text() != `{"a":1.0,"b":"\u00e9"}` {
			t.Errorf("echo: %s", m.Raw)
		}
		modern := w.era == hubtest.Modern
		if got := strings.Contains(string(m.Result), `"resultType":"complete"`); got != modern {
			t.Errorf("the result is not of the client's era: %s", m.Raw)
		}
		if m := w.call("rude", ""); string(m.Error) != ownError {
			t.Errorf("an error of the tool: %s", m.Raw)
		}
		// Only what its era has reaches the server.
		if got := w.call("params", "").Text(); strings.Contains(got, "io.modelcontextprotocol/") == modern {
			t.Errorf("the server got %s", got)
		}
		if m := w.client.Call("prompts/get", `{"name":`+hubtest.Quote(w.name("up", "greet"))+`}`); m.Error != nil {
			t.Errorf("prompt: %s", m.Raw)
		}
		m = w.client.Call("resources/read", `{"uri":"mem://a"}`)
		if !strings.Contains(string(m.Result), `"text":"a"`) || strings.Contains(string(m.Result), `"cacheScope"`) != modern {
			t.Errorf("resource: %s", m.Raw)
		}
	})
}

// A resource that is gone has a code of its own in one era only.
func TestMissingResourceCrossesEras(t *testing.T) {
	hubtest.Parallel(t)
	spec := peer.Spec{Tools: echoTool(), Resources: []peer.Resource{
		{URI: "mem://lost", Behaviour: peer.Behaviour{Kind: peer.Error, Raw: `{"code":-32002,"message":"lost","data":{"uri":"mem://lost"}}`}},
		{URI: "mem://odd", Behaviour: peer.Behaviour{Kind: peer.Error, Raw: `{"code":-32021,"message":"needs more","data":{"requiredCapabilities":{"x":{}}}}`}},
	}}
	eachCell(t, spec, worldOptions{mixed: true}, func(t *testing.T, w *world) {
		w.listening(t)
		lost, odd := `{"code":-32002,"message":"lost","data":{"uri":"mem://lost"}}`, `{"code":-32603,"message":"needs more","data":{"requiredCapabilities":{"x":{}}}}`
		if w.era == hubtest.Modern {
			lost, odd = strings.Replace(lost, "-32002", "-32602", 1), strings.Replace(odd, "-32603", "-32021", 1)
		}
		if m := w.client.Call("resources/read", `{"uri":"mem://lost"}`); string(m.Error) != lost {
			t.Errorf("lost: %s", m.Raw)
		}
		if m := w.client.Call("resources/read", `{"uri":"mem://odd"}`); string(m.Error) != odd {
			t.Errorf("odd: %s", m.Raw)
		}
	})
}

func TestLeavingCrossesEras(t *testing.T) {
	hubtest.Parallel(t)
	for _, capabilities := range []string{"{}", askable} { // the second may be parked
		o := worldOptions{mixed: true, client: hubtest.ClientOptions{Capabilities: capabilities}}
		oneHub(t, mixedSpec(), o, func(t *testing.T, w *world) {
			x := w.client.Go("tools/call", hubtest.ToolParams(w.name("up", "slow"), ""))
			w.called(t, "slow")
			x.Close()
			w.cancelled(t, "slow")
			if m := w.call("echo", `{"a":1}`); m.Text() != `{"a":1}` {
				t.Errorf("afterwards: %s", m.Raw)
			}
		})
	}
}

func TestChangesCrossEras(t *testing.T) {
	hubtest.Parallel(t)
	eachCell(t, mixedSpec(), worldOptions{mixed: true}, func(t *testing.T, w *world) {
		x := w.subscribe(t, w.client)
		w.listening(t)
		await.Until(t, "an update reaches the subscriber", func() bool {
			// When the server has the subscription cannot be seen from outside.
			if m := w.call("touch", `{"uri":"mem://a"}`); !strings.HasPrefix(m.Text(), "version") {
				t.Fatalf("touch: %s", m.Raw)
			}
			return w.heard(x, "notifications/resources/updated")
		})
		name := w.call("grow", "").Text()
		await.Until(t, "the change is told and listed", func() bool {
			m := x.Await("notifications/tools/list_changed")
			tagged := strings.Contains(string(m.Params), `"io.modelcontextprotocol/subscriptionId":`+x.ID)
			if x.ID != "" && tagged != (w.era == hubtest.Modern) {
				t.Fatalf("the notification is not of the client's era: %s", m.Raw)
			}
			return strings.Contains(string(w.client.Call("tools/list", "{}").Result), `"`+w.name("up", name)+`"`)
		})
	})
}

// Log messages below the level that was asked for stay away, in both eras.
func TestLogLevelCrossesEras(t *testing.T) {
	hubtest.Parallel(t)
	oneHub(t, mixedSpec(), worldOptions{mixed: true}, func(t *testing.T, w *world) {
		for level, want := range map[string]bool{"info": true, "error": false} {
			var meta []hubtest.Meta
			if w.era == hubtest.Legacy {
				if m := w.client.Call("logging/setLevel", `{"level":"`+level+`"}`); m.Error != nil {
					t.Fatalf("set level: %s", m.Error)
				}
			} else {
				meta = append(meta, hubtest.Meta(`"io.modelcontextprotocol/logLevel":"`+level+`"`))
			}
			before, m := w.client.Go("tools/call", hubtest.ToolParams(w.name("up", "steps"), ""), meta...).Wait()
			if m.Text() != "done" {
				t.Fatalf("steps: %s", m.Raw)
			}
			got := slices.ContainsFunc(before, func(m hubtest.Message) bool { return m.Method == "notifications/message" })
			if got != want {
				t.Errorf("level %s: messages came: %v", level, got)
			}
		}
	})
}

// A modern server that sends the user to an address: the legacy client is
// asked with an elicitationId, which the modern era does not have, and its
// refusal ends the call without being held against the server.
func TestAddressesReachLegacyClients(t *testing.T) {
	hubtest.Parallel(t)
	for name, state := range map[string]string{"with state": `,"requestState":"s"`, "without": ""} {
		spec := peer.Spec{Tools: []peer.Tool{{Name: "echo"}, {Name: "login", Behaviour: peer.Behaviour{Kind: peer.Verbatim,
			Raw: peer.Raw(`{"resultType":"input_required","inputRequests":{"u":{"method":"elicitation/create","params":{"mode":"url","url":"https://login.example/","message":"please"}}}` + state + `}`)}}}}
		o := worldOptions{mixed: true, client: hubtest.ClientOptions{Capabilities: `{"elicitation":{"form":{},"url":{}}}`},
			server: func(s *config.Server) { s.Breaker.Failures = 2 }}
		t.Run(name, func(t *testing.T) {
			oneHub(t, spec, o, func(t *testing.T, w *world) {
				if w.era == hubtest.Modern {
					t.Skip("a legacy server says it by an error: TestAddressesOfALegacyErrorBecomeQuestions")
				}
				for range 3 {
					x := w.client.Go("tools/call", hubtest.ToolParams(w.name("up", "login"), ""))
					ids := map[string]bool{}
					for round := range 3 {
						q := x.Await("elicitation/create")
						p := hubtest.Decode[struct{ Mode, URL, Message, ElicitationID string }](q.Params)
						if p.Mode != "url" || p.URL != "https://login.example/" || p.Message != "please" || p.ElicitationID == "" {
							t.Fatalf("asked %s", q.Raw)
						}
						ids[p.ElicitationID] = true
						if round < 2 {
							w.client.Answer(q, "result", `{"action":"accept"}`)
						} else {
							w.client.Answer(q, "error", `{"code":-1,"message":"no more"}`)
						}
					}
					if m := x.Response(); kindOf(m) != "cancelled" || len(ids) != 3 {
						t.Errorf("after a refusal: %s (%d ids)", m.Raw, len(ids))
					}
				}
				if m := w.call("echo", `{"a":1}`); m.Text() != `{"a":1}` {
					t.Errorf("afterwards: %s", m.Raw)
				}
			})
		})
	}
}

// A legacy server that sends the user to addresses by an error, in every cell:
// a modern client is asked, its retry is an ordinary call, and who cannot be
// asked is told what it lacks.
func TestAddressesOfAnErrorCrossEras(t *testing.T) {
	hubtest.Parallel(t)
	const data = `"message":"log in","data":{"elicitations":[{"mode":"url","elicitationId":"e1","url":"https://login.example/","message":"please"}]}}`
	spec := peer.Spec{Tools: []peer.Tool{{Name: "login", Behaviour: peer.Behaviour{Kind: peer.Error, Raw: `{"code":-32042,` + data}}}}
	o := worldOptions{client: hubtest.ClientOptions{Capabilities: bothModes}, mixed: true}
	eachCell(t, spec, o, func(t *testing.T, w *world) {
		if w.era == hubtest.Legacy {
			t.Skip("a modern server has no such error")
		}
		want := `{"resultType":"input_required","inputRequests":{"url1":{"method":"elicitation/create","params":{"mode":"url","url":"https://login.example/","message":"please"}}}}`
		params := hubtest.ToolParams(w.name("up", "login"), "")
		for _, extra := range []string{"", `,"inputResponses":{"url1":{"action":"accept"}}`} {
			if m := w.client.Call("tools/call", strings.TrimSuffix(params, "}")+extra+"}"); string(m.Result) != want {
				t.Errorf("with %s: %s", extra, m.Raw)
			}
		}
		for _, capabilities := range []string{"{}", askable} { // the second means forms
			bare := w.Hub.Client(t, hubtest.ClientOptions{Face: w.face("up"), Capabilities: capabilities})
			if m := bare.Call("tools/call", params); string(m.Error) != `{"code":-32021,`+data {
				t.Errorf("one that cannot be asked, %s: %s", capabilities, m.Raw)
			}
		}
	})
}

// Roots belong to one client: a legacy server gets none of a modern client, a
// modern one is given those of the legacy client that calls.
func TestRootsCrossEras(t *testing.T) {
	hubtest.Parallel(t)
	o := worldOptions{client: hubtest.ClientOptions{Capabilities: askable}, mixed: true}
	oneHub(t, interviewSpec(), o, func(t *testing.T, w *world) {
		m, asked, err := converse(w.client, w.name("up", "roots"), `{}`)
		if err != nil {
			t.Fatal(err)
		}
		if w.era == hubtest.Modern {
			if !strings.Contains(m.Text(), "does not support roots") {
				t.Errorf("got %s", m.Raw)
			}
		} else if compact(m.Text()) != compact(rooted) {
			t.Errorf("got %s, asked %q", m.Raw, asked)
		}
	})
}

// A client that cannot be asked is told so, in every mixed cell, however
// often, and others are served all the same.
func TestClientsThatCannotBeAskedCrossEras(t *testing.T) {
	hubtest.Parallel(t)
	o := worldOptions{mixed: true, server: func(s *config.Server) { s.Breaker.Failures = 2 }}
	oneHub(t, interviewSpec(), o, func(t *testing.T, w *world) {
		for range 4 {
			if m := w.call("elicit", ""); !strings.Contains(string(m.Raw), "capability") {
				t.Errorf("got %s", m.Raw)
			}
		}
		if m := w.call("echo", `{"a":1}`); m.Text() != `{"a":1}` {
			t.Errorf("afterwards: %s", m.Raw)
		}
	})
}

// A parked call is refused to another token, and is still there for its own.
func TestParkedCallIsRefusedToAnotherToken(t *testing.T) {
	hubtest.Parallel(t)
	for _, merged := range []bool{true, false} {
		c := cell{hubtest.Modern, "stdio", merged}
		t.Run(c.String(), func(t *testing.T) {
			var other string
			o := worldOptions{client: hubtest.ClientOptions{Capabilities: askable}, mixed: true,
				edits: []hubtest.Edit{func(s *hubtest.Setup) { other = token(t, s, "other", "*") }}}
			w := newWorld(t, c, interviewSpec(), o)
			state := park(t, w, "a")
			mine := w.client
			w.client = w.Hub.Client(t, hubtest.ClientOptions{Face: w.face("up"), Capabilities: askable, Token: other})
			if m := continued(w, "a", state); kindOf(m) != "invalid_params" {
				t.Errorf("another token: %s", m.Raw)
			}
			w.client = mine
			if m := continued(w, "a", state); m.Text() != elicited {
				t.Errorf("the owner: %s", m.Raw)
			}
		})
	}
}

// A server that dies while a call is parked: who comes back is told, and can
// begin anew. The hub then ends with a call parked, and leaves nothing.
func TestServerDiesWhileACallIsParked(t *testing.T) {
	hubtest.Parallel(t)
	for _, transport := range []string{"stdio", "sse"} {
		t.Run(transport, func(t *testing.T) {
			o := worldOptions{client: hubtest.ClientOptions{Capabilities: askable}, mixed: true}
			w := newWorld(t, cell{hubtest.Modern, transport, true}, interviewSpec(), o)
			state := park(t, w, "a")
			w.crash(t)
			if m := continued(w, "a", state); kindOf(m) != "upstream_lost" {
				t.Errorf("after the crash: %s", m.Raw)
			}
			park(t, w, "b")
		})
	}
}
