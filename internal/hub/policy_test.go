package hub_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/event"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/policy"
)

func policySpec() peer.Spec {
	return peer.Spec{Tools: []peer.Tool{
		{Name: "echo"},
		{Name: "wipe"},
		{Name: "write", RawDefinition: `{"name":"write","inputSchema":{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}}`},
		{Name: "look", RawDefinition: `{"name":"look","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`},
		{Name: "multi", Behaviour: peer.Behaviour{Kind: peer.Multi, N: 2}},
	}}
}

// ruled gives a hub rules: wipe is denied, write and multi are asked for.
func ruled(s *hubtest.Setup) {
	s.Config.Policy.Rules = config.Rules{Rules: []config.Rule{
		{Tools: []string{"up:write", "up__multi"}, Action: "ask", Reason: "it changes files"},
		{Tools: []string{"up:wip?"}, Action: "deny", Reason: "nobody wipes here"},
	}}
}

// attend makes somebody be there to be asked, until the test or leave ends it.
func attend(t *testing.T, h *hubtest.Hub, token string) (leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	there := make(chan struct{}, 1)
	go func() {
		defer close(done)
		transport := &http.Transport{}
		defer transport.CloseIdleConnections()
		for next := ""; ctx.Err() == nil; {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.URL+"/api/v1/approvals?wait=20s"+next, nil)
			if err != nil {
				return
			}
			req.Header.Set("Authorization", "Bearer "+token)
			resp, err := transport.RoundTrip(req)
			if err != nil {
				return
			}
			var page struct{ Next json.Number }
			err = json.NewDecoder(resp.Body).Decode(&page)
			resp.Body.Close()
			if err != nil {
				return
			}
			next = "&after=" + page.Next.String()
			select {
			case there <- struct{}{}:
			default:
			}
		}
	}()
	<-there // one who has just been there counts
	return func() {
		cancel()
		<-done
	}
}

// approvals are what waits.
func (c apiClient) approvals() []policy.Approval {
	c.t.Helper()
	return hubtest.Decode[struct{ Approvals []policy.Approval }](c.ok("GET", "/api/v1/approvals", "")).Approvals
}

// asked waits until exactly one approval waits.
func (c apiClient) asked() policy.Approval {
	c.t.Helper()
	var all []policy.Approval
	await.Until(c.t, "somebody is asked", func() bool { all = c.approvals(); return len(all) == 1 })
	return all[0]
}

func (c apiClient) decide(id, body string) {
	c.t.Helper()
	c.ok("POST", "/api/v1/approvals/"+id, body)
}

// refusal is what a refused caller is told, on either face: the kind and the text.
func refusal(m hubtest.Message) (kind, text string) {
	if m.Error != nil {
		return m.Fault().Data.Kind, string(m.Error)
	}
	var r struct {
		IsError bool
		Meta    map[string]struct {
			Data struct{ Kind string }
		} `json:"_meta"`
	}
	_ = json.Unmarshal(m.Result, &r)
	return r.Meta["stoa/error"].Data.Kind, string(m.Result)
}

func TestPolicyHoldsOnAllFaces(t *testing.T) {
	hubtest.Parallel(t)
	eachCell(t, policySpec(), worldOptions{edits: []hubtest.Edit{ruled}}, func(t *testing.T, w *world) {
		if kind, text := refusal(w.call("wipe", `{}`)); kind != "unknown_tool" || strings.Contains(text, "wipes here") {
			t.Errorf("denied, whatever the arguments are: %s", text)
		}
		if raw := string(w.client.Call("tools/list", "{}").Raw); strings.Contains(raw, "wipe") || !strings.Contains(raw, "write") {
			t.Errorf("listed: %s", raw)
		}
		kind, text := refusal(w.call("write", `{"path":"a"}`))
		if kind != "approval_required" || !strings.Contains(text, "stoa approvals watch") || !strings.Contains(text, "it changes files") {
			t.Errorf("asked for, and nobody is there: %s", text)
		}
		if m := w.call("echo", `{"a":1}`); m.Text() != `{"a":1}` {
			t.Errorf("allowed: %s", m.Raw)
		}
		if st := w.peerState(t); slices.Contains(st.Called, "wipe") || slices.Contains(st.Called, "write") {
			t.Errorf("the upstream was called: %v", st.Called)
		}
		api := apiClient{t, w.Hub, w.Hub.Token}
		defer attend(t, w.Hub, w.Hub.Token)()
		x := w.client.Go("tools/call", hubtest.ToolParams(w.name("up", "write"), `{"path":"a\u0062 <&>"}`))
		a := api.asked()
		if string(a.Args) != `{"path":"a\u0062 <&>"}` || a.Ref != "up:write" || a.Tool != "up__write" || a.Upstream != "up" || a.Principal != auth.LocalName || a.Reason != "it changes files" {
			t.Errorf("asked %+v", a)
		}
		api.decide(a.ID, `{"decision":"edit","args":{"path":"elsewhere"}}`)
		if m := x.Response(); m.Text() != `{"path":"elsewhere"}` {
			t.Errorf("edited: %s", m.Raw)
		}
		x = w.client.Go("tools/call", hubtest.ToolParams(w.name("up", "write"), `{"path":"b"}`))
		api.decide(api.asked().ID, `{"decision":"deny","reason":"use c"}`)
		if kind, text := refusal(x.Response()); kind != "denied" || !strings.Contains(text, "use c") {
			t.Errorf("denied by a person: %s", text)
		}
		// Who leaves takes the question along.
		x = w.client.Go("tools/call", hubtest.ToolParams(w.name("up", "write"), `{"path":"c"}`))
		gone := api.asked().ID
		x.Close()
		await.Until(t, "the question is withdrawn", func() bool { return len(api.approvals()) == 0 })
		if a := api.do("POST", "/api/v1/approvals/"+gone, `{"decision":"approve"}`); a.Status != 404 || !strings.Contains(string(a.Body), "aborted") {
			t.Errorf("what was withdrawn: %d %s", a.Status, a.Body)
		}
		if called := w.peerState(t).Called; slices.Index(called, "write") < 0 || slices.Index(called, "write") != len(called)-1 {
			t.Errorf("the upstream got %v", called)
		}
	})
}

