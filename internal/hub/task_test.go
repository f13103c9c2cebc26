package hub_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hub"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

const tasksCapability = `{"elicitation":{},"sampling":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`

// aTask is a task as the wire has it.
type aTask struct {
	ResultType, TaskID, Status, StatusMessage, CreatedAt, LastUpdatedAt string
	TTLMs, PollIntervalMs                                               int64
	Result, Error                                                       json.RawMessage
	InputRequests                                                       map[string]struct{ Method string }
	Meta                                                                struct {
		Progress struct{ Progress, Total float64 } `json:"stoa/progress"`
	} `json:"_meta"`
}

func taskSpec() peer.Spec {
	named := func(name string, b peer.Behaviour) peer.Tool { return peer.Tool{Name: name, Behaviour: b} }
	return peer.Spec{Tools: []peer.Tool{
		named("echo", peer.Do(peer.Echo)),
		named("slow", peer.Behaviour{Kind: peer.Slow, For: time.Hour}),
		named("steps", peer.Behaviour{Kind: peer.Progress, N: 100, For: 30 * time.Millisecond}),
		named("survey", peer.Do(peer.Survey)),
		named("multi", peer.Behaviour{Kind: peer.Multi, N: 2}),
		named("refuse", peer.Behaviour{Kind: peer.Error, Raw: `{"code":-32099,"message":"not today","data":[1]}`}),
		named("params", peer.Do(peer.Params)),
	}}
}

// taskWorlds runs a test on both faces with upstreams of both eras.
func taskWorlds(t *testing.T, mode config.TaskMode, test func(t *testing.T, w *world)) {
	for _, era := range []peer.Era{peer.EraLegacy, peer.EraModern} {
		for _, merged := range []bool{true, false} {
			c := cell{hubtest.Modern, "stdio", merged}
			t.Run(string(era)+"/"+c.String(), func(t *testing.T) {
				test(t, newWorld(t, c, taskSpec(), worldOptions{
					mixed:  era == peer.EraLegacy,
					client: hubtest.ClientOptions{Capabilities: tasksCapability},
					server: func(s *config.Server) { s.Task = mode },
				}))
			})
		}
	}
}

// begin calls a tool that becomes a task.
func (w *world) begin(t *testing.T, tool, args string) aTask {
	t.Helper()
	m := w.call(tool, args)
	got := hubtest.Decode[aTask](m.Result)
	// A quick server may have come further by the time that it answers.
	known := slices.Contains([]string{"working", "input_required", "completed", "failed"}, got.Status)
	if got.ResultType != "task" || got.TaskID == "" || !known || got.TTLMs <= 0 || got.PollIntervalMs <= 0 {
		t.Fatalf("no task came: %s", m.Raw)
	}
	created, err := time.Parse(time.RFC3339Nano, got.CreatedAt)
	updated, err2 := time.Parse(time.RFC3339Nano, got.LastUpdatedAt)
	if err != nil || err2 != nil || updated.Before(created) || got.Status == "working" && !updated.Equal(created) {
		t.Errorf("times: %s", m.Raw)
	}
	for _, odd := range []string{`"result":`, `"error":`, `"inputRequests":`, `"requestState"`, `"task":{`} {
		if strings.Contains(string(m.Result), odd) {
			t.Errorf("%s in the answer that a task was made: %s", odd, m.Raw)
		}
	}
	return got
}

func get(t *testing.T, c *hubtest.Client, id string) aTask {
	t.Helper()
	m := c.Call("tasks/get", `{"taskId":`+hubtest.Quote(id)+`}`)
	got := hubtest.Decode[aTask](m.Result)
	if got.ResultType != "complete" || got.TaskID != id {
		t.Fatalf("tasks/get: %s", m.Raw)
	}
	return got
}

// until polls a task until it has a status.
func until(t *testing.T, c *hubtest.Client, id string, status ...string) (got aTask) {
	t.Helper()
	await.Until(t, "the task is "+strings.Join(status, " or "), func() bool {
		got = get(t, c, id)
		for _, s := range status {
			if got.Status == s {
				return true
			}
		}
		return false
	})
	return got
}

