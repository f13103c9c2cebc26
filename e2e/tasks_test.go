package e2e

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// taskTools are the tools that the suite's scenarios of the tasks extension call. Where native is true the server makes
// tasks of them itself, else that is left to the hub.
func taskTools(native bool) peer.Spec {
	tool := func(name string, b peer.Behaviour, task peer.Task) peer.Tool {
		if !native {
			task = ""
		}
		return peer.Tool{Name: name, Behaviour: b, Task: task}
	}
	return peer.Spec{Name: "tasks", Era: peer.EraModern, Tools: []peer.Tool{
		tool("greet", peer.Do(peer.Greet), ""),
		tool("slow_compute", peer.Do(peer.Compute), peer.TaskOptional),
		tool("failing_job", peer.Behaviour{Kind: peer.Verbatim, Raw: `{"resultType":"complete","content":[{"type":"text","text":"it failed"}],"isError":true}`}, peer.TaskRequired),
		tool("protocol_error_job", peer.Behaviour{Kind: peer.Error, Raw: `{"code":-32603,"message":"it stumbled"}`}, peer.TaskOptional),
		tool("confirm_delete", peer.Do(peer.Elicit), peer.TaskOptional),
		tool("multi_input", peer.Do(peer.Pair), peer.TaskOptional),
		tool("test_tool_with_task", peer.Behaviour{Kind: peer.Elicit, For: 1500 * time.Millisecond}, peer.TaskLast),
	}}
}

var (
	// The suite itself says that it does not look yet.
	taskScenarios = map[string]int{ // with how many checks pass at least
		"tasks-lifecycle": 8, "tasks-capability-negotiation": 4, "tasks-wire-fields": 3, "tasks-request-state-removal": 2, "tasks-mrtr-input": 3,
		"tasks-request-headers": 4, "tasks-dispatch-and-envelope": 8, "tasks-status-notifications": 0, "tasks-required-task-error": 2, "tasks-mrtr-composition": 1,
	}
)

// TestConformanceOfTasks has the suite judge tasks: those that the hub makes of a server's calls, and those that a server
// makes and the hub passes on. The suite does not score them; we do.
func TestConformanceOfTasks(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	upstream := func(native bool, edit func(*server)) map[string]server {
		s := server{}
		s.Command, s.Args, s.Env = peer.Command(taskTools(native))
		if edit != nil {
			edit(&s)
		}
		return map[string]server{"tasks": s}
	}
	t.Run("control", func(t *testing.T) {
		judgeTasks(t, set, peer.Serve(t, taskTools(true)).URL)
	})
	t.Run("upstream/stdio", func(t *testing.T) {
		judgeTasks(t, set, startHub(t, set, upstream(true, nil)).agent("tasks"))
	})
	t.Run("upstream/http", func(t *testing.T) {
		url := peer.Serve(t, taskTools(true)).URL
		judgeTasks(t, set, startHub(t, set, map[string]server{"tasks": {URL: url}}).agent("tasks"))
	})
	made := map[string]any{"override": map[string]any{"greet": map[string]any{"task": "off"}, "test_tool_with_task": map[string]any{"task": "auto"}, "failing_job": map[string]any{"task": "required"}}}
	t.Run("hub/modern", func(t *testing.T) {
		h := startHub(t, set, upstream(false, func(s *server) { s.Task, s.Tools = "always", made }))
		judgeTasks(t, set, h.agent("tasks"))
	})
	// On stdio nothing tells which of several calls a legacy server's question belongs to.
	t.Run("hub/legacy", func(t *testing.T) {
		spec := taskTools(false)
		spec.Era = peer.EraLegacy
		spec.Tools[2].Behaviour.Raw = `{"content":[{"type":"text","text":"it failed"}],"isError":true}`
		h := startHub(t, set, map[string]server{"tasks": {URL: peer.Serve(t, spec).URL, Task: "always", Tools: made}})
		judgeTasks(t, set, h.agent("tasks"))
	})
}

// judgeTasks runs the scenarios of the tasks extension, of which none may fail.
func judgeTasks(t *testing.T, set toolset, url string) {
	t.Helper()
	got := judge(t, set, nil, "server", "--url", url, "--requirements", modern)
	for _, scenario := range slices.Sorted(maps.Keys(taskScenarios)) {
		if !got.extension[scenario] {
			t.Errorf("the suite did not run %s", scenario)
		}
		if n, least := got.passes[scenario], taskScenarios[scenario]; n < least {
			t.Errorf("%s: %d checks passed, want at least %d", scenario, n, least)
		}
	}
	for c, why := range got.failures {
		if strings.HasPrefix(c.scenario, "tasks-") {
			t.Errorf("%v fails: %s", c, why)
		}
	}
}