// The upstream's time-out does not run while somebody thinks.
func TestThinkingTakesNoTimeOfTheCall(t *testing.T) {
	hubtest.Parallel(t)
	const bound = 500 * time.Millisecond
	w := newWorld(t, cell{hubtest.Modern, "stdio", true}, policySpec(), worldOptions{edits: []hubtest.Edit{ruled}, server: hubtest.Within("write", bound)})
	api := apiClient{t, w.Hub, w.Hub.Token}
	defer attend(t, w.Hub, w.Hub.Token)()
	// A machine may be too busy for what comes after, but not each time.
	await.NoError(t, "a call is answered that was approved late", func() error {
		x := w.client.Go("tools/call", hubtest.ToolParams(w.name("up", "write"), `{"path":"a"}`))
		a := api.asked()
		await.Until(t, "the time-out would be over", func() bool { return time.Since(a.Created) > 2*bound })
		api.decide(a.ID, `{"decision":"approve"}`) // which it would not take if the call had ended
		if m := x.Response(); m.Text() != `{"path":"a"}` {
			return errors.New(string(m.Raw))
		}
		return nil
	})
}

// Edited arguments pass the same checks as others.
func TestEditsAreChecked(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, hubtest.Stdio("up", policySpec()), ruled)
	api := apiClient{t, h, h.Token}
	defer attend(t, h, h.Token)()
	c := h.Client(t, hubtest.ClientOptions{})
	if kind, text := refusal(c.Tool("up__write", `{"path":7}`)); kind != "invalid_arguments" {
		t.Errorf("somebody was asked about what cannot be called: %s", text)
	}
	x := c.Go("tools/call", hubtest.ToolParams("up__write", `{"path":"a"}`))
	a := api.asked()
	for body, says := range map[string]string{
		`{"decision":"edit"}`:                         "missing",
		`{"decision":"edit","args":[1]}`:              "no JSON object",
		`{"decision":"edit","args":{"a":1,"a":2}}`:    "not JSON",
		`{"decision":"approve","args":{}}`:            "decision edit",
		`{"decision":"perhaps"}`:                      "approve, deny or edit",
		`{"decision":"approve","remember":"forever"}`: "once, session, tool or server",
		`{"decision":"approve","remember":"session"}`: "no session",
		`{"decision":"approve","remembr":"session"}`:  "remembr",
		`approve`: "cannot be read",
		`{"decision":"deny","reason":"` + long(5000) + `"}`: "may be 4096",
	} {
		if got := api.do("POST", "/api/v1/approvals/"+a.ID, body); got.Status != 400 || !strings.Contains(string(got.Body), says) {
			t.Errorf("%.80s: %d %s", body, got.Status, got.Body)
		}
	}
	api.decide(a.ID, `{"decision":"edit","args":{"path":8}}`)
	if kind, text := refusal(x.Response()); kind != "invalid_arguments" {
		t.Errorf("an edit that does not fit the schema: %s", text)
	}
}

func long(n int) string { return strings.Repeat("x", n) }