func acknowledged(t *testing.T, m hubtest.Message) {
	t.Helper()
	if string(m.Result) != `{"resultType":"complete"}` {
		t.Errorf("no acknowledgement: %s", m.Raw)
	}
}

func (w *world) update(t *testing.T, id, answers string) {
	t.Helper()
	acknowledged(t, w.client.Call("tasks/update", `{"taskId":`+hubtest.Quote(id)+`,"inputResponses":`+answers+`}`))
}

func TestTaskAlways(t *testing.T) {
	hubtest.Parallel(t)
	taskWorlds(t, config.TaskAlways, func(t *testing.T, w *world) {
		made := w.begin(t, "echo", `{"n":12345678901234567890}`)
		done := until(t, w.client, made.TaskID, "completed")
		if !strings.Contains(string(done.Result), `12345678901234567890`) || done.Error != nil {
			t.Errorf("result: %s", done.Result)
		}
		done = until(t, w.client, w.begin(t, "refuse", "").TaskID, "failed")
		if string(done.Error) != `{"code":-32099,"message":"not today","data":[1]}` || done.Result != nil || done.StatusMessage != "not today" {
			t.Errorf("failed: %+v", done)
		}
		// The upstream is told which calls are the same one, and nothing of
		// tasks, which it must not answer with.
		said := string(until(t, w.client, w.begin(t, "params", "").TaskID, "completed").Result)
		if !strings.Contains(said, `stoa/idempotencyKey`) || strings.Contains(said, "modelcontextprotocol/tasks") {
			t.Errorf("the upstream gets %s", said)
		}
		// One that has ended is cancelled in vain, and not in error.
		acknowledged(t, w.client.Call("tasks/cancel", `{"taskId":`+hubtest.Quote(made.TaskID)+`}`))
		if got := get(t, w.client, made.TaskID); got.Status != "completed" {
			t.Errorf("after the end it became %s", got.Status)
		}
	})
}

func TestTaskAuto(t *testing.T) {
	hubtest.Parallel(t)
	taskWorlds(t, config.TaskAuto, func(t *testing.T, w *world) {
		if m := w.call("echo", `{"a":1}`); m.Text() != `{"a":1}` {
			t.Errorf("a call that is soon done: %s", m.Raw)
		}
		if m := w.call("survey", ""); !strings.Contains(string(m.Result), `"input_required"`) || !strings.Contains(string(m.Result), `"inputRequests"`) {
			t.Errorf("a question that comes soon: %s", m.Raw)
		}
		made := w.begin(t, "steps", "")
		await.Until(t, "its progress is told", func() bool {
			return strings.HasPrefix(get(t, w.client, made.TaskID).StatusMessage, "step ")
		})
		first := get(t, w.client, made.TaskID).Meta.Progress
		await.Until(t, "its progress is told in numbers, which grow", func() bool {
			now := get(t, w.client, made.TaskID).Meta.Progress
			if first.Progress == 0 {
				first = now
			}
			return first.Progress > 0 && now.Progress > first.Progress && now.Total == 100
		})
		done := until(t, w.client, made.TaskID, "completed")
		if !strings.Contains(string(done.Result), `"done"`) || done.StatusMessage != "" {
			t.Errorf("%+v", done)
		}
	})
}

func TestTaskCancel(t *testing.T) {
	hubtest.Parallel(t)
	for _, mode := range []config.TaskMode{config.TaskAlways, config.TaskAuto} {
		t.Run(string(mode), func(t *testing.T) {
			taskWorlds(t, mode, func(t *testing.T, w *world) {
				made := w.begin(t, "slow", "")
				await.Until(t, "the upstream has it", func() bool { return len(w.peerState(t).Called) > 0 })
				acknowledged(t, w.client.Call("tasks/cancel", `{"taskId":`+hubtest.Quote(made.TaskID)+`}`))
				if got := get(t, w.client, made.TaskID); got.Status != "cancelled" || got.Result != nil || got.Error != nil {
					t.Errorf("%+v", got)
				}
				await.Until(t, "the upstream is told", func() bool { return len(w.peerState(t).Cancelled) > 0 })
			})
		})
	}
}

