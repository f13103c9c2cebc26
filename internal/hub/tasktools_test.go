package hub_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// enveloped is what a built-in tool answers.
type enveloped struct {
	Success     bool
	Error, Code string
	Data        struct {
		Task, Tool, Status, StatusMessage string
		Result                            struct {
			Content []struct{ Text string }
			IsError bool
		}
		Error json.RawMessage
	}
}

func builtin(t *testing.T, c *hubtest.Client, name, args string) enveloped {
	t.Helper()
	m := c.Tool(name, args)
	if m.Error != nil {
		t.Fatalf("%s: %s", name, m.Raw)
	}
	var e enveloped
	if err := json.Unmarshal([]byte(m.Text()), &e); err != nil {
		t.Fatalf("%s: %s: %v", name, m.Raw, err)
	}
	return e
}

// Clients that do not know the extension have the same by tools.
func TestTaskTools(t *testing.T) {
	hubtest.Parallel(t)
	for _, up := range []peer.Era{peer.EraLegacy, peer.EraModern} {
		for _, era := range []hubtest.Era{hubtest.Legacy, hubtest.Modern} {
			t.Run(string(era)+" to "+string(up), func(t *testing.T) {
				w := newWorld(t, cell{era, "stdio", true}, taskSpec(), worldOptions{mixed: string(era) != string(up), edits: []hubtest.Edit{hubtest.Modules()},
					client: hubtest.ClientOptions{Capabilities: `{"elicitation":{},"sampling":{}}`}})
				taskTools(t, w)
			})
		}
	}
}

func taskTools(t *testing.T, w *world) {
	c := w.client
	start := func(args string) string {
		t.Helper()
		e := builtin(t, c, "task_start", args)
		if !e.Success || e.Data.Task == "" || e.Data.Tool == "" {
			t.Fatalf("task_start %s: %+v", args, e)
		}
		return `{"task":` + hubtest.Quote(e.Data.Task)
	}
	id := start(`{"tool":"up__echo","arguments":{"a":[1,"@b"]}}`)
	got := builtin(t, c, "task_result", id+`,"waitMs":20000}`)
	if got.Data.Status != "completed" || len(got.Data.Result.Content) != 1 || got.Data.Result.Content[0].Text != `{"a":[1,"@b"]}` {
		t.Errorf("task_result: %+v", got)
	}
	id = start(`{"tool":"up:refuse"}`)
	if got = builtin(t, c, "task_result", id+`,"waitMs":20000}`); got.Data.Status != "failed" || !strings.Contains(string(got.Data.Error), "not today") {
		t.Errorf("one that fails: %+v", got)
	}
	// Nobody can be asked.
	id = start(`{"tool":"up__survey"}`)
	if got = builtin(t, c, "task_result", id+`,"waitMs":20000}`); got.Data.Status == "working" || got.Data.Status == "input_required" || got.Data.Status == "completed" && !got.Data.Result.IsError {
		t.Errorf("one that asks: %+v", got)
	}
	id = start(`{"tool":"up__slow","priority":"low","timeoutMs":3600000}`)
	if got = builtin(t, c, "task_result", id+`,"waitMs":10}`); got.Data.Status != "working" {
		t.Errorf("one that works: %+v", got)
	}
	if got = builtin(t, c, "task_status", id+`}`); got.Data.Status != "working" || got.Data.Tool != "up__slow" {
		t.Errorf("task_status: %+v", got)
	}
	if got = builtin(t, c, "task_cancel", id+`}`); got.Data.Status != "cancelled" {
		t.Errorf("task_cancel: %+v", got)
	}
	await.Until(t, "the upstream is told", func() bool { return len(w.peerState(t).Cancelled) > 0 })
	id = start(`{"tool":"up__slow","timeoutMs":50}`)
	if got = builtin(t, c, "task_result", id+`,"waitMs":20000}`); got.Data.Status != "failed" || !strings.Contains(string(got.Data.Error), `"timeout"`) {
		t.Errorf("one that takes too long: %+v", got)
	}
	for args, code := range map[string]string{
		`{"tool":"nothing"}`:                    "unknown_tool",
		`{"tool":"task_status","arguments":{}}`: "invalid_arguments",
	} {
		if e := builtin(t, c, "task_start", args); e.Success || !strings.EqualFold(e.Code, code) {
			t.Errorf("task_start %s: %+v", args, e)
		}
	}
	if e := builtin(t, c, "task_result", `{"task":"t_none"}`); e.Success || e.Error == "" {
		t.Errorf("no such task: %+v", e)
	}
}

