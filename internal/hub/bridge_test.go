package hub_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// A server asks a client of the other era: a modern client is given an
// input_required result while the legacy server's call waits, a legacy client
// is asked on its stream while the modern server is asked again and again.
func TestServersAskClientsOfTheOtherEra(t *testing.T) {
	hubtest.Parallel(t)
	oneHub(t, interviewSpec(), worldOptions{client: hubtest.ClientOptions{Capabilities: askable}, mixed: true}, interview)
}

// Roots of a legacy client reach a modern server, which asks for them by its
// answers.
func TestRootsOfALegacyClientReachAModernServer(t *testing.T) {
	hubtest.Parallel(t)
	o := worldOptions{client: hubtest.ClientOptions{Capabilities: askable}, mixed: true}
	for _, transport := range []string{"stdio", "sse"} {
		t.Run(transport, func(t *testing.T) {
			w := newWorld(t, cell{hubtest.Legacy, transport, true}, interviewSpec(), o)
			m, asked, err := converse(w.client, "up__roots", `{}`)
			if err != nil || compact(m.Text()) != compact(rooted) {
				t.Errorf("got %s %v, asked %q", m.Raw, err, asked)
			}
		})
	}
}

// park makes a call that the legacy server asks something in, and returns the
// state that the modern client was given.
func park(t *testing.T, w *world, message string) string {
	t.Helper()
	m := w.call("elicit", `{"message":"`+message+`"}`)
	r := hubtest.Decode[struct{ ResultType, RequestState string }](m.Result)
	if r.ResultType != "input_required" || r.RequestState == "" {
		t.Fatalf("got %s", m.Raw)
	}
	return r.RequestState
}

// continued sends a call again with a state and an answer to its question.
func continued(w *world, message, state string) hubtest.Message {
	params := hubtest.ToolParams(w.name("up", "elicit"), `{"message":"`+message+`"}`)
	return w.client.Call("tools/call", strings.TrimSuffix(params, "}")+`,"inputResponses":{"q1":`+elicited+`},"requestState":`+hubtest.Quote(state)+"}")
}

func kindOf(m hubtest.Message) string {
	return hubtest.Decode[struct{ Data struct{ Kind string } }](m.Error).Data.Kind
}

func TestParkedCallIsBoundToItsRequest(t *testing.T) {
	hubtest.Parallel(t)
	o := worldOptions{client: hubtest.ClientOptions{Capabilities: askable}, mixed: true}
	w := newWorld(t, cell{hubtest.Modern, "stdio", false}, interviewSpec(), o)
	state := park(t, w, "a")
	if got := kindOf(continued(w, "b", state)); got != "invalid_params" {
		t.Errorf("other arguments: %s", got)
	}
	tampered := state[:len(state)-2] + strings.Map(func(r rune) rune { return r ^ 1 }, state[len(state)-2:len(state)-1]) + state[len(state)-1:]
	if got := kindOf(continued(w, "a", tampered)); got != "invalid_params" {
		t.Errorf("tampered: %s", got)
	}
	if m := continued(w, "a", state); m.Text() != elicited {
		t.Errorf("the right one: %s", m.Raw)
	}
	if got := kindOf(continued(w, "a", state)); got != "continuation_lost" {
		t.Errorf("a second time: %s", got)
	}
}

func TestParkedCallsAreBounded(t *testing.T) {
	hubtest.Parallel(t)
	o := worldOptions{client: hubtest.ClientOptions{Capabilities: askable}, mixed: true}
	w := newWorld(t, cell{hubtest.Modern, "sse", false}, interviewSpec(), o)
	states := map[string]bool{}
	for range 16 {
		states[park(t, w, "a")] = true
	}
	m := w.call("elicit", `{"message":"a"}`)
	if got := kindOf(m); got != "limit" {
		t.Fatalf("the seventeenth: %s", m.Raw)
	}
	for state := range states {
		if m := continued(w, "a", state); m.Text() != elicited {
			t.Errorf("got %s", m.Raw)
		}
	}
	park(t, w, "b") // there is room again
}

// A legacy server that wants the user to visit an address first says so by an
// error; a modern client is asked to, and its retry is an ordinary call.
func TestAddressesOfALegacyErrorBecomeQuestions(t *testing.T) {
	hubtest.Parallel(t)
	spec := peer.Spec{Tools: []peer.Tool{{Name: "login", Behaviour: peer.Behaviour{Kind: peer.Error, Raw: `{"code":-32042,"message":"log in","data":{"elicitations":[{"mode":"url","elicitationId":"e1","url":"https://login.example/","message":"please"}]}}`}}}}
	o := worldOptions{client: hubtest.ClientOptions{Capabilities: bothModes}, mixed: true}
	w := newWorld(t, cell{hubtest.Modern, "stdio", false}, spec, o)
	m := w.call("login", `{}`)
	want := `{"resultType":"input_required","inputRequests":{"url1":{"method":"elicitation/create","params":{"mode":"url","url":"https://login.example/","message":"please"}}}}`
	if string(m.Result) != want {
		t.Errorf("got %s", m.Raw)
	}
}

// What belongs to a call reaches a client of the other era too.
func TestProgressAndLogCrossEras(t *testing.T) {
	hubtest.Parallel(t)
	spec := peer.Spec{Tools: []peer.Tool{{Name: "work", Behaviour: peer.Behaviour{Kind: peer.Progress, N: 3}}}}
	oneHub(t, spec, worldOptions{mixed: true}, func(t *testing.T, w *world) {
		meta := []hubtest.Meta{`"progressToken":"t\u0031"`}
		if w.era == hubtest.Legacy {
			if m := w.client.Call("logging/setLevel", `{"level":"debug"}`); m.Error != nil {
				t.Fatalf("set level: %s", m.Error)
			}
		} else {
			meta = append(meta, `"io.modelcontextprotocol/logLevel":"debug"`)
		}
		x := w.client.Go("tools/call", hubtest.ToolParams(w.name("up", "work"), ""), meta...)
		defer x.Close()
		progress, logs := 0, 0
		for {
			m, err := x.Read()
			if err != nil {
				t.Fatal(err)
			}
			if m.IsResponse() {
				break
			}
			switch m.Method {
			case "notifications/progress":
				if tok := hubtest.Decode[struct{ ProgressToken json.RawMessage }](m.Params).ProgressToken; string(tok) != `"t\u0031"` {
					t.Errorf("token %s", tok)
				}
				progress++
			case "notifications/message":
				logs++
			}
		}
		if progress != 3 || logs != 3 {
			t.Errorf("%d progress, %d log messages; want 3 and 3", progress, logs)
		}
	})
}
