package hub_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/event"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/collector"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

const ownParent = "b7ad6b7169203331"

// traceID is a trace of a client's.
func traceID(n int) string { return fmt.Sprintf("%032x", 0xabc0+n) }

func traceparent(n int) string { return "00-" + traceID(n) + "-" + ownParent + "-01" }

type tracePage struct {
	Trace, From string
	Parts       []struct {
		ID, Parent, Name, Kind string
		Depth                  int
		Attributes             map[string]string
	}
	Events []event.Record
}

// tree is a trace as the hub tells it, one part a line.
func (c apiClient) tree(id string) (string, tracePage) {
	c.t.Helper()
	a := c.do("GET", "/api/v1/traces/"+id, "")
	if a.Status != http.StatusOK {
		return fmt.Sprint(a.Status), tracePage{}
	}
	page := hubtest.Decode[tracePage](a.Body)
	out := ""
	for _, p := range page.Parts {
		out += strings.Repeat(" ", p.Depth) + p.Name + "\n"
	}
	return out, page
}

// awaitTree waits until a trace is told so.
func (c apiClient) awaitTree(id, want string) (page tracePage) {
	c.t.Helper()
	got := ""
	defer func() {
		if got != want {
			c.t.Errorf("the trace is told as\n%s\nand not as\n%s", got, want)
		}
	}()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(await.Patience); got != want && time.Now().Before(end); <-tick.C {
		got, page = c.tree(id)
	}
	return page
}

