package hub_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/event"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/incident"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/secret"
)

type errorPage struct {
	Groups []incident.Group
	Last   []incident.Error
	Total  int64
}

func errorsOf(t testing.TB, h *hubtest.Hub, query string) errorPage {
	t.Helper()
	status, body := h.Get("/api/v1/errors" + query)
	if status != http.StatusOK {
		t.Fatalf("errors%s: %d %s", query, status, body)
	}
	return hubtest.Decode[errorPage](body)
}

// Faults of every kind become errors in the book, in the form of the broadcast,
// without what was passed; they are there after a restart, and can be exported.
func TestErrors(t *testing.T) {
	hubtest.Parallel(t)
	web := peer.Serve(t, peer.Spec{Tools: []peer.Tool{{Name: "refuse", Behaviour: peer.Behaviour{Kind: peer.Verbatim,
		Raw: `{"isError":true,"content":[{"type":"text","text":"cannot take \"a private diary, verysecretvalue\" nor 471104711047"}]}`}},
		{Name: "slow", Behaviour: peer.Do(peer.Hang)}}})
	edits := []hubtest.Edit{
		hubtest.HTTP("up", web.URL, hubtest.Within("slow", 100*time.Millisecond), func(s *config.Server) {
			s.Headers = map[string]secret.String{"Authorization": secret.New("Bearer verysecretvalue")}
		}),
		hubtest.HTTP("away", "http://127.0.0.1:1/mcp"),
		hubtest.Config(func(c *config.Config) {
			c.Modules.Failed = []config.ModuleFailure{{Name: "nosuch", From: "AIUR_MODULES", Text: "there is no module of that name", Hint: "Use another."}}
		}),
	}
	h := hubtest.New(t, edits...)
	settled(t, h, "up")
	c := h.Client(t, hubtest.ClientOptions{})
	if m := c.Tool("up__refuse", `{"text":"a private diary, verysecretvalue","n":471104711047}`); !strings.Contains(string(m.Result), "diary") {
		t.Fatalf("the client itself is told all: %s", m.Raw)
	}
	c.Tool("up__slow", `{"q":"another private text"}`)
	c.Tool("up__none", `{"q":"a private text"}`)
	h.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy, Face: "/mcps/up/mcp"}).Call("tools/call", "{}")
	c.Call("made/up", "{}")
	c.Call("tasks/get", `{"taskId":"task_none"}`)
	var page errorPage
	await.Until(t, "all faults are in the book", func() bool {
		page = errorsOf(t, h, "")
		return hasGroup(page, "TOOL_ERROR", "up", "refuse") && hasGroup(page, "TIMEOUT", "up", "slow") && hasGroup(page, "UPSTREAM_FAILED", "away", "") && hasGroup(page, "MODULE_FAILED", "nosuch", "") &&
			hasGroup(page, "UNKNOWN_TOOL", "", "tools/call") && hasGroup(page, "INVALID_PARAMS", "", "tools/call") && hasGroup(page, "UNKNOWN_METHOD", "", "other") &&
			slices.ContainsFunc(page.Groups, func(g incident.Group) bool { return g.Tool == "tasks/get" })
	})
	for _, e := range page.Last {
		raw, _ := json.Marshal(e)
		if !strings.HasPrefix(e.ID, "err_") || e.ErrorType == "" || e.Severity == "" || e.Source == "" || e.Error.Message == "" || e.Error.Code == "" || e.Time.IsZero() {
			t.Errorf("not whole: %s", raw)
		}
		for _, private := range []string{"diary", "471104711047", "private text", "verysecret"} {
			if bytes.Contains(raw, []byte(private)) {
				t.Errorf("%s is told: %s", private, raw)
			}
		}
	}
	one := errorsOf(t, h, "?tool=slow&limit=1")
	if len(one.Last) != 1 || len(one.Groups) != 1 || one.Last[0].ErrorType != incident.ToolExecution || one.Last[0].Context["operation"] != "tools/call" || one.Last[0].Context["tool"] != "slow" {
		t.Fatalf("of one tool: %+v", one)
	}
	told := false
	records, _, _ := h.Events().After(0, 1000)
	for _, r := range records {
		told = told || r.Type == event.Fault && r.Tool == "slow" && r.Data.(*incident.Error).ID == one.Last[0].ID
	}
	if !told {
		t.Error("the error is not among the events")
	}
	h.Stop()
	again := hubtest.New(t, append(edits, hubtest.Data(h.Data))...)
	if page := errorsOf(t, again, ""); !hasGroup(page, "TIMEOUT", "up", "slow") || page.Total > 8 {
		t.Errorf("after a restart: %+v", page.Groups)
	}
	status, body := again.Get("/api/v1/errors/" + one.Last[0].ID)
	if got := hubtest.Decode[struct{ Error incident.Error }](body); status != 200 || got.Error.Error.Code != "TIMEOUT" {
		t.Errorf("one of before: %d %s", status, body)
	}
	if status, body := again.Get("/api/v1/errors/err_0_0"); status != http.StatusNotFound {
		t.Errorf("one that is not: %d %s", status, body)
	}
	status, body = again.Get("/api/v1/errors/export")
	var ids []string
	for lines := bufio.NewScanner(bytes.NewReader(body)); lines.Scan(); {
		ids = append(ids, hubtest.Decode[incident.Error](lines.Bytes()).ID)
	}
	if status != 200 || !slices.Contains(ids, one.Last[0].ID) || len(ids) < 4 {
		t.Errorf("export: %d %v", status, ids)
	}
}

