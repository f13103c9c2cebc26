package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/hubtest/port"
)

// focused is where the keyboard is, as the test id of what has it or its kind.
const focused = `(document.activeElement.dataset.testid || document.activeElement.tagName + '.' + document.activeElement.className)`

// press brings the keyboard to something and presses Enter there.
func (c console) press(t *testing.T, selector string) {
	t.Helper()
	c.until(t, usable(selector))
	c.run(t, "document.querySelector("+quoted(selector)+").focus()")
	c.do(t, chromedp.KeyEvent(kb.Enter))
}

// keptHub is a hub with a server that says much, waits long and is asked about.
func keptHub(t *testing.T) (hub, *process, []string, *peer.HTTPServer) {
	t.Helper()
	set := tools(t)
	chromium(t)
	long := peer.Raw(mustJSON(map[string]any{"content": []any{map[string]any{"type": "text", "text": strings.Repeat("pieces of eight\n", 512<<10)}}}))
	up := peer.Serve(t, peer.Spec{Tools: []peer.Tool{{Name: "echo"}, {Name: "asked"},
		{Name: "long", Behaviour: peer.Behaviour{Kind: peer.Verbatim, Raw: long}},
		{Name: "slow", Behaviour: peer.Behaviour{Kind: peer.Slow, For: time.Hour}}}})
	config := writeConfig(t, map[string]server{"up": {URL: up.URL}}, map[string]any{
		"auth":   map[string]any{"required": true},
		"policy": map[string]any{"rules": []any{map[string]any{"tools": []string{"up:asked"}, "action": "ask"}}},
	})
	env := environment(t, set)
	h, p := launch(t, env, hub{config: config, data: filepath.Join(t.TempDir(), "data"), address: port.Address(t)})
	return h, p, env, up
}

// TestConsoleKeeps takes the sign-in, the hub and a good deal of memory from a page: what was typed into it stays, and it
// goes on.
func TestConsoleKeeps(t *testing.T) {
	hubtest.Parallel(t)
	h, p, env, up := keptHub(t)
	c := openConsole(t, h, "servers/up")
	c.until(t, `document.querySelector('.machine [aria-current]')?.innerText.includes('connected')`)
	c.do(t, chromedp.Navigate("http://"+h.address+"/console/tools/up__long"))
	// Eight megabytes are shown in part, and the page can be used.
	c.press(t, by("run"))
	c.until(t, `document.querySelector('[data-testid=shown]')?.innerText.includes('more characters; Copy has all of them')`)
	if got := c.run(t, `return [document.querySelector('[data-testid=shown]').textContent.length < 50_000, `+focused+`]`); got != `[true,"run"]` {
		t.Errorf("of a long result is shown, and the focus is: %s", got)
	}

	// The hub dies in the midst of a call.
	c.do(t, chromedp.Navigate("http://"+h.address+"/console/tools/up__slow"))
	c.click(t, by("json"))
	c.write(t, by("text"), `{"typed": "by hand"}`)
	c.press(t, by("run"))
	await.Until(t, "the tool runs", func() bool { return len(up.State().Called) == 2 })
	p.end(t, syscall.SIGKILL)
	c.until(t, `document.querySelector('.side .trouble')?.innerText.includes('may have run, or may not') && document.querySelector('nav .foot').innerText.includes('lost, trying again')`)
	_, p = launch(t, env, h)
	c.until(t, `document.querySelector('nav .foot').innerText.includes('live')`)
	typed := `document.querySelector('[data-testid=text]')?.value === '{"typed": "by hand"}'`
	c.until(t, typed)

	// The sign-in ends, and another begins: the form is behind the lock, out of sight and of reach.
	c.signOut(t)
	c.until(t, `document.querySelector('form.lock') && document.title === 'Sign in · Stoa'`)
	if got := c.run(t, `return [document.querySelector('[data-testid=text]').checkVisibility(), [...document.querySelectorAll('main')].filter((e) => e.checkVisibility()).length]`); got != `[false,1]` {
		t.Errorf("behind the lock: %s", got)
	}
	c.write(t, `input[name="code"]`, c.newCode(t))
	c.do(t, chromedp.KeyEvent(kb.Enter))
	c.until(t, `!document.querySelector('form.lock') && document.title === 'Tools · Stoa' && `+typed+` && document.querySelector('[data-testid=text]').checkVisibility()`)
	c.until(t, `document.querySelector('nav .foot').innerText.includes('live')`)
	p.end(t, syscall.SIGTERM)
}

