package e2e

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/hubtest/port"
)

// twin opens another tab of the same browser, which is signed in with it.
func (c console) twin(t *testing.T, path string) console {
	t.Helper()
	other := c
	other.tab = newTab(t, c.ctx)
	other.do(t, chromedp.EmulateViewport(1280, 900))
	other.do(t, chromedp.Navigate("http://"+c.hub.address+"/console/"+path))
	other.until(t, "document.querySelector('main h1')")
	return other
}

// TestConsoleTwoTabs has two tabs on one run: what is done in one is seen in the other, and of two who step at once one
// steps and the other is told.
func TestConsoleTwoTabs(t *testing.T) {
	hubtest.Parallel(t)
	p := openPlans(t, "plans")
	id := p.begin(t, map[string]any{"paused": true, "plan": map[string]any{"title": "Shared", "steps": []any{
		echoes("one", map[string]any{"n": 1}), echoes("two", map[string]any{"n": "@one.n"}), echoes("three", map[string]any{"n": "@two.n"}),
		map[string]any{"id": "long", "tool": "up__work", "args": map[string]any{"seconds": 600}, "after": []string{"three"}}, echoes("last", map[string]any{"n": "@long"})}}})
	p.goTo(t, "plans/"+id)
	q := p
	q.console = p.twin(t, "plans/"+id)
	p.state(t, "one", "pending")
	q.state(t, "one", "pending")

	p.click(t, by("step"))
	q.state(t, "one", "done")
	q.click(t, node("three")+" .box")
	q.click(t, by("break-add"))
	p.click(t, node("three")+" .box")
	p.says(t, "breakpoints", "before three")
	p.click(t, by("continue"))
	q.says(t, "paused", "Paused before three: breakpoint before three")
	q.click(t, by("step"))
	p.says(t, "paused", "Paused after three")

	// One tab does not know yet what the other has done.
	q.until(t, usable(by("step")))
	q.run(t, `window.held = []; const ask = window.fetch;
		window.fetch = (at, o) => (o?.method ? ask(at, o) : new Promise((go) => held.push(go)).then(() => ask(at, o)))`)
	p.click(t, by("step"))
	p.state(t, "long", "running")
	q.click(t, by("step"))
	told := `document.querySelector('.controls .trouble')?.innerText.includes('the run is going on already') && !document.querySelector('[aria-busy=true]')`
	q.until(t, told)
	q.run(t, `const all = held; held = {push: (go) => go()}; all.forEach((go) => go())`)
	q.state(t, "long", "running")
	q.until(t, told+` && document.querySelector('[data-testid=step]').title === 'it is going on: pause it first'`)
	q.screens(t, "plans-two-tabs")
	if last := p.step(t, id, "last"); last.State != "pending" {
		t.Errorf("the last step is %s", last.State)
	}

	q.click(t, by("stop"))
	p.status(t, "stopped")
	if fork := p.moves(t, by("fork")); fork == id {
		t.Error("the fork is the same run")
	} else {
		q.until(t, `[...document.querySelectorAll('[data-testid=other] option')].some((o) => o.value === `+quoted(fork)+`)`)
	}
	q.status(t, "stopped")
}

// cli runs a command of the hub's own program.
func cli(t *testing.T, h hub, args ...string) string {
	t.Helper()
	out, err := exec.Command(stoaBinary(t), append(args, "--config", h.config, "--data", h.data)...).Output()
	if err != nil {
		t.Fatalf("stoa %s: %v", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out))
}

