package hub_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
)

// unknownTool reports whether an answer is that of a call of a tool that is not
// there.
func unknownTool(a hubtest.Answer) bool {
	return a.Status == http.StatusNotFound && strings.Contains(string(a.Body), "unknown_tool")
}

// asTools are requests of the API, by the tools that do the same.
var asTools = []struct{ tool, verb, path, body string }{
	{"plan_create", "PUT", "/api/v1/plans/echo", apiPlan},
	{"plan_execute", "POST", "/api/v1/runs", `{"plan":` + apiPlan + `}`},
	{"plan_execute", "POST", "/api/v1/runs", `{"plan":` + apiPlan + `,"dryRun":true}`},
	{"plan_debug", "POST", "/api/v1/runs", `{"plan":` + apiPlan + `,"paused":true}`},
	{"context_add", "PUT", "/api/v1/sessions/work/values/v", `2`},
}

// looks are those that only look, or end what is there. They are the owner's
// whatever becomes of the tools.
var looks = []struct{ tool, verb, path, body string }{
	{"plan_status", "GET", "/api/v1/runs", ""},
	{"context_list", "GET", "/api/v1/sessions/work", ""},
	{"context_get", "GET", "/api/v1/sessions/work/values/v", ""},
	{"context_get", "GET", "/api/v1/sessions/work/values/v/page", ""},
	{"context_get", "GET", "/api/v1/sessions/work/export", ""},
	{"context_remove", "DELETE", "/api/v1/sessions/work/values/v", ""},
}

// ruledHub is apiHub, and how its policy is replaced while it runs.
func ruledHub(t *testing.T) (apiClient, func(...config.Rule)) {
	t.Helper()
	var cfg config.Config
	c := apiHub(t, hubtest.Config(func(c *config.Config) { cfg = *c }))
	return c, func(all ...config.Rule) {
		t.Helper()
		cfg.Policy.Rules.Rules = all
		if _, err := c.hub.Reload(&cfg); err != nil {
			t.Fatal(err)
		}
	}
}

// The API does for nobody what the tool that does the same would not: by scope.
func TestAPIDoesNoMoreThanToolsByScope(t *testing.T) {
	hubtest.Parallel(t)
	owner := apiHub(t)
	all := tokenFor(t, owner.hub, "ann", "*")
	all.put("work", "v", `1`)
	narrow := tokenFor(t, owner.hub, "ann-narrow", "up")
	narrowed := owner.hub.Client(t, hubtest.ClientOptions{Token: narrow.token, Header: in("work")})
	if m := narrowed.Tool("plan_execute", `{"plan":"@v"}`); m.Error == nil {
		t.Errorf("the tool: %s", m.Raw)
	}
	for _, x := range append(asTools, looks...) {
		if a := narrow.do(x.verb, x.path, x.body); !unknownTool(a) {
			t.Errorf("%s %s without the scope of %s: %d %s", x.verb, x.path, x.tool, a.Status, a.Body)
		}
		if a := all.do(x.verb, x.path, x.body); a.Status != http.StatusOK {
			t.Errorf("%s %s with it: %d %s", x.verb, x.path, a.Status, a.Body)
		}
	}
	tool := hubtest.Decode[struct{ Tool string }](owner.ok("PUT", "/api/v1/plans/shown", apiPlan)).Tool
	owner.ok("POST", "/api/v1/plans/"+tool+"/share", `{"shared":true}`)
	if got := string(all.ok("GET", "/api/v1/plans", "")); !strings.Contains(got, tool) {
		t.Errorf("shared, and not listed: %s", got)
	}
	if got := string(narrow.ok("GET", "/api/v1/plans", "")); strings.Contains(got, tool) {
		t.Errorf("listed for who cannot call it: %s", got)
	}
	if a := narrow.do("GET", "/api/v1/plans/"+tool, ""); a.Status != http.StatusNotFound {
		t.Errorf("shown to who cannot call it: %d %s", a.Status, a.Body)
	}
	if a := narrow.do("PUT", "/api/v1/modules/up?session=own", `{"on":false}`); a.Status != http.StatusOK {
		t.Errorf("switched off in the own session: %d %s", a.Status, a.Body)
	}
	if a := narrow.do("PUT", "/api/v1/modules/up?session=own", `{"on":true}`); !unknownTool(a) {
		t.Errorf("switched on without module_load: %d %s", a.Status, a.Body)
	}
}

// The same by the policy, for the owner too, and by a switch.
func TestAPIDoesNoMoreThanToolsByPolicyAndSwitch(t *testing.T) {
	hubtest.Parallel(t)
	for name, rule := range map[string]config.Rule{
		"for all":  {Tools: []string{"plan", "context"}, Principals: []string{"*"}, Action: "deny"},
		"for some": {Tools: []string{"plan", "context"}, Principals: []string{"ann"}, Action: "deny"},
		"a switch": {},
	} {
		owner, rules := ruledHub(t)
		ann := tokenFor(t, owner.hub, "ann", "*")
		ann.put("work", "v", `1`)
		owner.put("work", "v", `1`)
		who := []apiClient{ann}
		if name != "for some" {
			who = append(who, owner)
		}
		if rule.Tools != nil {
			rules(rule)
		} else {
			owner.ok("PUT", "/api/v1/modules/plan", `{"on":false}`)
			owner.ok("PUT", "/api/v1/modules/context", `{"on":false}`)
		}
		for _, c := range who {
			for _, x := range asTools {
				if a := c.do(x.verb, x.path, x.body); !unknownTool(a) {
					t.Errorf("%s: %s %s, where %s is unknown: %d %s", name, x.verb, x.path, x.tool, a.Status, a.Body)
				}
			}
		}
		for _, x := range looks {
			if a := ann.do(x.verb, x.path, x.body); !unknownTool(a) {
				t.Errorf("%s: %s %s, where %s is unknown: %d %s", name, x.verb, x.path, x.tool, a.Status, a.Body)
			}
			if a := owner.do(x.verb, x.path, x.body); a.Status != http.StatusOK {
				t.Errorf("%s: the owner's %s %s: %d %s", name, x.verb, x.path, a.Status, a.Body)
			}
		}
	}
}

// A rule about arguments is about what the API is given too.
func TestAPIRunsAreJudgedByTheirArguments(t *testing.T) {
	hubtest.Parallel(t)
	owner, rule := ruledHub(t)
	run := hubtest.Decode[struct{ Run struct{ ID string } }](owner.ok("POST", "/api/v1/runs", `{"plan":`+apiPlan+`,"paused":true}`)).Run.ID
	rule(config.Rule{Tools: []string{"plan_debug"}, Action: "deny", Args: map[string]config.Cond{"action": {Is: []byte(`"continue"`)}}})
	if a := owner.do("POST", "/api/v1/runs/"+run+"/continue", `{}`); a.Status != http.StatusForbidden || !strings.Contains(string(a.Body), "policy") {
		t.Errorf("continued: %d %s", a.Status, a.Body)
	}
	owner.ok("POST", "/api/v1/runs/"+run+"/step", `{}`)
	owner.ok("POST", "/api/v1/runs/"+run+"/stop", `{}`)
}
