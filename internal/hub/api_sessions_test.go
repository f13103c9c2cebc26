package hub_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/session"
)

// put stores a value in a Session of the client's principal.
func (c apiClient) put(session, name, data string) {
	c.t.Helper()
	if status, e := c.tool("context_add?session="+session, `{"name":`+hubtest.Quote(name)+`,"data":`+data+`}`); status != 200 || !*e.Success {
		c.t.Fatalf("context_add %s: %d %s", name, status, e.Error)
	}
}

func (c apiClient) sessions(path string) []string {
	c.t.Helper()
	list := hubtest.Decode[struct{ Sessions []session.Info }](c.ok("GET", path, ""))
	names := []string{}
	for _, s := range list.Sessions {
		names = append(names, s.Principal+"/"+s.Name)
	}
	return names
}

// A principal sees its own Sessions and no other's; the hub's owner sees all.
func TestAPISessionsOfPrincipals(t *testing.T) {
	hubtest.Parallel(t)
	owner := apiHub(t)
	ann, bob := tokenFor(t, owner.hub, "ann", "*"), tokenFor(t, owner.hub, "bob", "*")
	owner.put("mine", "v", `1`)
	ann.put("work", "v", `"ann's"`)
	bob.put("work", "v", `"bob's"`)
	ann.put("alone", "v", `3`)
	for _, test := range []struct {
		c    apiClient
		path string
		want []string
	}{
		{owner, "/api/v1/sessions", []string{"ann/alone", "ann/work", "bob/work", "local/mine"}},
		{owner, "/api/v1/sessions?principal=bob", []string{"bob/work"}},
		{ann, "/api/v1/sessions", []string{"ann/alone", "ann/work"}},
		{ann, "/api/v1/sessions?principal=ann", []string{"ann/alone", "ann/work"}},
	} {
		if diff := cmp.Diff(test.want, test.c.sessions(test.path)); diff != "" {
			t.Errorf("%s: %s", test.path, diff)
		}
	}
	if a := ann.do("GET", "/api/v1/sessions?principal=bob", ""); a.Status != http.StatusForbidden {
		t.Errorf("another's sessions: %d %s", a.Status, a.Body)
	}
	for _, verb := range []string{"GET", "DELETE"} {
		if a := ann.do(verb, "/api/v1/sessions/mine", ""); a.Status != http.StatusNotFound || strings.Contains(string(a.Body), "local") {
			t.Errorf("%s of another's session: %d %s", verb, a.Status, a.Body)
		}
	}
	if got := ann.ok("GET", "/api/v1/sessions/work/values/v", ""); string(got) != `"ann's"` {
		t.Errorf("a name that another has too: %s", got)
	}
	if a := owner.do("GET", "/api/v1/sessions/work", ""); a.Status != http.StatusBadRequest || !strings.Contains(string(a.Body), "ann, bob") {
		t.Errorf("a name that two have: %d %s", a.Status, a.Body)
	}
	if got := owner.ok("GET", "/api/v1/sessions/work/values/v?principal=bob", ""); string(got) != `"bob's"` {
		t.Errorf("by principal: %s", got)
	}
	if got := owner.ok("GET", "/api/v1/sessions/alone/values/v", ""); string(got) != `3` {
		t.Errorf("a name that one has: %s", got)
	}
}