// A task outlives the hub: what bears repetition is done again, under the same
// key; what does not is not.
func TestTaskRestart(t *testing.T) {
	hubtest.Parallel(t)
	spec := peer.Spec{StatePath: t.TempDir() + "/state", Tools: []peer.Tool{
		{Name: "once", Behaviour: peer.Behaviour{Kind: peer.Slow, For: time.Hour}},
		{Name: "again", Behaviour: peer.Behaviour{Kind: peer.Slow, For: time.Hour}, RawDefinition: `{"name":"again","inputSchema":{"type":"object"},"annotations":{"idempotentHint":true}}`},
		{Name: "queued"},
		{Name: "multi", Behaviour: peer.Behaviour{Kind: peer.Multi, N: 2}},
	}, Era: peer.EraModern}
	data := t.TempDir()
	run := func(behave peer.Kind) *hubtest.Hub {
		for i := range spec.Tools[:2] {
			spec.Tools[i].Behaviour.Kind = behave
		}
		return hubtest.New(t, hubtest.Stdio("up", spec, func(s *config.Server) {
			s.Task = config.TaskAlways
			s.Queue = &config.Queue{Concurrency: 2, Capacity: 10, Timeout: time.Minute}
		}), func(s *hubtest.Setup) { s.Config.Data = data })
	}
	called := func(name string) (n int) {
		st, err := peer.ReadState(spec.StatePath)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range st.Called {
			if c == name {
				n++
			}
		}
		return n
	}
	h := run(peer.Slow)
	client := func() *hubtest.Client { return h.Client(t, hubtest.ClientOptions{Capabilities: tasksCapability}) }
	begin := func(name string) string {
		return hubtest.Decode[aTask](client().Tool("up__"+name, "").Result).TaskID
	}
	asks := begin("multi")
	waiting := until(t, client(), asks, "input_required")
	once, again := begin("once"), begin("again")
	await.Until(t, "both are at work", func() bool { return called("once")+called("again") == 2 })
	queued := begin("queued") // waits for a place
	h.Stop()
	h = run(peer.Echo)
	if got := until(t, client(), once, "failed", "completed"); !strings.Contains(string(got.Error), `"outcome_unknown"`) || called("once") != 1 {
		t.Errorf("what bears no repetition: %+v, called %d times", got, called("once"))
	}
	if got := until(t, client(), again, "failed", "completed"); got.Status != "completed" || called("again") != 2 {
		t.Errorf("what bears repetition: %+v, called %d times", got, called("again"))
	}
	if got := until(t, client(), queued, "failed", "completed"); got.Status != "completed" || called("queued") != 1 {
		t.Errorf("what had not begun: %+v, called %d times", got, called("queued"))
	}
	for range 2 {
		for key := range waiting.InputRequests {
			acknowledged(t, client().Call("tasks/update", `{"taskId":`+hubtest.Quote(asks)+`,"inputResponses":{`+hubtest.Quote(key)+`:{"action":"accept","content":{"name":"Ada"}}}}`))
			await.Until(t, "it goes on", func() bool {
				waiting = get(t, client(), asks)
				_, same := waiting.InputRequests[key]
				return waiting.Status != "working" && !same
			})
			break
		}
	}
	if waiting.Status != "completed" || !strings.Contains(string(waiting.Result), "Ada") {
		t.Errorf("what waited for input: %+v", waiting)
	}
}

// The hub's owner looks at tasks and ends them by the API.
func TestTaskAPI(t *testing.T) {
	hubtest.Parallel(t)
	w := newWorld(t, cell{hubtest.Modern, "stdio", true}, taskSpec(), worldOptions{
		client: hubtest.ClientOptions{Capabilities: tasksCapability}, server: func(s *config.Server) { s.Task = config.TaskAlways }})
	slow, done := w.begin(t, "slow", ""), w.begin(t, "echo", `{"a":7}`)
	until(t, w.client, done.TaskID, "completed")
	if code, b := w.Get("/api/v1/tasks"); code != 200 || !strings.Contains(string(b), `"tool":"slow","status":"working"`) || strings.Contains(string(b), `"result"`) {
		t.Errorf("list: %d %s", code, b)
	}
	if code, b := w.Get("/api/v1/tasks/" + done.TaskID); code != 200 || !strings.Contains(string(b), `"status":"completed"`) || !strings.Contains(string(b), `"structuredContent":{"a":7}`) {
		t.Errorf("show: %d %s", code, b)
	}
	if code, b := w.Get("/api/v1/tasks/t_none"); code != 404 || !strings.Contains(string(b), `"resource_not_found"`) {
		t.Errorf("one that is not there: %d %s", code, b)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, w.URL+"/api/v1/tasks/"+slow.TaskID, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+w.Token)
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Do(req)
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("cancel: %v, %v", resp, err)
	}
	resp.Body.Close()
	if got := get(t, w.client, slow.TaskID); got.Status != "cancelled" || got.StatusMessage != "cancelled by local" {
		t.Errorf("it is %+v", got)
	}
}

// A hub that is told to stop lets tasks end that soon will.
func TestTaskDrain(t *testing.T) {
	hubtest.Parallel(t)
	state := t.TempDir() + "/state"
	spec := peer.Spec{Era: peer.EraModern, StatePath: state, Tools: []peer.Tool{{Name: "compute", Behaviour: peer.Do(peer.Compute)}}}
	data := t.TempDir()
	run := func() *hubtest.Hub {
		return hubtest.New(t, hubtest.Stdio("up", spec, func(s *config.Server) { s.Task = config.TaskAlways }), func(s *hubtest.Setup) { s.Config.Data = data })
	}
	h := run()
	o := hubtest.ClientOptions{Capabilities: tasksCapability}
	made := hubtest.Decode[aTask](h.Client(t, o).Tool("up__compute", `{"seconds":0.5}`).Result)
	await.Until(t, "it is at work", func() bool {
		st, err := peer.ReadState(state)
		return err == nil && len(st.Called) > 0
	})
	h.Stop()
	h = run()
	if got := get(t, h.Client(t, o), made.TaskID); got.Status != "completed" {
		t.Errorf("%+v", got)
	}
}