func TestApprovalsBelongToPrincipals(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, hubtest.Stdio("up", policySpec()), ruled)
	may := auth.Rights{auth.RightApprove}
	owner, ada, eve, without := apiClient{t, h, h.Token}, tokenWith(t, h, "ada", may, "up"), tokenWith(t, h, "eve", may, "*"), tokenFor(t, h, "zoe", "up")
	leave := attend(t, h, eve.token)
	c := h.Client(t, hubtest.ClientOptions{Token: ada.token})
	if kind, text := refusal(c.Tool("up__write", `{"path":"a"}`)); kind != "approval_required" {
		t.Errorf("eve attends to ada's calls: %s", text)
	}
	leave()
	// Who has no right to approve is not there to be asked, and cannot answer.
	leave = attend(t, h, without.token)
	zoe := h.Client(t, hubtest.ClientOptions{Token: without.token})
	if kind, text := refusal(zoe.Tool("up__write", `{"path":"a"}`)); kind != "approval_required" {
		t.Errorf("zoe attends to her own calls: %s", text)
	}
	leave()
	defer attend(t, h, ada.token)()
	x := c.Go("tools/call", hubtest.ToolParams("up__write", `{"path":"z"}`))
	a := ada.asked()
	ada.decide(a.ID, `{"decision":"approve"}`)
	if m := x.Response(); m.Text() != `{"path":"z"}` {
		t.Errorf("ada decides: %s", m.Raw)
	}
	x = c.Go("tools/call", hubtest.ToolParams("up__write", `{"path":"a"}`))
	a = ada.asked()
	if got := eve.approvals(); len(got) != 0 {
		t.Errorf("eve sees %+v", got)
	}
	if got := eve.do("POST", "/api/v1/approvals/"+a.ID, `{"decision":"approve"}`); got.Status != 404 || !strings.Contains(string(got.Body), "no such approval") {
		t.Errorf("eve decides: %d %s", got.Status, got.Body)
	}
	if got := eve.do("GET", "/api/v1/approvals?principal=ada", ""); got.Status != 403 {
		t.Errorf("eve asks for ada's: %d %s", got.Status, got.Body)
	}
	if got := owner.approvals(); len(got) != 1 || got[0].Principal != "ada" {
		t.Errorf("the owner sees %+v", got)
	}
	owner.decide(a.ID, `{"decision":"approve"}`)
	if m := x.Response(); m.Text() != `{"path":"a"}` {
		t.Errorf("%s", m.Raw)
	}
}

func TestDecisionsAreKept(t *testing.T) {
	hubtest.Parallel(t)
	data := t.TempDir() + "/data"
	session := func(name string) http.Header { return http.Header{"Stoa-Session": {name}} }
	h := hubtest.New(t, hubtest.Stdio("up", policySpec()), ruled, hubtest.Data(data))
	api := apiClient{t, h, h.Token}
	leave := attend(t, h, h.Token)
	in := func(h *hubtest.Hub, name string) string {
		kind, _ := refusal(h.Client(t, hubtest.ClientOptions{Header: session(name)}).Tool("up__write", `{"path":"a"}`))
		return kind
	}
	first := h.Client(t, hubtest.ClientOptions{Header: session("one")})
	x := first.Go("tools/call", hubtest.ToolParams("up__write", `{"path":"a"}`))
	api.decide(api.asked().ID, `{"decision":"approve","remember":"session"}`)
	if m := x.Response(); m.Text() != `{"path":"a"}` {
		t.Fatalf("%s", m.Raw)
	}
	if kind := in(h, "one"); kind != "" {
		t.Errorf("asked again in the session: %s", kind)
	}
	leave()
	h.Stop()
	h = hubtest.New(t, hubtest.Stdio("up", policySpec()), ruled, hubtest.Data(data), hubtest.Modules())
	api = apiClient{t, h, h.Token}
	if one, two := in(h, "one"), in(h, "two"); one != "" || two != "approval_required" {
		t.Errorf("after a restart: %q in the session, %q in another", one, two)
	}
	// What was said for a Session ends with it.
	api.put("one", "x", "1")
	api.ok("DELETE", "/api/v1/sessions/one", "")
	type list struct{ Remembered, Forgotten []policy.Remembered }
	await.Until(t, "it is forgotten", func() bool {
		return len(hubtest.Decode[list](api.ok("GET", "/api/v1/approvals/remembered", "")).Remembered) == 0
	})
	if kind := in(h, "one"); kind != "approval_required" {
		t.Errorf("in a new session of that name: %q", kind)
	}
	defer attend(t, h, h.Token)()
	x = h.Client(t, hubtest.ClientOptions{}).Go("tools/call", hubtest.ToolParams("up__write", `{"path":"a"}`))
	api.decide(api.asked().ID, `{"decision":"deny","remember":"server"}`)
	x.Response()
	kept := hubtest.Decode[list](api.ok("GET", "/api/v1/approvals/remembered", "")).Remembered
	if len(kept) != 1 || kept[0].Scope != policy.ForUpstream || kept[0].Upstream != "up" || kept[0].Approve || kept[0].By != auth.LocalName {
		t.Fatalf("remembered %+v", kept)
	}
	if kind := in(h, "two"); kind != "denied" {
		t.Errorf("a remembered denial: %q", kind)
	}
	if a := api.do("DELETE", "/api/v1/approvals/remembered/"+kept[0].ID+"x", ""); a.Status != 404 || !strings.Contains(string(a.Body), kept[0].ID) {
		t.Errorf("forget what is not there: %d %s", a.Status, a.Body)
	}
	if gone := hubtest.Decode[list](api.ok("DELETE", "/api/v1/approvals/remembered", "")).Forgotten; len(gone) != 1 {
		t.Errorf("forgotten %+v", gone)
	}
}

