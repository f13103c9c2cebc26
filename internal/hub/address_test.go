package hub_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// Servers send users to addresses. That they are asked is in the matrix; this
// is what belongs to it.

func addressSpec() peer.Spec {
	return peer.Spec{Tools: []peer.Tool{{Name: "echo"}, {Name: "visit", Behaviour: peer.Do(peer.Visit)}, {Name: "elicit", Behaviour: peer.Do(peer.Elicit)}}}
}

const bothModes = `{"elicitation":{"form":{},"url":{}}}`

// A legacy client is told when the user has been there, under the id that it
// was asked with.
func TestLegacyClientsHearThatTheUserWasThere(t *testing.T) {
	hubtest.Parallel(t)
	for _, transport := range []string{"stdio", "json", "sse"} {
		for _, merged := range []bool{true, false} {
			c := cell{hubtest.Legacy, transport, merged}
			t.Run(c.String(), func(t *testing.T) {
				w := newWorld(t, c, addressSpec(), worldOptions{client: hubtest.ClientOptions{Capabilities: bothModes}})
				x := w.client.Go("tools/call", hubtest.ToolParams(w.name("up", "visit"), ""))
				q := x.Await("elicitation/create")
				id := hubtest.Decode[struct{ ElicitationID string }](q.Params).ElicitationID
				w.client.Answer(q, "result", `{"action":"accept"}`)
				before, m := x.Wait()
				if len(before) != 1 || before[0].Method != "notifications/elicitation/complete" || id == "" ||
					hubtest.Decode[struct{ ElicitationID string }](before[0].Params).ElicitationID != id {
					t.Errorf("asked with id %q, then came %v", id, before)
				}
				if m.Text() != `{"action":"accept"}` {
					t.Errorf("in the end: %s", m.Raw)
				}
			})
		}
	}
}

// The modern era has neither the id nor the notice.
func TestModernClientsHearNoLegacyIds(t *testing.T) {
	hubtest.Parallel(t)
	for _, transport := range []string{"stdio", "json", "sse"} {
		t.Run(transport, func(t *testing.T) {
			o := worldOptions{mixed: true, client: hubtest.ClientOptions{Capabilities: bothModes}}
			w := newWorld(t, cell{hubtest.Modern, transport, true}, addressSpec(), o)
			m := w.call("visit", "")
			r := hubtest.Decode[struct{ ResultType, RequestState string }](m.Result)
			if r.ResultType != "input_required" || strings.Contains(string(m.Raw), "elicitationId") {
				t.Fatalf("at first: %s", m.Raw)
			}
			params := strings.TrimSuffix(hubtest.ToolParams("up__visit", ""), "}") + `,"inputResponses":{"q1":{"action":"accept"}},"requestState":` + hubtest.Quote(r.RequestState) + "}"
			before, m := w.client.Go("tools/call", params, `"progressToken":1`, `"io.modelcontextprotocol/logLevel":"debug"`).Wait()
			if len(before) > 0 || m.Text() != `{"action":"accept"}` {
				t.Errorf("in the end: %s after %v", m.Raw, before)
			}
		})
	}
}

// Who declared forms only is not sent to an address, whatever the connection
// that it shares has declared; who declared no mode can be asked by forms.
func TestModesOfElicitationAreKept(t *testing.T) {
	hubtest.Parallel(t)
	for _, mixed := range []bool{false, true} {
		t.Run(fmt.Sprintf("mixed %v", mixed), func(t *testing.T) {
			oneHub(t, addressSpec(), worldOptions{mixed: mixed}, func(t *testing.T, w *world) {
				for _, capabilities := range []string{`{"elicitation":{}}`, `{"elicitation":{"form":{}}}`} {
					c := w.Hub.Client(t, hubtest.ClientOptions{Era: w.era, Face: w.face("up"), Capabilities: capabilities})
					m, asked, err := converse(c, w.name("up", "visit"), "")
					if err != nil || len(asked) > 0 || !strings.Contains(string(m.Raw), "apability") && !strings.Contains(string(m.Raw), "does not support") {
						t.Errorf("%s: visit: %s, %v, asked %q", capabilities, m.Raw, err, asked)
					}
					if m, _, err := converse(c, w.name("up", "elicit"), ""); err != nil || m.Text() != elicited {
						t.Errorf("%s: elicit: %s, %v", capabilities, m.Raw, err)
					}
				}
			})
		})
	}
}
