package blackbox

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest/await"
)

// What was begun before the hub was killed goes on with the rights with which
// it was begun, and what a person allowed once happens once.

// restart kills the hub and starts it over what it has left.
func (h *hub) restart(t testing.TB, servers object) {
	t.Helper()
	h.kill(t)
	h.launch(t)
	h.awaitTools(t, servers)
}

// runs are the runs of plans, as the owner sees them.
func (h *hub) runs(t testing.TB) (all []struct{ ID, Status string }) {
	t.Helper()
	got := h.get(t, "/api/v1/runs", h.owner)
	var answer struct {
		Runs []struct{ ID, Status string }
	}
	if err := json.Unmarshal([]byte(got.text), &answer); err != nil || got.status != http.StatusOK {
		t.Fatalf("runs: %d %s", got.status, got.text)
	}
	return answer.Runs
}

// quiet waits until a run neither goes on nor asks.
func (h *hub) quiet(t testing.TB, run string) string {
	t.Helper()
	var text string
	await.NoError(t, "the run is settled", func() error {
		if text = h.get(t, "/api/v1/runs/"+run, h.owner).text; !strings.Contains(text, `"settled":true`) {
			return fmt.Errorf("%s", clip(text))
		}
		return nil
	})
	return text
}

// A crash between a person's yes and the end of the call is the moment at which
// a call could be made twice, or with no yes at all.
func TestApprovedCallIsMadeAtMostOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		model bool // a model begins the run, else a client
		step  bool // the plan itself wants an approval
		wait  bool // until the server has the call
	}{
		{"killed at once", false, true, false},
		{"killed while the call runs", false, true, true},
		{"a model's, killed at once", true, true, false},
		{"a model's, killed while the call runs", true, true, true},
		{"a model's by policy, killed at once", true, false, false},
		{"a model's by policy, killed while the call runs", true, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			files, l := upstream(t)
			servers := object{"files": files}
			h := serve(t, servers)
			gate := filepath.Join(t.TempDir(), "gate")
			t.Cleanup(func() { _ = os.WriteFile(gate, nil, 0o600) }) // lets go of a call of a hub that did not ask
			plan := planOf(object{"id": "a", "tool": "files__press", "args": object{"path": gate}, "approval": c.step})
			h.attend(t, h.owner)
			var running <-chan reply
			if c.model {
				running = h.saying(h.owner, callOf("plan_execute", object{"plan": plan}))
			} else {
				running = h.background(http.MethodPost, "/mcp", h.owner, rpc("tools/call", object{"name": "plan_execute", "arguments": object{"plan": plan}}))
			}
			question := h.question(t, "files__press", l, "press")
			h.approve(t, question.ID)
			if c.wait {
				await.Until(t, "the server has the call", func() bool { return l.count(t, "press") == 1 })
			}
			h.restart(t, servers)
			<-running
			if err := os.WriteFile(gate, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			// A person may be asked again where nothing was called. Nobody is
			// there to say yes, so that another call would be one too many.
			run := h.runs(t)[0].ID
			state := h.quiet(t, run)
			if n := l.count(t, "press"); n > 1 {
				t.Errorf("an approved call was made %d times: %s", n, clip(state))
			}
		})
	}
}

// A question that was open when the hub was killed is asked again, and is not
// taken for answered.
func TestOpenQuestionSurvivesAKill(t *testing.T) {
	t.Parallel()
	files, l := upstream(t)
	servers := object{"files": files}
	h := serve(t, servers)
	h.attend(t, h.owner)
	running := h.saying(h.owner, callOf("plan_execute", object{"plan": planOf(step(filepath.Join(t.TempDir(), "a")))}))
	h.asked(t, "files__write", running)
	h.restart(t, servers)
	<-running
	// The hub may have gone on with the run before anybody attended: then there
	// is nobody to ask, and the run has failed.
	run, approved := h.runs(t)[0].ID, 0
	await.Until(t, "the question is asked again, or the run is over", func() bool {
		l.want(t, "write", 0)
		for _, a := range h.waiting(t, h.owner) {
			h.approve(t, a.ID)
			approved++
		}
		return approved > 0 || strings.Contains(h.get(t, "/api/v1/runs/"+run, h.owner).text, `"settled":true`)
	})
	h.quiet(t, run)
	l.want(t, "write", approved)
}

// begun is something that a model began and that a killed hub goes on with.
var begun = []struct {
	name string
	says func(gate, target string) []string
}{
	{"run", func(gate, target string) []string {
		return []string{callOf("plan_execute", object{"plan": waitThenWrite(gate, target)})}
	}},
	{"run in a task", func(gate, target string) []string {
		return []string{callOf("task_start", object{"tool": "plan_execute", "arguments": object{"plan": waitThenWrite(gate, target)}})}
	}},
	{"run that is debugged", func(gate, target string) []string {
		return []string{callOf("plan_debug", object{"plan": waitThenWrite(gate, target), "action": "start"})}
	}},
	{"published plan", func(gate, target string) []string {
		return []string{callOf("plan_create", object{"plan": waitThenWrite(gate, target), "publish": "slowly"}), callOf("plan__slowly", object{})}
	}},
}

