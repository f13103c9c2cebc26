package blackbox

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A3: a plan that somebody publishes is a tool of that somebody alone, and
// lends nobody rights.

// publish makes a plan a tool of whoever has the token, and returns its name.
func (h *hub) publish(t testing.TB, token, name string, plan object) string {
	t.Helper()
	got := h.tool(t, "/mcp", token, "plan_create", object{"plan": plan, "publish": name})
	var answer struct {
		Result struct {
			StructuredContent struct {
				Success bool
				Data    struct{ Tool string }
			}
		}
	}
	if err := json.Unmarshal([]byte(got.text), &answer); err != nil || !answer.Result.StructuredContent.Success {
		t.Fatalf("publish: %s", got.text)
	}
	if tool := answer.Result.StructuredContent.Data.Tool; tool != "" {
		return tool
	}
	return "plan__" + name // older hubs do not say it
}

// missing is what a call of a tool that does not exist is answered, with the
// name of the tool in place of that of the one that there is not.
func (h *hub) missing(t testing.TB, path, token, name string) string {
	t.Helper()
	const none = "plan__none-abcdef"
	return strings.ReplaceAll(h.tool(t, path, token, none, object{}).text, none, name)
}

func TestPublishedPlanIsItsPublishersAlone(t *testing.T) {
	t.Parallel()
	files, l := upstream(t)
	h := serve(t, object{"files": files})
	bob, eve, all := h.token(t, "bob", "--scope", "plan"), h.token(t, "eve", "--scope", "plan"), h.token(t, "all")
	tool := h.publish(t, bob, "tidy", planOf(step(filepath.Join(t.TempDir(), "a"))))

	if !slices.Contains(h.names(t, "/mcp", bob), tool) {
		t.Errorf("the publisher does not see %s", tool)
	}
	mentions(t, "the publisher's plans", h.get(t, "/api/v1/plans", bob).text, tool)
	for who, token := range map[string]string{"tokenless": "", "eve": eve, "all": all} {
		for _, path := range []string{"/mcp", "/s/there/mcp", "/mcps/plan/mcp"} {
			if names := h.names(t, path, token); slices.ContainsFunc(names, func(n string) bool { return strings.Contains(n, "tidy") }) {
				t.Errorf("%s sees bob's plan at %s: %v", who, path, names)
			}
			if got, want := h.tool(t, path, token, tool, object{}).text, h.missing(t, path, token, tool); got != want {
				t.Errorf("%s calls bob's plan at %s: %s, want as for a name that is none: %s", who, path, clip(got), want)
			}
		}
		if token == "" {
			continue
		}
		lacks(t, who+": plans", h.get(t, "/api/v1/plans", token).text, "tidy")
		lacks(t, who+": tools", h.get(t, "/api/v1/tools?limit=500", token).text, "tidy")
		for _, path := range []string{"/api/v1/plans/" + tool, "/api/v1/plans/tidy"} {
			if got := h.get(t, path, token); got.status != http.StatusNotFound {
				t.Errorf("%s: %s: %d %s", who, path, got.status, got.text)
			}
			if got := h.send(t, http.MethodDelete, path, token, nil, nil); got.status != http.StatusNotFound {
				t.Errorf("%s: DELETE %s: %d %s", who, path, got.status, got.text)
			}
		}
	}
	lacks(t, "the chat's tools", h.say(t, h.owner, "list tools").Text, "tidy")
	// By a detour it is not there either.
	run := h.tool(t, "/mcp", all, "plan_execute", object{"plan": planOf(object{"id": "a", "tool": tool})})
	refused(t, "a plan with bob's plan as a step", run)
	refused(t, "the publisher's own run, whose step is out of its scope", h.tool(t, "/mcp", bob, tool, object{}))
	l.want(t, "write", 0)
}

