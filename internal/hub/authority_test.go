package hub_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hub"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/wire"
)

// house is a hub with everything that a right can depend on: a tool that may be
// called, one for which a person is asked, one that a rule denies, a server out
// of the scopes of ann's token, and one that is switched off.
type house struct {
	*hubtest.Hub
	t     *testing.T
	ann   *auth.Principal
	token string // ann's
	peers map[string]*peer.HTTPServer
	chain string // of a call in which an agent was given a task by ann
	n     *atomic.Int64
}

// samplers are servers whose tool asks for the answer of a model: for one the
// policy allows that, for one a person is asked, for one it is denied, one is
// out of the scopes of ann's token, and one is switched off.
var samplers = []string{"helped", "shy", "alone", "remote", "asleep"}

// annsServers are what ann's token is for: all but far and remote.
var annsServers = auth.Scopes{"up", "off", "agent", "helped", "shy", "alone", "asleep", "clerk", "context", "plan", "task", "stoa"}

func openHouse(t *testing.T) *house {
	t.Helper()
	x := &house{t: t, n: new(atomic.Int64), peers: map[string]*peer.HTTPServer{}}
	readOnly := `{"name":%q,"inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`
	tool := func(name string) peer.Tool {
		return peer.Tool{Name: name, RawDefinition: peer.Raw(fmt.Sprintf(readOnly, name))}
	}
	for _, name := range []string{"up", "far", "off", "agent"} {
		x.peers[name] = peer.Serve(t, peer.Spec{Name: name, Tools: []peer.Tool{tool("ok"), tool("gated"), tool("banned"), tool("careful")}})
	}
	sampling := tool("ok")
	sampling.Behaviour = peer.Behaviour{Kind: peer.Sample}
	for _, name := range samplers {
		x.peers[name] = peer.Serve(t, peer.Spec{Name: name, Tools: []peer.Tool{sampling}})
	}
	data := t.TempDir()
	tokens, err := auth.OpenTokens(hub.TokensFile(data, ""))
	if err != nil {
		t.Fatal(err)
	}
	if _, x.token, err = tokens.Create("ann", annsServers, 0); err != nil {
		t.Fatal(err)
	}
	if x.ann, err = tokens.Verify(t.Context(), x.token); err != nil {
		t.Fatal(err)
	}
	x.Hub = hubtest.New(t, hubtest.HTTP("up", x.peers["up"].URL), hubtest.HTTP("far", x.peers["far"].URL), hubtest.HTTP("off", x.peers["off"].URL),
		hubtest.Modules(), hubtest.Data(data), func(s *hubtest.Setup) {
			s.Config.SSE = true
			s.Config.Policy.Rules.Rules = []config.Rule{
				{Tools: []string{"up:gated"}, Action: "ask", Reason: "it is gated"},
				{Tools: []string{"up:banned"}, Action: "deny", Reason: "it is banned"},
				{Tools: []string{"up:careful"}, Args: map[string]config.Cond{"x": {Glob: "*these_arguments"}}, Action: "deny", Reason: "not with these arguments"},
				{Tools: []string{"helped:sampling", "remote:sampling"}, Action: "allow"},
				{Tools: []string{"alone:sampling"}, Action: "deny", Reason: "it has to think for itself"},
			}
			for _, name := range samplers {
				hubtest.HTTP(name, x.peers[name].URL, byHost)(s)
			}
			s.Config.Agents = append(s.Config.Agents, config.Agent{Name: "clerk", Title: "clerk", Listed: true})
		})
	for _, server := range slices.Concat([]string{"up", "far", "off"}, samplers) {
		await.Until(t, "the tools of "+server+" are read", func() bool { return status(t, x.Hub, server).Tools > 0 })
	}
	body := fmt.Sprintf(`{"name":"agent","url":%q}`, x.peers["agent"].URL)
	if status, raw := x.do(http.MethodPost, "/mcps", body, x.Token); status != http.StatusCreated {
		t.Fatalf("register: %d %s", status, raw)
	}
	await.Until(t, "the agent's tools are read", func() bool { return status(t, x.Hub, "agent").Tools > 0 })
	for _, name := range []string{"off", "asleep"} {
		if status, raw := x.do(http.MethodPut, "/api/v1/modules/"+name, `{"on":false}`, x.Token); status != http.StatusOK {
			t.Fatalf("switch off: %d %s", status, raw)
		}
	}
	x.chain = x.called()
	return x
}