func TestAPISession(t *testing.T) {
	hubtest.Parallel(t)
	c := apiHub(t)
	c.put("work", "rows", `[1, 2]`)
	c.put("work", "rows", `[1,2,3.0]`)
	c.put("work", "note", `"a note"`)
	shown := hubtest.Decode[struct {
		Session session.Info
		Values  []session.Value
	}](c.ok("GET", "/api/v1/sessions/work", ""))
	if s := shown.Session; s.Name != "work" || s.Values != 2 || s.Bytes == 0 || len(shown.Values) != 2 || shown.Values[1].Version != 2 {
		t.Errorf("shown: %+v", shown)
	}
	for query, want := range map[string]string{"": `[1,2,3.0]`, "?version=1": `[1, 2]`, "?version=2": `[1,2,3.0]`} {
		if got := c.ok("GET", "/api/v1/sessions/work/values/rows"+query, ""); string(got) != want {
			t.Errorf("version %q: %s", query, got)
		}
	}
	for _, test := range []struct {
		path   string
		status int
		says   string
	}{
		{"/api/v1/sessions/wrok", 404, "Did you mean work?"},
		{"/api/v1/sessions/work/values/row", 404, "Did you mean rows?"},
		{"/api/v1/sessions/work/values/rows?version=9", 404, "versions 1 to 2"},
		{"/api/v1/sessions/work/values/rows?version=x", 400, "no number"},
		{"/api/v1/sessions/work/values/rows?versoin=1", 400, "Did you mean version?"},
		{"/api/v1/sessions/wrok/export", 404, "Did you mean work?"},
	} {
		if a := c.do("GET", test.path, ""); a.Status != test.status || !strings.Contains(string(a.Body), test.says) {
			t.Errorf("%s: %d %s", test.path, a.Status, a.Body)
		}
	}
	c.ok("DELETE", "/api/v1/sessions/work/values/note", "")
	if a := c.do("GET", "/api/v1/sessions/work/values/note", ""); a.Status != http.StatusNotFound {
		t.Errorf("a value that was removed: %d", a.Status)
	}
	c.ok("DELETE", "/api/v1/sessions/work", "")
	if left := c.sessions("/api/v1/sessions"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if a := c.do("DELETE", "/api/v1/sessions/work", ""); a.Status != http.StatusNotFound || !strings.Contains(string(a.Body), "none at all") {
		t.Errorf("removed twice: %d %s", a.Status, a.Body)
	}
}

// An export has every value as it was stored, also those that are kept in
// parts, and what is known of their history.
func TestAPIExport(t *testing.T) {
	hubtest.Parallel(t)
	c := apiHub(t)
	want := map[string]string{"number": `12345678901234567890`, "odd": `{"b":1, "a":1.0,"é":"\u00e9"}`, "long": `"` + strings.Repeat("0123456789", 200_000) + `"`}
	for i := range 40 {
		want[fmt.Sprintf("v%d", i)] = fmt.Sprintf(`{"n":%d}`, i)
	}
	c.put("work", "number", `1`)
	for name, data := range want {
		c.put("work", name, data)
	}
	export := hubtest.Decode[struct {
		Stoa    int
		Session session.Info
		Values  []struct {
			Name    string
			Version int
			History []session.Value
			Data    json.RawMessage
		}
	}](c.ok("GET", "/api/v1/sessions/work/export", ""))
	got := map[string]string{}
	for _, v := range export.Values {
		got[v.Name] = string(v.Data)
		if wantVersion := map[bool]int{true: 2, false: 1}[v.Name == "number"]; v.Version != wantVersion || len(v.History) != wantVersion-1 {
			t.Errorf("%s: version %d, history %+v", v.Name, v.Version, v.History)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || export.Stoa != 1 || export.Session.Name != "work" {
		t.Errorf("export: %.2000s", diff)
	}
}

// The values of a Session are told in parts, and by what is searched for.
func TestAPIValuesByPage(t *testing.T) {
	hubtest.Parallel(t)
	c := apiHub(t)
	for i := range 7 {
		c.put("work", fmt.Sprintf("v%d", i), `1`)
	}
	c.put("work", "other", `2`)
	for query, want := range map[string]string{"": "other v0 v1 v2 v3 v4 v5 v6 of 8", "?limit=2&offset=2": "v1 v2 of 8", "?search=V&limit=3&offset=5": "v5 v6 of 7", "?search=context": " of 0", "?offset=9": " of 8"} {
		page := hubtest.Decode[struct {
			Values []struct{ Name string }
			Total  int
		}](c.ok("GET", "/api/v1/sessions/work"+query, ""))
		names := make([]string, len(page.Values))
		for i, v := range page.Values {
			names[i] = v.Name
		}
		if got := fmt.Sprintf("%s of %d", strings.Join(names, " "), page.Total); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	if a := c.do("GET", "/api/v1/sessions/work?limit=0", ""); a.Status != http.StatusBadRequest {
		t.Errorf("no values: %d %s", a.Status, a.Body)
	}
}

// To remove a Session ends what is under way in it, and what was decided for
// it: whoever uses the name next starts with nothing.
func TestAPIRemoveSessionUnderWay(t *testing.T) {
	hubtest.Parallel(t)
	c := apiHub(t, hubtest.Stdio("other", peer.Spec{Name: "other", Tools: []peer.Tool{{Name: "slow", Behaviour: peer.Behaviour{Kind: peer.Slow, For: time.Minute}}}}))
	await.Until(t, "the server is there", func() bool { return strings.Contains(string(c.ok("GET", "/api/v1/tools", "")), "other__slow") })
	if status, e := c.tool("task_start?session=work", `{"tool":"other__slow"}`); status != 200 || !*e.Success {
		t.Fatalf("task_start: %d %s", status, e.Error)
	}
	run := hubtest.Decode[struct{ Run struct{ ID string } }](c.ok("POST", "/api/v1/runs", `{"session":"work","plan":{"steps":[{"id":"a","tool":"other__slow"}]}}`)).Run.ID
	c.ok("POST", "/api/chat", `{"sessionId":"work","text":"echo hello"}`)
	c.put("work", "v", `1`)
	info := hubtest.Decode[struct {
		Session struct {
			Values, Runs, Tasks int
			Conversation        bool
		}
		Conversation struct{ Title string }
	}](c.ok("GET", "/api/v1/sessions/work", ""))
	if s := info.Session; s.Values != 1 || s.Runs != 1 || s.Tasks != 1 || !s.Conversation || info.Conversation.Title != "echo hello" {
		t.Errorf("before: %+v", info)
	}
	c.ok("DELETE", "/api/v1/sessions/work", "")
	if left := c.sessions("/api/v1/sessions"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if a := c.do("GET", "/api/v1/runs/"+run, ""); a.Status != http.StatusNotFound {
		t.Errorf("the run: %d %s", a.Status, a.Body)
	}
	for _, path := range []string{"/api/v1/tasks", "/api/chat"} {
		if got := string(c.ok("GET", path, "")); strings.Contains(got, `"work"`) {
			t.Errorf("%s: %s", path, got)
		}
	}
}

// Who uses the name of a removed Session at once keeps what it begins there.
func TestAPISessionBegunAnew(t *testing.T) {
	hubtest.Parallel(t)
	c := apiHub(t)
	begin := func() string {
		return hubtest.Decode[struct{ Run struct{ ID string } }](c.ok("POST", "/api/v1/runs", `{"session":"work","plan":{"steps":[{"id":"a","tool":"context_list"}]}}`)).Run.ID
	}
	for range 20 {
		c.put("work", "v", `1`)
		begin()
		c.ok("DELETE", "/api/v1/sessions/work", "")
		next := begin()
		if a := c.do("GET", "/api/v1/runs/"+next+"?wait=20s", ""); a.Status != 200 || !strings.Contains(string(a.Body), `"status":"done"`) {
			t.Fatalf("the run that was begun after the removal: %d %s", a.Status, a.Body)
		}
		c.ok("DELETE", "/api/v1/sessions/work", "")
	}
}