func waitThenWrite(gate, target string) object {
	return planOf(object{"id": "w", "tool": "files__wait", "args": object{"path": gate}}, object{"id": "a", "tool": "files__write", "args": object{"path": target}, "after": list{"w"}})
}

func TestModelsWorkStaysAModelsAfterAKill(t *testing.T) {
	t.Parallel()
	for _, b := range begun {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			files, l := upstream(t)
			servers := object{"files": files}
			h := serve(t, servers)
			folder := t.TempDir()
			gate, target := filepath.Join(folder, "gate"), filepath.Join(folder, "target")
			says := b.says(gate, target)
			session := object{}
			for _, text := range says[:len(says)-1] {
				session = object{"sessionId": h.say(t, h.owner, text).SessionID}
			}
			running := h.saying(h.owner, says[len(says)-1], session)
			await.Until(t, "the first step runs", func() bool { return l.count(t, "wait") == 1 })
			h.restart(t, servers)
			<-running
			if err := os.WriteFile(gate, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			run := h.runs(t)[0].ID
			if state := h.quiet(t, run); strings.Contains(state, `"status":"paused"`) {
				h.post(t, "/api/v1/runs/"+run+"/continue?wait=25s", h.owner, object{})
			}
			state := h.quiet(t, run)
			l.want(t, "write", 0)
			mentions(t, "the run after the restart", state, "a person has to allow it")
		})
	}
}

// A message that waited for its turn is answered by the next hub, whose model
// is as little trusted.
func TestQueuedTurnStaysAModelsAfterAKill(t *testing.T) {
	t.Parallel()
	files, l := upstream(t)
	servers := object{"files": files}
	h := serve(t, servers)
	folder := t.TempDir()
	gate, target := filepath.Join(folder, "gate"), filepath.Join(folder, "target")
	session := object{"sessionId": "work"}
	first := h.saying(h.owner, callOf("files__wait", object{"path": gate}), session)
	await.Until(t, "the first turn runs", func() bool { return l.count(t, "wait") == 1 })
	second := h.saying(h.owner, callOf("plan_execute", object{"plan": planOf(step(target))}), session)
	await.Until(t, "the second message waits", func() bool {
		return strings.Contains(h.get(t, "/api/chat/work", h.owner).text, "plan_execute")
	})
	h.restart(t, servers)
	<-first
	<-second
	question := h.question(t, "files__write", l, "write")
	if got := h.decide(t, h.owner, question.ID, object{"decision": "deny"}); got.status/100 != 2 {
		t.Fatalf("deny: %d %s", got.status, got.text)
	}
	await.Until(t, "the second message is answered", func() bool {
		return strings.Contains(h.get(t, "/api/chat/work", h.owner).text, `"toolName":"plan_execute","kind":"complete"`)
	})
	l.want(t, "write", 0)
}

// A task that waits for a person when the hub is killed has no yes afterwards.
func TestTaskOfAModelAfterAKill(t *testing.T) {
	t.Parallel()
	files, l := upstream(t)
	servers := object{"files": files}
	h := serve(t, servers)
	target := filepath.Join(t.TempDir(), "target")
	h.attend(t, h.owner)
	running := h.saying(h.owner, callOf("tools_batch", object{"calls": list{object{"tool": "plan_execute", "arguments": object{"plan": planOf(object{"id": "t", "tool": "task_start", "args": object{"tool": "files__write", "arguments": object{"path": target}}})}}}}))
	readTurn(t, <-running)
	h.question(t, "files__write", l, "write")
	h.restart(t, servers)
	text := h.settled(t)
	l.want(t, "write", 0)
	mentions(t, "the tasks", text, "approval_required")
}

// A person has to know whose wish it is: a model's plan that wants an approval
// of its own is not the person's own plan.
func TestQuestionOfAStepNamesTheModel(t *testing.T) {
	t.Parallel()
	for _, own := range []bool{false, true} {
		t.Run(fmt.Sprintf("approval %v", own), func(t *testing.T) {
			t.Parallel()
			files, l := upstream(t)
			h := serve(t, object{"files": files})
			plan := planOf(object{"id": "a", "tool": "files__write", "args": object{"path": filepath.Join(t.TempDir(), "a")}, "approval": own})
			h.attend(t, h.owner)
			running := h.saying(h.owner, callOf("plan_execute", object{"plan": plan}))
			question := h.question(t, "files__write", l, "write")
			if question.Agent == "" {
				t.Errorf("the question does not say that a model asks: %+v", question)
			}
			h.approve(t, question.ID)
			readTurn(t, <-running)
			l.want(t, "write", 1)
		})
	}
}
