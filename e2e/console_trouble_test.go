package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/port"
)

// TestConsoleErrors looks at what went wrong, takes it along, and finds it again after the hub was stopped and started.
func TestConsoleErrors(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	h, p := launch(t, environment(t, set), hub{config: writeConfig(t, map[string]server{"up": pagesPeer(t)}), data: filepath.Join(t.TempDir(), "data"), address: port.Address(t)})
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
	await.Until(t, "the crash is in the book", func() bool {
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
	c.do(t, act(browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{Behavior: browser.SetDownloadBehaviorBehaviorAllow, DownloadPath: dir, BrowserContextID: c.owner()}))
	c.click(t, by("export"))
	await.Until(t, "the export is a file", func() bool {
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
	hubtest.Parallel(t)
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
	hubtest.Parallel(t)
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
	c.do(t, act(browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{Behavior: browser.SetDownloadBehaviorBehaviorAllow, DownloadPath: dir, BrowserContextID: c.owner()}))
	c.click(t, by("export"))
	await.Until(t, "the export is a file of those records", func() bool {
		text, err := os.ReadFile(filepath.Join(dir, "stoa-log.ndjson"))
		return err == nil && strings.Count(string(text), "\n") == 64 && strings.Count(string(text), `"tool":"echo"`) == 64
	})
}

func TestConsoleSettings(t *testing.T) {
	hubtest.Parallel(t)
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
	// A mistake in it is told, here and on Home, until it is mended.
	if err := os.WriteFile(h.config, []byte(strings.Replace(changed, `"timeout": "7m"`, `"timeuot": "8m"`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	c.until(t, `document.querySelector('[data-testid=refused]')?.innerText.includes('did you mean') && document.querySelector('[data-testid=refused]').innerText.includes('stoa.jsonc:') && (`+row("session.timeout")+`).innerText.includes('7m')`)
	c.screens(t, "settings-refused")
	c.click(t, `nav a[href="/console/"]`)
	c.click(t, by("refused"))
	if err := os.WriteFile(h.config, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	c.until(t, `location.pathname === '/console/settings' && document.querySelector('main table') && !document.querySelector('[data-testid=refused]')`)
	c.click(t, by("set"))
	c.until(t, `!(`+row("log.format")+`) && (`+row("log.level")+`) && location.search === '?set=yes'`)
	c.click(t, by("set"))
	c.write(t, by("search"), "messageBytes")
	c.until(t, `document.querySelector('main').innerText.includes('limits.messageBytes') && !document.querySelector('main').innerText.includes('API_TOKEN')`)
	c.click(t, by("switch-up"))
	await.Until(t, "the server is switched off", func() bool {
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
