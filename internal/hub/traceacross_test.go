package hub_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/collector"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// spanOf says which span a hub has told of.
func spanOf(service, name string, n int) func(collector.Span) bool {
	return func(s collector.Span) bool { return s.Service == service && s.Name == name && s.Trace == traceID(n) }
}

// span waits until the hub tells of a span that has ended, and returns its id.
// It is told here before it is sent anywhere.
func (d *durable) span(t *testing.T, n int, name string) (id string) {
	t.Helper()
	await.Until(t, name+" is told", func() bool {
		for _, p := range hubtest.Decode[tracePage](d.ask(t, "/api/v1/traces/"+traceID(n))).Parts {
			if p.Name == name {
				id = p.ID
			}
		}
		return id != ""
	})
	return id
}

// What was begun before the hub was killed goes on in the trace that it was
// begun in: a run of a plan, a task that a client began, and one of task_start.
// The server is told of the same trace by both hubs.
func TestTraceOutlivesHub(t *testing.T) {
	r, web := collector.New(t), planPeer(t)
	t.Setenv(durableTraces, r.URL+" first")
	d := newDurableOver(t, web.URL)
	plain := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(plain.CloseIdleConnections)
	await.Until(t, "the upstream is listed", func() bool {
		_, err := d.tool(plain, "work", "plan_execute", `{"dryRun":true,"plan":{"steps":[{"id":"a","tool":"up__again"}]}}`)
		return err == nil
	})
	part := func(n int) hubtest.Meta { return hubtest.Meta(`"traceparent":"` + traceparent(n) + `"`) }
	// Each takes so long that the hub is killed under it.
	args := func(n int) string { return fmt.Sprintf(`{"seconds":2,"of":"w%d."}`, n) }
	c := hubtest.Dial(t, d.address(), hubtest.ClientOptions{Header: in("work")})
	run := c.Go("tools/call", hubtest.ToolParams("plan_execute", `{"plan":{"steps":[{"id":"a","tool":"up__again","args":{"of":"early"}},{"id":"b","tool":"up__again","args":`+args(20)+`,"after":["a"]}]}}`), part(20))
	tasks := hubtest.Dial(t, d.address(), hubtest.ClientOptions{Capabilities: tasksCapability})
	if m := tasks.Tool("up__again", args(21), part(21)); !strings.Contains(string(m.Raw), `"taskId"`) {
		t.Fatalf("no task: %s", m.Raw)
	}
	good(t, c.Tool("task_start", `{"tool":"up__again","arguments":`+args(22)+`}`, part(22)))
	at := func(n int) (traces []string) {
		for _, q := range web.Requests() {
			if strings.Contains(string(q.Body), fmt.Sprintf(`"of":"w%d."`, n)) {
				_, text, _ := strings.Cut(string(q.Body), `"traceparent":"00-`)
				trace, _, _ := strings.Cut(text, "-")
				traces = append(traces, trace)
			}
		}
		return traces
	}
	work := []int{20, 21, 22}
	for _, n := range work {
		await.Until(t, "the server works", func() bool { return len(at(n)) == 1 })
	}
	begun := map[int]string{20: d.span(t, 20, "begin run"), 21: d.span(t, 21, "create task"), 22: d.span(t, 22, "create task")}
	d.kill(t)
	run.Close()
	t.Setenv(durableTraces, r.URL+" second")
	d.start(t)
	for n, name := range map[int]string{20: "run", 21: "task", 22: "task"} {
		s := r.Await(t, "the second hub tells of "+name, spanOf("second", name, n))
		if s.Parent != begun[n] {
			t.Errorf("%s is below %s, and was begun by %s", name, s.Parent, begun[n])
		}
		call := r.Await(t, "the second hub tells of the call of "+name, spanOf("second", "tools/call again", n))
		if n != 20 && call.Parent != s.ID {
			t.Errorf("the call of %s is below %s and not below %s", name, call.Parent, s.ID)
		}
	}
	r.Await(t, "the second hub tells of the step", spanOf("second", "step b", 20))
	for _, n := range work {
		if got, want := at(n), traceID(n); len(got) != 2 || got[0] != want || got[1] != want {
			t.Errorf("the server was told of %v, which is to be %s twice", got, want)
		}
	}
	if again := r.Spans(spanOf("second", "step a", 20)); len(again) > 0 {
		t.Errorf("what was done is made again: %+v", again)
	}
	d.stop(t)
}

// A model of the hub that a server asks for works in the trace of the call for
// which the server asks, whatever the era and the transport.
func TestTraceOfSampling(t *testing.T) {
	hubtest.Parallel(t)
	r := collector.New(t)
	n := 30
	for _, era := range []peer.Era{peer.EraLegacy, peer.EraModern} {
		for _, transport := range []string{"stdio", "http"} {
			n++
			t.Run(string(era)+" "+transport, func(t *testing.T) {
				spec := samplingSpec()
				spec.Era = era
				up := hubtest.Stdio("up", spec, byHost)
				if transport == "http" {
					up = hubtest.HTTP("up", peer.Serve(t, spec).URL, byHost)
				}
				h := hubtest.New(t, up, traced(r, "hub"), hubtest.Config(allowSampling))
				settled(t, h, "up")
				c := h.Client(t, hubtest.ClientOptions{})
				if m := c.Tool("up__sample", "", hubtest.Meta(`"traceparent":"`+traceparent(n)+`"`)); !strings.Contains(m.Text(), "You said") {
					t.Fatalf("%s", m.Raw)
				}
				parts := (apiClient{t, h, h.Token}).awaitTree(traceID(n), "tools/call sample\n model script\n").Parts
				if len(parts) == 2 && (parts[0].Parent != ownParent || parts[1].Parent != parts[0].ID) {
					t.Errorf("%+v", parts)
				}
			})
		}
	}
	for ; n > 30; n-- { // the receiver has been told the same
		r.Await(t, "the model is told", spanOf("hub", "model script", n))
	}
}