// A call in rounds is approved once, with the same arguments in each.
func TestRoundsAreApprovedOnce(t *testing.T) {
	hubtest.Parallel(t)
	for _, era := range []peer.Era{peer.EraModern, peer.EraLegacy} {
		for _, merged := range []bool{true, false} {
			c := cell{hubtest.Modern, "stdio", merged}
			t.Run(string(era)+"/"+c.String(), func(t *testing.T) {
				w := newWorld(t, c, policySpec(), worldOptions{edits: []hubtest.Edit{ruled}, mixed: era == peer.EraLegacy, client: hubtest.ClientOptions{Capabilities: askable}})
				api := apiClient{t, w.Hub, w.Hub.Token}
				leave := attend(t, w.Hub, w.Hub.Token)
				params := hubtest.ToolParams(w.name("up", "multi"), `{"message":"as written"}`)
				x := w.client.Go("tools/call", params)
				api.decide(api.asked().ID, `{"decision":"edit","args":{"message":"as edited"}}`)
				m := x.Response()
				leave()
				for range 2 {
					q := asks(t, m)
					if q.message != "as edited" {
						t.Fatalf("asked %q: %s", q.message, m.Raw)
					}
					m = w.client.Call("tools/call", strings.TrimSuffix(params, "}")+`,"requestState":`+hubtest.Quote(q.state)+`,"inputResponses":{`+hubtest.Quote(q.key)+`:{"action":"accept","content":{"name":"n"}}}}`)
				}
				if m.Error != nil || strings.Contains(string(m.Result), "input_required") || strings.Contains(string(m.Result), `"isError":true`) {
					t.Errorf("in the end: %s", m.Raw)
				}
				asked := 0
				records, _, _ := w.Events().After(0, 1000)
				for _, r := range records {
					if r.Type == event.PolicyAsked {
						asked++
					}
				}
				if asked != 1 {
					t.Errorf("asked %d times", asked)
				}
			})
		}
	}
}

func TestRulesChangeLive(t *testing.T) {
	hubtest.Parallel(t)
	up := hubtest.Stdio("up", policySpec())
	h := hubtest.New(t, up)
	c := h.Client(t, hubtest.ClientOptions{})
	if m := c.Tool("up__wipe", `{"a":1}`); m.Text() != `{"a":1}` {
		t.Fatalf("without rules: %s", m.Raw)
	}
	changes, err := h.Reload(setupOf(h, up, ruled))
	if err != nil || described(changes) != "policy changed" {
		t.Fatalf("%v, %v", changes, err)
	}
	if kind, text := refusal(c.Tool("up__wipe", `{}`)); kind != "unknown_tool" {
		t.Errorf("with rules: %s", text)
	}
	if _, err := h.Reload(setupOf(h, up)); err != nil {
		t.Fatal(err)
	}
	if m := c.Tool("up__wipe", `{"a":1}`); m.Text() != `{"a":1}` {
		t.Errorf("without rules again: %s", m.Raw)
	}
}

// A yes comes too late for what is denied or switched off by then.
func TestApprovedTooLate(t *testing.T) {
	hubtest.Parallel(t)
	h, web := keeping(t, planSpec(), hubtest.Config(func(c *config.Config) {
		c.Policy.Rules = config.Rules{Rules: []config.Rule{{Tools: []string{"up:echo"}, Action: "ask"}}}
	}))
	api := apiClient{t, h, h.Token}
	c := h.Client(t, hubtest.ClientOptions{})
	defer attend(t, h, h.Token)()
	x := c.Go("tools/call", hubtest.ToolParams("up__echo", `{"n":1}`))
	ask := api.asked()
	api.ok("PUT", "/api/v1/modules/up", `{"on":false}`)
	api.decide(ask.ID, `{"decision":"approve"}`)
	if _, m := x.Wait(); m.Error == nil && !strings.Contains(string(m.Result), `"isError":true`) || len(web.State().Called) > 0 {
		t.Errorf("called although it is off: %s, %v", m.Raw, web.State().Called)
	}
}
