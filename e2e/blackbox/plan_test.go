package blackbox

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest/await"
)

// A1: what a model may not do by itself it may not have done by a plan, a batch
// or a task either.

// step is a plan of one step that writes.
func step(path string) object {
	return object{"id": "a", "tool": "files__write", "args": object{"path": path}}
}

func planOf(steps ...any) object { return object{"steps": steps} }

// detour is a way by which a model gets a file written. It says what to tell
// the model, one message after another in one session.
type detour struct {
	name string
	says func(path string) []string
}

var detours = []detour{
	{"plan_execute", func(p string) []string {
		return []string{callOf("plan_execute", object{"plan": planOf(step(p))})}
	}},
	{"step by its server's name", func(p string) []string {
		return []string{callOf("plan_execute", object{"plan": planOf(object{"id": "a", "tool": "files:write", "args": object{"path": p}})})}
	}},
	{"forEach", func(p string) []string {
		plan := planOf(object{"id": "a", "tool": "files__write", "forEach": object{"in": "@paths", "as": "it"}, "args": object{"path": "@it"}})
		plan["inputs"] = list{object{"name": "paths", "schema": object{"type": "array"}, "default": list{p}}}
		return []string{callOf("plan_execute", object{"plan": plan})}
	}},
	{"plan_debug", func(p string) []string {
		return []string{callOf("plan_debug", object{"plan": planOf(step(p)), "action": "start", "breakpoints": list{"a"}}), callOf("plan_debug", object{"action": "continue"})}
	}},
	{"plan_debug by steps", func(p string) []string {
		return []string{callOf("plan_debug", object{"plan": planOf(step(p)), "action": "start", "breakpoints": list{"a"}}), callOf("plan_debug", object{"action": "step"})}
	}},
	{"saved plan", func(p string) []string {
		return []string{callOf("plan_create", object{"plan": planOf(step(p)), "saveAs": "mine"}), callOf("plan_execute", object{"plan": "@mine"})}
	}},
	{"published plan", func(p string) []string {
		name := "p" + strings.Map(letters, strings.ToLower(filepath.Base(filepath.Dir(p))))
		return []string{callOf("plan_create", object{"plan": planOf(step(p)), "publish": name}), callOf("plan__"+name, object{})}
	}},
	{"tools_batch", func(p string) []string {
		return []string{callOf("tools_batch", object{"calls": list{object{"tool": "files__write", "arguments": object{"path": p}}}})}
	}},
	{"task_start", func(p string) []string {
		return []string{callOf("task_start", object{"tool": "files__write", "arguments": object{"path": p}})}
	}},
	{"batch in a plan", func(p string) []string {
		return []string{callOf("plan_execute", object{"plan": planOf(object{"id": "a", "tool": "tools_batch", "args": object{"calls": list{object{"tool": "files__write", "arguments": object{"path": p}}}}})})}
	}},
	{"plan in a batch", func(p string) []string {
		return []string{callOf("tools_batch", object{"calls": list{object{"tool": "plan_execute", "arguments": object{"plan": planOf(step(p))}}}})}
	}},
	{"plan in a task", func(p string) []string {
		return []string{callOf("task_start", object{"tool": "plan_execute", "arguments": object{"plan": planOf(step(p))}})}
	}},
	{"task in a plan", func(p string) []string {
		return []string{callOf("plan_execute", object{"plan": planOf(object{"id": "a", "tool": "task_start", "args": object{"tool": "files__write", "arguments": object{"path": p}}})})}
	}},
	{"plan in a plan", func(p string) []string {
		return []string{callOf("plan_execute", object{"plan": planOf(object{"id": "a", "tool": "plan_execute", "args": object{"plan": planOf(step(p))}})})}
	}},
}

func letters(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
		return r
	}
	return -1
}

// follow tells the model all of a detour and returns what came of it, once
// nothing that it began goes on.
func (h *hub) follow(t testing.TB, d detour, path string, more ...object) string {
	t.Helper()
	var all strings.Builder
	session := object{}
	for _, text := range d.says(path) {
		got := h.say(t, h.owner, text, append(more, session)...)
		session = object{"sessionId": got.SessionID}
		all.WriteString(got.raw)
	}
	all.WriteString(h.settled(t))
	return all.String()
}

// settled waits until no task and no run goes on, and tells how they ended.
func (h *hub) settled(t testing.TB) string {
	t.Helper()
	var text string
	await.NoError(t, "tasks and runs are over", func() error {
		tasks, runs := h.get(t, "/api/v1/tasks", h.owner), h.get(t, "/api/v1/runs", h.owner)
		for _, state := range []string{`"working"`, `"running"`, `"queued"`} {
			if strings.Contains(tasks.text+runs.text, state) {
				return fmt.Errorf("%s %s", tasks.text, runs.text)
			}
		}
		var answer struct{ Tasks []struct{ Task string } }
		if err := json.Unmarshal([]byte(tasks.text), &answer); err != nil {
			return err
		}
		text = runs.text
		for _, task := range answer.Tasks {
			text += h.get(t, "/api/v1/tasks/"+task.Task, h.owner).text
		}
		return nil
	})
	return text
}

func TestModelCannotWriteByADetour(t *testing.T) {
	t.Parallel()
	for _, d := range append(detours, detour{"itself", func(p string) []string { return []string{callOf("files__write", object{"path": p})} }}) {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			files, l := upstream(t)
			h := serve(t, object{"files": files})
			path := filepath.Join(t.TempDir(), "a")
			came := h.follow(t, d, path)
			mentions(t, "what came of it", came, "approval_required", "APPROVAL_REQUIRED", "a person has to allow it")
			l.want(t, "write", 0)
			if exists(path) {
				t.Error("the file was written though nobody approved")
			}
		})
	}
}

