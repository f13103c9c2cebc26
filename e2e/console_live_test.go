package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// liveHub has published servers, and one that says no.
func liveHub(t *testing.T, set toolset) (hub, string) {
	t.Helper()
	up := peer.Serve(t, peer.Spec{Tools: []peer.Tool{
		{Name: "count", Behaviour: peer.Do(peer.Count)},
		{Name: "no", Behaviour: peer.Behaviour{Kind: peer.Verbatim, Raw: `{"content":[{"type":"text","text":"closed"}],"isError":true}`}},
	}})
	folder := resolvedFolder(t)
	real := published(set, folder, "")
	return startHub(t, set, map[string]server{"shop": {URL: up.URL}, "files": real["files"], "everything": real["everything"]}), folder
}

// liveRows are the texts of the rows on the page.
const liveRows = `[...document.querySelectorAll('[data-testid=live] > li')].map((l) => l.querySelector('summary').textContent)`

// narrowed chooses a filter, waits until all rows are as they should be, and takes it back.
func (c console) narrowed(t *testing.T, filter, value, every, some string) {
	t.Helper()
	c.choose(t, by("live-"+filter), value)
	c.until(t, `location.search.includes('`+filter+`=`+value+`') && `+liveRows+`.length > 0 && `+liveRows+`.every((l) => `+every+`) && `+liveRows+`.some((l) => `+some+`)`)
	c.choose(t, by("live-"+filter), "")
	c.until(t, liveRows+`.some((l) => !(`+every+`))`)
}

// TestConsoleLive watches calls of real servers as they are made: each filter, the search, a pause.
func TestConsoleLive(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	chromium(t)
	h, folder := liveHub(t, set)
	c := openConsole(t, h, "live")
	c.until(t, `document.querySelector('.dot.open') && document.querySelector('[data-testid=live]')`) // what was before
	note := filepath.Join(folder, "note.txt")
	c.api(t, "POST", "/api/tools/files__write_file?session=work", string(mustJSON(map[string]string{"path": note, "content": "a <b>line</b>"})))
	c.api(t, "POST", "/api/tools/everything__echo", `{"message":"a needle in the hay"}`)
	c.api(t, "POST", "/api/tools/shop__count", "{}")
	c.api(t, "POST", "/api/tools/shop__no", "{}")
	for _, tool := range []string{"files:write_file", "everything:echo", "shop:count", "shop:no"} {
		c.until(t, liveRows+`.some((l) => l.includes('call.done') && l.includes('`+tool+`'))`)
	}
	c.narrowed(t, "upstream", "files", `l.includes('files')`, `l.includes('files:write_file')`)
	c.narrowed(t, "tool", "echo", `l.includes('everything:echo')`, `l.includes('call.started')`)
	c.narrowed(t, "session", "work", `l.includes('in work')`, `l.includes('files:write_file')`)
	c.narrowed(t, "level", "warning", `!l.includes('shop:count')`, `l.includes('shop:no')`)
	c.narrowed(t, "type", "upstream", `l.includes('upstream.')`, `l.includes('upstream.state')`)
	c.choose(t, by("live-type"), "call")
	c.click(t, by("pause"))
	before := c.run(t, `return `+liveRows+`.length`)
	c.api(t, "POST", "/api/tools/shop__count", "{}")
	c.until(t, `/paused, [1-9]\d* since/.test(document.querySelector('[data-testid=live-count]').textContent)`)
	if now := c.run(t, `return `+liveRows+`.length`); now != before {
		t.Errorf("%s rows while paused, before %s", now, before)
	}
	c.click(t, by("pause"))
	c.until(t, liveRows+`.length > `+before)
	c.choose(t, by("live-type"), "")
	c.write(t, by("live-search"), "TOOL_ERROR")
	c.until(t, liveRows+`.length > 0 && `+liveRows+`.every((l) => l.includes('shop:no'))`)
	c.screens(t, "live")
	c.write(t, by("live-search"), "nothing is like this")
	c.until(t, liveRows+`.length === 0 && document.querySelector('.empty')`)
}