func TestTaskInput(t *testing.T) {
	hubtest.Parallel(t)
	taskWorlds(t, config.TaskAlways, func(t *testing.T, w *world) {
		made := w.begin(t, "survey", "")
		open := until(t, w.client, made.TaskID, "input_required").InputRequests
		answers := map[string]string{"elicitation/create": `{"action":"accept","content":{"name":"Ada"}}`,
			"sampling/createMessage": `{"role":"assistant","model":"m","content":{"type":"text","text":"Hello"}}`}
		// A legacy server asks one after the other.
		for asked := 0; asked < 2; {
			for key, q := range open {
				w.update(t, made.TaskID, `{"nobody":1,`+hubtest.Quote(key)+`:`+answers[q.Method]+`}`)
				asked++
				break
			}
			if asked == 1 {
				var next aTask
				await.Until(t, "the other is asked for alone", func() bool {
					next = get(t, w.client, made.TaskID)
					return next.Status == "input_required" && len(next.InputRequests) == 1 && !sameKeys(open, next.InputRequests)
				})
				open = next.InputRequests
			}
		}
		if done := until(t, w.client, made.TaskID, "completed", "failed"); !strings.Contains(string(done.Result), "Ada") || !strings.Contains(string(done.Result), "Hello") {
			t.Errorf("%s %s", done.Result, done.Error)
		}
		// One that waits can be cancelled.
		made = w.begin(t, "multi", "")
		until(t, w.client, made.TaskID, "input_required")
		acknowledged(t, w.client.Call("tasks/cancel", `{"taskId":`+hubtest.Quote(made.TaskID)+`}`))
		if got := get(t, w.client, made.TaskID); got.Status != "cancelled" || got.InputRequests != nil {
			t.Errorf("%+v", got)
		}
	})
}

func sameKeys(a, b map[string]struct{ Method string }) bool {
	for k := range a {
		if _, ok := b[k]; !ok {
			return false
		}
	}
	return len(a) == len(b)
}

// Who does not declare the extension gets the plain call, and no task.
func TestTaskIsDeclared(t *testing.T) {
	hubtest.Parallel(t)
	taskWorlds(t, config.TaskAlways, func(t *testing.T, w *world) {
		made := w.begin(t, "echo", "")
		plain := w.Client(t, hubtest.ClientOptions{Face: w.client.Face})
		if m := plain.Tool(w.name("up", "echo"), `{"a":1}`); m.Text() != `{"a":1}` {
			t.Errorf("a plain call: %s", m.Raw)
		}
		for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
			m := plain.Call(method, `{"taskId":`+hubtest.Quote(made.TaskID)+`,"inputResponses":{}}`)
			if m.Fault().Code != -32021 || !strings.Contains(string(m.Error), `"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}`) {
				t.Errorf("%s: %s", method, m.Raw)
			}
		}
		if m := plain.Call("subscriptions/listen", `{"notifications":{"taskIds":["x"]}}`); m.Fault().Code != -32021 {
			t.Errorf("listen: %s", m.Raw)
		}
		for _, method := range []string{"tasks/result", "tasks/list"} {
			if m := w.client.Call(method, `{"taskId":"x"}`); m.Fault().Code != -32601 {
				t.Errorf("%s: %s", method, m.Raw)
			}
		}
		for _, id := range []string{"nothing", "up.nothing", "t_", "", "up.eyJpIjoiMSIsInAiOiJsb2NhbCJ9.AAAA"} {
			s := w.client.Request("7", "tasks/get", `{"taskId":`+hubtest.Quote(id)+`}`)
			m, err := hubtest.ParseMessage(w.client.Do(s).Body)
			if want := map[bool]int{true: -32020, false: -32602}[id == ""]; err != nil || m.Fault().Code != want {
				t.Errorf("id %q: %s %v", id, m.Raw, err)
			}
		}
		s := w.client.Request("8", "tasks/get", `{"taskId":`+hubtest.Quote(made.TaskID)+`}`)
		s.Header.Set("Mcp-Name", "another")
		if m, _ := hubtest.ParseMessage(w.client.Do(s).Body); m.Fault().Code != -32020 {
			t.Errorf("another name in the header: %s", m.Raw)
		}
		if m := w.client.Call("server/discover", "{}"); !strings.Contains(string(m.Result), `"extensions":{"io.modelcontextprotocol/tasks":{}}`) {
			t.Errorf("discover: %s", m.Raw)
		}
		legacy := w.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy, Face: w.client.Face})
		if strings.Contains(string(legacy.Hello.Result), "/tasks") {
			t.Errorf("a legacy client is told of tasks: %s", legacy.Hello.Raw)
		}
	})
}