// TestConsoleFocus works with keys alone, and is never sent back to the top of the page because what it used went away.
func TestConsoleFocus(t *testing.T) {
	hubtest.Parallel(t)
	h, _, _, _ := keptHub(t)
	c := openConsole(t, h, "servers")
	c.until(t, `document.querySelector('tr:has([data-testid=server-up])')?.innerText.includes('connected')`)
	row := `tr:has([data-testid=server-up])`
	c.press(t, row)
	c.until(t, `document.activeElement.matches('section.side')`)
	c.press(t, `section.side [data-testid=close]`)
	c.until(t, `!document.querySelector('section.side') && document.activeElement.matches(`+quoted(row)+`)`)

	for _, name := range []string{"one", "two"} {
		c.api(t, "POST", "/api/tools/context_add?session="+name, `{"name":"v","data":1}`)
	}
	c.press(t, `nav a[href="/console/sessions"]`)
	c.press(t, by("end-one"))
	c.until(t, focused+` === 'end-one-yes'`)
	c.do(t, chromedp.KeyEvent(kb.Escape))
	c.until(t, focused+` === 'end-one'`)
	c.do(t, chromedp.KeyEvent(kb.Enter))
	c.until(t, focused+` === 'end-one-yes'`)
	c.do(t, chromedp.KeyEvent(kb.Enter))
	c.until(t, `!document.querySelector('[data-testid=session-one]') && document.activeElement.matches('main tbody')`)
	c.do(t, chromedp.KeyEvent(kb.Tab))
	c.until(t, focused+` === 'session-two'`)

	c.do(t, chromedp.KeyEvent(kb.Enter))
	c.until(t, `location.pathname === '/console/context/two' && document.activeElement.matches('main')`)
	c.press(t, `tr:has([data-testid=value-v])`)
	c.press(t, by("edit"))
	c.until(t, focused+` === 'editor'`)
	c.press(t, by("leave"))
	c.until(t, `!document.querySelector('[data-testid=editor]') && document.activeElement.matches('section.side')`)

	c.press(t, `nav a[href="/console/"]`)
	c.until(t, `document.querySelectorAll('.plot canvas').length === 2`)
	c.waiting(t, "/api/tools/up__asked", `{}`)
	c.press(t, by("deny"))
	c.until(t, `!document.querySelector('[data-testid=approval]') && document.activeElement.matches('main')`)
}

// TestConsoleFullDisk fills the disk of the hub: Home says so, a message that cannot be kept comes back to who wrote it,
// and with room everything goes on.
func TestConsoleFullDisk(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	chromium(t)
	disk := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", disk).CombinedOutput(); err != nil {
		t.Skipf("a small disk cannot be mounted here: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", "-l", disk).CombinedOutput(); err != nil {
			t.Errorf("unmount: %v: %s", err, out)
		}
	})
	config := writeConfig(t, nil, map[string]any{"models": map[string]any{"default": "told", "told": map[string]any{"provider": "script", "pace": "0ms"}}})
	h, p := launch(t, environment(t, set), hub{config: config, data: filepath.Join(disk, "data"), address: port.Address(t)})
	c := openConsole(t, h, "")
	c.api(t, "POST", "/api/tools/context_add?session=work", `{"name":"v","data":1}`)
	ballast := filepath.Join(disk, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 32<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("fill the disk: %v", err)
	}
	if got := string(c.api(t, "POST", "/api/tools/context_add?session=work", `{"name":"w","data":"`+strings.Repeat("x", 300_000)+`"}`)); !strings.Contains(got, "STORAGE") {
		t.Fatalf("a value was kept on a full disk: %s", got)
	}
	c.until(t, `document.querySelector('[data-testid=ill-store]')?.innerText.includes('the disk is full')`)
	c.screens(t, "home-full")
	c.click(t, `nav a[href="/console/chat"]`)
	c.say(t, "echo **heard**")
	c.until(t, `document.querySelector('.talk .trouble')?.innerText.includes('the disk is full') && document.querySelector('[data-testid=message]').value === 'echo **heard**'`)
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the store has recovered", func() bool {
		return strings.Contains(string(c.api(t, "POST", "/api/tools/context_add?session=work", `{"name":"x","data":1}`)), `"SUCCESS"`)
	})
	c.press(t, by("message"))
	c.until(t, `document.querySelector('[data-testid=assistant] strong')?.textContent === 'heard' && document.querySelector('[data-testid=message]').value === ''`)
	c.click(t, `nav a[href="/console/"]`)
	c.until(t, `document.querySelector('[data-testid=up]') && !document.querySelector('[data-testid=ill-store]')`)
	p.end(t, syscall.SIGTERM)
}
