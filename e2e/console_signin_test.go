package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
)

// lands waits for a condition in a page that is left for another meanwhile.
func (c console) lands(t *testing.T, condition string) {
	t.Helper()
	await.Until(t, "the page is another: "+condition, func() bool {
		is, err := chromedp.Run(c.ctx, chromedp.Evaluate[bool]("!!("+condition+")"))
		return err == nil && is // an error: the page that was asked has gone
	})
}

// TestConsoleSignIn signs in as people do: with a code that is typed, one that was used, and a token; in all tabs at once,
// and out again in one, and everywhere.
func TestConsoleSignIn(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	chromium(t)
	h, _ := launch(t, environment(t, set), hub{config: writeConfig(t, map[string]server{}), data: filepath.Join(t.TempDir(), "data"), address: "127.0.0.1:0"})
	c := openConsole(t, h, "tools")
	kept := func() string {
		return c.run(t, `return JSON.stringify(localStorage) + JSON.stringify(sessionStorage) + document.cookie + location.href`)
	}
	if text := kept(); strings.Contains(text, c.token) || strings.Contains(text, "#") || !strings.Contains(text, "stoa_signin_") {
		t.Errorf("the page keeps %s", strings.ReplaceAll(text, c.token, "THE OWNER'S TOKEN"))
	}
	other := c.twin(t, "settings")
	other.until(t, `document.querySelector('main').innerText.includes('this browser')`)
	other.screens(t, "signed-in")

	// Who signs out in one tab is signed out in all.
	c.click(t, by("sign-out"))
	c.lands(t, `document.querySelector('form.lock') && location.pathname === '/console/'`)
	for _, one := range []console{c, other} {
		one.until(t, `document.querySelector('form.lock') && ![...document.querySelectorAll('nav')].some((e) => e.checkVisibility())`)
	}
	if text := kept(); strings.Contains(text, "stoa_signin_") {
		t.Errorf("after signing out the page keeps %s", text)
	}
	c.screens(t, "sign-in")

	// A code that was used, typed in the way of people.
	code := c.newCode(t)
	enter := func(text string) {
		t.Helper()
		c.write(t, `input[name=code]`, text)
		c.do(t, chromedp.KeyEvent(kb.Enter))
	}
	enter(strings.ToLower(strings.ReplaceAll(code, "-", " ")))
	c.until(t, `!document.querySelector('form.lock') && document.querySelector('nav').innerText.includes('The owner')`)
	other.until(t, `!document.querySelector('form.lock') && document.querySelector('main').innerText.includes('this browser')`)

	// An address with a code that is good no more leaves who is signed in alone.
	c.do(t, navigate("http://"+h.address+"/console/tools#code="+code))
	c.until(t, `document.querySelector('nav .foot')?.innerText.includes('live') && location.hash === ''`)
	other.click(t, by("sign-out-everywhere"))
	c.until(t, `document.querySelector('form.lock')`)
	enter(code)
	c.until(t, `document.querySelector('.trouble')?.innerText.includes('not valid')`)
	c.screens(t, "sign-in-refused")

	// The holder of a token is there by a sign-in of their own.
	token := cli(t, h, "token", "create", "guest")
	enter(token)
	c.until(t, `!document.querySelector('form.lock') && document.querySelector('nav').innerText.includes('guest')`)
	if text := kept(); strings.Contains(text, token) {
		t.Error("the page keeps the token")
	}

	// A link does not make one person another.
	c.do(t, navigate("about:blank"))
	c.do(t, navigate("http://"+h.address+"/console/tools#code="+c.newCode(t)))
	c.until(t, `document.querySelector('nav .trouble')?.innerText.includes('somebody else is signed in') && document.querySelector('nav').innerText.includes('guest')`)
	if out := cli(t, h, "console", "sign-ins"); strings.Contains(out, " local ") || !strings.Contains(out, " guest ") {
		t.Errorf("who is signed in: %s", out)
	}
}
