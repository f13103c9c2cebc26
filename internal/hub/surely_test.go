package hub_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// What one hub has acknowledged is there for whoever asks another right after: a hub
// says that something is not there only once it has asked the store.
func TestNothingIsMissingAtTheOtherHub(t *testing.T) {
	hubtest.Parallel(t)
	p := newPair(t, storetest.StartServer(t).URL)
	here, there := p.at(t, 0), p.at(t, 1)
	for i := range soak(25, 300) {
		name := fmt.Sprintf("s%d", i)
		session := func(what string) string { return name + what }
		value := func(what string) string { return "/api/v1/sessions/" + session(what) + "/values/v" }
		here.put(session("put"), "v", "1")
		there.ok(http.MethodPut, value("put"), `"second"`)
		here.put(session("get"), "v", "1")
		if status, e := there.tool("context_get?session="+session("get"), `{"name":"v"}`); status != 200 || !*e.Success {
			t.Fatalf("context_get: %d %s", status, e.Error)
		}
		here.put(session("history"), "v", "1")
		if status, e := there.tool("context_history?session="+session("history"), `{"name":"v"}`); status != 200 || !*e.Success {
			t.Fatalf("context_history: %d %s", status, e.Error)
		}
		here.put(session("del"), "v", "1")
		there.ok(http.MethodDelete, "/api/v1/sessions/"+session("del"), "")
		_, e := here.tool("task_start?session="+session("task"), `{"tool":"up__slow","arguments":{}}`)
		task := hubtest.Decode[struct{ Task string }](e.Data).Task
		there.ok(http.MethodDelete, "/api/v1/tasks/"+task, "")
		run := here.run(http.MethodPost, "?wait=30s", `{"session":"`+session("run")+`","plan":`+apiPlan+`,"breakpoints":["two"]}`).Run.ID
		there.ok(http.MethodGet, "/api/v1/runs/"+run, "")
		run = here.run(http.MethodPost, "?wait=30s", `{"session":"`+session("status")+`","plan":`+apiPlan+`,"breakpoints":["two"]}`).Run.ID
		if status, e := there.tool("plan_status?session="+session("status"), `{"sessionId":"`+run+`"}`); status != 200 || !*e.Success {
			t.Fatalf("plan_status: %d %s", status, e.Error)
		}
		publish(name)(here, name)
		there.ok(http.MethodDelete, "/api/v1/plans/"+name, "")
	}
}
