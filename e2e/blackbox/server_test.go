package blackbox

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	// ledgerVariable makes the test binary an MCP server, and names the file in
	// which it notes each call.
	ledgerVariable = "BLACKBOX_LEDGER"
	// loudVariable makes that server print its environment to stderr.
	loudVariable = "BLACKBOX_LOUD"
	// listVariable names a file from which that server takes its list of tools,
	// if the file is there; it tells when that changes.
	listVariable = "BLACKBOX_LIST"
	// slowVariable names a file until which that server lists no tools.
	slowVariable = "BLACKBOX_SLOW"
	// helloVariable is what that server answers to initialize, if it is set.
	helloVariable = "BLACKBOX_HELLO"
)

// entry is one line of a ledger: a request that reached the server.
type entry struct {
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args"`
}

// ledger is the file of a server's calls. It outlives the server and the hub.
type ledger string

func (l ledger) entries(t testing.TB) []entry {
	t.Helper()
	text, err := os.ReadFile(string(l))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var all []entry
	for line := range strings.Lines(string(text)) {
		var e entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("ledger: %v: %q", err, line)
		}
		all = append(all, e)
	}
	return all
}

// count is how often a tool was called.
func (l ledger) count(t testing.TB, tool string) int {
	t.Helper()
	n := 0
	for _, e := range l.entries(t) {
		if e.Tool == tool {
			n++
		}
	}
	return n
}

// want fails the test unless the tool was called so often.
func (l ledger) want(t testing.TB, tool string, n int) {
	t.Helper()
	if got := l.count(t, tool); got != n {
		t.Errorf("the server was asked for %s %d times, want %d", tool, got, n)
	}
}

// toolList is what every server has: two tools that say nothing about
// themselves, and therefore count as destructive, and two that are read-only.
// wait and press answer once a file exists, so that a test can act in the
// middle of a call.
const toolList = `{"tools":[
{"name":"write","description":"Write a file.","inputSchema":{"type":"object","properties":{"path":{"type":"string"},"text":{"type":"string"}},"required":["path"]}},
{"name":"read","description":"Read a file.","inputSchema":{"type":"object","properties":{"path":{"type":"string"}}},"annotations":{"readOnlyHint":true}},
{"name":"press","description":"Press until a file is there.","inputSchema":{"type":"object","properties":{"path":{"type":"string"}}}},
{"name":"wait","description":"Wait for a file.","inputSchema":{"type":"object","properties":{"path":{"type":"string"}}},"annotations":{"readOnlyHint":true}}]}`

// speaker is how the server reaches its client.
type speaker struct {
	mu   sync.Mutex
	told chan json.RawMessage // what the client answers to a question
}

func (s *speaker) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Printf(format+"\n", args...)
}

func (s *speaker) answer(id json.RawMessage, member, value string) {
	s.say(`{"jsonrpc":"2.0","id":%s,%q:%s}`, id, member, strings.ReplaceAll(value, "\n", ""))
}

// wanted are the params of a call.
type wanted struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Meta      struct {
		ProgressToken json.RawMessage `json:"progressToken"`
	} `json:"_meta"`
}

