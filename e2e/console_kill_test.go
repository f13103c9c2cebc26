package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/hubtest/port"
)

// TestConsoleChatKilled kills the hub in the midst of a call and of an answer, and starts it again: the page comes back by
// itself and shows what the hub knows, no more and no less. Everything needs a token; the page stays signed in.
func TestConsoleChatKilled(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	chromium(t)
	up := peer.Serve(t, peer.Spec{Tools: []peer.Tool{{Name: "slow", Behaviour: peer.Behaviour{Kind: peer.Slow, For: time.Hour}}}})
	config := writeConfig(t, map[string]server{"up": {URL: up.URL}}, map[string]any{
		"auth":   map[string]any{"required": true},
		"models": map[string]any{"default": "told", "told": map[string]any{"provider": "script", "pace": "1s"}},
		"chat":   map[string]any{"approvals": map[string]any{"default": "allow"}},
	})
	env := environment(t, set)
	h, p := launch(t, env, hub{config: config, data: filepath.Join(t.TempDir(), "data"), address: port.Address(t)})
	c := openConsole(t, h, "chat/kept")
	await.Until(t, "the server lists its tools", func() bool {
		return strings.Contains(string(c.api(t, "GET", "/api/v1/tools?upstream=up", "")), "up__slow")
	})
	if response, err := client.Get("http://" + h.address + "/mcps"); err != nil || response.StatusCode != http.StatusUnauthorized {
		t.Fatalf("without a token: %v, %v", response, err)
	} else {
		response.Body.Close()
	}
	again := func() {
		t.Helper()
		p.end(t, syscall.SIGKILL)
		c.until(t, "document.querySelector("+quoted(by("lost"))+") && document.querySelector('nav .foot').innerText.includes('lost')")
		_, p = launch(t, env, h)
		c.until(t, "!document.querySelector("+quoted(by("lost"))+") && document.querySelector('nav .foot').innerText.includes('live')")
	}

	c.say(t, "call up__slow")
	await.Until(t, "the tool runs", func() bool { return len(up.State().Called) == 1 })
	c.until(t, "document.querySelector("+quoted(by("call")+`[data-state="running"]`)+")")
	again()
	c.idle(t, "kept", 1)
	c.until(t, "document.querySelector("+quoted(by("call")+`[data-state="interrupted"]`)+")")
	c.screens(t, "chat-killed")

	var words []string
	for i := range 240 { // longer than the page may take to show the first words, so that it is still being said then
		words = append(words, fmt.Sprintf("w%d", i))
	}
	c.say(t, "echo "+strings.Join(words, " "))
	c.until(t, "[...document.querySelectorAll("+quoted(by("assistant"))+")].some((e) => e.innerText.includes('w2 '))") // the hub has it, and not only the page
	again()
	c.idle(t, "kept", 2)
	// What is shown is what the hub has kept: a page that comes later shows the same.
	shown := `[...document.querySelectorAll('[data-testid=assistant]')].map((e) => e.innerText.trim()).join('|')`
	now := c.run(t, `return `+shown)
	c.do(t, navigate("http://"+h.address+"/console/chat/kept"))
	c.until(t, count+"("+quoted(by("user"))+").length === 2")
	c.until(t, shown+` === `+now)
	if strings.Contains(now, "w239") {
		t.Errorf("the answer was cut off, and is shown whole: %s", now)
	}
	if got := c.text(t, by("thread")); !strings.Contains(got, "interrupted") {
		t.Errorf("nothing says that the turn was cut off: %s", got)
	}
	// And it goes on.
	c.say(t, "echo **fine** again")
	c.until(t, "[...document.querySelectorAll("+quoted(by("assistant")+" strong")+")].some((e) => e.textContent === 'fine')")
	c.idle(t, "kept", 3)
	// Signed out, the page asks who is there, and no socket is opened.
	c.signOut(t)
	c.do(t, navigate("http://"+h.address+"/console/chat/kept"))
	c.until(t, `document.querySelector('form.lock')`)
	if got := c.run(t, `return new Promise((yes) => { const s = new WebSocket('ws://' + location.host + '/ws?sessionId=kept'); s.onopen = () => yes('open'); s.onclose = () => yes('refused'); })`); got != `"refused"` {
		t.Errorf("a socket without a token is %s", got)
	}
	c.write(t, `input[name="code"]`, c.token)
	c.click(t, "form.lock button")
	c.until(t, count+"("+quoted(by("user"))+").length === 3")
}