// Two may take one name. Neither stands in the other's way, nor takes the
// other's place.
func TestPublishedNamesDoNotClash(t *testing.T) {
	t.Parallel()
	files, l := upstream(t)
	h := serve(t, object{"files": files})
	bob, eve := h.token(t, "bob"), h.token(t, "eve")
	folder := t.TempDir()
	mine := h.publish(t, "", "tidy", planOf(step(filepath.Join(folder, "local"))))
	bobs := h.publish(t, bob, "tidy", planOf(step(filepath.Join(folder, "bob"))))
	eves := h.publish(t, eve, "tidy", planOf(step(filepath.Join(folder, "eve"))))
	if mine != "plan__tidy" || mine == bobs || bobs == eves || mine == eves {
		t.Errorf("the tools are %s, %s and %s", mine, bobs, eves)
	}
	for token, own := range map[string]string{"": mine, bob: bobs, eve: eves} {
		var names []string
		for _, n := range h.names(t, "/mcp", token) {
			if strings.HasPrefix(n, "plan__") {
				names = append(names, n)
			}
		}
		if !slices.Equal(names, []string{own}) {
			t.Errorf("%v are listed, want %s alone", names, own)
		}
	}
	h.tool(t, "/mcp", bob, bobs, object{})
	if !exists(filepath.Join(folder, "bob")) || l.count(t, "write") != 1 {
		t.Error("bob's plan did another's work")
	}
}

// share shows a plan to everybody, or no longer.
func (h *hub) share(t testing.TB, token, plan string, on bool) reply {
	t.Helper()
	return h.post(t, "/api/v1/plans/"+plan+"/share", token, object{"shared": on})
}

func TestOnlyTheOwnerSharesPlans(t *testing.T) {
	t.Parallel()
	files, l := upstream(t)
	h := serve(t, object{"files": files})
	bob, eve := h.token(t, "bob"), h.token(t, "eve")
	plan := planOf(object{"id": "a", "tool": "files__read", "args": object{"path": "x"}})
	tool := h.publish(t, bob, "look", plan)
	for who, token := range map[string]string{"bob": bob, "eve": eve} {
		got := h.share(t, token, tool, true)
		if got.status != http.StatusForbidden && got.status != http.StatusNotFound {
			t.Errorf("%s shares: %d %s", who, got.status, got.text)
		}
		if _, err := h.run(t, "plan", "share", tool, "--data", h.data, "--config", h.config, "--hub", "http://"+h.address, "--token", token); err == nil {
			t.Errorf("%s shared by the command", who)
		}
	}
	if slices.Contains(h.names(t, "/mcp", eve), tool) {
		t.Fatal("eve sees a plan that was not shared")
	}
	if out, err := h.run(t, "plan", "share", tool, "--data", h.data, "--config", h.config); err != nil {
		t.Fatalf("the owner cannot share: %v %s", err, out)
	}
	if !slices.Contains(h.names(t, "/mcp", eve), tool) {
		t.Error("eve does not see a plan that was shared")
	}
	h.tool(t, "/mcp", eve, tool, object{})
	l.want(t, "read", 1)
	if got := h.send(t, http.MethodDelete, "/api/v1/plans/"+tool, eve, nil, nil); got.status/100 == 2 {
		t.Errorf("eve took bob's plan back: %d", got.status)
	}
	// What is published under the name afterwards is not what was shared.
	h.publish(t, bob, "look", planOf(step(filepath.Join(t.TempDir(), "a"))))
	for who, token := range map[string]string{"eve": eve, "tokenless": ""} {
		if slices.Contains(h.names(t, "/mcp", token), tool) {
			t.Errorf("%s sees what bob published over a shared plan", who)
		}
		refused(t, who+" calls what bob published over a shared plan", h.tool(t, "/mcp", token, tool, object{}))
	}
	l.want(t, "write", 0)
	if got := h.share(t, h.owner, tool, true); got.status/100 != 2 {
		t.Errorf("the owner shares: %d %s", got.status, got.text)
	}
	if got := h.share(t, h.owner, tool, false); got.status/100 != 2 || slices.Contains(h.names(t, "/mcp", eve), tool) {
		t.Errorf("the owner ends the sharing: %d %s", got.status, got.text)
	}
}

// A shared plan reaches what both may use, so that neither lends the other
// anything.
func TestSharedPlanReachesWhatBothMay(t *testing.T) {
	t.Parallel()
	files, l := upstream(t)
	other, o := upstream(t)
	h := serve(t, object{"files": files, "other": other})
	bob := h.token(t, "bob", "--scope", "plan", "--scope", "other")
	eve := h.token(t, "eve", "--scope", "plan", "--scope", "files")
	folder := t.TempDir()
	intoFiles := h.publish(t, bob, "files", planOf(step(filepath.Join(folder, "files"))))
	intoOther := h.publish(t, bob, "other", planOf(object{"id": "a", "tool": "other__write", "args": object{"path": filepath.Join(folder, "other")}}))
	for _, tool := range []string{intoFiles, intoOther} {
		if got := h.share(t, h.owner, tool, true); got.status/100 != 2 {
			t.Fatalf("share: %d %s", got.status, got.text)
		}
	}
	for who, token := range map[string]string{"the owner": h.owner, "tokenless": "", "eve": eve, "bob": bob} {
		refused(t, who+" runs a step that bob may not make", h.tool(t, "/mcp", token, intoFiles, object{}))
	}
	l.want(t, "write", 0)
	refused(t, "eve runs a step that eve may not make", h.tool(t, "/mcp", eve, intoOther, object{}))
	o.want(t, "write", 0)
	h.tool(t, "/mcp", "", intoOther, object{})
	o.want(t, "write", 1)
}

