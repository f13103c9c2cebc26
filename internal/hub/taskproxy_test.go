package hub_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/hub"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// nativeSpec is a peer that makes tasks itself.
func nativeSpec() peer.Spec {
	return peer.Spec{Era: peer.EraModern, Tools: []peer.Tool{
		{Name: "echo", Task: peer.TaskOptional},
		{Name: "slow", Behaviour: peer.Behaviour{Kind: peer.Slow, For: time.Hour}, Task: peer.TaskRequired},
		{Name: "pair", Behaviour: peer.Do(peer.Pair), Task: peer.TaskOptional},
		{Name: "params", Behaviour: peer.Do(peer.Params)},
	}}
}

// Tasks of an upstream are its client's by an id of the hub's.
func TestTasksOfUpstreams(t *testing.T) {
	hubtest.Parallel(t)
	for _, transport := range []string{"stdio", "sse"} {
		for _, merged := range []bool{true, false} {
			c := cell{hubtest.Modern, transport, merged}
			t.Run(c.String(), func(t *testing.T) {
				w := newWorld(t, c, nativeSpec(), worldOptions{client: hubtest.ClientOptions{Capabilities: tasksCapability}})
				w.proxied(t)
			})
		}
	}
}

func (w *world) proxied(t *testing.T) {
	made := w.begin(t, "echo", `{"a":1}`)
	if !strings.HasPrefix(made.TaskID, "up.") {
		t.Fatalf("id %q", made.TaskID)
	}
	if done := until(t, w.client, made.TaskID, "completed"); !strings.Contains(string(done.Result), `"a":1`) {
		t.Errorf("%+v", done)
	}
	asks := w.begin(t, "pair", "")
	until(t, w.client, asks.TaskID, "input_required")
	x := w.client.Listen(`{"taskIds":[` + hubtest.Quote(asks.TaskID) + `]}`)
	w.update(t, asks.TaskID, `{"second":{"action":"accept","content":{"name":"Ada"}}}`)
	if got := get(t, w.client, asks.TaskID); got.Status != "input_required" || len(got.InputRequests) != 1 {
		t.Errorf("after one answer: %+v", got)
	}
	w.update(t, asks.TaskID, `{"first":{"action":"accept","content":{"name":"Ada"}}}`)
	for got := (aTask{}); got.Status != "completed"; {
		m := x.Await("notifications/tasks")
		if got = hubtest.Decode[aTask](m.Params); got.TaskID != asks.TaskID || !strings.Contains(string(m.Params), `"io.modelcontextprotocol/subscriptionId":`+x.ID) {
			t.Fatalf("notification: %s", m.Raw)
		}
	}
	slow := w.begin(t, "slow", "")
	acknowledged(t, w.client.Call("tasks/cancel", `{"taskId":`+hubtest.Quote(slow.TaskID)+`}`))
	if got := until(t, w.client, slow.TaskID, "cancelled"); got.Result != nil {
		t.Errorf("%+v", got)
	}
	plain := w.Client(t, hubtest.ClientOptions{Face: w.client.Face})
	if m := plain.Tool(w.name("up", "echo"), `{"b":2}`); m.Text() != `{"b":2}` {
		t.Errorf("a plain call: %s", m.Raw)
	}
	if m := plain.Tool(w.name("up", "slow"), ""); m.Fault().Code != -32021 || !strings.Contains(string(m.Error), "requiredCapabilities") {
		t.Errorf("one that must be a task: %s", m.Raw)
	}
	if m := plain.Tool(w.name("up", "params"), ""); strings.Contains(m.Text(), "/tasks") {
		t.Errorf("a capability that the client does not have is declared: %s", m.Text())
	}
	if m := w.call("params", ""); !strings.Contains(m.Text(), "/tasks") {
		t.Errorf("the client's capability is not passed on: %s", m.Text())
	}
	w.foreign(t, asks.TaskID)
}

// foreign checks that nobody else can use an id, and none can be made up.
func (w *world) foreign(t *testing.T, id string) {
	t.Helper()
	tokens, err := auth.OpenTokens(hub.TokensFile(w.Data, ""))
	if err != nil {
		t.Fatal(err)
	}
	_, secret, err := tokens.Create("ada", auth.Scopes{"*"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	ada := w.Client(t, hubtest.ClientOptions{Face: w.client.Face, Capabilities: tasksCapability, Token: secret})
	made := hubtest.Decode[aTask](ada.Tool(w.name("up", "echo"), "").Result)
	get(t, ada, made.TaskID)
	for name, c := range map[string]*hubtest.Client{id: ada, made.TaskID: w.client, id + "A": w.client, "up." + id: w.client, "down" + strings.TrimPrefix(id, "up"): w.client} {
		if m := c.Call("tasks/get", `{"taskId":`+hubtest.Quote(name)+`}`); m.Fault().Code != -32602 {
			t.Errorf("%s: %s", name, m.Raw)
		}
	}
}

// The ids of an upstream's tasks outlive the hub, as the tasks do.
func TestTasksOfUpstreamsOutliveTheHub(t *testing.T) {
	hubtest.Parallel(t)
	web := peer.Serve(t, nativeSpec())
	data := t.TempDir()
	run := func() *hubtest.Hub {
		return hubtest.New(t, hubtest.HTTP("up", web.URL), func(s *hubtest.Setup) { s.Config.Data = data })
	}
	h := run()
	o := hubtest.ClientOptions{Capabilities: tasksCapability}
	made := hubtest.Decode[aTask](h.Client(t, o).Tool("up__pair", "").Result)
	h.Stop()
	h = run()
	c := h.Client(t, o)
	until(t, c, made.TaskID, "input_required")
	acknowledged(t, c.Call("tasks/update", `{"taskId":`+hubtest.Quote(made.TaskID)+`,"inputResponses":{"first":{"action":"decline"},"second":{"action":"decline"}}}`))
	until(t, c, made.TaskID, "completed")
}
