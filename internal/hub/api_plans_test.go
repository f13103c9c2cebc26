package hub_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/plan"
	"github.com/stoahub/stoa/internal/plan/published"
)

// runPage is what the API answers about a run.
type runPage struct {
	Run  plan.View
	Next *plan.Inspection
	Note string
}

func (c apiClient) run(verb, path, body string) runPage {
	c.t.Helper()
	return hubtest.Decode[runPage](c.ok(verb, "/api/v1/runs"+path, body))
}

const apiPlan = `{"inputs":[{"name":"text","default":"a<b"}],"steps":[{"id":"one","tool":"up__echo","args":{"text":"@text","big":12345678901234567890}},{"id":"two","tool":"up__echo","args":{"all":"@one"}}],"outputs":{"said":"@two"}}`

func TestAPIRuns(t *testing.T) {
	hubtest.Parallel(t)
	c := apiHub(t)
	p := c.run("POST", "?wait=30s", `{"session":"work","plan":`+apiPlan+`,"breakpoints":["two"],"options":{"retries":0,"maxParallel":2}}`)
	if p.Run.Status != plan.Paused || !p.Run.Settled || p.Run.Options.MaxParallel != 2 || p.Next == nil || string(p.Next.Args) != `{"all":{"text":"a<b","big":12345678901234567890}}` {
		t.Fatalf("begun: %+v %+v", p.Run, p.Next)
	}
	id := p.Run.ID
	if p = c.run("GET", "/current?results=true&plan=true&context=true&session=work", ""); p.Run.ID != id || p.Run.Plan == nil || string(p.Run.Context["text"]) != `"a<b"` {
		t.Errorf("looked at: %+v", p.Run)
	}
	if p = c.run("POST", "/"+id+"/inspect", `{"step":"one"}`); p.Next == nil || p.Next.Step != "one" {
		t.Errorf("inspected: %+v", p.Next)
	}
	fork := c.run("POST", "/"+id+"/set", `{"step":"one","value":null}`)
	if fork.Run.ID == id || fork.Run.From == nil || fork.Run.From.Run != id || !strings.Contains(fork.Note, "a fork of "+id) {
		t.Fatalf("forked: %+v %q", fork.Run, fork.Note)
	}
	c.ok("POST", "/api/v1/runs/"+fork.Run.ID+"/break", `{}`)
	if p = c.run("POST", "/"+fork.Run.ID+"/continue?wait=30s&results=true", ``); p.Run.Status != plan.Finished || string(p.Run.Outputs["said"]) != `{"all":null}` {
		t.Errorf("gone on: %+v", p.Run)
	}
	d := hubtest.Decode[plan.Comparison](c.ok("GET", "/api/v1/runs/"+id+"/compare?with="+fork.Run.ID, ""))
	if d.Same || len(d.Differences) != 2 || d.Differences[1].States != [2]string{"pending", "done"} {
		t.Errorf("compared: %+v", d)
	}
	if n := len(hubtest.Decode[struct{ Runs []plan.Summary }](c.ok("GET", "/api/v1/runs?session=work", "")).Runs); n != 2 {
		t.Errorf("there are %d runs", n)
	}
	a := c.do("GET", "/api/v1/runs/"+fork.Run.ID+"/journal", "")
	lines := bytes.Split(bytes.TrimSpace(a.Body), []byte("\n"))
	for i, line := range lines {
		var e plan.Event
		if err := json.Unmarshal(line, &e); err != nil || e.N != i+1 {
			t.Errorf("line %d of the journal is %s (%v)", i, line, err)
		}
	}
	if a.Header.Get("Content-Type") != "application/x-ndjson" || len(lines) < 5 || !bytes.Contains(lines[len(lines)-1], []byte(`"status":"done"`)) {
		t.Errorf("the journal: %s\n%s", a.Header, a.Body)
	}
}

