package e2e

import (
	"encoding/json"
	"io"
	"net/http"
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
	"github.com/stoahub/stoa/internal/fault"
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

func TestConsoleServers(t *testing.T) {
	set := tools(t)
	h := startHub(t, set, map[string]server{"up": pagesPeer(t)})
	c := openConsole(t, h, "servers")
	pids := func() []int {
		var all struct{ Servers []struct{ Pids []int } }
		if err := json.Unmarshal(c.api(t, "GET", "/api/v1/servers", ""), &all); err != nil {
			t.Fatal(err)
		}
		return all.Servers[0].Pids
	}
	c.until(t, `document.querySelector('[data-testid="server-up"]')`)
	c.until(t, `document.querySelector('nav .foot').innerText.includes('live')`)
	c.screens(t, "servers")
	c.click(t, by("server-up"))
	c.until(t, `document.querySelector('[data-testid="pid"]') && location.pathname === '/console/servers/up'`)
	before := pids()
	c.until(t, `document.querySelector('section.side').innerText.includes('connected') && document.querySelector('[data-testid="stderr"]').innerText.includes('onerror')`)
	c.run(t, `document.querySelector('[data-testid="restart"]').focus()`)
	c.do(t, chromedp.KeyEvent(kb.Enter))
	c.until(t, `(() => { const p = [...document.querySelectorAll('[data-testid="pid"]')].map((e) => e.innerText); return p.length && p.every((x) => !`+string(mustJSON(before))+`.map(String).includes(x)); })()`)
	eventually(t, "the old process is gone", func() bool {
		now := pids()
		return len(now) > 0 && !slices.ContainsFunc(before, func(pid int) bool { return slices.Contains(now, pid) || syscall.Kill(pid, 0) == nil })
	})
	eventually(t, "its lists change", func() bool {
		c.api(t, "POST", "/api/tools/up__grow", "{}")
		return strings.Contains(string(c.api(t, "GET", "/api/v1/servers/up", "")), `"what":"added"`)
	})
	c.until(t, `document.querySelector('[data-testid="change"] .diff .come')?.innerText && document.querySelector('[data-testid="change"]').innerText.includes('extra_')`)
	c.until(t, `/connected/.test(document.querySelector('[data-testid="states"]')?.textContent)`)
	c.run(t, `document.querySelector('[data-testid="change"]').scrollIntoView()`)
	c.screens(t, "server")
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // of what tests make
	}
	return b
}

func TestConsoleContext(t *testing.T) {
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
}

func TestConsoleSessions(t *testing.T) {
	set := tools(t)
	h := startHub(t, set, map[string]server{"up": pagesPeer(t)})
	c := openConsole(t, h, "sessions")
	for _, name := range []string{"alpha", "beta", "gamma"} {
		c.api(t, "POST", "/api/tools/context_add?session="+name, `{"name":"v","data":"of `+name+`"}`)
	}
	c.until(t, `document.querySelector('[data-testid="session-gamma"]')`)
	c.screens(t, "sessions")
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

func TestConsoleAgents(t *testing.T) {
	set := tools(t)
	h := startHub(t, set, map[string]server{"up": pagesPeer(t)})
	c := openConsole(t, h, "agents")
	c.api(t, "POST", "/api/tools/task_start", `{"tool":"up__echo","arguments":{"said":"hello there"}}`)
	c.api(t, "POST", "/api/tools/task_start", `{"tool":"up__slow","arguments":{}}`)
	status := func(tool string) (out string) {
		var all struct {
			Tasks []struct{ Tool, Status string }
		}
		if err := json.Unmarshal(c.api(t, "GET", "/api/v1/tasks", ""), &all); err != nil {
			t.Fatal(err)
		}
		for _, one := range all.Tasks {
			if one.Tool == tool {
				out = one.Status
			}
		}
		return out
	}
	c.choose(t, by("status"), "completed")
	c.until(t, `document.querySelectorAll('[data-testid="task"]').length === 1 && document.querySelector('[data-testid="task"]').innerText === 'up:echo'`)
	c.click(t, by("task"))
	c.until(t, `document.querySelector('[data-testid="result"]')?.innerText.includes('hello there')`)
	c.screens(t, "agents")
	c.choose(t, by("status"), "working")
	c.until(t, `document.querySelector('[data-testid="task"]')?.innerText === 'up:slow'`)
	c.click(t, by("task"))
	c.click(t, by("cancel"))
	c.click(t, by("cancel-yes"))
	c.until(t, `document.querySelector('section.side')?.innerText.includes('cancelled')`)
	if got := status("slow"); got != "cancelled" {
		t.Errorf("the task is %s", got)
	}
}

func TestConsoleErrors(t *testing.T) {
	set := tools(t)
	h := startHub(t, set, map[string]server{"up": pagesPeer(t)})
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
}

func TestConsoleLogs(t *testing.T) {
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
	c.click(t, by("follow"))
	c.until(t, `document.querySelector('[data-testid="follow"]').getAttribute('aria-pressed') === 'false' && location.search.includes('follow=no')`)
}

func TestConsoleSettings(t *testing.T) {
	set := tools(t)
	up := pagesPeer(t)
	up.Env["API_TOKEN"] = "correct-horse-battery"
	h := startHub(t, set, map[string]server{"up": up})
	c := openConsole(t, h, "settings")
	c.until(t, `document.querySelector('main').innerText.includes('servers.up.env.API_TOKEN') && document.querySelector('main').innerText.includes('•••')`)
	if text := c.text(t, "main"); strings.Contains(text, "correct-horse-battery") || !strings.Contains(text, "stoa.jsonc") {
		t.Errorf("the page says %s", text)
	}
	c.screens(t, "settings")
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

// ask asks the hub, past the browser, for what may be refused, and returns the status.
func (c console) ask(t *testing.T, verb, path, body string) int {
	t.Helper()
	request, err := http.NewRequest(verb, "http://"+c.hub.address+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode
}
