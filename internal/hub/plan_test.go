package hub_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/plan"
)

// The arguments of the source's own example.
const (
	seedCreate = `{
  "title": "Deploy Application",
  "description": "Complete deployment workflow",
  "allowableActions": [
    {"type": "build", "inputs": ["source"], "outputs": ["artifact"]},
    {"type": "test", "inputs": ["artifact"], "outputs": ["test_results"]},
    {"type": "deploy", "inputs": ["artifact", "test_results"], "outputs": ["deployment"]}
  ],
  "inputs": ["source_code"],
  "requiredOutputs": ["deployment"],
  "saveAs": "deployment_plan"
}`
	seedOptions = `"options": {"stopOnError": true, "timeout": 300000, "retries": 3}`
	seedStatus  = `{"sessionId": "current", "includeResults": true, "includeContext": true}`
)

// planSpec is an upstream for plans. slow takes until it is cancelled.
func planSpec() peer.Spec {
	takes := func(name string, args ...string) peer.Tool {
		var props []string
		for _, a := range args {
			props = append(props, fmt.Sprintf(`%q:{}`, a))
		}
		required, err := json.Marshal(args)
		if err != nil {
			panic(err)
		}
		return peer.Tool{Name: name, RawDefinition: peer.Raw(fmt.Sprintf(`{"name":%q,"description":"does %s","inputSchema":{"type":"object","properties":{%s},"required":%s}}`, name, name, strings.Join(props, ","), required))}
	}
	return peer.Spec{Tools: []peer.Tool{
		takes("build", "source"), takes("test", "artifact"), takes("deploy", "artifact", "test_results"),
		{Name: "echo"}, {Name: "wipe"},
		{Name: "slow", Behaviour: peer.Behaviour{Kind: peer.Slow, For: time.Hour}},
		{Name: "compute", Behaviour: peer.Do(peer.Compute), RawDefinition: `{"name":"compute","inputSchema":{"type":"object"},"annotations":{"idempotentHint":true}}`},
	}}
}