// A page asks for no more than it shows: some runs, the result of one step, and what is new in a journal.
func TestAPIRunsInParts(t *testing.T) {
	hubtest.Parallel(t)
	c := apiHub(t)
	id := c.run("POST", "?wait=30s", `{"session":"work","plan":`+apiPlan+`}`).Run.ID
	fork := c.run("POST", "/"+id+"/fork", `{"inputs":{"text":"other"}}`)
	if fork.Run.From == nil || fork.Run.From.Reason != "other inputs: text" || fork.Run.Steps[0].State != "pending" {
		t.Errorf("forked: %+v", fork.Run)
	}
	list := hubtest.Decode[struct {
		Runs  []plan.Summary
		Total int
	}](c.ok("GET", "/api/v1/runs?limit=1&offset=1", ""))
	if len(list.Runs) != 1 || list.Runs[0].ID != id || list.Total != 2 {
		t.Errorf("the second run: %+v", list)
	}
	for query, want := range map[string]int{"?status=done": 1, "?status=paused,done": 2, "?status=failed,stopped": 0, "?within=1h": 2, "?within=1ns": 1, "?within=1ns&status=done": 0} {
		if got := hubtest.Decode[struct{ Total int }](c.ok("GET", "/api/v1/runs"+query, "")); got.Total != want {
			t.Errorf("%s: %d runs, want %d", query, got.Total, want)
		}
	}
	p := c.run("GET", "/"+id+"?results=true&step=two", "")
	if p.Run.Steps[0].Result != nil || p.Run.Steps[1].Result == nil || p.Run.Outputs != nil {
		t.Errorf("one result: %+v", p.Run.Steps)
	}
	whole := bytes.Split(bytes.TrimSpace(c.do("GET", "/api/v1/runs/"+id+"/journal", "").Body), []byte("\n"))
	rest := bytes.Split(bytes.TrimSpace(c.do("GET", "/api/v1/runs/"+id+"/journal?after=2", "").Body), []byte("\n"))
	if len(rest) != len(whole)-2 || !bytes.Equal(rest[0], whole[2]) {
		t.Errorf("after 2 of %d entries there are %d, the first %s", len(whole), len(rest), rest[0])
	}
	for path, says := range map[string]string{"?limit=0": "no number from 1", "?status=done,halted": "There are: done, failed", "?within=-1h": "no time such as", "/" + id + "?results=true&step=tow": "has no step tow", "/" + id + "/journal?after=x": "no number from 0"} {
		if a := c.do("GET", "/api/v1/runs"+path, ""); a.Status != http.StatusBadRequest || !strings.Contains(string(a.Body), says) {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
	}
}

// Plans that sessions keep are found, whichever way they came there; what only looks like one is not told of.
func TestAPISavedPlans(t *testing.T) {
	hubtest.Parallel(t)
	owner := apiHub(t)
	ann := tokenFor(t, owner.hub, "ann", "*")
	keep := func(who apiClient, name string) {
		t.Helper()
		if status, e := who.tool("plan_create", `{"session":"work","plan":`+apiPlan+`,"saveAs":"`+name+`"}`); status != http.StatusOK {
			t.Fatalf("plan_create: %d %+v", status, e)
		}
	}
	keep(ann, "made")
	keep(ann, "later")
	keep(owner, "made")
	ann.ok("PUT", "/api/v1/sessions/work/values/later", `{"when":"later","steps":"many","plan":1}`)
	owner.ok("PUT", "/api/v1/sessions/work/values/made", `{"plan":`+apiPlan+`}`) // as plan_create answers
	type saved struct {
		Saved []struct {
			Name, Session, Principal string
			Own                      bool
			Steps                    int
			Inputs                   []plan.Input
		}
		More bool
	}
	got := hubtest.Decode[saved](owner.ok("GET", "/api/v1/plans?saved=true", ""))
	if len(got.Saved) != 2 || got.More || got.Saved[0].Name != "made" || !got.Saved[0].Own || got.Saved[0].Steps != 2 || got.Saved[1].Name != "made" || got.Saved[1].Own || got.Saved[1].Principal != "ann" || got.Saved[1].Steps != 2 || got.Saved[1].Inputs[0].Name != "text" {
		t.Errorf("the owner sees %+v", got)
	}
	if got := hubtest.Decode[saved](ann.ok("GET", "/api/v1/plans?saved=true", "")); len(got.Saved) != 1 || got.Saved[0].Name != "made" || !got.Saved[0].Own {
		t.Errorf("ann sees %+v", got)
	}
	if got := string(ann.ok("GET", "/api/v1/plans", "")); strings.Contains(got, "saved") {
		t.Errorf("nobody asked for them: %s", got)
	}
	if a := ann.do("GET", "/api/v1/plans?saved=all", ""); a.Status != http.StatusBadRequest {
		t.Errorf("saved=all: %d %s", a.Status, a.Body)
	}
}

// Who waits is told of each event, and at once where nothing more can happen.
func TestAPIRunWaits(t *testing.T) {
	hubtest.Parallel(t)
	c := apiHub(t)
	p := c.run("POST", "", `{"plan":`+apiPlan+`,"paused":true}`)
	if p.Run.Session == "" || p.Run.Status != plan.Paused {
		t.Fatalf("begun: %+v", p.Run)
	}
	if p = c.run("GET", "/"+p.Run.ID+"?wait=60s", ""); !p.Run.Settled {
		t.Errorf("a paused run: %+v", p.Run)
	}
	c.run("POST", "/"+p.Run.ID+"/continue", "")
	for n := p.Run.Events; !p.Run.Status.Over(); n = p.Run.Events {
		if p = c.run("GET", "/"+p.Run.ID+"?wait=60s&after="+strconv.Itoa(n), ""); p.Run.Events <= n {
			t.Fatalf("nothing happened after event %d: %+v", n, p.Run)
		}
	}
}

func TestAPIRunsOfPrincipals(t *testing.T) {
	hubtest.Parallel(t)
	owner := apiHub(t)
	ann, bob := tokenFor(t, owner.hub, "ann", "*"), tokenFor(t, owner.hub, "bob", "*")
	id := ann.run("POST", "?wait=30s", `{"session":"work","plan":`+apiPlan+`,"breakpoints":["two"]}`).Run.ID
	if a := bob.do("GET", "/api/v1/runs/"+id, ""); a.Status != http.StatusNotFound || strings.Contains(string(a.Body), "There are: run_") {
		t.Errorf("another's run: %d %s", a.Status, a.Body)
	}
	for _, path := range []string{"/stop", "/fork", "/inspect"} {
		if a := bob.do("POST", "/api/v1/runs/"+id+path, `{"step":"one"}`); a.Status != http.StatusNotFound {
			t.Errorf("another's run, %s: %d %s", path, a.Status, a.Body)
		}
	}
	if a := bob.do("GET", "/api/v1/runs?principal=ann", ""); a.Status != http.StatusForbidden {
		t.Errorf("another's runs: %d %s", a.Status, a.Body)
	}
	if a := bob.do("POST", "/api/v1/runs", `{"session":"work","plan":"`+id+`"}`); a.Status == http.StatusOK {
		t.Errorf("another's plan: %s", a.Body)
	}
	if p := owner.run("POST", "/"+id+"/stop?wait=30s", "{}"); p.Run.Status != plan.Stopped || p.Run.Principal != "ann" {
		t.Errorf("the owner stops it: %+v", p.Run)
	}
}

func TestAPIRunMistakes(t *testing.T) {
	hubtest.Parallel(t)
	c := apiHub(t)
	id := c.run("POST", "?wait=30s", `{"plan":`+apiPlan+`}`).Run.ID
	for _, test := range []struct{ verb, path, body, says string }{
		{"POST", "", `{}`, "no plan is given"},
		{"POST", "", `{"plan":` + apiPlan + `,"break":[]}`, `unknown field \"break\"`},
		{"POST", "", `{"plan":` + apiPlan + `,"breakpoints":[{"step":"one","iff":{}}]}`, "a breakpoint is the id of a step"},
		{"POST", "", `{"plan":` + apiPlan + `,"breakpoints":["thre"]}`, "there is no step thre"},
		{"POST", "", `{"plan":` + apiPlan + `,"inputs":{"txt":1}}`, `"pointer":"/inputs/txt"`},
		{"POST", "", `{"plan":{"steps":[{"id":"a","tool":"up__ecko"}]},"dryRun":true}`, `"pointer":"/steps/0/tool"`},
		{"POST", "", `{"plan":"@none"}`, "bound to none"},
		{"POST", "?wait=2h", `{"plan":` + apiPlan + `,"paused":true}`, "no time up to 60s"},
		{"POST", "/" + id + "/continue", `{}`, "the run is over"},
		{"POST", "/" + id + "/jump", `{}`, "there is no action"},
		{"POST", "/" + id + "/fork", `{}`, "none is named"},
		{"POST", "/" + id + "/set", `{"step":"one"}`, "set needs a value"},
		{"GET", "/" + id + "?resluts=true", "", "Did you mean results?"},
		{"GET", "/" + id + "?results=perhaps", "", "neither true nor false"},
	} {
		a := c.do(test.verb, "/api/v1/runs"+test.path, test.body)
		if a.Status < 400 || a.Status >= 500 || !strings.Contains(string(a.Body), test.says) {
			t.Errorf("%s %s %s: %d %s, want %s", test.verb, test.path, test.body, a.Status, a.Body, test.says)
		}
	}
	if a := c.do("GET", "/api/v1/runs/run_x", ""); a.Status != http.StatusNotFound {
		t.Errorf("no such run: %d %s", a.Status, a.Body)
	}
}

// A published plan is its publisher's. The owner alone can show it to others.
func TestAPIPublishedPlans(t *testing.T) {
	hubtest.Parallel(t)
	owner := apiHub(t)
	ann, bob := tokenFor(t, owner.hub, "ann", "*"), tokenFor(t, owner.hub, "bob", "*")
	tool := hubtest.Decode[struct{ Tool string }](ann.ok("PUT", "/api/v1/plans/echo", apiPlan)).Tool
	if status, e := ann.tool(tool, `{"text":"hi"}`); status != 200 || !strings.Contains(string(e.Data), `"text":"hi"`) {
		t.Errorf("called by its publisher: %d %+v", status, e)
	}
	for name, other := range map[string]apiClient{"bob": bob, "the owner": owner} {
		if status, e := other.tool(tool, `{"text":"hi"}`); status != http.StatusNotFound || e.Code != "UNKNOWN_TOOL" {
			t.Errorf("called by %s: %d %+v", name, status, e)
		}
	}
	if got := string(bob.ok("GET", "/api/v1/plans", "")); strings.Contains(got, "echo") {
		t.Errorf("another knows of it: %s", got)
	}
	for _, a := range []hubtest.Answer{bob.do("GET", "/api/v1/plans/echo", ""), bob.do("DELETE", "/api/v1/plans/echo", ""), bob.do("POST", "/api/v1/plans/echo/share", `{"shared":true}`)} {
		if a.Status != http.StatusNotFound {
			t.Errorf("another: %d %s", a.Status, a.Body)
		}
	}
	if a := bob.do("PUT", "/api/v1/plans/own", `{"steps":[{"id":"a","tool":"x","args":{"v":"@kept"}}]}`); a.Status != http.StatusBadRequest || !strings.Contains(string(a.Body), "/steps/0/args/v") {
		t.Errorf("one that refers to a session: %d %s", a.Status, a.Body)
	}
	if got := string(ann.ok("GET", "/api/v1/plans/echo", "")); !strings.Contains(got, `"owner":"ann"`) || !strings.Contains(got, `"a<b"`) {
		t.Errorf("shown: %s", got)
	}
	if a := ann.do("POST", "/api/v1/plans/echo/share", `{"shared":true}`); a.Status != http.StatusForbidden {
		t.Errorf("shared by its publisher: %d %s", a.Status, a.Body)
	}
	// Others of that name are others.
	if own := hubtest.Decode[struct{ Tool string }](bob.ok("PUT", "/api/v1/plans/echo", apiPlan)).Tool; own == tool {
		t.Errorf("both are called %s", tool)
	}
	owner.ok("POST", "/api/v1/plans/"+tool+"/share", `{"shared":true}`)
	if status, e := bob.tool(tool, `{"text":"hi"}`); status != 200 || !strings.Contains(string(e.Data), `"text":"hi"`) {
		t.Errorf("shared, called by another: %d %+v", status, e)
	}
	if a := bob.do("DELETE", "/api/v1/plans/"+tool, ""); a.Status != http.StatusForbidden {
		t.Errorf("taken back by another: %d %s", a.Status, a.Body)
	}
	// What is published anew nobody else has seen.
	ann.ok("PUT", "/api/v1/plans/echo", apiPlan)
	if status, _ := bob.tool(tool, `{"text":"hi"}`); status != http.StatusNotFound {
		t.Errorf("published anew, called by another: %d", status)
	}
	owner.ok("DELETE", "/api/v1/plans/"+tool, "")
	if status, _ := ann.tool(tool, `{"text":"hi"}`); status != http.StatusNotFound {
		t.Errorf("called after it was taken back: %d", status)
	}
	if a := owner.do("DELETE", "/api/v1/plans/"+tool, ""); a.Status != http.StatusNotFound {
		t.Errorf("taken back twice: %d %s", a.Status, a.Body)
	}
}

// What the owner has looked at is shared, and nothing that was put in its place.
func TestSharingIsOfWhatWasSeen(t *testing.T) {
	hubtest.Parallel(t)
	owner := apiHub(t)
	ann := tokenFor(t, owner.hub, "ann", "*")
	type said struct{ Tool, Revision string }
	first := hubtest.Decode[said](ann.ok("PUT", "/api/v1/plans/echo", apiPlan))
	seen := hubtest.Decode[said](owner.ok("GET", "/api/v1/plans/"+first.Tool, ""))
	if seen.Revision == "" || seen != first {
		t.Fatalf("shown as %+v, published as %+v", seen, first)
	}
	other := hubtest.Decode[said](ann.ok("PUT", "/api/v1/plans/echo", strings.Replace(apiPlan, `"a<b"`, `"b<a"`, 1)))
	a := owner.do("POST", "/api/v1/plans/"+seen.Tool+"/share", `{"shared":true,"revision":"`+seen.Revision+`"}`)
	if a.Status/100 != 4 || !strings.Contains(string(a.Body), "another plan was published") {
		t.Errorf("shared unseen: %d %s", a.Status, a.Body)
	}
	if got := string(owner.ok("GET", "/api/v1/plans/"+seen.Tool, "")); !strings.Contains(got, `"shared":false`) {
		t.Errorf("after that: %s", got)
	}
	owner.ok("POST", "/api/v1/plans/"+seen.Tool+"/share", `{"shared":true,"revision":"`+other.Revision+`"}`)
	if again := hubtest.Decode[said](ann.ok("PUT", "/api/v1/plans/echo", apiPlan)); again != first {
		t.Errorf("the same plan again is %+v, was %+v", again, first)
	}
}

// A tag of six digits is not whose a plan is: two names may have the same.
func TestTagOfAPlanIsNotItsOwner(t *testing.T) {
	hubtest.Parallel(t)
	owner := apiHub(t)
	names, tools := [2]string{}, map[string]string{}
	for i := 0; names[0] == ""; i++ {
		p := published.Plan{Name: "echo", Owner: "user" + strconv.Itoa(i)}
		if before := tools[p.Tool()]; before != "" {
			names = [2]string{before, p.Owner}
		}
		tools[p.Tool()] = p.Owner
	}
	ann, eve := tokenFor(t, owner.hub, names[0], "*"), tokenFor(t, owner.hub, names[1], "*")
	tool := hubtest.Decode[struct{ Tool string }](ann.ok("PUT", "/api/v1/plans/echo", apiPlan)).Tool
	if a := eve.do("PUT", "/api/v1/plans/echo", apiPlan); a.Status != http.StatusForbidden || !strings.Contains(string(a.Body), "Use another name") {
		t.Errorf("another took its place: %d %s", a.Status, a.Body)
	}
	if status, e := ann.tool(tool, `{"text":"hi"}`); status != 200 {
		t.Errorf("called by its publisher: %d %+v", status, e)
	}
}
