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

// B8: plans of real tools run, and everything that is wrong with one is said
// before it is kept.

// anywhereTool yields content as load does, whatever is given to it.
const anywhereTool = `{"name":"anywhere","description":"List the folders that there are.","inputSchema":{"type":"object","properties":{}},"outputSchema":{"type":"object","properties":{"content":{"type":"string"}},"required":["content"]},"annotations":{"readOnlyHint":true}}`

// answer is what a built-in tool says.
type answer struct {
	Success        bool
	Data           json.RawMessage
	Message, Error string
}

// builtIn calls a built-in tool in a session.
func (h *hub) builtIn(t testing.TB, session, tool string, args any) (got answer) {
	t.Helper()
	text, _ := h.tool(t, "/s/"+session+"/mcp", h.owner, tool, args).content(t)
	if json.Unmarshal([]byte(text), &got) != nil {
		return answer{Error: text} // refused before the tool was asked
	}
	return got
}

// plan is what of a plan's steps a test looks at.
type plan struct {
	Steps []struct {
		Tool string
		Args json.RawMessage
	}
}

// found has a plan made from a goal.
func (h *hub) found(t testing.TB, session string, goal object) plan {
	t.Helper()
	got := h.builtIn(t, session, "plan_create", goal)
	var made struct{ Plan plan }
	if err := json.Unmarshal(got.Data, &made); err != nil || !got.Success {
		t.Fatalf("no plan was found: %v %s", err, clip(got.Error))
	}
	return made.Plan
}

// A ready plan that could not be run is neither kept nor said to be good.
func TestPlanThatCannotRunIsRefused(t *testing.T) {
	t.Parallel()
	files, _ := withTools(t, loadTool)
	h := serve(t, object{"files": files})
	load := object{"id": "a", "tool": "files__load", "args": object{"path": "x"}, "outputs": list{"content"}}
	for name, c := range map[string]struct {
		plan object
		says string
	}{
		"an unknown tool":                           {planOf(object{"id": "a", "tool": "files__laod", "args": object{"path": "x"}}), "files__laod"},
		"an unknown tool as fallback":               {planOf(object{"id": "a", "tool": "files__load", "args": object{"path": "x"}, "onError": "fallback", "fallback": object{"tool": "files__laod"}}), "files__laod"},
		"no steps":                                  {object{"steps": list{}}, "/steps"},
		"a missing argument":                        {planOf(object{"id": "a", "tool": "files__load"}), "path"},
		"an argument of another type":               {planOf(object{"id": "a", "tool": "files__load", "args": object{"path": 7}}), "string"},
		"an argument that there is not":             {planOf(object{"id": "a", "tool": "files__load", "args": object{"path": "x", "source_path": "x"}}), "source_path"},
		"all of a result where one text is wanted":  {planOf(load, object{"id": "b", "tool": "files__write", "args": object{"path": "y", "text": "@content"}}), "@content.content"},
		"an output of a step where a name is taken": {planOf(load, object{"id": "b", "tool": "files__load", "args": object{"path": "@a"}}), "@a.content"},
	} {
		kept := strings.ReplaceAll(name, " ", "_")
		got := h.builtIn(t, "ready", "plan_create", object{"plan": c.plan, "saveAs": kept})
		if got.Success {
			t.Errorf("a plan with %s is said to be good: %s", name, clip(got.Message))
		}
		mentions(t, "a plan with "+name, got.Error, c.says)
		if value := h.get(t, "/api/v1/sessions/ready/values/"+kept, h.owner); value.status != http.StatusNotFound {
			t.Errorf("a plan with %s is kept: %d %s", name, value.status, clip(value.text))
		}
	}
	if got := h.builtIn(t, "ready", "plan_create", object{"plan": planOf(load), "saveAs": "kept"}); !got.Success {
		t.Errorf("a plan that can be run: %s", clip(got.Error))
	}
}

