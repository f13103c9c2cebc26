package hub_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/call"
	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// calls are the calls that run, as somebody sees them.
func (c apiClient) calls() []call.Running {
	c.t.Helper()
	return hubtest.Decode[struct{ Calls []call.Running }](c.ok("GET", "/api/v1/calls", "")).Calls
}

// oneCall waits until exactly one call of a tool runs.
func (c apiClient) oneCall(tool string) call.Running {
	c.t.Helper()
	var all []call.Running
	await.Until(c.t, "one call of "+tool+" runs", func() bool { all = c.calls(); return len(all) == 1 && all[0].Tool == tool })
	return all[0]
}

// One call is cancelled by its id: the caller is told by whom, the server that
// nobody waits any more, and other calls go on.
func TestCancelOneCall(t *testing.T) {
	hubtest.Parallel(t)
	eachCell(t, slowSpec(), worldOptions{}, func(t *testing.T, w *world) {
		api := apiClient{t, w.Hub, w.Hub.Token}
		x := w.client.Go("tools/call", hubtest.ToolParams(w.name("up", "slow"), ""))
		w.called(t, "slow")
		run := api.oneCall("slow")
		if run.Upstream != "up" || run.Principal == "" || run.Since.IsZero() {
			t.Errorf("it is listed as %+v", run)
		}
		api.ok("DELETE", "/api/v1/calls/"+run.Call, "")
		m := x.Response()
		if f := m.Fault(); f.Data.Kind != "cancelled" || !strings.Contains(string(m.Error), "cancelled by "+run.Principal) {
			t.Errorf("the caller is told %s", m.Raw)
		}
		w.cancelled(t, "slow")
		if all := api.calls(); len(all) != 0 {
			t.Errorf("then run %+v", all)
		}
		if a := api.do("DELETE", "/api/v1/calls/"+run.Call, ""); a.Status != http.StatusNotFound {
			t.Errorf("once more: %d %s", a.Status, a.Body)
		}
		if m := w.call("echo", `{"a":1}`); m.Text() != `{"a":1}` {
			t.Errorf("afterwards: %s", m.Raw)
		}
	})
}

// Who has no right to it neither sees nor cancels a call of another.
func TestCallsOfOthersAreNotCancelled(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, hubtest.Stdio("up", slowSpec(), func(s *config.Server) { s.Timeout = time.Minute }))
	waitTools(t, h)
	owner := apiClient{t, h, h.Token}
	ann, bob := tokenFor(t, h, "ann", "*"), tokenFor(t, h, "bob", "*")
	x := h.Client(t, hubtest.ClientOptions{Token: ann.token}).Go("tools/call", hubtest.ToolParams("up__slow", ""))
	run := ann.oneCall("slow")
	if all := bob.calls(); len(all) != 0 {
		t.Errorf("another sees %+v", all)
	}
	if a := bob.do("DELETE", "/api/v1/calls/"+run.Call, ""); a.Status != http.StatusNotFound || strings.Contains(string(a.Body), "ann") {
		t.Errorf("another cancels it: %d %s", a.Status, a.Body)
	}
	if !slices.ContainsFunc(owner.calls(), func(r call.Running) bool { return r.Call == run.Call && r.Principal == "ann" }) {
		t.Error("the owner does not see it")
	}
	ann.ok("DELETE", "/api/v1/calls/"+run.Call, "")
	if m := x.Response(); m.Fault().Data.Kind != "cancelled" {
		t.Errorf("its caller is told %s", m.Raw)
	}
	x = h.Client(t, hubtest.ClientOptions{Token: ann.token, Era: hubtest.Legacy}).Go("tools/call", hubtest.ToolParams("up__slow", ""))
	owner.ok("DELETE", "/api/v1/calls/"+ann.oneCall("slow").Call, "")
	if m := x.Response(); m.Fault().Data.Kind != "cancelled" || strings.Contains(string(m.Error), "cancelled by ann") {
		t.Errorf("cancelled by the owner: %s", m.Raw)
	}
}

// A call that waits for a person, or in a queue, has not begun.
func TestCancelBeforeItBegins(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, ruled, hubtest.Stdio("up", peer.Spec{Tools: append(policySpec().Tools, slowSpec().Tools[0])}, func(s *config.Server) {
		s.Timeout, s.Queue = time.Minute, &config.Queue{Concurrency: 1, Capacity: 10, Timeout: time.Minute}
	}))
	waitTools(t, h)
	api := apiClient{t, h, h.Token}
	defer attend(t, h, h.Token)()
	c := h.Client(t, hubtest.ClientOptions{})
	x := c.Go("tools/call", hubtest.ToolParams("up__write", `{"path":"a"}`))
	asked := api.asked()
	if run := api.oneCall("write"); run.Call != asked.Call {
		t.Errorf("the call %s is asked for as %s", run.Call, asked.Call)
	}
	api.ok("DELETE", "/api/v1/calls/"+asked.Call, "")
	if m := x.Response(); m.Fault().Data.Kind != "cancelled" {
		t.Errorf("while a person was asked: %s", m.Raw)
	}
	await.Until(t, "nobody is asked", func() bool { return len(api.approvals()) == 0 })
	first := c.Go("tools/call", hubtest.ToolParams("up__slow", ""))
	running := api.oneCall("slow")
	await.Until(t, "the first has the only place", func() bool { return status(t, h, "up").Queue.Running == 1 })
	x = c.Go("tools/call", hubtest.ToolParams("up__echo", ""))
	await.Until(t, "the second waits", func() bool { return len(api.calls()) == 2 && status(t, h, "up").Queue.Queued == 1 })
	api.ok("DELETE", "/api/v1/calls/"+api.calls()[1].Call, "")
	if m := x.Response(); m.Fault().Data.Kind != "cancelled" || !strings.Contains(string(m.Error), `"retryable":true`) {
		t.Errorf("in the queue: %s", m.Raw)
	}
	api.ok("DELETE", "/api/v1/calls/"+running.Call, "")
	if m := first.Response(); m.Fault().Data.Kind != "cancelled" {
		t.Errorf("while it ran: %s", m.Raw)
	}
}
