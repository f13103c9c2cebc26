package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// taskServer speaks as much of the tasks extension as a client can tell: each call becomes a task, whose tool says how
// it goes. It is modern and strict: a request without its headers or without the extension is refused.
type taskServer struct {
	mu    sync.Mutex
	tasks map[string]*serverTask
	log   []string // methods of tasks/*, in order
}

type serverTask struct {
	tool    string
	polls   int
	answers json.RawMessage
	over    bool // cancelled
}

type taskRequest struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name           string                     `json:"name"`
		TaskID         string                     `json:"taskId"`
		InputResponses json.RawMessage            `json:"inputResponses"`
		Meta           map[string]json.RawMessage `json:"_meta"`
	} `json:"params"`
}

func (s *taskServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m taskRequest
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	name := m.Params.Name + m.Params.TaskID
	w.Header().Set("Content-Type", "application/json")
	if r.Header.Get("Mcp-Method") != m.Method || r.Header.Get("Mcp-Name") != name || r.Header.Get("Mcp-Protocol-Version") != modern {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32020,"message":"headers and body differ"}}`, m.ID)
		return
	}
	if m.Method != "server/discover" && !strings.Contains(string(m.Params.Meta["io.modelcontextprotocol/clientCapabilities"]), `"io.modelcontextprotocol/tasks":{}`) {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32021,"message":"the tasks extension is needed"}}`, m.ID)
		return
	}
	result, fault := s.answer(&m)
	if result == "" && fault == "" {
		http.Error(w, "try later", http.StatusServiceUnavailable)
		return
	}
	if fault != "" {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":%q}}`, m.ID, fault)
		return
	}
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

func (s *taskServer) answer(m *taskRequest) (result, fault string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.Method == "server/discover" {
		return `{"resultType":"complete","supportedVersions":["` + modern + `"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}`, ""
	}
	if m.Method == "tools/call" {
		id := fmt.Sprintf("task-%d", len(s.tasks)+1)
		s.tasks[id] = &serverTask{tool: m.Params.Name}
		return `{"resultType":"task",` + state(id, "working", `,"statusMessage":"begun"`)[1:], ""
	}
	s.log = append(s.log, m.Method)
	task := s.tasks[m.Params.TaskID]
	if task == nil {
		return "", "there is no task " + m.Params.TaskID
	}
	switch m.Method {
	case "tasks/get":
		task.polls++
		if task.tool == "stumbles" && task.polls == 2 {
			return "", ""
		}
		return `{"resultType":"complete",` + task.look(m.Params.TaskID)[1:], ""
	case "tasks/update":
		task.answers = m.Params.InputResponses
	case "tasks/cancel":
		task.over = true
	}
	return `{"resultType":"complete"}`, ""
}

func state(id, status, more string) string {
	return fmt.Sprintf(`{"taskId":%q,"status":%q,"createdAt":"2026-08-01T00:00:00Z","lastUpdatedAt":"2026-08-01T00:00:00Z","ttlMs":60000,"pollIntervalMs":20%s}`, id, status, more)
}

// look is what tasks/get says.
func (k *serverTask) look(id string) string {
	switch {
	case k.over:
		return state(id, "cancelled", `,"statusMessage":"as you wish"`)
	case k.tool == "endless" || k.polls < 3:
		return state(id, "working", fmt.Sprintf(`,"statusMessage":"poll %d"`, k.polls))
	case k.tool == "fails":
		return state(id, "failed", `,"error":{"code":-32603,"message":"out of paper","data":{"tray":2}}`)
	case k.tool == "asks" && k.answers == nil:
		return state(id, "input_required", `,"inputRequests":{"who":{"method":"elicitation/create","params":{"mode":"form","message":"Who?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}}}`)
	case k.tool == "asks":
		return state(id, "completed", fmt.Sprintf(`,"result":{"content":[{"type":"text","text":%q}]}`, k.answers))
	}
	return state(id, "completed", `,"result":{"content":[{"type":"text","text":"printed"}]}`)
}

