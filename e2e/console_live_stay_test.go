package e2e

import (
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
)

// furnishedTrace is a trace that there is something to see of.
const furnishedTrace = "2af7651916cd43dd8448eb211c80319c"

// tracedBy calls a tool as part of a trace of the client's.
func (c console) tracedBy(t *testing.T, trace, tool string) {
	t.Helper()
	request, err := http.NewRequest(http.MethodPost, c.hub.merged(), strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+`","arguments":{},"_meta":{"traceparent":"00-`+trace+`-b7ad6b7169203331-01"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if text, err := io.ReadAll(response.Body); err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("call %s: %s %s (%v)", tool, response.Status, text, err)
	}
}

// again kills the hub without a word and starts it anew at the same address.
func (h hub) again(t *testing.T, set toolset, names ...string) {
	t.Helper()
	pid := h.pid(t)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the hub is gone, and its lock", func() bool { return syscall.Kill(pid, 0) != nil })
	_, p := launch(t, environment(t, set), h)
	for _, name := range names {
		p.await(t, "server "+name+" lists its tools", func() error { return listsTools(h.agent(name)) })
	}
}

// TestConsoleLiveStays reads one call while others pour in, goes from it to its trace, looks further back, and goes on
// when the hub dies and comes back.
func TestConsoleLiveStays(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	chromium(t)
	h, _ := liveHub(t, set)
	c := openConsole(t, h, "live?type=call.done")
	c.until(t, `document.querySelector('.dot.open')`)
	const trace, other = "0af7651916cd43dd8448eb211c80319c", "1af7651916cd43dd8448eb211c80319c"
	c.tracedBy(t, trace, "shop__no")
	c.tracedBy(t, trace, "shop__count")
	c.tracedBy(t, other, "everything__echo")
	c.until(t, liveRows+`.some((l) => l.includes('everything:echo'))`)
	c.traces(t, trace)
	c.stays(t)
	c.run(t, `window.same = true`) // the page is not loaded anew
	h.again(t, set, "shop", "files", "everything")
	c.until(t, `document.querySelector('.dot.open')`)
	c.api(t, "POST", "/api/tools/everything__echo", `{"message":"after the restart"}`)
	c.until(t, liveRows+`.length > 0 && `+liveRows+`[0].includes('everything:echo') && window.same`)
	c.choose(t, by("live-type"), "upstream")
	// What the new hub did before the page was back is there too, beside what the old one did.
	c.until(t, `['shop', 'files', 'everything'].every((name) => `+liveRows+`.filter((l) => l.includes('upstream.state') && l.includes(name)).length >= 2)`)
}

// traces goes from a record to its trace, as a list and as a tree, and back.
func (c console) traces(t *testing.T, trace string) {
	t.Helper()
	c.run(t, `[...document.querySelectorAll('[data-testid=live] summary')].find((s) => s.textContent.includes('shop:no')).click()`)
	c.click(t, by("live")+" "+by("only-trace"))
	c.until(t, `location.search === '?trace=`+trace+`' && document.querySelector('[data-testid=live-trace]').textContent.includes('`+trace+`')`)
	c.until(t, liveRows+`.some((l) => l.includes('shop:count')) && `+liveRows+`.every((l) => l.includes('shop:'))`)
	c.run(t, `if (!document.querySelector('[data-testid=show-trace]')) document.querySelector('[data-testid=live] summary').click()`)
	c.click(t, by("live")+" "+by("show-trace"))
	c.until(t, `location.pathname.endsWith('/live/trace/`+trace+`') && document.querySelectorAll('[data-testid=trace-tree] li').length === 2`)
	if text := c.text(t, by("trace-tree")); !strings.Contains(text, "count") || !strings.Contains(text, "shop") || !strings.Contains(text, "2 parts") {
		t.Errorf("the tree says %s", text)
	}
	c.screens(t, "live-trace")
	c.do(t, chromedp.Navigate("http://"+c.hub.address+"/console/live/trace/"+trace)) // the link, kept and opened anew
	c.until(t, `document.querySelectorAll('[data-testid=trace-tree] li').length === 2 && `+liveRows+`.some((l) => l.includes('everything:echo'))`)
	c.click(t, by("trace-only"))
	c.until(t, liveRows+`.length > 0 && `+liveRows+`.every((l) => l.includes('shop:'))`)
	c.click(t, by("no-trace-filter"))
	c.until(t, `!location.search.includes('trace') && !document.querySelector('[data-testid=live-trace]') && `+liveRows+`.some((l) => l.includes('everything:echo'))`)
	c.do(t, chromedp.Navigate("http://"+c.hub.address+"/console/live/trace/"+strings.Repeat("9", 32)))
	c.until(t, `document.querySelector('[data-testid=no-trace]')?.textContent.includes('nothing is known')`)
	c.do(t, chromedp.Navigate("http://"+c.hub.address+"/console/live?type=call.done"))
	c.until(t, `document.querySelector('.dot.open') && `+liveRows+`.length > 2`)
}

// stays reads a row that more newer ones push down than are drawn, and then looks at older ones.
func (c console) stays(t *testing.T) {
	t.Helper()
	c.run(t, `[...document.querySelectorAll('[data-testid=live] summary')].find((s) => s.textContent.includes('shop:no')).click()`)
	c.until(t, `document.querySelector('[data-testid=live] [data-testid=said-result]')?.textContent.includes('isError')`)
	c.run(t, `window.read = document.querySelector('[data-testid=live] details[open]')`)
	for range 230 {
		c.api(t, "POST", "/api/tools/shop__count", "{}")
	}
	c.until(t, `/^2[3-9]\d of the last/.test(document.querySelector('[data-testid=live-count]').textContent)`)
	// The newest 200, and the one that is read: the same element, still open.
	c.until(t, liveRows+`.length === 201 && `+liveRows+`[200].includes('shop:no') && window.read.isConnected && window.read.open && window.read.querySelector('[data-testid=said-result]')`)
	c.click(t, by("older"))
	c.until(t, liveRows+`.length > 230 && !document.querySelector('[data-testid=older]') && window.read.isConnected && window.read.open`)
	c.run(t, `window.read.querySelector('summary').click()`)
	c.until(t, `!window.read.open`)
}