// serveStdio is a small MCP server of the legacy era.
func serveStdio() int {
	if os.Getenv(loudVariable) != "" {
		for _, variable := range os.Environ() {
			fmt.Fprintln(os.Stderr, "environment:", variable)
		}
	}
	out := &speaker{told: make(chan json.RawMessage, 1)}
	go tellChanges(func() { out.say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`) })
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		var request struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params wanted          `json:"params"`
			Result json.RawMessage `json:"result"`
		}
		if json.Unmarshal(in.Bytes(), &request) != nil || request.ID == nil {
			if request.Method == "notifications/cancelled" {
				note("cancelled", nil)
			}
			continue // a notification asks for nothing
		}
		result, known := replies[request.Method]
		switch {
		case request.Method == "": // the answer to what a tool has asked
			out.told <- request.Result
		case request.Method == "tools/call" && request.Params.Name == "break":
			out.answer(request.ID, "error", `{"code":-32603,"message":"it broke"}`)
		case request.Method == "tools/call": // a call that waits must not hold up a list
			go func() { out.answer(request.ID, "result", perform(out, request.Params)) }()
		case request.Method == "tools/list":
			go func() {
				if slow := os.Getenv(slowVariable); slow != "" {
					note("tools/list", nil)
					untilThere(slow)
				}
				out.answer(request.ID, "result", listed())
			}()
		case request.Method == "initialize":
			out.answer(request.ID, "result", cmp.Or(os.Getenv(helloVariable), result))
		case known:
			if request.Method == "completion/complete" {
				note("complete", nil)
			}
			out.answer(request.ID, "result", result)
		default:
			out.answer(request.ID, "error", fmt.Sprintf(`{"code":-32601,"message":"no method %s"}`, request.Method))
		}
	}
	return 0
}

// listed is what the server answers to tools/list.
func listed() string {
	if path := os.Getenv(listVariable); path != "" {
		if text, err := os.ReadFile(path); err == nil {
			return string(text)
		}
	}
	return toolList
}

// tellChanges calls tell when there is another list of tools.
func tellChanges(tell func()) {
	if os.Getenv(listVariable) == "" {
		return
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for last := listed(); ; <-tick.C {
		if now := listed(); now != last {
			last = now
			tell()
		}
	}
}

// replies are the results of what needs no thought.
var replies = map[string]string{
	"initialize":          `{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"prompts":{},"completions":{}},"serverInfo":{"name":"blackbox","version":"1"}}`,
	"ping":                `{}`,
	"tools/list":          toolList,
	"prompts/list":        `{"prompts":[{"name":"greet","arguments":[{"name":"who"}]}]}`,
	"prompts/get":         `{"messages":[{"role":"user","content":{"type":"text","text":"hello"}}]}`,
	"completion/complete": `{"completion":{"values":["alice"]}}`,
}

// note writes a call into the ledger. An append of one short line is whole,
// whatever becomes of the process.
func note(tool string, args json.RawMessage) {
	line, err := json.Marshal(entry{Tool: tool, Args: args})
	if err == nil {
		var f *os.File
		if f, err = os.OpenFile(os.Getenv(ledgerVariable), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
			_, err = f.Write(append(line, '\n'))
			err = errors.Join(err, f.Close())
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "ledger:", err)
		os.Exit(2)
	}
}

func perform(out *speaker, call wanted) string {
	note(call.Name, call.Arguments)
	var args struct {
		Path, Text string
		Size       int
	}
	if err := json.Unmarshal(call.Arguments, &args); err != nil {
		return said(err.Error(), true)
	}
	switch call.Name {
	case "write":
		if err := os.WriteFile(args.Path, []byte(args.Text), 0o600); err != nil {
			return said(err.Error(), true)
		}
		return said("written", false)
	case "wait", "press":
		untilThere(args.Path)
		return said("it is there", false)
	case "ask":
		out.say(`{"jsonrpc":"2.0","id":"q1","method":"elicitation/create","params":{"message":%q,"requestedSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}}`, question)
		return said(string(<-out.told), false)
	case "count":
		return count(out, call.Meta.ProgressToken, args.Path)
	case "long":
		return said(strings.Repeat("0123456789", args.Size/10), false)
	case "rows":
		rows := make([]map[string]int, args.Size)
		for i := range rows {
			rows[i] = map[string]int{"id": i}
		}
		return structured(map[string]any{"rows": rows})
	case "load":
		text, err := os.ReadFile(args.Path)
		if err != nil {
			return said(err.Error(), true)
		}
		return structured(map[string]any{"content": string(text)})
	case "tick":
		return said(fmt.Sprintf("tick %d", ticks.Add(1)), false)
	case "read":
		return said("some text", false)
	}
	return said("no tool "+call.Name, true)
}

// question is what the tool ask asks its user.
const question = "What is your name?"

// count tells how far it has come, in numbers alone, until a file is there.
func count(out *speaker, token json.RawMessage, path string) string {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for n := 1; !exists(path); n++ {
		if token != nil {
			out.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d,"total":100000}}`, token, n)
		}
		<-tick.C
	}
	return said("counted", false)
}

// ticks is how often the server was asked for tick.
var ticks atomic.Int32

// structured is a result with content that programs read, and the same as text.
func structured(value map[string]any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return said(err.Error(), true)
	}
	b, err := json.Marshal(map[string]any{"content": []any{map[string]string{"type": "text", "text": string(text)}}, "structuredContent": value})
	if err != nil {
		return said(err.Error(), true)
	}
	return string(b)
}

func said(text string, isError bool) string {
	b, err := json.Marshal(map[string]any{"content": []any{map[string]string{"type": "text", "text": text}}, "isError": isError})
	if err != nil {
		return `{"content":[]}`
	}
	return string(b)
}

// untilThere waits for a file.
func untilThere(path string) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for hub := os.Getppid(); !exists(path); <-tick.C {
		if os.Getppid() != hub {
			os.Exit(1) // the hub was killed, and nobody waits for the answer
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// upstream is the entry of such a server in a config, and its ledger.
func upstream(t testing.TB, env ...string) (map[string]any, ledger) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	l := ledger(t.TempDir() + "/ledger")
	variables := map[string]string{ledgerVariable: string(l)}
	for pair := range slices.Chunk(env, 2) {
		variables[pair[0]] = pair[1]
	}
	return map[string]any{"command": self, "args": []string{"-test.run=^$"}, "env": variables}, l
}

// longTools are a text and rows of any size, for those who list them.
const longTools = `{"name":"long","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},{"name":"rows","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`

// loadTool reads a file, and yields what is in it as a member of its result.
const loadTool = `{"name":"load","description":"Read a document.","inputSchema":{"type":"object","properties":{"path":{"type":"string"}},"required":["path"],"additionalProperties":false},"outputSchema":{"type":"object","properties":{"content":{"type":"string"}},"required":["content"]},"annotations":{"readOnlyHint":true}}`

// tickTool says something else each time.
const tickTool = `{"name":"tick","description":"See how far it is.","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`

// withTools is upstream with further tools, each as tools/list has it.
func withTools(t testing.TB, tools string, env ...string) (map[string]any, ledger) {
	t.Helper()
	list := t.TempDir() + "/list"
	if err := os.WriteFile(list, []byte(strings.Replace(toolList, `{"tools":[`, `{"tools":[`+tools+",", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	return upstream(t, append(env, listVariable, list)...)
}
