package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// pagesPeer is a process that misbehaves in what it says.
func pagesPeer(t *testing.T) server {
	t.Helper()
	definition, err := json.Marshal(map[string]any{"name": "odd", "title": allHostile, "description": allHostile,
		"inputSchema": map[string]any{"type": "object", "properties": map[string]any{allHostile: map[string]any{"type": "string", "description": allHostile}}}})
	if err != nil {
		t.Fatal(err)
	}
	said, err := json.Marshal(map[string]any{"content": []any{map[string]any{"type": "text", "text": allHostile}}})
	if err != nil {
		t.Fatal(err)
	}
	refused, err := json.Marshal(map[string]any{"code": -32099, "message": allHostile})
	if err != nil {
		t.Fatal(err)
	}
	command, args, env := peer.Command(peer.Spec{Name: allHostile, Instructions: allHostile, Tools: []peer.Tool{
		{Name: "echo"}, {Name: "grow", Behaviour: peer.Do(peer.Notify)}, {Name: "slow", Behaviour: peer.Behaviour{Kind: peer.Slow, For: 10 * time.Minute}},
		{Name: "odd", RawDefinition: peer.Raw(definition), Behaviour: peer.Behaviour{Kind: peer.Verbatim, Raw: peer.Raw(said)}},
		{Name: "rude", Behaviour: peer.Behaviour{Kind: peer.Error, Raw: peer.Raw(refused)}}, {Name: "crash", Behaviour: peer.Do(peer.Crash)},
	}})
	for name, value := range env {
		env[name] = strings.ReplaceAll(value, "${", "$${") // no variable of the config
	}
	noise := filepath.Join(t.TempDir(), "noise")
	if err := os.WriteFile(noise, []byte(allHostile+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return server{Command: "/bin/sh", Args: append([]string{"-c", `cat '` + noise + `' >&2; exec "$0" "$@"`, command}, args...), Env: env}
}

// changing is a process that offers other tools once a file is there: one is new, one is gone, and one takes more.
func changing(t *testing.T, flag string) server {
	t.Helper()
	definition := func(more string) peer.Raw {
		return peer.Raw(`{"name":"find","description":"Finds things.","inputSchema":{"type":"object","properties":{"text":{"type":"string"}` + more + `}}}`)
	}
	command, args, env := peer.Command(peer.Spec{Tools: []peer.Tool{{Name: "find", RawDefinition: definition("")}, {Name: "old"}}})
	_, _, other := peer.Command(peer.Spec{Tools: []peer.Tool{{Name: "find", RawDefinition: definition(`,"limit":{"type":"integer"}`)}, {Name: "fresh"}}})
	script := `if [ -e '` + flag + `' ]; then`
	for name, value := range other {
		if value != env[name] {
			env["OTHER_"+name] = value
			script += ` export ` + name + `="$OTHER_` + name + `";`
		}
	}
	return server{Command: "/bin/sh", Args: append([]string{"-c", script + ` fi; exec "$0" "$@"`, command}, args...), Env: env}
}

// TestConsoleServers looks at servers, restarts one, sees how what they offer changes, and has the hub count who watches.
func TestConsoleServers(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	flag := filepath.Join(t.TempDir(), "changed")
	h := startHub(t, set, map[string]server{"up": pagesPeer(t), "shifty": changing(t, flag)})
	c := openConsole(t, h, "servers")
	pids := func(name string) []int {
		var one struct{ Server struct{ Pids []int } }
		if err := json.Unmarshal(c.api(t, "GET", "/api/v1/servers/"+name, ""), &one); err != nil {
			t.Fatal(err)
		}
		return one.Server.Pids
	}
	c.until(t, `document.querySelector('[data-testid="server-up"]')`)
	c.until(t, `document.querySelector('nav .foot').innerText.includes('live')`)
	c.screens(t, "servers")
	c.click(t, by("server-up"))
	c.until(t, `document.querySelector('[data-testid="pid"]') && location.pathname === '/console/servers/up'`)
	before := pids("up")
	if got := c.text(t, by("pid")); got != fmt.Sprint(before[0]) {
		t.Errorf("its process is %s, not %v", got, before)
	}
	c.until(t, `document.querySelector('section.side .machine [aria-current=step]')?.innerText.startsWith('connected') && document.querySelector('[data-testid="stderr"]').innerText.includes('onerror')`)
	facts := strings.Join(strings.Fields(c.text(t, "section.side .facts")), " ")
	for _, want := range []string{"Transport stdio", "Eras legacy, modern", "Breaker closed", "Offers 6 tools", peer.Modern} {
		if !strings.Contains(facts, want) {
			t.Errorf("of the server it says %s, and not %q", facts, want)
		}
	}
	if got := c.text(t, by("capabilities")); !strings.Contains(got, "tools") || !strings.Contains(got, "listChanged") {
		t.Errorf("its capabilities are %s", got)
	}
	c.run(t, `document.querySelector('[data-testid="restart"]').focus()`)
	c.do(t, chromedp.KeyEvent(kb.Enter))
	c.until(t, `(() => { const p = [...document.querySelectorAll('[data-testid="pid"]')].map((e) => e.innerText); return p.length && p.every((x) => !`+string(mustJSON(before))+`.map(String).includes(x)); })()`)
	await.Until(t, "the old process is gone", func() bool {
		now := pids("up")
		return len(now) > 0 && !slices.ContainsFunc(before, func(pid int) bool { return slices.Contains(now, pid) || syscall.Kill(pid, 0) == nil })
	})
	await.Until(t, "its lists change", func() bool {
		c.api(t, "POST", "/api/tools/up__grow", "{}")
		return strings.Contains(string(c.api(t, "GET", "/api/v1/servers/up", "")), `"what":"added"`)
	})
	// The one that is open may be another.
	c.until(t, `[...document.querySelectorAll('[data-testid="change"]')].some((e) => e.querySelector('.diff .come')?.textContent && e.textContent.includes('extra_'))`)
	c.until(t, `/connected/.test(document.querySelector('[data-testid="states"]')?.textContent)`)

	// One that comes back with other tools: what is new, what is gone, and which line of a definition is another.
	if err := os.WriteFile(flag, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c.click(t, by("server-shifty"))
	c.until(t, `document.querySelector('section.side h2')?.innerText === 'shifty' && document.querySelector('[data-testid=restart]')`)
	c.click(t, by("restart"))
	c.until(t, `(() => { const said = document.querySelector('[data-testid="change"]')?.innerText ?? ''; return /added\s+tool\s+fresh/.test(said) && /removed\s+tool\s+old/.test(said) && /changed\s+tool\s+find/.test(said); })()`)
	c.until(t, `[...document.querySelectorAll('[data-testid="change"] .diff .come')].some((e) => e.innerText.includes('"limit"'))`)
	c.run(t, `document.querySelector('[data-testid="change"]').scrollIntoView()`)
	c.screens(t, "server")

	// The page is a viewer, and a further address shows it too.
	var status struct {
		Data struct {
			Running       bool
			Port, Viewers int
			URL           string
		}
	}
	ask := func(tool, args string) {
		t.Helper()
		if err := json.Unmarshal(c.api(t, "POST", "/api/tools/"+tool, args), &status); err != nil {
			t.Fatal(err)
		}
	}
	if ask("web_debug_status", "{}"); status.Data.Viewers != 1 || status.Data.Running {
		t.Errorf("with one page: %+v", status)
	}
	if ask("web_debug_start", "{}"); !status.Data.Running || status.Data.URL == "" {
		t.Fatalf("web_debug_start: %+v", status)
	}
	c.do(t, navigate(status.Data.URL+"servers"))
	c.until(t, `document.querySelector('form.lock')`) // it is another origin, which has nothing of the first
	c.write(t, `input[name=code]`, c.newCode(t))
	c.click(t, "form.lock button")
	c.until(t, `document.querySelector('[data-testid="server-up"]') && location.port === '`+fmt.Sprint(status.Data.Port)+`' && document.querySelector('nav .foot').innerText.includes('live')`)
	await.Until(t, "the page of before is no viewer any more", func() bool { ask("web_debug_status", "{}"); return status.Data.Viewers == 1 })
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // of what tests make
	}
	return b
}

func TestConsoleContext(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	h := startHub(t, set, map[string]server{"up": pagesPeer(t)}, map[string]any{"modules": map[string]any{"context": map[string]any{"enabled": true}}})
	c := openConsole(t, h, "context")
	numbers := make([]int, 6000)
	for i := range numbers {
		numbers[i] = i
	}
	c.api(t, "POST", "/api/tools/context_add?session=work", `{"name":"rows","data":`+string(mustJSON(numbers))+`}`)
	c.api(t, "POST", "/api/tools/context_add?session=work", `{"name":"note","data":{"title":"first","id":12345678901234567890},"description":"a note"}`)
	c.api(t, "POST", "/api/tools/up__echo?session=work&saveAs=copy", `{"from":"@note.title"}`)
	c.click(t, by("session-work"))
	c.click(t, by("value-note"))
	c.until(t, `document.querySelector('[data-testid="preview"]')?.innerText.includes('first') && document.querySelector('[data-testid="preview"]').innerText.includes('12345678901234567890') && document.querySelector('[data-testid="used-by"]').innerText.includes('@copy')`)
	c.screens(t, "context")
	c.click(t, by("edit"))
	c.until(t, `document.querySelector('[data-testid="editor"]')?.value.includes('"id": 12345678901234567890')`)
	c.write(t, by("editor"), `{"title": "sec`)
	c.until(t, `document.querySelector('[data-testid="store"]').disabled`)
	c.keys(t, by("editor"), `ond"}`)
	c.click(t, by("store"))
	c.until(t, `document.querySelector('[data-testid="preview"]')?.innerText.includes('second')`)
	if got := string(c.api(t, "GET", "/api/v1/sessions/work/values/note", "")); got != `{"title": "second"}` {
		t.Errorf("the hub holds %s", got)
	}
	// Two edit at once: the second is told, and nothing is lost.
	c.click(t, by("edit"))
	c.write(t, by("editor"), `{"title": "mine"}`)
	c.api(t, "PUT", "/api/v1/sessions/work/values/note?over=2", `{"title": "another's"}`)
	c.until(t, `document.querySelector('[data-testid="overtaken"]')?.innerText.includes('Version 3')`)
	c.click(t, by("store"))
	c.until(t, `document.querySelector('section.side .trouble')?.innerText.includes('somebody else has stored it') && document.querySelector('[data-testid="editor"]').value === '{"title": "mine"}'`)
	if got := string(c.api(t, "GET", "/api/v1/sessions/work/values/note", "")); got != `{"title": "another's"}` {
		t.Errorf("the hub holds %s", got)
	}
	c.click(t, by("leave"))
	facts := strings.Join(strings.Fields(c.text(t, "section.side .facts")), " ")
	for _, want := range []string{"Type object", "Size 22 B", "Version 3", "By local"} {
		if !strings.Contains(facts, want) {
			t.Errorf("of the value it says %s, and not %q", facts, want)
		}
	}
	c.click(t, by("version-1"))
	c.until(t, `document.querySelector('[data-testid="preview"]')?.innerText.includes('first') && location.search.includes('version=1')`)
	c.click(t, by("value-rows"))
	c.until(t, `document.querySelector('[data-testid="further"]') && document.querySelector('section.side h2').innerText === '@rows'`)
	c.click(t, by("further"))
	c.until(t, `/elements from [1-9]\d* of 6000/.test(document.querySelector('[data-testid="preview"]')?.innerText)`)
	c.click(t, by("remove"))
	c.until(t, `document.activeElement?.dataset.testid === 'remove-yes'`)
	c.do(t, chromedp.KeyEvent(kb.Enter))
	c.until(t, `location.pathname === '/console/context/work' && document.querySelector('[data-testid="value-note"]') && !document.querySelector('[data-testid="value-rows"]')`)
	if got := string(c.api(t, "GET", "/api/v1/sessions/work", "")); strings.Contains(got, `"rows"`) || !strings.Contains(got, `"note"`) {
		t.Errorf("the session holds %s", got)
	}
	// More values than one page has, which the hub searches.
	for i := range 60 {
		c.api(t, "POST", "/api/tools/context_add?session=work", fmt.Sprintf(`{"name":"n%02d","data":%d}`, i, i))
	}
	c.until(t, `document.querySelector('[data-testid="part"]')?.innerText === '1–50 of 62'`)
	c.click(t, by("later"))
	c.until(t, `document.querySelector('[data-testid="part"]').innerText === '51–62 of 62' && document.querySelector('[data-testid="value-n59"]') && !document.querySelector('[data-testid="value-n01"]') && location.search.includes('offset=50')`)
	c.click(t, by("value-n59"))
	c.until(t, `document.querySelector('[data-testid="preview"]')?.innerText.includes('59') && document.querySelector('[data-testid="value-n58"]')`)
	c.write(t, by("search"), "N5")
	c.until(t, `document.querySelectorAll('main table')[0].querySelectorAll('tbody tr').length === 10 && !location.search.includes('offset')`)
}

func TestConsoleSessions(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	h := startHub(t, set, map[string]server{"up": pagesPeer(t)})
	c := openConsole(t, h, "sessions")
	for _, name := range []string{"alpha", "beta", "gamma"} {
		c.api(t, "POST", "/api/tools/context_add?session="+name, `{"name":"v","data":"of `+name+`"}`)
	}
	c.until(t, `document.querySelector('[data-testid="session-gamma"]')`)
	c.screens(t, "sessions")
	for i := range 52 {
		c.api(t, "POST", fmt.Sprintf("/api/tools/context_add?session=many%02d", i), `{"name":"v","data":1}`)
	}
	c.until(t, `document.querySelector('[data-testid="part"]')?.innerText === '1–50 of 55'`)
	c.click(t, by("later"))
	c.until(t, `document.querySelector('[data-testid="session-many51"]') && !document.querySelector('[data-testid="session-alpha"]') && document.querySelectorAll('main tbody tr').length === 5`)
	c.click(t, by("earlier"))
	c.until(t, `document.querySelector('[data-testid="session-alpha"]') && location.search === ''`)
	c.write(t, by("search"), "eta")
	c.until(t, `document.querySelector('[data-testid="session-beta"]') && !document.querySelector('[data-testid="session-alpha"]') && location.search === '?search=eta'`)
	c.api(t, "POST", "/api/chat", `{"sessionId":"eta-talk","text":"echo hello"}`)
	c.until(t, `document.querySelector('[data-testid="session-eta-talk"]')?.closest('tr').innerText.includes('chat')`)
	c.click(t, by("end-eta-talk"))
	c.click(t, by("end-eta-talk-yes"))
	c.until(t, `!document.querySelector('[data-testid="session-eta-talk"]')`)
	c.api(t, "POST", "/s/alpha/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"a-client","version":"3"}}}`)
	c.until(t, `/mcp\s+local\s+alpha.*a-client 3/s.test(document.querySelector('[data-testid="connected"]')?.innerText)`)
	dir := t.TempDir()
	c.do(t, act(browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{Behavior: browser.SetDownloadBehaviorBehaviorAllow, DownloadPath: dir, BrowserContextID: c.owner()}))
	c.click(t, by("export-beta"))
	await.Until(t, "the export is a file", func() bool {
		text, err := os.ReadFile(filepath.Join(dir, "beta.json"))
		return err == nil && json.Valid(text) && strings.Contains(string(text), "of beta")
	})
	c.click(t, by("end-beta"))
	c.click(t, by("end-beta-yes"))
	c.until(t, `!document.querySelector('[data-testid="session-beta"]')`)
	if got := string(c.api(t, "GET", "/api/v1/sessions", "")); strings.Contains(got, `"beta"`) || !strings.Contains(got, `"alpha"`) {
		t.Errorf("sessions: %s", got)
	}
}

// TestConsoleAgents looks at a queue and at tasks, and cancels one that runs: its tool is told, and the next has its turn.
func TestConsoleAgents(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	up := peer.Serve(t, peer.Spec{Tools: []peer.Tool{{Name: "echo"}, {Name: "slow", Behaviour: peer.Behaviour{Kind: peer.Slow, For: 10 * time.Minute}}}})
	h := startHub(t, set, map[string]server{"up": {URL: up.URL, Queue: map[string]any{"concurrency": 1, "capacity": 7, "timeoutMs": 600_000}}})
	c := openConsole(t, h, "agents")
	c.api(t, "POST", "/api/tools/task_start", `{"tool":"up__echo","arguments":{"said":"hello there"}}`)
	status := func(id string) string {
		var one struct{ Task struct{ Status string } }
		if err := json.Unmarshal(c.api(t, "GET", "/api/v1/tasks/"+id, ""), &one); err != nil {
			t.Fatal(err)
		}
		return one.Task.Status
	}
	c.choose(t, by("status"), "completed")
	c.until(t, `document.querySelectorAll('[data-testid="task"]').length === 1 && document.querySelector('[data-testid="task"]').innerText === 'up:echo'`)
	c.click(t, by("task"))
	c.until(t, `document.querySelector('[data-testid="result"]')?.innerText.includes('hello there')`)
	var ids []string
	for range 3 {
		var begun struct{ Data struct{ Task string } }
		raw := c.api(t, "POST", "/api/tools/task_start", `{"tool":"up__slow","arguments":{}}`)
		if err := json.Unmarshal(raw, &begun); err != nil || begun.Data.Task == "" {
			t.Fatalf("task_start: %s", raw)
		}
		ids = append(ids, begun.Data.Task)
		await.Until(t, "the first runs", func() bool { return len(up.State().Called) == 2 })
	}
	c.until(t, `document.querySelector('[data-testid="queue-up"]')?.innerText.startsWith('1 of 1 run, 2 of 7 wait') && document.querySelector('[data-testid="queue-up"] meter').value === 2`)
	c.screens(t, "agents")
	c.choose(t, by("status"), "working")
	c.until(t, `document.querySelectorAll('[data-testid="task"]').length === 3 && document.querySelector('[data-testid="task"]').innerText === 'up:slow'`)
	c.click(t, `[data-testid="task"][href*="`+ids[0]+`"]`)
	c.until(t, `document.querySelector('section.side')?.innerText.includes(`+quoted(ids[0])+`)`)
	c.click(t, by("cancel"))
	c.click(t, by("cancel-yes"))
	c.until(t, `document.querySelector('section.side')?.innerText.includes('cancelled')`)
	if got := status(ids[0]); got != "cancelled" {
		t.Errorf("the task is %s", got)
	}
	await.Until(t, "its tool was told, and the next has its turn", func() bool { s := up.State(); return len(s.Cancelled) == 1 && len(s.Called) == 3 })
	c.until(t, `document.querySelector('[data-testid="queue-up"]')?.innerText.startsWith('1 of 1 run, 1 of 7 wait')`)
}
