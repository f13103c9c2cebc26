package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// console is the hub's console in a real browser.
type console struct {
	tab
	hub   hub
	token string
}

// openConsole opens a view of the console the way `stoa console` does: with a code in the address.
func openConsole(t *testing.T, h hub, path string, options ...chromedp.CreateBrowserContextOption) console {
	t.Helper()
	c := console{tab: openTab(t, "about:blank", options...), hub: h, token: ownToken(t, h)}
	c.do(t, act(cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: `
		window.thrown = [];
		addEventListener('error', (e) => thrown.push(e.message));
		addEventListener('unhandledrejection', (e) => thrown.push('rejected: ' + e.reason));
		addEventListener('securitypolicyviolation', (e) => thrown.push('forbidden: ' + e.violatedDirective + ' ' + e.blockedURI));`}))
	c.do(t, chromedp.EmulateViewport(1280, 900))
	c.do(t, chromedp.Navigate("http://"+h.address+"/console/"+path+"#code="+c.newCode(t)))
	c.until(t, "document.querySelector('main h1')")
	t.Cleanup(func() {
		if !t.Failed() {
			c.quiet(t)
		} else if dir := artifacts(t); c.ctx.Err() == nil {
			c.shot(t, filepath.Join(dir, "failed-"+strings.ReplaceAll(t.Name(), "/", "-")+".png"))
		}
	})
	return c
}

// newCode is a code with which a browser is signed in as the hub's owner.
func (c console) newCode(t *testing.T) string {
	t.Helper()
	var made struct{ Code string }
	if err := json.Unmarshal(c.api(t, "POST", "/api/v1/sign-ins/codes", ""), &made); err != nil {
		t.Fatal(err)
	}
	return made.Code
}

// signOut signs every browser out, past the page.
func (c console) signOut(t *testing.T) {
	t.Helper()
	cli(t, c.hub, "console", "sign-out", "--all")
}

// act is a command of the browser's protocol whose answer nobody needs.
func act[P, R any](command cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, target, command, params)
		return chromedp.Void{}, err
	}
}

// until waits for a condition in the page. One that cannot be looked at yet, since what it is about is not there, does not hold.
func (c console) until(t *testing.T, condition string) {
	t.Helper()
	c.once(t, condition, "return null")
}

// once waits for a condition in the page, runs a script there then, and returns what that returns, as JSON.
func (c console) once(t *testing.T, condition, script string) string {
	t.Helper()
	look := `const end = Date.now() + ` + fmt.Sprint(pageDeadline.Milliseconds()) + `;
		let why = '';
		const so = async () => { try { return (` + condition + `); } catch (e) { why = ' (' + e + ')'; return false; } };
		while (!(await so())) { if (Date.now() > end) return {vain: 'waited in vain for ' + ` + quoted(condition) + ` + why + ' in: ' + document.body.innerText.slice(0, 3000)}; await new Promise((r) => setTimeout(r, 20)); }
		return {got: await (async () => {` + script + `})()}`
	said, err := c.tryRun(look)
	for range 5 { // it may be the next page of which it holds
		if !left(err) {
			break
		}
		said, err = c.tryRun(look)
	}
	if err != nil {
		t.Fatalf("the page: %v", err)
	}
	var out struct {
		Vain string
		Got  json.RawMessage
	}
	if err := json.Unmarshal([]byte(said), &out); err != nil {
		t.Fatal(err)
	}
	if out.Vain != "" {
		t.Fatal(out.Vain)
	}
	return string(out.Got)
}

// by is the selector of what a test may click.
func by(id string) string { return `[data-testid="` + id + `"]` }

// usable says that what a selector finds is there and takes clicks and keys.
func usable(selector string) string {
	return "document.querySelector(" + quoted(selector+`:not(:disabled, [aria-disabled="true"])`) + ")"
}

// click waits until what a selector finds can be used, and clicks it.
func (c console) click(t *testing.T, selector string) {
	t.Helper()
	c.clickOnce(t, usable(selector), selector)
}

// hit clicks what a selector finds, also where it says that it cannot be used.
func (c console) hit(t *testing.T, selector string) {
	t.Helper()
	c.clickOnce(t, "document.querySelector("+quoted(selector)+")", selector)
}

// clickOnce clicks what a selector finds once a condition holds. A page that moves between the look and the click has it
// land elsewhere; then it is made again.
func (c console) clickOnce(t *testing.T, condition, selector string) {
	t.Helper()
	for range 5 {
		c.pressAt(t, c.once(t, condition, `window.missed = true;
			addEventListener('click', (e) => {
				const box = document.querySelector(`+quoted(selector)+`)?.getBoundingClientRect();
				window.missed = !box || e.clientX < box.left || e.clientX > box.right || e.clientY < box.top || e.clientY > box.bottom;
			}, {capture: true, once: true});`+place(selector)))
		missed, err := c.tryRun("return window.missed === true")
		if left(err) {
			return // the click took the page elsewhere
		}
		if err != nil {
			t.Fatalf("the page: %v", err)
		}
		if missed == "false" {
			return
		}
		condition = "document.querySelector(" + quoted(selector) + ")"
	}
	t.Fatalf("%s moves whenever it is clicked", selector)
}