// Whoever repairs a plan by what `stoa plan validate` says needs one run of it.
func TestValidateSaysEverythingAtOnce(t *testing.T) {
	t.Parallel()
	files, _ := withTools(t, loadTool)
	h := serve(t, object{"files": files})
	file := filepath.Join(h.folder, "many.json")
	if err := os.WriteFile(file, []byte(`{"inputs":[{"name":"count","shcema":{"type":"integer"}}],"steps":[
		{"id":"one","tool":"files__laod","args":{"path":"x"}},
		{"id":"two","tool":"files__load","retries":"three","args":{"path":"x"}},
		{"id":"three","tool":"files__load","args":{"path":7}},
		{"id":"four","tool":"files__load"},
		{"id":"five","tool":"files__load","args":{"path":"@sttep"}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := h.run(t, "plan", "validate", file, "coutn=3", "--data", h.data, "--config", h.config)
	if err == nil {
		t.Fatalf("it is said to be good: %s", out)
	}
	for what, word := range map[string]string{
		"a mistyped member":              "shcema",
		"a tool that there is not":       "files__laod",
		"a member of another type":       "/steps/1/retries",
		"an argument of another type":    "/steps/2/args/path",
		"a missing argument":             "/steps/3/args/path",
		"a reference to nothing":         "sttep",
		"an input that is no input":      "input coutn",
		"an input that was not given":    "input count",
		"what is meant by the mistyping": `"schema"`,
	} {
		mentions(t, what, err.Error(), word)
	}
}

// A plan that is found for real tools can be run: arguments that refer to an
// input are all that the tool is sent, and an output that is a member of what a
// tool yields is that member for the next step.
func TestFoundPlanRuns(t *testing.T) {
	t.Parallel()
	files, l := withTools(t, anywhereTool+","+loadTool)
	h := serve(t, object{"files": files})
	folder := t.TempDir()
	source, target := filepath.Join(folder, "source"), filepath.Join(folder, "target")
	if err := os.WriteFile(source, []byte("what is \"in\" it\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	copying := h.found(t, "find", object{
		"allowableActions": list{
			object{"type": "read", "tool": "files__load", "inputs": list{"source_path"}, "outputs": list{"content"}, "args": object{"path": "@source_path"}},
			object{"type": "store", "tool": "files__write", "inputs": list{"content"}, "outputs": list{"written"}, "args": object{"path": target, "text": "@content"}},
		},
		"inputs": list{"source_path"}, "requiredOutputs": list{"written"}, "saveAs": "copy",
	})
	if len(copying.Steps) != 2 || string(copying.Steps[0].Args) != `{"path":"@source_path"}` {
		t.Errorf("an action whose args refer to its input: %+s", copying.Steps)
	}
	ran := h.builtIn(t, "find", "plan_execute", object{"plan": "@copy", "inputs": object{"source_path": source}})
	if got, err := os.ReadFile(target); err != nil || string(got) != "what is \"in\" it\n" {
		t.Errorf("the next step wrote %q: %s", got, clip(ran.Error))
	}
	for _, e := range l.entries(t) {
		if want := fmt.Sprintf(`{"path":%q}`, source); e.Tool == "load" && string(e.Args) != want {
			t.Errorf("the tool was sent %s, not %s", e.Args, want)
		}
	}
	l.want(t, "load", 1)
	l.want(t, "write", 1)

	// Of two tools that yield what is wanted, who gives a path means the one that
	// takes it.
	reading := h.found(t, "find", object{"tools": list{"files__*"}, "inputs": list{"path"}, "requiredOutputs": list{"content"}, "saveAs": "show"})
	if len(reading.Steps) != 1 || reading.Steps[0].Tool != "files__load" {
		t.Errorf("the content at a path is found by %+s", reading.Steps)
	}
	shown := h.builtIn(t, "find", "plan_execute", object{"plan": "@show", "inputs": object{"path": source}})
	mentions(t, "what the plan yields", string(shown.Data), `"outputs":{"content":"what is \"in\" it\n"}`)
}

// What a tool would say again is not asked for again.
func TestLastingRefusalIsNotRetried(t *testing.T) {
	t.Parallel()
	files, l := withTools(t, loadTool)
	h := serve(t, object{"files": files})
	got := h.builtIn(t, "retry", "plan_execute", object{"plan": planOf(object{"id": "a", "tool": "files__load", "args": object{"path": filepath.Join(h.folder, "none")}})})
	mentions(t, "a file that is not there", got.Error, "no such file")
	l.want(t, "load", 1)
}

// After a crash nobody knows what became of a call. Who has it made again is
// told when that happens, and nothing is said to be done that is not.
func TestRetryAfterAKillSaysWhatHappens(t *testing.T) {
	t.Parallel()
	files, l := upstream(t)
	servers := object{"files": files}
	h := serve(t, servers)
	gate := filepath.Join(t.TempDir(), "gate")
	open := func() { _ = os.WriteFile(gate, nil, 0o600) }
	t.Cleanup(open)
	running := h.background(http.MethodPost, "/s/kill/mcp", h.owner, rpc("tools/call", object{"name": "plan_execute",
		"arguments": object{"plan": planOf(object{"id": "a", "tool": "files__press", "args": object{"path": gate}})}}))
	await.Until(t, "the server has the call", func() bool { return l.count(t, "press") == 1 })
	h.restart(t, servers)
	<-running
	run := h.runs(t)[0].ID
	mentions(t, "the run after the crash", h.quiet(t, run), "not known")
	var said struct{ Note string }
	got := h.post(t, "/api/v1/runs/"+run+"/retry", h.owner, object{"step": "a"})
	if err := json.Unmarshal([]byte(got.text), &said); err != nil || got.status != http.StatusOK {
		t.Fatalf("retry: %d %s", got.status, clip(got.text))
	}
	state := h.quiet(t, run)
	if l.count(t, "press") != 1 || !strings.Contains(state, `"status":"paused"`) {
		t.Fatalf("the run went on by itself: %s", clip(state))
	}
	mentions(t, "what is said of the call that is to be made", said.Note, "continue it")
	lacks(t, "the run before the call is made", state, "not known")
	open()
	mentions(t, "the run that goes on", h.post(t, "/api/v1/runs/"+run+"/continue?wait=25s", h.owner, object{}).text, `"status":"done"`)
	l.want(t, "press", 2)
}