// A plan that a model wrote is a model's work, whoever starts it later.
func TestPlanOfAModelStaysAModels(t *testing.T) {
	t.Parallel()
	files, l := upstream(t)
	h := serve(t, object{"files": files})
	path := filepath.Join(t.TempDir(), "a")
	h.say(t, h.owner, callOf("plan_create", object{"plan": planOf(step(path)), "publish": "tidy"}))
	for name, got := range map[string]reply{
		"by MCP":   h.tool(t, "/mcp", "", "plan__tidy", object{}),
		"by owner": h.tool(t, "/mcp", h.owner, "plan__tidy", object{}),
		"by API":   h.post(t, "/api/tools/plan__tidy", h.owner, object{}),
	} {
		mentions(t, name, got.text, "approval_required", "APPROVAL_REQUIRED", "a person has to allow it")
		l.want(t, "write", 0)
	}
	h.attend(t, h.owner)
	running := h.background(http.MethodPost, "/mcp", "", rpc("tools/call", object{"name": "plan__tidy", "arguments": object{}}))
	h.approve(t, h.asked(t, "files__write", running).ID)
	<-running
	l.want(t, "write", 1)
	// What the person publishes over it is the person's own again.
	h.publish(t, "", "tidy", planOf(step(path)))
	h.tool(t, "/mcp", "", "plan__tidy", object{})
	l.want(t, "write", 2)
}

// Who runs a run's plan again by its id has no more rights for it than the run
// had: what a model wrote or began is a model's work then, too.
func TestPlanRunAgainIsBoundAsBefore(t *testing.T) {
	t.Parallel()
	files, l := upstream(t)
	h := serve(t, object{"files": files})
	path := filepath.Join(t.TempDir(), "a")
	h.say(t, h.owner, callOf("plan_create", object{"plan": planOf(step(path)), "publish": "tidy"}))
	for name, begin := range map[string]func(){
		"a plan that a model published": func() { h.tool(t, "/mcp", "", "plan__tidy", object{}) },
		"a plan that a model ran":       func() { h.say(t, h.owner, callOf("plan_execute", object{"plan": planOf(step(path))})) },
	} {
		known := map[string]bool{}
		for _, r := range h.runs(t) {
			known[r.ID] = true
		}
		begin()
		id := ""
		for _, r := range h.runs(t) {
			if !known[r.ID] {
				id = r.ID
			}
		}
		if id == "" {
			t.Fatalf("%s: there is no run", name)
		}
		for way, again := range map[string]func() string{
			"plan_execute": func() string { return h.tool(t, "/mcp", "", "plan_execute", object{"plan": id}).text },
			"as the owner": func() string { return h.tool(t, "/mcp", h.owner, "plan_execute", object{"plan": id}).text },
			"in a batch": func() string {
				return h.tool(t, "/mcp", "", "tools_batch", object{"calls": list{object{"tool": "plan_execute", "arguments": object{"plan": id}}}}).text
			},
			"by POST": func() string {
				var begun struct{ Run struct{ ID string } }
				if got := h.post(t, "/api/v1/runs", h.owner, object{"plan": id}); json.Unmarshal([]byte(got.text), &begun) != nil || begun.Run.ID == "" {
					return got.text
				}
				return h.quiet(t, begun.Run.ID)
			},
			"by stoa plan run": func() string {
				out, _ := h.run(t, "plan", "run", id, "--data", h.data, "--config", h.config)
				return out
			},
		} {
			mentions(t, name+", "+way, again(), "approval_required", "APPROVAL_REQUIRED", "a person has to allow it")
			l.want(t, "write", 0)
		}
	}
	if exists(path) {
		t.Error("the file was written though nobody approved")
	}
}