// planRun is what plan_execute and plan_status say of a run.
func planRun(t testing.TB, raw json.RawMessage) plan.View {
	t.Helper()
	var v struct {
		plan.View
		Run *plan.View
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	if v.Run != nil {
		return *v.Run
	}
	return v.View
}

// TestSeedPlan is the source's example, word by word.
func TestSeedPlan(t *testing.T) {
	hubtest.Parallel(t)
	for _, era := range bothEras {
		t.Run(string(era), func(t *testing.T) {
			bare := hubtest.New(t, hubtest.Modules())
			c := bare.Client(t, hubtest.ClientOptions{Era: era, Header: in("seed")})
			made := c.Tool("plan_create", seedCreate)
			data := string(good(t, made))
			if !strings.Contains(data, "source_code") || !strings.Contains(data, `"assumptions":[`) || !strings.Contains(made.Text(), "@deployment_plan") {
				t.Errorf("the plan: %s", made.Raw)
			}
			m := c.Tool("plan_execute", `{"plan": "@deployment_plan", `+seedOptions+`,"inputs":{"source_code":"main.go"}}`)
			if code := bad(t, m); !strings.EqualFold(code, "invalid_arguments") || !strings.Contains(m.Text(), "build cannot be called") {
				t.Errorf("without tools: %s: %s", code, m.Raw)
			}

			h, web := keeping(t, planSpec())
			c = h.Client(t, hubtest.ClientOptions{Era: era, Header: in("seed")})
			good(t, c.Tool("plan_create", seedCreate))
			v := planRun(t, good(t, c.Tool("plan_execute", `{"plan": "@deployment_plan", `+seedOptions+`,"inputs":{"source_code":"main.go"}}`)))
			if v.Status != plan.Finished || v.Done != 3 {
				t.Errorf("the run: %+v", v)
			}
			if got := strings.Join(web.State().Called, " "); got != "build test deploy" {
				t.Errorf("called %s", got)
			}
			again := planRun(t, good(t, c.Tool("plan_status", seedStatus)))
			if again.ID != v.ID || !strings.Contains(string(again.Context["deployment"]), "main.go") || len(again.Steps[0].Result) == 0 {
				t.Errorf("plan_status: %+v", again)
			}
			if got := string(good(t, c.Tool("context_get", `{"name":"deployment","whole":true}`))); !strings.Contains(got, "main.go") {
				t.Errorf("the output is no value of the session: %s", got)
			}
			debug := planRun(t, good(t, c.Tool("plan_debug", `{"plan":"@deployment_plan","breakpoints":["step_3"],"action":"continue","inspectVariables":true,"inputs":{"source_code":"main.go"}}`)))
			if debug.Status != plan.Paused || debug.Paused == nil || debug.Paused.Step != "step_3" || debug.ID == v.ID {
				t.Errorf("plan_debug: %+v", debug)
			}
		})
	}
}

// TestPlanExecute is the ways to name a plan, and what may be said with it.
func TestPlanExecute(t *testing.T) {
	hubtest.Parallel(t)
	h, web := keeping(t, planSpec())
	c := h.Client(t, hubtest.ClientOptions{Header: in("ways")})
	const text = `{"title":"two","inputs":[{"name":"x"}],"steps":[{"id":"step_1","tool":"up__echo","args":{"v":"@x","lit":"@@x"},"outputs":["first"]},{"id":"step_2","tool":"up:echo","args":{"w":"@first.v"}}],"outputs":{"r":"@step_2.w"}}`
	good(t, c.Tool("context_add", `{"name":"x","data":"a value that the door must not put in"}`))
	saved := good(t, c.Tool("plan_create", `{"plan":`+text+`,"saveAs":"two"}`))
	if !strings.Contains(string(saved), `"v":"@x"`) {
		t.Errorf("the references of a plan were resolved: %s", saved)
	}
	if got := string(good(t, c.Tool("plan_execute", `{"plan":"@two","inputs":{"x":1},"dryRun":true}`))); !strings.Contains(got, `"valid":true`) || len(web.State().Called) != 0 {
		t.Errorf("a dry run: %s, called %v", got, web.State().Called)
	}
	first := planRun(t, good(t, c.Tool("plan_execute", `{"plan":"@two","inputs":{"x":{"k":[1,2]}}}`)))
	for name, args := range map[string]string{
		"an object":           `{"plan":` + text + `,"inputs":{"x":{"k":[1,2]}}}`,
		"what create said":    `{"plan":` + string(saved) + `,"inputs":{"x":{"k":[1,2]}}}`,
		"the id of a run":     `{"plan":"` + first.ID + `","inputs":{"x":{"k":[1,2]}}}`,
		"inputs of the value": `{"plan":"@two","inputs":{"x":"@first.v"},"options":{"maxParallel":2}}`,
	} {
		v := planRun(t, good(t, c.Tool("plan_execute", args)))
		if v.Status != plan.Finished || string(v.Outputs["r"]) != `{"k":[1,2]}` || v.ID == first.ID {
			t.Errorf("%s: %+v", name, v)
		}
	}
	if got := web.State().Called; len(got) != 10 {
		t.Errorf("%d calls", len(got))
	}
	for name, args := range map[string]string{
		"no such input": `{"plan":"@two","inputs":{"y":1}}`, "no plan of that name": `{"plan":"@three"}`, "no such run": `{"plan":"run_NONE"}`,
		"an argument that does not fit": `{"plan":{"steps":[{"id":"a","tool":"up__build","args":{"sauce":1}}]}}`,
		"a circle":                      `{"plan":{"steps":[{"id":"a","tool":"up__echo","args":{"x":"@b"}},{"id":"b","tool":"up__echo","args":{"x":"@a"}}]}}`,
	} {
		if code := bad(t, c.Tool("plan_execute", args)); code == "" {
			t.Errorf("%s: no code", name)
		}
	}
	v := planRun(t, envelope(t, c.Tool("plan_execute", `{"plan":{"steps":[{"id":"a","tool":"up__slow"}]},"options":{"timeout":50}}`)).Data)
	if v.Status != plan.Failed || !strings.Contains(v.Reason, "50 ms") {
		t.Errorf("a run that takes too long: %+v", v)
	}
	// The last run may be over before its step begins.
	if n := len(web.State().Called); n > 11 {
		t.Errorf("%d calls: what was refused was called", n)
	}
}

// TestPlanOfNoSession has a request that is bound to no session: it gets one,
// and nobody else can see what it does there.
func TestPlanOfNoSession(t *testing.T) {
	hubtest.Parallel(t)
	h, _ := keeping(t, planSpec())
	c := h.Client(t, hubtest.ClientOptions{})
	m := c.Tool("plan_execute", `{"plan":{"steps":[{"id":"a","tool":"up__echo","args":{"v":"seventh"},"outputs":["out"]}]}}`)
	v := planRun(t, good(t, m))
	if !strings.HasPrefix(v.Session, "s_") || !strings.Contains(m.Text(), "its session is "+v.Session) {
		t.Fatalf("no session is told: %s", m.Raw)
	}
	if got := string(good(t, c.Tool("context_get", `{"name":"out","session":"`+v.Session+`"}`))); !strings.Contains(got, "seventh") {
		t.Errorf("the output: %s", got)
	}
	if again := planRun(t, good(t, c.Tool("plan_status", `{"sessionId":"`+v.ID+`"}`))); again.ID != v.ID {
		t.Errorf("the run by its id: %+v", again)
	}
	if code := bad(t, c.Tool("plan_status", `{"sessionId":"current"}`)); !strings.EqualFold(code, "session_required") {
		t.Errorf("the current run of no session: %s", code)
	}
	eve := h.Client(t, hubtest.ClientOptions{Token: tokenFor(t, h, "eve", "*").token, Header: in(v.Session)})
	for name, args := range map[string]string{
		"plan_status": `{"sessionId":"` + v.ID + `"}`, "plan_execute": `{"plan":"` + v.ID + `"}`, "plan_debug": `{"run":"` + v.ID + `","action":"fork","step":"a"}`,
	} {
		if m := eve.Tool(name, args); bad(t, m) == "" || strings.Contains(m.Text(), "up__echo") {
			t.Errorf("another sees the run by %s: %s", name, m.Raw)
		}
	}
	if code := bad(t, eve.Tool("plan_status", `{"sessionId":"current"}`)); code == "" {
		t.Error("another has a run in a session of the same name")
	}
}

const longPlan = `{"steps":[{"id":"a","tool":"up__echo"},{"id":"b","tool":"up__echo","after":["a"]},{"id":"c","tool":"up__slow","after":["b"]}]}`

// TestPlanProgress tells how far a run is, and stops it with its call.
func TestPlanProgress(t *testing.T) {
	hubtest.Parallel(t)
	h, web := keeping(t, planSpec())
	for _, era := range bothEras {
		t.Run(string(era), func(t *testing.T) {
			name := "progress-" + string(era)
			c := h.Client(t, hubtest.ClientOptions{Era: era, Header: in(name)})
			x := c.Go("tools/call", hubtest.ToolParams("plan_execute", `{"plan":`+longPlan+`}`), `"progressToken":"p1"`)
			var done float64
			for done < 2 {
				m := x.Await("notifications/progress")
				p := hubtest.Decode[struct {
					ProgressToken   string
					Progress, Total float64
				}](m.Params)
				if p.ProgressToken != "p1" || p.Total != 3 || p.Progress < done {
					t.Fatalf("after %v of 3: %s", done, m.Raw)
				}
				done = p.Progress
			}
			slow := func() (n int) {
				for _, tool := range web.State().Called {
					if tool == "slow" {
						n++
					}
				}
				return n
			}
			await.Until(t, "the last step is at work", func() bool { return slow() > len(web.State().Cancelled) })
			if era == hubtest.Legacy {
				c.Notify("notifications/cancelled", `{"requestId":`+x.ID+`}`)
			} else {
				x.Close()
			}
			var v plan.View
			await.Until(t, "the run stops", func() bool {
				v = planRun(t, good(t, c.Tool("plan_status", `{"sessionId":"current"}`)))
				return v.Status.Over()
			})
			if v.Status != plan.Stopped || !strings.Contains(v.Reason, "cancelled") {
				t.Errorf("%+v", v)
			}
			await.Until(t, "the upstream is told", func() bool { return slow() == len(web.State().Cancelled) })
		})
	}
}

// TestPlanAsTask runs plans as tasks and kills the hub in their midst: each is
// one run, and has its end.
func TestPlanAsTask(t *testing.T) {
	hubtest.Parallel(t)
	spec := planSpec()
	spec.Era = peer.EraModern
	web := peer.Serve(t, spec)
	d := newDurableOver(t, web.URL)
	c := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(c.CloseIdleConnections)
	text := func(n int) string {
		return fmt.Sprintf(`{"plan":{"title":"t%d","steps":[{"id":"a","tool":"up__echo","args":{"n":%d}},{"id":"b","tool":"up__compute","args":{"seconds":1.5,"name":"n%d."},"after":["a"],"outputs":["out"]},{"id":"c","tool":"up__echo","args":{"of":"@a.n"},"after":["b"]}],"outputs":{"r":"@c.of"}}}`, n, n, n)
	}
	var started struct{ Task string }
	var made aTask
	await.Until(t, "the upstream is listed", func() bool {
		a, err := d.tool(c, "starts", "plan_execute", strings.Replace(text(1), `{"plan"`, `{"dryRun":true,"plan"`, 1))
		return err == nil && a.Success
	})
	a, err := d.tool(c, "starts", "task_start", `{"tool":"plan_execute","arguments":`+text(1)+`}`)
	if err != nil || json.Unmarshal(a.Data, &started) != nil || started.Task == "" {
		t.Fatalf("%s (%v)", a.Data, err)
	}
	m, err := d.modern(c, "tools/call", "plan_execute", hubtest.ToolParams("plan_execute", text(2)))
	if made = hubtest.Decode[aTask](m.Result); err != nil || made.TaskID == "" {
		t.Fatalf("a long run is no task for those who know tasks: %s (%v)", m.Raw, err)
	}
	await.Until(t, "both are at work", func() bool { return len(sent(web, "n1."))+len(sent(web, "n2.")) == 2 })
	d.kill(t)
	d.start(t)
	await.Until(t, "the task of task_start ends", func() bool {
		a, err = d.tool(c, "starts", "task_result", `{"task":"`+started.Task+`","waitMs":10000}`)
		return err == nil && !strings.Contains(string(a.Data), `"working"`)
	})
	if !strings.Contains(string(a.Data), `"completed"`) || !strings.Contains(string(a.Data), `\"r\":1`) {
		t.Errorf("the task of task_start: %s", a.Data)
	}
	await.Until(t, "the task of the extension ends", func() bool {
		m, err = d.modern(c, "tasks/get", made.TaskID, `{"taskId":"`+made.TaskID+`"}`)
		made = hubtest.Decode[aTask](m.Result)
		return err == nil && made.Status != "working"
	})
	if made.Status != "completed" || !strings.Contains(string(made.Result), `"r":2`) {
		t.Errorf("the task of the extension: %s", m.Raw)
	}
	echoes := 0
	for _, tool := range web.State().Called {
		if tool == "echo" {
			echoes++
		}
	}
	one, two := sent(web, "n1."), sent(web, "n2.")
	if echoes != 4 || len(one) != 2 || len(two) != 2 || one[0] != one[1] || two[0] != two[1] {
		t.Errorf("a run more than there should be: %d times echo, compute under %v and %v", echoes, one, two)
	}
}

// TestPlanApprovals asks people before steps, and knows nothing of what the policy denies.
func TestPlanApprovals(t *testing.T) {
	hubtest.Parallel(t)
	h, web := keeping(t, planSpec(), ruled)
	api := apiClient{t, h, h.Token}
	c := h.Client(t, hubtest.ClientOptions{Header: in("asks")})
	m := c.Tool("plan_execute", `{"plan":{"steps":[{"id":"a","tool":"up__echo"},{"id":"b","tool":"up__wipe"}]}}`)
	if bad(t, m) == "" || !strings.Contains(m.Text(), "up__wipe cannot be called: unknown tool") || len(web.State().Called) > 0 {
		t.Errorf("what is denied: %s, called %v", m.Raw, web.State().Called)
	}
	defer attend(t, h, h.Token)()
	const asks = `{"plan":{"steps":[{"id":"a","tool":"up__echo","args":{"n":1},"approval":true},{"id":"b","tool":"up__echo","args":{"of":"@a.n"}}]}}`
	x := c.Go("tools/call", hubtest.ToolParams("plan_execute", asks), `"progressToken":"p"`)
	ask := api.asked()
	for told := ""; !strings.Contains(told, "Waiting for approval: up__echo") || !strings.Contains(told, ask.ID); {
		told = string(x.Await("notifications/progress").Params)
	}
	if ask.Tool != "echo" && ask.Tool != "up__echo" || string(ask.Args) != `{"n":1}` || len(web.State().Called) > 0 {
		t.Errorf("asked for %+v", ask)
	}
	if v := planRun(t, good(t, c.Tool("plan_status", `{"sessionId":"current"}`))); v.Status != plan.Waiting || v.Steps[0].Approval != ask.ID {
		t.Errorf("while it waits: %+v", v)
	}
	api.decide(ask.ID, `{"decision":"edit","args":{"n":2}}`)
	if v := planRun(t, good(t, x.Response())); v.Status != plan.Finished || string(v.Steps[1].Result) != `{"of":2}` {
		t.Errorf("approved: %+v", v)
	}
	x = c.Go("tools/call", hubtest.ToolParams("plan_execute", asks))
	api.decide(api.asked().ID, `{"decision":"deny","reason":"not now"}`)
	if v := planRun(t, envelope(t, x.Response()).Data); v.Status != plan.Failed || v.Failure == nil || v.Failure.Kind != "denied" || len(web.State().Called) != 2 {
		t.Errorf("denied: %+v, called %v", v, web.State().Called)
	}
}

// An approval is for the arguments that the person was shown: what becomes of
// the values meanwhile changes nothing.
func TestPlanApprovalsAreForWhatWasShown(t *testing.T) {
	hubtest.Parallel(t)
	h, web := keeping(t, planSpec(), ruled)
	api := apiClient{t, h, h.Token}
	c := h.Client(t, hubtest.ClientOptions{Header: in("swapped")})
	defer attend(t, h, h.Token)()
	good(t, c.Tool("context_add", `{"name":"target","data":"/tmp/harmless"}`))
	x := c.Go("tools/call", hubtest.ToolParams("plan_execute", `{"plan":{"steps":[{"id":"a","tool":"up__echo","args":{"of":"@target"},"approval":true}]}}`))
	ask := api.asked()
	if string(ask.Args) != `{"of":"/tmp/harmless"}` {
		t.Fatalf("asked for %s", ask.Args)
	}
	good(t, h.Client(t, hubtest.ClientOptions{Header: in("swapped")}).Tool("context_add", `{"name":"target","data":"/etc/passwd"}`))
	api.decide(ask.ID, `{"decision":"approve"}`)
	if v := planRun(t, good(t, x.Response())); v.Status != plan.Finished || string(v.Steps[0].Result) != `{"of":"/tmp/harmless"}` {
		t.Errorf("the server got something else: %+v, called %v", v, web.State().Called)
	}
}