// kept is an exchange as the API tells it.
type kept struct {
	Call, Method, Upstream, Tool string
	Done                         bool
	Messages                     []struct {
		What, Text string
		Bytes      int
		Cut        bool
	}
}

func (k kept) said(what string) (text string) {
	for _, m := range k.Messages {
		if m.What == what {
			text = m.Text
		}
	}
	return text
}

// shownRaw is the text of a message of the exchange that is shown within a part of the page.
func (c console) shownRaw(t *testing.T, within, what string) (text string) {
	t.Helper()
	at := within + ` [data-testid=said-` + what + `]`
	c.until(t, `document.querySelector(`+quoted(at)+`)`)
	c.run(t, `document.querySelector(`+quoted(at+` [role=tab]:nth-of-type(2)`)+`)?.click()`)
	c.until(t, `document.querySelector(`+quoted(at+` pre`)+`)`)
	if err := json.Unmarshal([]byte(c.run(t, `return document.querySelector(`+quoted(at+` pre`)+`).textContent`)), &text); err != nil {
		t.Fatal(err)
	}
	return text
}

// callOf is the name of the last call of a tool.
func (c console) callOf(t *testing.T, tool string) string {
	t.Helper()
	var page struct{ Events []struct{ Call string } }
	if err := json.Unmarshal(c.api(t, "GET", "/api/v1/events?limit=1000&wait=0s&types=call.done&tool="+tool, ""), &page); err != nil || len(page.Events) == 0 {
		t.Fatalf("no call of %s: %v", tool, err)
	}
	return page.Events[len(page.Events)-1].Call
}

func (c console) kept(t *testing.T, call string) kept {
	t.Helper()
	var answer struct{ Exchange kept }
	if err := json.Unmarshal(c.api(t, "GET", "/api/v1/exchanges/"+call, ""), &answer); err != nil {
		t.Fatal(err)
	}
	return answer.Exchange
}

// TestConsoleExchange opens calls of real servers down to what was sent and what came back, by keys and by address.
func TestConsoleExchange(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	chromium(t)
	h, folder := liveHub(t, set)
	c := openConsole(t, h, "live?type=call.done")
	c.until(t, `document.querySelector('.dot.open')`) // what passes is kept from now on
	note := filepath.Join(folder, "note.txt")
	c.api(t, "POST", "/api/tools/files__write_file", `{"path":`+quoted(note)+`,  "content":"a <b>line</b>"}`)
	if b, err := os.ReadFile(note); err != nil || string(b) != "a <b>line</b>" {
		t.Fatalf("the server wrote %q: %v", b, err)
	}
	c.choose(t, by("live-tool"), "write_file")
	c.until(t, liveRows+`.length === 1`)
	c.run(t, `document.querySelector('[data-testid=live] summary').focus()`)
	c.do(t, chromedp.KeyEvent(kb.Enter))
	c.until(t, `document.querySelector('[data-testid=live] [data-testid=exchange] .tree')`)
	x := c.kept(t, c.callOf(t, "write_file"))
	if !strings.Contains(x.said("request"), `,  "content":"a <b>line</b>"}`) || !strings.Contains(x.said("result"), "Successfully wrote") {
		t.Errorf("it passed %+v", x)
	}
	for _, what := range []string{"request", "result"} {
		if got := c.shownRaw(t, by("live"), what); got != x.said(what) {
			t.Errorf("the %s is shown as %s and was %s", what, got, x.said(what))
		}
	}
	c.screens(t, "live-exchange")
	c.click(t, by("live")+" li a")
	c.until(t, `/\/live\/\d+$/.test(location.pathname) && document.querySelector('[data-testid=one] [data-testid=said-result]')`)
	c.do(t, chromedp.Navigate("http://"+h.address+strings.Trim(c.run(t, `return location.pathname`), `"`))) // the link, kept and opened anew
	if got := c.shownRaw(t, by("one"), "result"); got != x.said("result") {
		t.Errorf("by its address the result is %s", got)
	}
	c.exports(t, x)
	c.cut(t, folder)
	c.hostileCalls(t)
}