func hasGroup(p errorPage, code, upstream, tool string) bool {
	return slices.ContainsFunc(p.Groups, func(g incident.Group) bool {
		return g.Key == incident.Key{Code: code, Upstream: upstream, Tool: tool} && g.Count > 0
	})
}

// Errors are for the hub's owner.
func TestErrorsAreTheOwners(t *testing.T) {
	hubtest.Parallel(t)
	c := apiHub(t)
	other := tokenFor(t, c.hub, "other", "*")
	for _, path := range []string{"errors", "errors/export", "errors/err_1_1", "events", "events/ws"} {
		if a := other.do("GET", "/api/v1/"+path, ""); a.Status != http.StatusForbidden {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
	}
}

// What happens to upstreams is told: their states, and how what they offer
// changes.
func TestUpstreamEvents(t *testing.T) {
	hubtest.Parallel(t)
	web := peer.Serve(t, recoverySpec())
	h := hubtest.New(t, hubtest.HTTP("up", web.URL), hubtest.HTTP("away", "http://127.0.0.1:1/mcp"))
	settled(t, h, "up")
	find := func(what string, ok func(r event.Record, data string) bool) {
		t.Helper()
		await.Until(t, what, func() bool {
			records, _, _ := h.Events().After(0, 1000)
			return slices.ContainsFunc(records, func(r event.Record) bool {
				data, _ := json.Marshal(r.Data)
				return ok(r, string(data))
			})
		})
	}
	state := func(name, want string) func(event.Record, string) bool {
		return func(r event.Record, data string) bool {
			return r.Type == event.UpstreamState && r.Upstream == name && strings.Contains(data, `"state":"`+want+`"`)
		}
	}
	find("it is told that it connects", state("up", "connecting"))
	find("it is told that it is connected", state("up", "connected"))
	find("it is told that it failed, and why", func(r event.Record, data string) bool {
		return state("away", "error")(r, data) && r.Level == event.Warning && strings.Contains(data, `"error":"`)
	})
	find("the first list is told", func(r event.Record, data string) bool {
		return r.Type == event.UpstreamCatalog && r.Upstream == "up" && strings.Contains(data, `"tools":{"added":[`) && strings.Contains(data, "grow")
	})
	before := h.Events().Last()
	h.Client(t, hubtest.ClientOptions{}).Tool("up__grow", "")
	find("a new tool is told", func(r event.Record, data string) bool {
		return r.Seq > before && r.Type == event.UpstreamCatalog && strings.Contains(data, `"tools":{"added":["`) && !strings.Contains(data, `"grow"`)
	})
}

// While somebody watches calls are told from their start, and what they say of
// their progress a few times a second.
func TestCallsAreToldWhileWatched(t *testing.T) {
	hubtest.Parallel(t)
	web := peer.Serve(t, peer.Spec{Tools: []peer.Tool{{Name: "steps", Behaviour: peer.Behaviour{Kind: peer.Progress, N: 50}}}})
	h := hubtest.New(t, hubtest.HTTP("up", web.URL))
	settled(t, h, "up")
	c := h.Client(t, hubtest.ClientOptions{})
	run := func() map[string]int {
		before := h.Events().Last()
		c.Tool("up__steps", "", `"progressToken":"p"`)
		counts := map[string]int{}
		records, _, _ := h.Events().After(before, 1000)
		for _, r := range records {
			if strings.HasPrefix(r.Type, "call.") {
				counts[r.Type]++
				if r.Call == "" || r.Tool != "steps" {
					t.Errorf("%+v", r)
				}
			}
		}
		return counts
	}
	if got := run(); got[event.CallStarted] != 0 || got[event.CallProgress] != 0 || got[event.CallDone] != 1 {
		t.Errorf("nobody watches: %v", got)
	}
	defer h.Events().Watch()()
	if got := run(); got[event.CallStarted] != 1 || got[event.CallProgress] < 1 || got[event.CallProgress] > 20 || got[event.CallDone] != 1 {
		t.Errorf("while watched: %v", got)
	}
}

type incidentError = incident.Error

// Groups are told in parts, and the last errors without their stacks.
func TestErrorsByPage(t *testing.T) {
	hubtest.Parallel(t)
	c := apiHub(t)
	for _, tool := range []string{"no", "rude", "strict", "missing"} {
		c.tool("up__"+tool, "{}")
	}
	type page struct {
		Groups      []incident.Group
		GroupsTotal int
		Last        []incident.Error
	}
	get := func(query string) page { return hubtest.Decode[page](c.ok("GET", "/api/v1/errors?"+query, "")) }
	await.Until(t, "all are in the book", func() bool { return get("").GroupsTotal >= 3 })
	all := get("stacks=false")
	part := get("groups=1&offset=1")
	if len(all.Groups) != all.GroupsTotal || part.GroupsTotal != all.GroupsTotal || len(part.Groups) != 1 || part.Groups[0].Key != all.Groups[1].Key || len(part.Last) != len(all.Last) {
		t.Errorf("%d of %d groups, then %d of %d: %+v", len(all.Groups), all.GroupsTotal, len(part.Groups), part.GroupsTotal, part.Groups)
	}
	c.hub.Logs().Logger().Error("panic in a request", obs.KeyAction, "serve", "stack", "goroutine 1 [running]")
	await.Until(t, "the panic is in the book", func() bool { return len(get("code=PANIC").Last) > 0 })
	if with, without := get("code=PANIC").Last[0], get("code=PANIC&stacks=false").Last[0]; with.Error.Stack == "" || without.Error.Stack != "" || with.ID != without.ID {
		t.Errorf("with stacks %q, without %q", with.Error.Stack, without.Error.Stack)
	}
}