// What a conversation, a run of a plan and a task do is part of the trace of
// who began it: their spans are below each other as they come of each other,
// their events name it, and the hub tells it as a tree.
func TestTracesOfWork(t *testing.T) {
	hubtest.Parallel(t)
	r := collector.New(t)
	spec := peer.Spec{Tools: []peer.Tool{{Name: "params", Behaviour: peer.Do(peer.Params), RawDefinition: `{"name":"params","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`}}}
	h := hubtest.New(t, hubtest.Stdio("up", spec), hubtest.Stdio("later", spec, func(s *config.Server) { s.Task = config.TaskAlways }), hubtest.Modules(), traced(r, "hub"))
	waitTools(t, h)
	settled(t, h, "later")
	c := apiClient{t, h, h.Token}
	t.Run("chat", func(t *testing.T) {
		c.t = t
		req, err := http.NewRequest(http.MethodPost, h.URL+"/api/chat", strings.NewReader(`{"text":"call up__params {}"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}, "Authorization": {"Bearer " + h.Token}, "Traceparent": {traceparent(1)}, "Tracestate": {"vendor=a1"}}
		resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if !strings.Contains(string(body), traceID(1)) || !strings.Contains(string(body), "vendor=a1") {
			t.Fatalf("the server was not told of the trace: %s", body)
		}
		page := c.awaitTree(traceID(1), "turn\n model script\n tools/call params\n model script\n")
		if page.Parts[0].Parent != ownParent || page.Parts[1].Attributes["gen_ai.usage.output_tokens"] == "" {
			t.Errorf("%+v", page.Parts)
		}
		await.Until(t, "the end of the turn is told", func() bool {
			page = c.awaitTree(traceID(1), "turn\n model script\n tools/call params\n model script\n")
			return strings.Contains(fmt.Sprintf("%+v", page), "turn.ended")
		})
		types(t, page, "turn.started call.done turn.ended")
	})
	t.Run("plan", func(t *testing.T) {
		c.t = t
		client := h.Client(t, hubtest.ClientOptions{Header: in("work")})
		good(t, client.Tool("plan_execute", `{"plan":{"steps":[{"id":"a","tool":"up__params"},{"id":"b","tool":"up__params","after":["a"]}]}}`, hubtest.Meta(`"traceparent":"`+traceparent(2)+`"`)))
		page := c.awaitTree(traceID(2), "tools/call plan_execute\n begin run\n  run\n   step a\n    tools/call params\n   step b\n    tools/call params\n")
		if page.Parts[2].Attributes["stoa.status"] != "done" {
			t.Errorf("%+v", page.Parts[2])
		}
		types(t, page, "run.created step.done call.done run.ended")
	})
	t.Run("task", func(t *testing.T) {
		c.t = t
		client := h.Client(t, hubtest.ClientOptions{Capabilities: tasksCapability})
		s := client.Request("1", "tools/call", hubtest.ToolParams("later__params", "{}"))
		if s.Header == nil {
			s.Header = http.Header{}
		}
		s.Header.Set("Traceparent", traceparent(3))
		a := client.Do(s)
		var made struct{ Result aTask }
		if err := json.Unmarshal(a.Body, &made); err != nil || made.Result.TaskID == "" {
			t.Fatalf("%s %v", a.Body, err)
		}
		if got := until(t, client, made.Result.TaskID, "completed"); !strings.Contains(string(got.Result), traceID(3)) {
			t.Errorf("the server was not told of the trace: %s", got.Result)
		}
		page := c.awaitTree(traceID(3), "create task\n task\n  tools/call params\n")
		types(t, page, "task.created call.done task.done")
	})
	// The receiver has been told the same.
	for n, names := range map[int][]string{1: {"turn", "model script", "tools/call params"}, 2: {"begin run", "run", "step a", "step b"}, 3: {"create task", "task"}} {
		for _, name := range names {
			r.Await(t, name+" is told", func(s collector.Span) bool { return s.Name == name && s.Trace == traceID(n) && s.Service == "hub" })
		}
	}
}

// types checks that a trace has events of these types, in this order.
func types(t *testing.T, p tracePage, want string) {
	t.Helper()
	left := strings.Fields(want)
	for _, r := range p.Events {
		if r.Trace != p.Trace {
			t.Errorf("an event of another trace: %+v", r)
		}
		if len(left) > 0 && r.Type == left[0] {
			left = left[1:]
		}
	}
	if len(left) > 0 {
		t.Errorf("no %s among %+v", left[0], p.Events)
	}
}

// Without spans, events tell of the trace that a client names, also through
// runs; the filter finds them.
func TestTraceWithoutSpans(t *testing.T) {
	hubtest.Parallel(t)
	c := apiHub(t)
	client := c.hub.Client(t, hubtest.ClientOptions{Header: in("work")})
	good(t, client.Tool("plan_execute", `{"plan":{"steps":[{"id":"a","tool":"up__echo"}]}}`, hubtest.Meta(`"traceparent":"`+traceparent(4)+`"`)))
	client.Tool("up__no", `{}`, hubtest.Meta(`"traceparent":"`+traceparent(5)+`"`))
	client.Tool("up__echo", `{}`)
	_, page := c.tree(traceID(4))
	names := ""
	for _, p := range page.Parts {
		names += p.Name + " "
	}
	if page.From != "events" || names != "plan_execute echo " {
		t.Errorf("%q %+v", names, page)
	}
	types(t, page, "run.created call.done run.ended")
	got := hubtest.Decode[struct{ Events []event.Record }](c.ok("GET", "/api/v1/events?trace="+traceID(5), ""))
	var kinds []string
	for _, r := range got.Events {
		kinds = append(kinds, r.Type)
	}
	if !slices.Equal(kinds, []string{event.CallDone, event.Fault}) {
		t.Errorf("by the filter: %v", kinds)
	}
	for _, bad := range []string{"events?trace=xyz", "traces/" + strings.ToUpper(traceID(4)), "traces/1"} {
		if a := c.do("GET", "/api/v1/"+bad, ""); a.Status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", bad, a.Status, a.Body)
		}
	}
	if a := c.do("GET", "/api/v1/traces/"+traceID(99), ""); a.Status != http.StatusNotFound {
		t.Errorf("one that is not: %d %s", a.Status, a.Body)
	}
	if a := tokenFor(t, c.hub, "ann", "*").do("GET", "/api/v1/traces/"+traceID(4), ""); a.Status != http.StatusForbidden {
		t.Errorf("somebody else: %d", a.Status)
	}
}

// Of traces that begin here a share is kept; those of clients are kept as they
// say, and what makes no sense begins a new one without the state of the old.
func TestTraceSample(t *testing.T) {
	hubtest.Parallel(t)
	r := collector.New(t)
	h := hubtest.New(t, hubtest.Stdio("up", peer.Spec{Tools: []peer.Tool{{Name: "params", Behaviour: peer.Do(peer.Params)}}}), traced(r, "hub"), hubtest.Config(func(c *config.Config) { c.Telemetry.Sample = new(float64) }))
	waitTools(t, h)
	c := h.Client(t, hubtest.ClientOptions{})
	if m := c.Tool("up__params", `{}`); !strings.Contains(m.Text(), `-00"`) {
		t.Errorf("one that is not kept is carried on as such: %s", m.Text())
	}
	for _, odd := range []string{"00-" + strings.Repeat("0", 32) + "-" + ownParent + "-01", "ff-" + traceID(6) + "-" + ownParent + "-01", "00-" + traceID(6) + "-01", "nonsense"} {
		m := c.Tool("up__params", `{}`, hubtest.Meta(`"traceparent":"`+odd+`","tracestate":"vendor=a1","baggage":"k=v"`))
		if strings.Contains(m.Text(), odd) || strings.Contains(m.Text(), "tracestate") || !strings.Contains(m.Text(), `"baggage":"k=v"`) {
			t.Errorf("after %s the server is told %s", odd, m.Text())
		}
	}
	c.Tool("up__params", `{}`, hubtest.Meta(`"traceparent":"`+strings.TrimSuffix(traceparent(6), "1")+`0"`))
	c.Tool("up__params", `{}`, hubtest.Meta(`"traceparent":"`+traceparent(7)+`"`))
	r.Await(t, "the one that the client keeps is told", func(s collector.Span) bool { return s.Trace == traceID(7) })
	if all := r.Spans(func(s collector.Span) bool { return s.Trace != traceID(7) }); len(all) != 0 {
		t.Errorf("more is kept: %+v", all)
	}
}