// exports takes what is shown along, without and with what passed.
func (c console) exports(t *testing.T, want kept) {
	t.Helper()
	c.choose(t, by("live-tool"), "write_file")
	c.until(t, liveRows+`.length > 0 && `+liveRows+`.every((l) => l.includes('write_file'))`)
	rows := strings.Trim(c.run(t, `return `+liveRows+`.length`), `"`)
	c.run(t, `const make = URL.createObjectURL; URL.createObjectURL = (b) => { window.exported = b.text(); return make.call(URL, b); }`)
	for _, raw := range []bool{false, true} {
		if raw {
			c.click(t, by("with-raw"))
		}
		c.run(t, `window.exported = null`)
		c.click(t, by("export"))
		c.until(t, `window.exported`)
		var text string
		if err := json.Unmarshal([]byte(c.run(t, `return await window.exported`)), &text); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		if fmt.Sprint(len(lines)) != rows {
			t.Errorf("%d lines of %s rows", len(lines), rows)
		}
		var last struct {
			Type, Tool string
			Exchange   *kept
		}
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last.Type != "call.done" || last.Tool != "write_file" || (last.Exchange != nil) != raw {
			t.Fatalf("the last line is %s: %v", lines[len(lines)-1], err)
		}
		if raw && (last.Exchange.Call != want.Call || last.Exchange.said("result") != want.said("result")) {
			t.Errorf("exported: %+v", last.Exchange)
		}
	}
}

// cut looks at a message that is too long to be kept whole.
func (c console) cut(t *testing.T, folder string) {
	t.Helper()
	big := filepath.Join(folder, "big.txt")
	if err := os.WriteFile(big, []byte(strings.Repeat("a long line of text, again and again\n", 6000)), 0o600); err != nil {
		t.Fatal(err)
	}
	c.api(t, "POST", "/api/tools/files__read_text_file", string(mustJSON(map[string]string{"path": big})))
	c.choose(t, by("live-tool"), "read_text_file")
	c.until(t, liveRows+`.some((l) => l.includes('call.done') && l.includes('read_text_file'))`)
	c.click(t, by("live")+" summary")
	c.until(t, `/cut after 64.0 KiB of \d+\.\d KiB/.test(document.querySelector('[data-testid=live] [data-testid=said-result] .badge')?.textContent)`)
	x := c.kept(t, c.callOf(t, "read_text_file"))
	if m := x.Messages[len(x.Messages)-1]; !m.Cut || m.Bytes < 200_000 || len(m.Text) > 64<<10 {
		t.Errorf("%d of %d bytes are kept", len(m.Text), m.Bytes)
	}
	if got := c.shownRaw(t, by("live"), "result"); !strings.HasPrefix(got, x.said("result")) || !strings.HasSuffix(got, "… cut here") {
		t.Errorf("it is shown as …%s", got[max(0, len(got)-40):])
	}
	c.shot(t, filepath.Join(artifacts(t), "live-cut.png"))
}

// hostileCalls looks at hostile text in arguments, results and faults, and nothing of it happens.
func (c console) hostileCalls(t *testing.T) {
	t.Helper()
	c.run(t, `window.hits = []; window.pwned = (n) => hits.push(n)`)
	c.api(t, "POST", "/api/tools/everything__echo", string(mustJSON(map[string]string{"message": allHostile})))
	c.ask(t, http.MethodPost, "/api/tools/everything__echo", string(mustJSON(map[string]any{allHostile: 1})))
	c.choose(t, by("live-tool"), "echo")
	c.until(t, liveRows+`.filter((l) => l.includes('call.done')).length >= 2`)
	c.run(t, `for (const d of document.querySelectorAll('[data-testid=live] > li > details')) d.open = true`)
	for _, what := range []string{"request", "result", "asked"} {
		if got := c.shownRaw(t, by("live"), what); !strings.Contains(got, "onerror") {
			t.Errorf("the %s is shown as %s", what, got)
		}
	}
	c.until(t, `document.querySelector('[data-testid=live] [data-testid=said-fault]')`)
	c.harmless(t, "live")
}