// write empties a field and types a text into it, key by key.
func (c console) write(t *testing.T, selector, text string) {
	t.Helper()
	c.until(t, "document.querySelector("+quoted(selector)+")")
	c.run(t, "const e = document.querySelector("+quoted(selector)+"); e.focus(); e.select?.()")
	c.do(t, chromedp.KeyEvent(kb.Backspace))
	if text != "" {
		c.keys(t, selector, text)
	}
}

// choose chooses an option by its value.
func (c console) choose(t *testing.T, selector, value string) {
	t.Helper()
	c.until(t, "[...(document.querySelector("+quoted(selector)+")?.options ?? [])].some((o) => o.value === "+quoted(value)+")")
	c.run(t, "const e = document.querySelector("+quoted(selector)+"); e.value = "+quoted(value)+"; e.dispatchEvent(new Event('input', {bubbles: true})); e.dispatchEvent(new Event('change', {bubbles: true}))")
}

// text is what a person reads there.
func (c console) text(t *testing.T, selector string) string {
	t.Helper()
	var out string
	if err := json.Unmarshal([]byte(c.run(t, "return document.querySelector("+quoted(selector)+")?.innerText ?? ''")), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// api asks the hub, past the browser.
func (c console) api(t *testing.T, verb, path, body string) []byte {
	t.Helper()
	status, answer := c.answer(t, verb, path, body)
	if status != http.StatusOK {
		t.Fatalf("%s %s: %d: %s", verb, path, status, answer)
	}
	return answer
}

// ask does the same where the hub may refuse.
func (c console) ask(t *testing.T, verb, path, body string) int {
	t.Helper()
	status, _ := c.answer(t, verb, path, body)
	return status
}

// request is one to the hub by its owner.
func (c console) request(t *testing.T, verb, path, body string) *http.Request {
	t.Helper()
	request, err := http.NewRequest(verb, "http://"+c.hub.address+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	request.Header.Set("Content-Type", "application/json")
	return request
}

// answer is what the hub says to a request, whatever that is.
func (c console) answer(t *testing.T, verb, path, body string) (int, []byte) {
	t.Helper()
	response, err := client.Do(c.request(t, verb, path, body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s %s: %s: %v", verb, path, response.Status, err)
	}
	return response.StatusCode, answer
}

// screens keeps pictures of what is shown: light, dark, and on a narrow screen. The narrow one must not scroll sideways.
func (c console) screens(t *testing.T, name string) {
	t.Helper()
	dir := artifacts(t)
	for _, value := range []string{"dark", "light"} {
		c.scheme(t, value)
		c.shot(t, filepath.Join(dir, name+"-"+value+".png"))
	}
	c.do(t, chromedp.EmulateViewport(380, 800))
	c.shot(t, filepath.Join(dir, name+"-narrow.png"))
	if got := c.run(t, "return document.documentElement.scrollWidth"); got != "380" {
		t.Errorf("%s is %s px wide on a screen of 380", name, got)
	}
	c.do(t, chromedp.EmulateViewport(1280, 900))
	c.settled(t)
}

// drawn waits until the page was drawn three times. A browser that has nothing new to show may draw nothing at all for a
// long time, and then there is nothing to wait for.
const drawn = `let left = 3;
	await Promise.race([
		new Promise((r) => { const next = () => (--left ? requestAnimationFrame(next) : r()); requestAnimationFrame(next); }),
		new Promise((r) => setTimeout(r, 1000)),
	])`

// settled waits until the page has taken in that the window or the place in it is another; it may move, and who clicks
// meanwhile misses.
func (c console) settled(t *testing.T) {
	t.Helper()
	c.run(t, drawn)
}

func (c console) shot(t *testing.T, path string) {
	t.Helper()
	c.run(t, drawn)
	c.take(t, path)
}

// take keeps a picture of what is shown, in a larger file than could be: to make it small takes longer than to draw it.
func (c console) take(t *testing.T, path string) {
	t.Helper()
	yes := true
	taken := ask(t, c.tab, cdppage.CaptureScreenshot, cdppage.CaptureScreenshotParams{FromSurface: &yes, OptimizeForSpeed: &yes})
	if err := os.WriteFile(path, taken.Data, 0o644); err != nil {
		t.Errorf("picture of the page: %v", err)
	}
}

// artifacts is the folder of what is kept for people to look at.
func artifacts(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("STOA_ARTIFACTS")
	if dir == "" {
		return t.TempDir()
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // it is a string
	}
	return string(b)
}