// TestBrowserClientTasks has calls become tasks: they are polled to their end, asked, failed, aborted and taken up again.
func TestBrowserClientTasks(t *testing.T) {
	hubtest.Parallel(t)
	set, s := tools(t), newSite(t)
	chromium(t)
	h := startHub(t, set, map[string]server{}, shared(s))
	tasks := &taskServer{tasks: map[string]*serverTask{}}
	s.mux.Handle("POST /tasks/mcp", tasks)
	p := page(t, s, h)
	const options = `{ baseUrl: '/tasks', onElicitation: (p) => ({ action: 'accept', content: { name: 'Ada' } }) }`
	for _, row := range []struct{ what, script, want string }{
		{"polled", `const seen = []; const r = await c.callTool('prints', {}, { onTask: (k) => seen.push(k.status + (k.statusMessage ? ' ' + k.statusMessage : '')) }); return [r.content[0].text, seen]`,
			`["printed",["working begun","working poll 1","working poll 2","completed"]]`},
		{"asked", `return (await c.callTool('asks')).content[0].text`, `"{\"who\":{\"action\":\"accept\",\"content\":{\"name\":\"Ada\"}}}"`},
		{"failed", `const e = await failure(c.callTool('fails')); return [e.name, e instanceof mcp.MCPError, e.code, e.data, e.task.status]`, `["MCPTaskError",true,-32603,{"tray":2},"failed"]`},
		{"one look lost", `return (await c.callTool('stumbles')).content[0].text`, `"printed"`},
		{"interval", `const at = performance.now(); await c.callTool('prints', {}, { pollIntervalMs: 100 }); return performance.now() - at >= 300`, `true`},
		{"taken up again", `let id; const first = failure(c.callTool('prints', {}, { onTask: (k) => { id = k.taskId; } })); while (!id) await new Promise((r) => setTimeout(r, 5));
			const other = new mcp.MCPBrowserClient({ baseUrl: '/tasks' }); const r = await other.resumeTask(id); await first; return r.content[0].text`, `"printed"`},
		{"unknown", `const e = await failure(c.resumeTask('nothing')); return [e.code, e.method]`, `[-32602,"tasks/get"]`},
	} {
		t.Run(row.what, func(t *testing.T) {
			if got := p.with(t, options, row.script); got != row.want {
				t.Errorf("%s, want %s", got, row.want)
			}
		})
	}
	t.Run("aborted", func(t *testing.T) {
		got := p.with(t, options, `const stop = new AbortController();
			const e = await failure(c.callTool('endless', {}, { signal: stop.signal, onTask: (k) => { if (k.statusMessage === 'poll 2') stop.abort(); } }));
			return e.name`)
		if got != `"AbortError"` {
			t.Errorf("it ended with %s", got)
		}
		await.Until(t, "the task was told to stop", func() bool {
			tasks.mu.Lock()
			defer tasks.mu.Unlock()
			return slices.Contains(tasks.log, "tasks/cancel")
		})
	})
	p.quiet(t)
}

// TestBrowserClientHubTasks is the same with tasks that the hub makes of plain calls, on both faces and in both forms of
// upstream.
func TestBrowserClientHubTasks(t *testing.T) {
	hubtest.Parallel(t)
	set, s := tools(t), newSite(t)
	chromium(t)
	old, young := peer.Serve(t, browserPeer(peer.EraLegacy)), peer.Serve(t, browserPeer(peer.EraModern))
	h := startHub(t, set, map[string]server{"old": {URL: old.URL, Task: "always"}, "young": {URL: young.URL, Task: "always"}}, shared(s))
	p := page(t, s, h)
	for name, up := range map[string]*peer.HTTPServer{"old": old, "young": young} {
		for _, face := range []struct{ path, prefix string }{{"/mcps/" + name, ""}, {"/mcp", name + "__"}} {
			t.Run(name+" at "+face.path, func(t *testing.T) {
				options := fmt.Sprintf(`{ baseUrl: 'http://%s%s', pollIntervalMs: 20, onElicitation: () => ({ action: 'accept', content: {} }) }`, h.address, face.path)
				for _, row := range []struct{ what, script, want string }{
					{"polled", `const seen = new Set(); const r = await c.callTool('PREFIXsteps', {}, { onTask: (k) => seen.add(k.status) }); return [r.content[0].text, [...seen]]`, `["done",["working","completed"]]`},
					{"progress in numbers", `const seen = []; await c.callTool('PREFIXwalk', {}, { onProgress: (k) => seen.push(k) });
						return [seen.length > 0, seen.every((k, i) => k.total === 12 && k.message.startsWith('step ') && (!i || k.progress > seen[i - 1].progress))]`, `[true,true]`},
					{"asked", `return JSON.parse((await c.callTool('PREFIXask')).content[0].text).length`, `3`},
					{"failed", `const e = await failure(c.callTool('PREFIXrefuse')); return [e.name, e.code, e.message.includes('not today'), e.data]`, `["MCPTaskError",-32099,true,{"why":["rain"]}]`},
				} {
					t.Run(row.what, func(t *testing.T) {
						if got := p.with(t, options, strings.ReplaceAll(row.script, "PREFIX", face.prefix)); got != row.want {
							t.Errorf("%s, want %s", got, row.want)
						}
					})
				}
				t.Run("aborted", func(t *testing.T) {
					before := len(up.State().Cancelled)
					got := p.with(t, options, `const stop = new AbortController(); let looks = 0;
						const e = await failure(c.callTool('`+face.prefix+`slow', {}, { signal: stop.signal, onTask: () => { if (++looks === 3) stop.abort(); } }));
						return e.name`)
					if got != `"AbortError"` {
						t.Errorf("it ended with %s", got)
					}
					await.Until(t, "the tool was told to stop", func() bool { return len(up.State().Cancelled) > before })
				})
			})
		}
	}
	p.quiet(t)
}
