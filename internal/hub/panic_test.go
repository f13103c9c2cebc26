package hub_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/incident"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/modules"
	"github.com/stoahub/stoa/internal/obs"
)

// boom is a module whose tools panic: one for each way to call it, since one
// that fails too often rests.
func boom(name string) *modules.Module {
	var tools []modules.Tool
	for i := range 7 {
		tools = append(tools, modules.Tool{Name: fmt.Sprint("boom", i), Title: "Panics", ReadOnly: true, Description: "Panics.", Input: `{"type":"object"}`,
			Run: func(context.Context, *mcp.Request, json.RawMessage) (any, error) { panic("the tool of " + name) }})
	}
	return modules.New(name, "", nil, tools...)
}

// wild is a handler that panics itself, where no tool is asked for what it does.
type wild struct{ *modules.Module }

func (w wild) Handle(ctx context.Context, req *mcp.Request) (mcp.Response, error) {
	if req.Method == "tools/call" {
		panic("the handler of wild")
	}
	return w.Module.Handle(ctx, req)
}

// fragile panics when it is first written to, as the code behind a handler may.
type fragile struct {
	*httptest.ResponseRecorder
	broke bool
}

func (f *fragile) Write(b []byte) (int, error) {
	if !f.broke {
		f.broke = true
		panic("the writer of an answer")
	}
	return f.ResponseRecorder.Write(b)
}

// A panic of a module, of a handler or of what serves a request costs that
// request, however it came; the errors have it with its stack, and the hub goes
// on.
func TestPanicsAreCaught(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, hubtest.Modules())
	tame := boom("tame")
	tame.LogTo(obs.Component(h.Logs().Logger(), "modules"))
	for _, m := range []struct {
		name    string
		handler mcp.Handler
	}{{"tame", tame}, {"wild", wild{boom("wild")}}} {
		if _, err := h.AddModule(m.name, m.handler); err != nil {
			t.Fatal(err)
		}
	}
	c := h.Client(t, hubtest.ClientOptions{Header: in("work")})
	await.Until(t, "the tools are offered", func() bool { return offers(c, "tame__boom0") && offers(c, "wild__boom0") })
	api := apiClient{t, h, h.Token}
	chat := dial(t, h, "/ws")
	chat.next()
	for _, name := range []string{"tame", "wild"} {
		for i, ask := range []func(tool string) string{
			func(tool string) string { return string(c.Tool(tool, `{}`).Raw) },
			func(string) string {
				return string(h.Client(t, hubtest.ClientOptions{Face: "/mcps/" + name + "/mcp"}).Tool("boom1", `{}`).Raw)
			},
			func(tool string) string { return string(api.do("POST", "/api/tools/"+tool, `{}`).Body) },
			func(tool string) string {
				return c.Tool(modules.BatchName, `{"calls":[{"tool":"`+tool+`"},{"tool":"`+tool+`"}]}`).Text()
			},
			func(tool string) string {
				return string(c.Tool("plan_execute", `{"plan":{"steps":[{"id":"a","tool":"`+tool+`","retries":0}]}}`).Raw)
			},
			func(tool string) string { return chat.say("call " + tool + " {}") },
			func(tool string) string {
				id := hubtest.Decode[struct{ Task string }](good(t, c.Tool("task_start", `{"tool":"`+tool+`","arguments":{}}`))).Task
				return string(c.Tool("task_result", `{"task":"`+id+`","waitMs":20000}`).Raw)
			},
		} {
			if got := ask(fmt.Sprintf("%s__boom%d", name, i)); !strings.Contains(got, "stumbled") {
				t.Errorf("%s, way %d: %s", name, i, got)
			}
		}
	}
	handler, err := h.Handler(true)
	if err != nil {
		t.Fatal(err)
	}
	w := &fragile{ResponseRecorder: httptest.NewRecorder()}
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/healthz", nil)
	handler.ServeHTTP(w, r)
	if !strings.Contains(w.Body.String(), "stumble") {
		t.Errorf("a request: %d %s", w.Code, w.Body)
	}
	var page errorPage
	for _, what := range []string{"the tool of tame", "the handler of wild", "the writer of an answer"} {
		await.Until(t, what+" is among the errors", func() bool {
			page = errorsOf(t, h, "?code=PANIC")
			for _, e := range page.Last {
				if strings.Contains(e.Error.Message, what) {
					return e.ErrorType == incident.Panic && e.Severity == incident.Critical && e.Error.Code == "PANIC" && strings.Contains(e.Error.Stack, "panic_test.go") && strings.Contains(e.Error.Stack, "goroutine")
				}
			}
			return false
		})
	}
	if m := c.Tool("context_list", `{}`); !strings.Contains(m.Text(), `"success":true`) {
		t.Errorf("after all that: %s", m.Raw)
	}
}