func TestTaskNotifications(t *testing.T) {
	hubtest.Parallel(t)
	taskWorlds(t, config.TaskAlways, func(t *testing.T, w *world) {
		made := w.begin(t, "multi", "")
		waiting := until(t, w.client, made.TaskID, "input_required")
		x := w.client.Go("subscriptions/listen", `{"notifications":{"taskIds":["unknown",`+hubtest.Quote(made.TaskID)+`]}}`)
		if ack := x.Next(); !strings.Contains(string(ack.Params), `"notifications":{"taskIds":[`+hubtest.Quote(made.TaskID)+`]}`) {
			t.Fatalf("acknowledged: %s", ack.Raw)
		}
		for range 2 {
			for key := range waiting.InputRequests {
				w.update(t, made.TaskID, `{`+hubtest.Quote(key)+`:{"action":"accept","content":{"name":"Ada"}}}`)
			}
			for {
				m := x.Await("notifications/tasks")
				waiting = hubtest.Decode[aTask](m.Params)
				if waiting.TaskID != made.TaskID || !strings.Contains(string(m.Params), `"io.modelcontextprotocol/subscriptionId":`+x.ID) {
					t.Fatalf("notification: %s", m.Raw)
				}
				if waiting.Status != "working" {
					break
				}
			}
		}
		if waiting.Status != "completed" || !strings.Contains(string(waiting.Result), "Ada") {
			t.Errorf("the last notification: %+v", waiting)
		}
	})
}

// A task is its principal's, wherever it is asked for.
func TestTaskBelongsToItsPrincipal(t *testing.T) {
	hubtest.Parallel(t)
	w := newWorld(t, cell{hubtest.Modern, "stdio", true}, taskSpec(), worldOptions{
		client: hubtest.ClientOptions{Capabilities: tasksCapability}, server: func(s *config.Server) { s.Task = config.TaskAlways }})
	tokens, err := auth.OpenTokens(hub.TokensFile(w.Data, ""))
	if err != nil {
		t.Fatal(err)
	}
	_, secret, err := tokens.Create("ada", auth.Scopes{"*"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	ada := w.Client(t, hubtest.ClientOptions{Capabilities: tasksCapability, Token: secret})
	mine := w.begin(t, "slow", "")
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		if m := ada.Call(method, `{"taskId":`+hubtest.Quote(mine.TaskID)+`,"inputResponses":{}}`); m.Fault().Code != -32602 {
			t.Errorf("%s by another: %s", method, m.Raw)
		}
	}
	if got := get(t, w.client, mine.TaskID); got.Status != "working" {
		t.Errorf("it is %s", got.Status)
	}
	other := w.Client(t, hubtest.ClientOptions{Capabilities: tasksCapability, Face: "/mcps/up/mcp"})
	if got := get(t, other, mine.TaskID); got.Status != "working" {
		t.Errorf("on the agent's own face it is %s", got.Status)
	}
	if code, body := w.Get("/mcps/up"); code != 200 || !strings.Contains(string(body), `"tasks":{"working":1,`) {
		t.Errorf("GET /mcps/up: %d %s", code, body)
	}
	acknowledged(t, w.client.Call("tasks/cancel", `{"taskId":`+hubtest.Quote(mine.TaskID)+`}`))
}