// called has ann call the agent, and returns the chain that the agent was told.
func (x *house) called() string {
	x.modern("/mcp", "agent__ok", `{"x":"chain"}`)
	for _, r := range x.peers["agent"].Requests() {
		if text, ok := wire.String(wire.Get(wire.Get(wire.Get(r.Body, "params"), "_meta"), "stoa/chain")); ok {
			return text
		}
	}
	x.t.Fatal("the agent was told of no chain")
	return ""
}

func (x *house) do(verb, path, body, token string, header ...string) (int, string) {
	x.t.Helper()
	req, err := http.NewRequest(verb, x.URL+path, strings.NewReader(body))
	if err != nil {
		x.t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		x.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		x.t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

// callBody is tools/call in the modern era.
func callBody(tool, args, chain string) string {
	meta := `"io.modelcontextprotocol/protocolVersion":"` + mcp.ModernVersion + `","io.modelcontextprotocol/clientCapabilities":{}`
	if chain != "" {
		meta += `,"stoa/chain":` + string(wire.Quote(chain))
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":{%s}}}`, tool, args, meta)
}

func (x *house) modern(path, tool, args string) string {
	_, raw := x.do(http.MethodPost, path, callBody(tool, args, ""), x.token, "Accept", "application/json, text/event-stream",
		"MCP-Protocol-Version", mcp.ModernVersion, "Mcp-Method", "tools/call", "Mcp-Name", tool)
	return raw
}

func (x *house) legacy(path, tool, args string) string {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, tool, args)
	_, raw := x.do(http.MethodPost, path, body, x.token, "Accept", "application/json")
	return raw
}

// way is a path by which a tool can run.
type way struct {
	path  actor.Path
	kinds []actor.Kind // of the delegates that it brings
	local bool         // the caller is the person at this machine, whose scopes are everything
	call  func(x *house, server, tool, args string) string
}

// chat says something to a model of the hub and returns all that happened.
func (x *house) chat(text string) string {
	body, err := json.Marshal(map[string]string{"text": text})
	if err != nil {
		x.t.Fatal(err)
	}
	var raw string
	await.Until(x.t, "the chat has time for another message", func() bool {
		status, said := x.do(http.MethodPost, "/api/chat", string(body), x.token, "Accept", "text/event-stream")
		raw = said
		return status == http.StatusOK
	})
	return raw
}

func name(server, tool string) string {
	if server == "" {
		return tool
	}
	return server + "__" + tool
}

func planOf(tool, args string) string {
	return fmt.Sprintf(`{"id":"p","steps":[{"id":"a","tool":%q,"args":%s}]}`, tool, args)
}

// ways are all of them. TestAuthority compares them with the paths and the kinds
// of delegates that there are.
var ways = map[string]way{
	"http legacy": {path: actor.HTTP, call: func(x *house, server, tool, args string) string { return x.legacy("/mcp", name(server, tool), args) }},
	"http modern": {path: actor.HTTP, call: func(x *house, server, tool, args string) string { return x.modern("/mcp", name(server, tool), args) }},
	"session": {path: actor.HTTP, call: func(x *house, server, tool, args string) string {
		return x.modern("/s/work/mcp", name(server, tool), args)
	}},
	"session legacy": {path: actor.HTTP, call: func(x *house, server, tool, args string) string {
		return x.legacy("/s/work/mcp", name(server, tool), args)
	}},
	"agent address": {path: actor.HTTP, call: func(x *house, server, tool, args string) string {
		return x.legacy("/mcps/"+home(server, tool)+"/mcp", tool, args)
	}},
	"agent address modern": {path: actor.HTTP, call: func(x *house, server, tool, args string) string {
		return x.modern("/mcps/"+home(server, tool)+"/mcp", tool, args)
	}},
	"sse": {path: actor.SSE, call: func(x *house, server, tool, args string) string { return x.events(name(server, tool), args) }},
	"websocket": {path: actor.WebSocket, call: func(x *house, server, tool, args string) string {
		return x.talk("/mcp/ws", []string{callBody(name(server, tool), args, "")}, `"id":1`)
	}},
	"websocket legacy": {path: actor.WebSocket, call: func(x *house, server, tool, args string) string {
		return x.talk("/mcp/ws", append(strings.Split(strings.TrimSpace(handshake), "\n"), callLegacy(name(server, tool), args)), `"id":1`)
	}},
	"stdio": {path: actor.Stdio, call: func(x *house, server, tool, args string) string {
		return x.pipe("", callBody(name(server, tool), args, ""))
	}},
	"stdio legacy": {path: actor.Stdio, call: func(x *house, server, tool, args string) string {
		return x.pipe(handshake, callLegacy(name(server, tool), args))
	}},
	"chat socket": {path: actor.Chat, kinds: []actor.Kind{actor.Model}, call: func(x *house, server, tool, args string) string {
		text, _ := json.Marshal("call " + name(server, tool) + " " + args)
		return x.talk("/ws", []string{`{"type":"message","payload":{"text":` + string(text) + `}}`}, `"turn.ended"`)
	}},
	"agent's socket": {path: actor.Chat, kinds: []actor.Kind{actor.Model}, call: func(x *house, server, tool, args string) string {
		text, _ := json.Marshal("call " + name(server, tool) + " " + args)
		return x.talk("/ws/clerk", []string{`{"user_input":` + string(text) + `}`}, `"complete"`, `"error"`)
	}},
	"api": {path: actor.API, call: func(x *house, server, tool, args string) string {
		_, raw := x.do(http.MethodPost, "/api/tools/"+name(server, tool), args, x.token)
		return raw
	}},
	"console and command line": {path: actor.API, local: true, call: func(x *house, server, tool, args string) string {
		_, raw := x.do(http.MethodPost, "/api/tools/"+name(server, tool), args, x.Token)
		return raw
	}},
	"library": {path: actor.Library, local: true, call: func(x *house, server, tool, args string) string {
		resp, err := x.Call(x.t.Context(), home(server, tool), tool, []byte(args))
		if err != nil {
			return err.Error()
		}
		defer resp.Release()
		return string(resp.Result) + string(resp.Error)
	}},
	"chat": {path: actor.Chat, kinds: []actor.Kind{actor.Model}, call: func(x *house, server, tool, args string) string {
		return x.chat("call " + name(server, tool) + " " + args)
	}},
	"agent as a tool": {path: actor.HTTP, kinds: []actor.Kind{actor.Model}, call: func(x *house, server, tool, args string) string {
		text, _ := json.Marshal(map[string]string{"user_input": "call " + name(server, tool) + " " + args})
		return x.modern("/mcp", "clerk__chat", string(text))
	}},
	"plan": {path: actor.HTTP, kinds: []actor.Kind{actor.Plan}, call: func(x *house, server, tool, args string) string {
		return x.modern("/s/work/mcp", "plan_execute", `{"plan":`+planOf(name(server, tool), args)+`}`)
	}},
	"published plan": {path: actor.HTTP, kinds: []actor.Kind{actor.Plan}, call: func(x *house, server, tool, args string) string {
		id := fmt.Sprintf("p%d", x.n.Add(1))
		made := x.modern("/s/work/mcp", "plan_create", fmt.Sprintf(`{"plan":%s,"publish":%q}`, planOf(name(server, tool), args), id))
		at := strings.Index(made, "plan__"+id+"-")
		if at < 0 {
			return made
		}
		published := made[at : at+len("plan__"+id+"-123456")]
		said := x.modern("/s/work/mcp", published, "{}")
		if at := strings.Index(said, "run_"); at >= 0 { // which tells its outputs only
			said += x.modern("/s/work/mcp", "plan_status", fmt.Sprintf(`{"sessionId":%q,"includeResults":true}`, said[at:at+24]))
		}
		return said
	}},
	"shared plan of another": {path: actor.HTTP, kinds: []actor.Kind{actor.Plan}, call: func(x *house, server, tool, args string) string {
		return x.shared(name(server, tool), args)
	}},
	"batch": {path: actor.HTTP, kinds: []actor.Kind{actor.Batch}, call: func(x *house, server, tool, args string) string {
		if tool == "tools_batch" { // which cannot be in another, but in a plan that is
			tool, args = "plan_execute", `{"session":"work","plan":`+planOf(tool, args)+`}`
		}
		return x.modern("/mcp", "tools_batch", batchOf(name(server, tool), args))
	}},
	"task": {path: actor.HTTP, kinds: []actor.Kind{actor.Task}, call: func(x *house, server, tool, args string) string {
		made := x.modern("/mcp", "task_start", fmt.Sprintf(`{"tool":%q,"arguments":%s}`, name(server, tool), args))
		_, after, ok := strings.Cut(made, `"task":"`)
		id, _, _ := strings.Cut(after, `"`)
		if !ok {
			return made
		}
		return x.modern("/mcp", "task_result", fmt.Sprintf(`{"task":%q,"waitMs":30000}`, id))
	}},
	// An agent that ann has called calls back, tokenless: as the person at this
	// machine, and so with nothing of its own that would keep it out.
	"agent that calls back": {path: actor.HTTP, kinds: []actor.Kind{actor.Agent}, call: func(x *house, server, tool, args string) string {
		_, raw := x.do(http.MethodPost, "/mcp", callBody(name(server, tool), args, x.chain), "", "Accept", "application/json, text/event-stream",
			"MCP-Protocol-Version", mcp.ModernVersion, "Mcp-Method", "tools/call", "Mcp-Name", name(server, tool))
		return raw
	}},
	// A run of the owner's, paused, that a model of ann's could not move on; here
	// the one who moves it is the owner, whom nothing keeps out, and what counts
	// is the run's own.
	"run moved on by another": {path: actor.HTTP, kinds: []actor.Kind{actor.Plan, actor.Steering}, call: func(x *house, server, tool, args string) string {
		made := x.modern("/s/work/mcp", "plan_debug", `{"plan":`+planOf(name(server, tool), args)+`,"action":"pause"}`)
		at := strings.Index(made, "run_")
		if at < 0 {
			return made
		}
		id := made[at : at+24]
		_, raw := x.do(http.MethodPost, "/api/v1/runs/"+id+"/continue?wait=30s&results=true", "{}", x.Token)
		return raw
	}},
}

func batchOf(tool, args string) string {
	return fmt.Sprintf(`{"calls":[{"tool":%q,"arguments":%s}]}`, tool, args)
}

// wraps put a call inside of others.
var wraps = map[string]func(server, tool, args string) (string, string, string){
	"direct": func(server, tool, args string) (string, string, string) { return server, tool, args },
	"one delegate": func(server, tool, args string) (string, string, string) {
		return "", "tools_batch", batchOf(name(server, tool), args)
	},
	"two delegates": func(server, tool, args string) (string, string, string) {
		return "", "plan_execute", `{"session":"work","plan":` + planOf("tools_batch", batchOf(name(server, tool), args)) + `}`
	},
}

// TestAuthority is the matrix: every path by which a tool can run, what the
// rights of the caller say of the tool, and how many delegates are in between.
// What happens at the server is what counts, then what the caller is told.
func TestAuthority(t *testing.T) {
	hubtest.Parallel(t)
	x := openHouse(t)
	paths, kinds := map[actor.Path]bool{actor.Hub: true}, map[actor.Kind]bool{actor.Sampling: true} // the samplers bring it in every row
	for _, w := range ways {
		paths[w.path] = true
		for _, k := range w.kinds {
			kinds[k] = true
		}
	}
	for _, p := range actor.Paths() {
		if !paths[p] {
			t.Errorf("no row comes by %s", p)
		}
	}
	for _, k := range actor.Kinds() {
		if !kinds[k] {
			t.Errorf("no row has a delegate of the kind %s", k)
		}
	}
	rights := map[string]struct{ server, tool, want string }{
		"allowed":                    {"up", "ok", "ran"},
		"ask":                        {"up", "gated", "asked"},
		"denied":                     {"up", "banned", "unknown"},
		"out of scope":               {"far", "ok", "unknown"},
		"denied for these arguments": {"up", "careful", "forbidden"},
		"switched off":               {"off", "ok", "unknown"},

		"sampling allowed":      {"helped", "ok", "answered"},
		"sampling ask":          {"shy", "ok", "asked"},
		"sampling denied":       {"alone", "ok", "refused"},
		"sampling out of scope": {"remote", "ok", "unknown"},
		"sampling switched off": {"asleep", "ok", "unknown"},
	}
	for i, title := range slices.Sorted(maps.Keys(ways)) {
		for j, depth := range slices.Sorted(maps.Keys(wraps)) {
			for k, right := range slices.Sorted(maps.Keys(rights)) {
				w, c := ways[title], rights[right]
				if far := map[string]string{"out of scope": "ran", "sampling out of scope": "answered"}[right]; w.local && far != "" {
					c.want = far // nothing is out of the scope of who is at this machine
				}
				// Of samplers, every two of these meet, and in the long form all.
				if slices.Contains(samplers, c.server) && (i+j+k)%len(wraps) >= soak(1, len(wraps)) {
					continue
				}
				t.Run(title+"/"+depth+"/"+right, func(t *testing.T) {
					in := x.in(t)
					in.verdict(w, wraps[depth], c.server, c.tool, c.want)
				})
			}
		}
	}
}

// TestApprovedRunsOnce has a person say yes on every path.
func TestApprovedRunsOnce(t *testing.T) {
	hubtest.Parallel(t)
	x := openHouse(t)
	defer approving(t, x)()
	for _, title := range slices.Sorted(maps.Keys(ways)) {
		for _, depth := range slices.Sorted(maps.Keys(wraps)) {
			t.Run(title+"/"+depth, func(t *testing.T) { x.in(t).approvedOnce(ways[title], wraps[depth]) })
		}
	}
}

// in is the house for one test in it.
func (x *house) in(t *testing.T) *house {
	return &house{Hub: x.Hub, t: t, ann: x.ann, token: x.token, peers: x.peers, chain: x.chain, n: x.n}
}

func (x *house) verdict(w way, wrap func(string, string, string) (string, string, string), server, tool, want string) {
	x.t.Helper()
	mark := fmt.Sprintf("mark-%s", strings.ReplaceAll(x.t.Name(), "/", "-"))
	s, tl, args := wrap(server, tool, fmt.Sprintf(`{"x":%q}`, mark))
	answer := w.call(x, s, tl, args)
	ran := slices.ContainsFunc(x.peers[server].Requests(), func(r peer.Request) bool {
		return r.Method == "tools/call" && bytes.Contains(r.Body, []byte(mark))
	})
	got := "unclear"
	low := strings.ToLower(answer)
	switch sampler := slices.Contains(samplers, server); {
	case sampler && strings.Contains(answer, "You said"):
		got = "answered"
	case sampler && strings.Contains(answer, "think for itself"):
		got = "refused"
	case ran && !sampler:
		got = "ran"
	case strings.Contains(low, "not with these arguments"):
		got = "forbidden"
	case strings.Contains(low, "nobody is there to be asked"):
		got = "asked"
	case strings.Contains(low, "unknown tool"), strings.Contains(low, "not found"), strings.Contains(low, "there is no tool"), strings.Contains(low, "no tool"):
		got = "unknown"
	}
	if got != want {
		x.t.Errorf("got %s, want %s: %.1500s", got, want, answer)
	}
}

// events calls a tool over HTTP+SSE.
func (x *house) events(tool, args string) string {
	ctx, cancel := context.WithTimeout(x.t.Context(), await.Patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, x.URL+"/sse", nil)
	if err != nil {
		x.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+x.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		x.t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	next := func() string {
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				return data
			}
		}
		x.t.Fatalf("the stream has ended: %v", lines.Err())
		return ""
	}
	address := next()
	post := func(body string) {
		if status, raw := x.do(http.MethodPost, address, body, x.token); status != http.StatusAccepted {
			x.t.Fatalf("%d %s", status, raw)
		}
	}
	post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	next()
	post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	post(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, tool, args))
	for {
		if m := next(); strings.Contains(m, `"id":1`) {
			return m
		}
	}
}