func TestDeniedToolIsNotThereByADetour(t *testing.T) {
	t.Parallel()
	files, l := upstream(t)
	h := serve(t, object{"files": files}, object{"chat": object{"approvals": object{"rules": list{object{"tools": "files__write", "action": "deny"}}}}})
	lacks(t, "the model's tools", h.say(t, h.owner, "list tools").Text, "files__write")
	h.attend(t, h.owner) // somebody who could be asked makes no difference
	for _, d := range detours {
		path := filepath.Join(t.TempDir(), "a")
		came := h.follow(t, d, path)
		lacks(t, d.name, came, "approval_required")
		mentions(t, d.name, came, "unknown tool", "unknown_tool", "no tool", "UNKNOWN_TOOL")
		if exists(path) {
			t.Errorf("%s: the file was written", d.name)
		}
	}
	l.want(t, "write", 0)
	if n := len(h.waiting(t, h.owner)); n != 0 {
		t.Errorf("%d questions were asked about a tool that is denied", n)
	}
	// Those who are no model still have it.
	path := filepath.Join(t.TempDir(), "a")
	if got := h.tool(t, "/mcp", "", "files__write", object{"path": path}); !exists(path) {
		t.Errorf("a client's own call: %s", got.text)
	}
}

func TestAgentReachesNothingBeyondItsTools(t *testing.T) {
	t.Parallel()
	files, l := upstream(t)
	allow := object{"default": "allow"}
	h := serve(t, object{"files": files}, object{"agents": object{
		"planner": object{"tools": list{"plan"}, "approvals": allow},
		"batcher": object{"tools": list{"tools_batch", "task", "plan", "plan__*"}, "approvals": allow},
	}})
	path := filepath.Join(t.TempDir(), "a")
	for _, d := range detours {
		for _, agent := range []string{"planner", "batcher"} {
			came := h.follow(t, d, path, object{"agent": agent})
			mentions(t, agent+" by "+d.name, came, "unknown tool", "unknown_tool", "UNKNOWN_TOOL", "no tool")
		}
	}
	// The same agent by its other doors.
	words := callOf("plan_execute", object{"plan": planOf(step(path))})
	for _, door := range []struct{ path, tool string }{{"/mcps/planner/mcp", "chat"}, {"/mcp", "planner__chat"}} {
		got := h.tool(t, door.path, "", door.tool, object{"user_input": words})
		mentions(t, "planner at "+door.path, got.text, "unknown tool", "unknown_tool", "UNKNOWN_TOOL")
	}
	// An agent that the chat's model asks is no way around either.
	h.say(t, h.owner, callOf("planner__chat", object{"user_input": words}))
	l.want(t, "write", 0)
	if exists(path) {
		t.Error("the file was written")
	}
}

func TestApprovedStepRunsOnce(t *testing.T) {
	t.Parallel()
	for _, d := range detours {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			files, l := upstream(t)
			h := serve(t, object{"files": files})
			path := filepath.Join(t.TempDir(), "a")
			session := object{}
			h.attend(t, h.owner)
			says := d.says(path)
			for _, text := range says[:len(says)-1] {
				session = object{"sessionId": h.say(t, h.owner, text, session).SessionID}
			}
			running := h.saying(h.owner, says[len(says)-1], session)
			question := h.question(t, "files__write", l, "write")
			h.approve(t, question.ID)
			readTurn(t, <-running)
			h.settled(t)
			l.want(t, "write", 1)
			if !exists(path) {
				t.Error("the file was not written")
			}
		})
	}
}

// A person who says no has the last word, and a plan's fallback or retry does
// not ask until the answer is yes.
func TestDeniedStepIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	files, l := upstream(t)
	h := serve(t, object{"files": files})
	path := filepath.Join(t.TempDir(), "a")
	h.attend(t, h.owner)
	plan := planOf(object{"id": "a", "tool": "files__write", "args": object{"path": path}, "retries": 3, "backoffMs": 1, "onError": "fallback",
		"fallback": object{"tool": "files__write", "args": object{"path": path + "2"}}})
	running := h.saying(h.owner, callOf("plan_execute", object{"plan": plan}))
	question := h.asked(t, "files__write", running)
	asked, done := []string{}, false
	for !done {
		asked = append(asked, question.ID)
		if got := h.decide(t, h.owner, question.ID, object{"decision": "deny"}); got.status/100 != 2 {
			t.Fatalf("deny: %d %s", got.status, got.text)
		}
		await.Until(t, "the turn ends, or another question is asked", func() bool {
			select {
			case got := <-running:
				mentions(t, "the turn", got.text, `"kind":"denied"`)
				done = true
			default:
				for _, a := range h.waiting(t, h.owner) {
					question = a
				}
			}
			return done || !slices.Contains(asked, question.ID)
		})
	}
	if len(asked) != 1 {
		t.Errorf("a person said no, and was asked %d times", len(asked))
	}
	h.settled(t)
	l.want(t, "write", 0)
}

// Nobody's answer is not a person's no: whoever reads why a step failed has to
// be able to tell them apart, as docs/policy.md promises.
func TestStepThatNobodyCouldApproveSaysSo(t *testing.T) {
	t.Parallel()
	files, l := upstream(t)
	h := serve(t, object{"files": files})
	path := filepath.Join(t.TempDir(), "a")
	batch := h.say(t, h.owner, callOf("tools_batch", object{"calls": list{object{"tool": "files__write", "arguments": object{"path": path}}}}))
	mentions(t, "in a batch", batch.raw, `"kind":"approval_required"`)
	run := h.say(t, h.owner, callOf("plan_execute", object{"plan": planOf(step(path))}))
	mentions(t, "in a plan", run.raw, `"kind":"approval_required"`)
	l.want(t, "write", 0)
}