// TestConsoleRevoked ends the sign-in under every kind of page: each asks who is there, hears nothing any more, and goes on
// where it was when that has been said.
func TestConsoleRevoked(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	chromium(t)
	up := peer.Serve(t, peer.Spec{Tools: []peer.Tool{{Name: "echo"}}})
	config := writeConfig(t, map[string]server{"up": {URL: up.URL}}, map[string]any{"auth": map[string]any{"required": true}})
	h, _ := launch(t, environment(t, set), hub{config: config, data: filepath.Join(t.TempDir(), "data"), address: "127.0.0.1:0"})
	c := openConsole(t, h, "tools")
	await.Until(t, "the server lists its tools", func() bool {
		return strings.Contains(string(c.api(t, "GET", "/api/v1/tools?upstream=up", "")), "up__echo")
	})
	token := cli(t, h, "token", "create", "guest")
	enter := func() {
		t.Helper()
		c.until(t, `document.querySelector('input[name=code]')`)
		c.write(t, `input[name=code]`, token)
		c.click(t, "form.lock button")
		c.until(t, `!document.querySelector('form.lock')`)
		c.token = token
	}
	c.signOut(t)
	c.do(t, navigate("http://"+h.address+"/console/tools"))
	enter()
	var run struct{ Run struct{ ID string } }
	begun := c.api(t, "POST", "/api/v1/runs", `{"paused":true,"session":"work","plan":{"title":"Guests","steps":[{"id":"one","tool":"up__echo","args":{"n":1}}]}}`)
	if err := json.Unmarshal(begun, &run); err != nil {
		t.Fatal(err)
	}
	for _, v := range []struct{ path, shows, after string }{
		{"live", `document.querySelector('.trouble')?.innerText.includes('only the hub')`, `true`},
		{"tools/up__echo", `document.querySelector('[data-testid=run]')`, `document.querySelector('[data-testid=run]').checkVisibility()`},
		{"chat/talk", `document.querySelector('[data-testid=message]')`, `document.querySelector('[data-testid=message]').value === 'half a thought' && document.querySelectorAll('[data-testid=assistant] strong').length === 1`},
		{"plans/" + run.Run.ID, `document.querySelector('[data-testid=status]')?.textContent === 'paused'`, `document.querySelector('[data-testid=status]')?.textContent === 'paused'`},
	} {
		c.do(t, navigate("http://"+h.address+"/console/"+v.path))
		c.until(t, v.shows)
		if v.path == "chat/talk" {
			c.say(t, "echo **heard**")
			c.until(t, `document.querySelector('[data-testid=assistant] strong')`)
			c.write(t, by("message"), "half a thought")
		}
		c.signOut(t)
		c.until(t, `document.querySelector('form.lock') && !document.querySelector('.pages').checkVisibility() &&
			document.querySelector('form.lock').innerText.includes('no longer signed in') && document.activeElement.name === 'code'`)
		c.picture(t, "revoked-"+strings.Split(v.path, "/")[0])
		enter()
		c.until(t, v.after)
		if got := c.run(t, `return location.pathname`); got != quoted("/console/"+v.path) {
			t.Errorf("after it was said who is there the page is %s, not %s", got, v.path)
		}
	}
	// And what is there works.
	c.click(t, by("continue"))
	c.until(t, `document.querySelector('[data-testid=status]')?.textContent === 'done'`)
	c.until(t, `document.querySelector('nav .foot').innerText.includes('owner')`)

	// Who comes after another sees nothing of what only that one may see.
	c.signOut(t)
	c.do(t, navigate("http://"+h.address+"/console/settings#code="+console{hub: h, token: ownToken(t, h)}.newCode(t)))
	c.until(t, `document.querySelector('main').innerText.includes('auth.required')`)
	c.signOut(t)
	enter()
	c.until(t, `document.querySelector('.trouble')?.innerText.includes('only the hub') && !document.querySelector('main').innerText.includes('auth.required')`)
	// A sign-in ends with its token.
	cli(t, h, "token", "revoke", "guest")
	c.until(t, `document.querySelector('form.lock')?.innerText.includes('no longer signed in')`)
}

// TestConsoleChatAway says something while the hub is away: it is shown at once as not sent, is there after the page was
// loaded anew, and is sent once when the hub is back; what nobody wants sent is taken back.
func TestConsoleChatAway(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	chromium(t)
	env := environment(t, set)
	h, p := launch(t, env, hub{config: writeConfig(t, map[string]server{}), data: filepath.Join(t.TempDir(), "data"), address: port.Address(t)})
	c := openConsole(t, h, "chat/kept")
	c.say(t, "echo **first**")
	c.told(t, "kept", "assistant", 1) // a turn that has not begun is over for nobody
	unsent := `[...document.querySelectorAll('[data-testid=unsent]')]`
	p.end(t, syscall.SIGKILL)
	c.shows(t, by("lost"))
	for _, text := range []string{"echo **second**", "echo **never**", "echo **third**"} {
		c.say(t, text)
		c.until(t, unsent+`.at(-1)?.innerText.includes(`+quoted(text)+`) && `+unsent+`.at(-1).innerText.includes('not sent yet')`)
	}
	c.screens(t, "chat-away")
	c.run(t, unsent+`[1].querySelector('[data-testid=take-back]').click()`)
	c.until(t, unsent+`.length === 2 && document.querySelector('[data-testid=message]').value === 'echo **never**'`)

	_, p = launch(t, env, h)
	c.told(t, "kept", "assistant", 3)
	c.until(t, unsent+`.length === 0 && `+count+"("+quoted(by("user"))+").length === 3")
	if got := c.run(t, `return [...document.querySelectorAll('[data-testid=user] .plain')].map((e) => e.innerText)`); got != `["echo **first**","echo **second**","echo **third**"]` {
		t.Errorf("said: %s", got)
	}

	// Another page, and another start, lose nothing either. The hub may have had this one, and nobody knows.
	if err := syscall.Kill(p.pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	c.say(t, "echo **fourth**")
	c.until(t, unsent+`[0]?.innerText.includes('sending')`)
	p.end(t, syscall.SIGKILL)
	c.until(t, unsent+`[0].innerText.includes('not confirmed') && !document.querySelector('[data-testid=take-back]')`)
	c.click(t, `nav a[href="/console/tools"]`)
	_, p = launch(t, env, h)
	c.told(t, "kept", "assistant", 4) // it is sent though nobody looks
	p.end(t, syscall.SIGKILL)
	c.click(t, `nav a[href="/console/chat"]`)
	c.say(t, "echo **fifth**")
	c.until(t, unsent+`.length === 1`)
	c.do(t, navigate("about:blank"))
	_, _ = launch(t, env, h)
	c.do(t, navigate("http://"+h.address+"/console/chat"))
	c.until(t, `[...document.querySelectorAll('[data-testid=assistant] strong')].map((e) => e.innerText).join() === 'fifth' && location.pathname !== '/console/chat'`)
	c.do(t, navigate("http://"+h.address+"/console/chat/kept"))
	c.until(t, `[...document.querySelectorAll('[data-testid=assistant] strong')].map((e) => e.innerText).join() === 'first,second,third,fourth'`)
}
