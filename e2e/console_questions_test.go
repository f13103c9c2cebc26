package e2e

import (
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// TestConsoleToolAsks answers what a tool asks while it runs, by a form on its page.
func TestConsoleToolAsks(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	chromium(t)
	ups := map[string]server{}
	for name, era := range map[string]peer.Era{"new": peer.EraModern, "old": peer.EraLegacy} {
		up := peer.Serve(t, peer.Spec{Era: era, Tools: []peer.Tool{{Name: "ask", Behaviour: peer.Do(peer.Elicit)}, {Name: "visit", Behaviour: peer.Do(peer.Visit)}}})
		ups[name] = server{URL: up.URL}
	}
	h := startHub(t, set, ups)
	c := openConsole(t, h, "tools")
	for name := range ups {
		at := "http://" + h.address + "/console/tools/" + name
		c.do(t, navigate(at+"__ask"))
		c.click(t, by("run"))
		c.until(t, `document.querySelector('[data-testid=questions]')?.textContent.includes('What is your name?')`)
		c.until(t, `document.querySelector('[data-testid=answer]').disabled`) // the name is needed
		c.write(t, `[data-testid=questions] textarea`, "Ann")
		c.click(t, by("answer"))
		if got := c.sent(t); !strings.Contains(got, "Ann") || !strings.Contains(got, "accept") {
			t.Errorf("%s: answered, the tool got %s", name, got)
		}
		c.do(t, navigate(at+"__ask"))
		c.click(t, by("run"))
		c.click(t, by("decline"))
		if got := c.sent(t); !strings.Contains(got, "decline") {
			t.Errorf("%s: declined, the tool got %s", name, got)
		}
		c.do(t, navigate(at+"__visit"))
		c.click(t, by("run"))
		c.until(t, `document.querySelector('[data-testid=questions] a[rel~=noopener]')?.href === 'https://login.example/'`)
		c.click(t, by("answer"))
		if got := c.sent(t); !strings.Contains(got, "accept") {
			t.Errorf("%s: agreed, the tool got %s", name, got)
		}
		// Who stops the call is asked no more.
		c.do(t, navigate(at+"__ask"))
		c.click(t, by("run"))
		c.until(t, `document.querySelector('[data-testid=questions]')`)
		c.click(t, by("stop"))
		c.until(t, `!document.querySelector('[data-testid=questions]')`)
	}
}

// TestConsoleChatAsks answers in a chat what a server asks in the midst of a call, by a form below the thread.
func TestConsoleChatAsks(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	chromium(t)
	ups := map[string]server{}
	for name, era := range map[string]peer.Era{"new": peer.EraModern, "old": peer.EraLegacy} {
		ups[name] = server{URL: peer.Serve(t, peer.Spec{Era: era, Tools: []peer.Tool{{Name: "ask", Behaviour: peer.Do(peer.Elicit)}}}).URL}
	}
	h := startHub(t, set, ups, map[string]any{"chat": map[string]any{"approvals": map[string]any{"default": "allow"}}})
	c := openConsole(t, h, "chat")
	for name := range ups {
		c.say(t, "call "+name+"__ask")
		c.until(t, `document.querySelector('[data-testid=questions]')?.textContent.includes('What is your name?')`)
		c.screens(t, "chat-question")
		c.write(t, `[data-testid=questions] textarea`, "Ann")
		c.click(t, by("answer"))
		c.until(t, `!document.querySelector('[data-testid=questions]') && document.querySelector('[data-testid=thread]').textContent.includes('It was answered')`)
		c.until(t, `document.querySelector('[data-testid=thread]').textContent.includes('Ann')`)
		c.say(t, "call "+name+"__ask")
		c.click(t, by("decline"))
		c.until(t, `!document.querySelector('[data-testid=questions]') && document.querySelector('[data-testid=thread]').textContent.includes('It was declined')`)
	}
}
