package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/hubtest"
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
	t.Parallel()
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
	eventually(t, "the old process is gone", func() bool {
		now := pids("up")
		return len(now) > 0 && !slices.ContainsFunc(before, func(pid int) bool { return slices.Contains(now, pid) || syscall.Kill(pid, 0) == nil })
	})
	eventually(t, "its lists change", func() bool {
		c.api(t, "POST", "/api/tools/up__grow", "{}")
		return strings.Contains(string(c.api(t, "GET", "/api/v1/servers/up", "")), `"what":"added"`)
	})
	c.until(t, `document.querySelector('[data-testid="change"] .diff .come')?.innerText && document.querySelector('[data-testid="change"]').innerText.includes('extra_')`)
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
	c.until(t, `document.querySelector('[data-testid="server-up"]') && location.port === '`+fmt.Sprint(status.Data.Port)+`' && document.querySelector('nav .foot').innerText.includes('live')`)
	eventually(t, "the page of before is no viewer any more", func() bool { ask("web_debug_status", "{}"); return status.Data.Viewers == 1 })
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // of what tests make
	}
	return b
}

func TestConsoleContext(t *testing.T) {
	t.Parallel()
	set := tools(t)
	h := startHub(t, set, map[string]server{"up": pagesPeer(t)}, map[string]any{"modules": map[string]any{"context": map[string]any{"enabled": true}}})
	c := openConsole(t, h, "context")
	numbers := make([]int, 6000)
	for i := range numbers {
		numbers[i] = i
	}
	c.api(t, "POST", "/api/tools/context_add?session=work", `{"name":"rows","data":`+string(mustJSON(numbers))+`}`)
	c.api(t, "POST", "/api/tools/context_add?session=work", `{"name":"note","data":{"title":"first"},"description":"a note"}`)
	c.api(t, "POST", "/api/tools/up__echo?session=work&saveAs=copy", `{"from":"@note.title"}`)
	c.click(t, by("session-work"))
	c.click(t, by("value-note"))
	c.until(t, `document.querySelector('[data-testid="preview"]')?.innerText.includes('first') && document.querySelector('[data-testid="used-by"]').innerText.includes('@copy')`)
	c.screens(t, "context")
	c.click(t, by("edit"))
	c.write(t, by("editor"), `{"title": "sec`)
	c.until(t, `document.querySelector('[data-testid="store"]').disabled`)
	c.do(t, chromedp.SendKeys(chromedp.CSS(by("editor")), `ond"}`))
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
	t.Parallel()
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
	dir := t.TempDir()
	c.do(t, act(browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{Behavior: browser.SetDownloadBehaviorBehaviorAllow, DownloadPath: dir}))
	c.click(t, by("export-beta"))
	eventually(t, "the export is a file", func() bool {
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
	t.Parallel()
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
		eventually(t, "the first runs", func() bool { return len(up.State().Called) == 2 })
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
	eventually(t, "its tool was told, and the next has its turn", func() bool { s := up.State(); return len(s.Cancelled) == 1 && len(s.Called) == 3 })
	c.until(t, `document.querySelector('[data-testid="queue-up"]')?.innerText.startsWith('1 of 1 run, 1 of 7 wait')`)
}

// TestConsoleErrors looks at what went wrong, takes it along, and finds it again after the hub was stopped and started.
func TestConsoleErrors(t *testing.T) {
	t.Parallel()
	set := tools(t)
	h, p := launch(t, environment(t, set), hub{config: writeConfig(t, map[string]server{"up": pagesPeer(t)}), data: filepath.Join(t.TempDir(), "data"), address: "127.0.0.1:0"})
	p.await(t, "the server lists its tools", func() error { return listsTools(h.agent("up")) })
	c := openConsole(t, h, "errors")
	c.until(t, `document.querySelector('main').innerText.includes('Nothing has gone wrong')`)
	c.ask(t, "POST", "/api/tools/up__crash", `{}`)
	c.ask(t, "POST", "/api/tools/up__missing", `{}`)
	var book struct {
		Groups []struct{ Code string }
		Last   []struct {
			ID    string
			Error struct{ Code string }
		}
	}
	eventually(t, "the crash is in the book", func() bool {
		if err := json.Unmarshal(c.api(t, "GET", "/api/v1/errors", ""), &book); err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(book.Groups, func(g struct{ Code string }) bool { return g.Code == "UPSTREAM_LOST" })
	})
	c.click(t, by("group-UPSTREAM_LOST"))
	c.until(t, `location.search.includes('UPSTREAM_LOST') && document.querySelectorAll('[data-testid="error"]').length > 0 && document.querySelector('main').innerText.includes('The last of UPSTREAM_LOST')`)
	c.click(t, by("error"))
	c.until(t, `document.querySelector('section.side')?.innerText.includes('err_') && document.querySelector('section.side .json')`)
	if !strings.Contains(string(c.api(t, "GET", "/api/v1/errors", "")), c.text(t, "section.side .facts .mono")) {
		t.Error("the id that is shown is not that of an error")
	}
	c.screens(t, "errors")
	// The manual is in the hub, for its own version.
	c.click(t, "section.side "+by("manual"))
	c.until(t, `location.pathname === '/console/errors/kind/UPSTREAM_LOST' && document.querySelector('[data-testid="advice"]')`)
	if info := fault.UpstreamLost.Info(); c.text(t, by("meaning")) != info.Meaning || c.text(t, by("advice")) != info.Hint {
		t.Errorf("the manual says %q and %q", c.text(t, by("meaning")), c.text(t, by("advice")))
	}
	c.click(t, by("met"))
	c.until(t, `location.pathname === '/console/errors' && document.querySelector('main').innerText.includes('The last of UPSTREAM_LOST')`)
	dir := t.TempDir()
	c.do(t, act(browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{Behavior: browser.SetDownloadBehaviorBehaviorAllow, DownloadPath: dir}))
	c.click(t, by("export"))
	eventually(t, "the export is a file", func() bool {
		text, err := os.ReadFile(filepath.Join(dir, "stoa-errors.ndjson"))
		return err == nil && strings.Contains(string(text), "UPSTREAM_LOST")
	})
	group := `[...document.querySelectorAll('main table')[0].querySelectorAll('tbody tr')].find((r) => r.querySelector('[data-testid="group-UPSTREAM_LOST"]'))`
	if got := c.run(t, `const r = `+group+`; return [r.querySelectorAll('.spark rect').length > 0, r.querySelector('.spark').getAttribute('aria-label'), [...r.querySelectorAll('time')].length, r.cells[3].innerText]`); got != `[true,"1 in the last hour",2,"1"]` {
		t.Errorf("the group shows %s", got)
	}
	seen := c.run(t, `return [...(`+group+`).querySelectorAll('time')].map((e) => e.dateTime)`)
	p.end(t, syscall.SIGTERM)
	c.until(t, `document.querySelector('nav .foot').innerText.includes('lost')`)
	_, p = launch(t, environment(t, set), h)
	c.until(t, `document.querySelector('nav .foot').innerText.includes('live') && !document.querySelector('main > .trouble')`)
	p.await(t, "the server lists its tools", func() error { return listsTools(h.agent("up")) })
	c.ask(t, "POST", "/api/tools/up__crash", `{}`)
	c.until(t, `(`+group+`).cells[3].innerText === '2'`)
	c.until(t, `(() => { const [first, last] = [...(`+group+`).querySelectorAll('time')].map((e) => e.dateTime); return first === (`+seen+`)[0] && last > (`+seen+`)[1]; })()`)
	c.click(t, "tr:last-child "+by("error"))
	c.until(t, `document.querySelector('section.side')?.innerText.includes(`+quoted(book.Last[len(book.Last)-1].ID)+`)`)
}

// TestConsoleErrorStack opens the stack of a panic, which a hub tells of by its log.
func TestConsoleErrorStack(t *testing.T) {
	t.Parallel()
	chromium(t)
	h := hubtest.New(t)
	h.Logs().Logger().Error("panic in a request", "action", "serve", "path", "/"+allHostile, "err", allHostile,
		"stack", string(debug.Stack())+allHostile)
	c := openConsole(t, hub{address: strings.TrimPrefix(h.URL, "http://"), data: h.Data}, "")
	c.watchHostile(t)
	c.visit(t, view{path: "errors", ready: "document.querySelector('[data-testid=error]')"})
	c.harmless(t, "errors")
	c.click(t, by("error"))
	c.click(t, by("stack")+" summary")
	c.until(t, `document.querySelector('[data-testid="stack"]').open && document.querySelector('[data-testid="stack"] pre').innerText.includes('TestConsoleErrorStack')`)
	c.until(t, `document.querySelector('[data-testid="stack"] pre').innerText.includes('pwned(1)')`)
	c.harmless(t, "the stack")
}

func TestConsoleLogs(t *testing.T) {
	t.Parallel()
	set := tools(t)
	h := startHub(t, set, map[string]server{"up": pagesPeer(t)}, map[string]any{"log": map[string]any{"level": "debug"}})
	c := openConsole(t, h, "logs")
	shown := func(text string) string {
		return `[...document.querySelectorAll('.log li')].some((e) => e.innerText.includes(` + quoted(text) + `))`
	}
	c.until(t, shown("hub is ready"))
	c.api(t, "POST", "/api/tools/up__echo", `{}`)
	c.until(t, shown("tool=echo"))
	c.screens(t, "logs")
	c.choose(t, by("level"), "info")
	c.until(t, shown("hub is ready")+` && !document.querySelector('.log li[data-level="debug"]')`)
	c.write(t, by("search"), "upstream=up")
	c.until(t, shown("state=connected")+` && !`+shown("hub is ready"))
	// Who scrolls up to read is left there; what comes is seen when they go back.
	c.write(t, by("search"), "tool=echo")
	for range 60 {
		c.api(t, "POST", "/api/tools/up__echo", `{}`)
	}
	c.choose(t, by("level"), "")
	lines := `document.querySelectorAll('.log li').length`
	atEnd := `innerHeight + scrollY >= document.documentElement.scrollHeight - 40`
	c.until(t, lines+` === 61 && scrollY > 0 && `+atEnd)
	c.run(t, `document.querySelector('main').focus()`)
	c.do(t, chromedp.KeyEvent(kb.Home))
	c.until(t, `scrollY === 0 && document.querySelector('[data-testid="to-end"]')`)
	c.api(t, "POST", "/api/tools/up__echo", `{}`)
	c.until(t, lines+` === 62`)
	if got := c.run(t, `return scrollY`); got != "0" {
		t.Errorf("the page went on to %s", got)
	}
	c.click(t, by("to-end"))
	c.until(t, atEnd+` && !document.querySelector('[data-testid="to-end"]')`)
	c.api(t, "POST", "/api/tools/up__echo", `{}`)
	c.until(t, lines+` === 63 && `+atEnd)
	// Without following nothing comes, until it is followed again; then nothing is missing.
	c.click(t, by("follow"))
	c.until(t, `document.querySelector('[data-testid="follow"]').getAttribute('aria-pressed') === 'false' && location.search.includes('follow=no')`)
	c.api(t, "POST", "/api/tools/up__echo", `{}`)
	c.run(t, `await new Promise((r) => setTimeout(r, 1500))`)
	if got := c.run(t, `return `+lines); got != "63" {
		t.Errorf("%s records though nothing is followed", got)
	}
	c.click(t, by("follow"))
	c.until(t, lines+` === 64 && `+atEnd)
	dir := t.TempDir()
	c.do(t, act(browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{Behavior: browser.SetDownloadBehaviorBehaviorAllow, DownloadPath: dir}))
	c.click(t, by("export"))
	eventually(t, "the export is a file of those records", func() bool {
		text, err := os.ReadFile(filepath.Join(dir, "stoa-log.ndjson"))
		return err == nil && strings.Count(string(text), "\n") == 64 && strings.Count(string(text), `"tool":"echo"`) == 64
	})
}

func TestConsoleSettings(t *testing.T) {
	t.Parallel()
	set := tools(t)
	up := pagesPeer(t)
	up.Env["API_TOKEN"] = "correct-horse-battery"
	h, p := launch(t, append(environment(t, set), "LOG_LEVEL=warn"), hub{config: writeConfig(t, map[string]server{"up": up}), data: filepath.Join(t.TempDir(), "data"), address: "127.0.0.1:0"})
	p.await(t, "the server lists its tools", func() error { return listsTools(h.agent("up")) })
	c := openConsole(t, h, "settings")
	c.until(t, `document.querySelector('main').innerText.includes('servers.up.env.API_TOKEN') && document.querySelector('main').innerText.includes('•••')`)
	if text := c.text(t, "main"); strings.Contains(text, "correct-horse-battery") || !strings.Contains(text, "stoa.jsonc") {
		t.Errorf("the page says %s", text)
	}
	row := func(name string) string {
		return `[...document.querySelectorAll('main table')[0].querySelectorAll('tbody tr')].find((r) => r.cells[0].innerText === ` + quoted(name) + `)`
	}
	for name, want := range map[string][2]string{
		"log.level": {"warn", "env LOG_LEVEL"}, "log.format": {"auto", "default"}, "listen": {"127.0.0.1:0", "--listen"}, "servers.up.command": {"/bin/sh", "stoa.jsonc:"}, "servers.up.env.API_TOKEN": {"•••", "stoa.jsonc:"},
	} {
		var got []string
		if err := json.Unmarshal([]byte(c.run(t, `const r = `+row(name)+`; return r ? [r.cells[1].innerText, r.cells[2].innerText] : ['', '']`)), &got); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(got[0], want[0]) || !strings.Contains(got[1], want[1]) {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	c.screens(t, "settings")
	// The file is changed: the hub takes it up, and the page shows it.
	text, err := os.ReadFile(h.config)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(text), `"servers": {`, `"session": {"timeout": "7m"}, "servers": {`, 1)
	if err := os.WriteFile(h.config, []byte(changed), 0o600); err != nil || changed == string(text) {
		t.Fatalf("change the config: %v: %s", err, changed)
	}
	c.until(t, `(`+row("session.timeout")+`)?.innerText.includes('7m') && (`+row("session.timeout")+`).cells[2].innerText.includes('stoa.jsonc:')`)
	c.click(t, by("set"))
	c.until(t, `!(`+row("log.format")+`) && (`+row("log.level")+`) && location.search === '?set=yes'`)
	c.click(t, by("set"))
	c.write(t, by("search"), "messageBytes")
	c.until(t, `document.querySelector('main').innerText.includes('limits.messageBytes') && !document.querySelector('main').innerText.includes('API_TOKEN')`)
	c.click(t, by("switch-up"))
	eventually(t, "the server is switched off", func() bool {
		var all struct {
			Modules []struct {
				Name string
				On   bool
			}
		}
		if err := json.Unmarshal(c.api(t, "GET", "/api/v1/modules", ""), &all); err != nil {
			t.Fatal(err)
		}
		for _, m := range all.Modules {
			if m.Name == "up" {
				return !m.On
			}
		}
		return false
	})
	c.until(t, `document.querySelector('[data-testid="switch-up"]').innerText === 'Switch on'`)
}
