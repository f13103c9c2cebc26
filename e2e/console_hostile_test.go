package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	cdppage "github.com/chromedp/cdproto/page"
	cdptarget "github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// hostiles are texts that do something where they are taken for more than text. Whatever of them is run calls pwned,
// and whatever is loaded is of evil.example.
var hostiles = []struct{ name, text string }{
	{"markup", `<img src=https://evil.example/a onerror="pwned(1)"><script>pwned(2)</script><iframe src="https://evil.example/f"></iframe><b id=marked>`},
	{"attributes", `"'> onmouseover=pwned(3) autofocus onfocus=pwned(4) style="background:url(https://evil.example/b)" x="`},
	{"svg", `<svg onload=pwned(5)><image href="https://evil.example/s.png"/><script>pwned(6)</script></svg><math><mi xlink:href="javascript:pwned(7)">`},
	{"style", `<style>@import url(https://evil.example/c.css);body{display:none}</style><link rel=stylesheet href=https://evil.example/l.css><base href=https://evil.example/>`},
	{"markdown", "[click](javascript:pwned(8)) ![p](https://evil.example/p.png) <https://evil.example/auto> [d](data:text/html,<script>pwned(9)</script>) [q](https://evil.example/\"onclick=pwned(10)) [v](vbscript:pwned(11))\n\n[r]: javascript:pwned(12)\n[r]"},
	{"template", "${pwned(13)} {{constructor.constructor('pwned(14)')()}} <%= pwned(15) %> `+pwned(16)+`"},
	{"terminal", "\x1b[31mpwned red\x1b]8;;javascript:pwned(17)\x07link\x1b]8;;\x07\x1b[2J\u009b31m\x1bP+q\x1b\\"},
	{"turned", "pwned \u202egnp.exe\u202c \u2066\u2067\u2068x\u2069 \u200e\u200f\u061c"},
	{"unseen", "pw\u200bned \u2060\ufeff\u00ad\u0000\u0007\u007f \U000e0041\U000e0042 a\u2028b\u2029c \r\rd"},
	{"long", strings.Repeat("pwned_", 400)},
}

// allHostile is every one of them, in one text.
var allHostile = func() string {
	var all []string
	for _, h := range hostiles {
		all = append(all, h.text)
	}
	return strings.Join(all, " ")
}()

// hostileSpec is a server all of whose words are hostile: each text in a tool of its own, and all of them in what it
// says of itself.
func hostileSpec() peer.Spec {
	spec := peer.Spec{Name: allHostile, Instructions: allHostile, Tools: []peer.Tool{
		{Name: "grow", Behaviour: peer.Do(peer.Notify)}, {Name: "crash", Behaviour: peer.Do(peer.Crash)}, {Name: "asked"},
	}}
	raw := func(v any) peer.Raw { return peer.Raw(mustJSON(v)) }
	object := func(text string) map[string]any {
		return map[string]any{"type": "object", "title": text, "description": text, "required": []string{text}, "properties": map[string]any{
			text:     map[string]any{"type": "string", "title": text, "description": text, "default": text, "pattern": "."},
			"choice": map[string]any{"enum": []string{text, "other"}, "default": text},
			"fixed":  map[string]any{"const": text},
			"one":    map[string]any{"anyOf": []any{map[string]any{"title": text, "type": "string"}, map[string]any{"type": "object", "properties": map[string]any{text: map[string]any{}}}}},
			"list":   map[string]any{"type": "array", "items": map[string]any{"type": "string", "title": text}},
		}}
	}
	for i, h := range hostiles {
		said := map[string]any{"structuredContent": map[string]any{h.text: h.text}, "content": []any{
			map[string]any{"type": "text", "text": h.text},
			map[string]any{"type": "image", "mimeType": "image/svg+xml", "data": "PHN2ZyBvbmxvYWQ9InB3bmVkKDE4KSIgeG1sbnM9Imh0dHA6Ly93d3cudzMub3JnLzIwMDAvc3ZnIi8+"},
			map[string]any{"type": "image", "mimeType": h.text, "data": h.text},
			map[string]any{"type": "resource_link", "uri": "javascript:pwned(19)", "name": h.text, "title": h.text},
			map[string]any{"type": "resource", "resource": map[string]any{"uri": "https://evil.example/r", "mimeType": "text/html", "text": h.text}},
		}}
		name := fmt.Sprint("odd", i)
		spec.Tools = append(spec.Tools,
			peer.Tool{Name: name, RawDefinition: raw(map[string]any{"name": name, "title": h.text, "description": h.text, "inputSchema": object(h.text), "annotations": map[string]any{"title": h.text}}), Behaviour: peer.Behaviour{Kind: peer.Verbatim, Raw: raw(said)}},
			peer.Tool{Name: fmt.Sprint("no", i), Behaviour: peer.Behaviour{Kind: peer.Verbatim, Raw: raw(map[string]any{"isError": true, "content": []any{map[string]any{"type": "text", "text": h.text}}})}},
			peer.Tool{Name: fmt.Sprint("rude", i), Behaviour: peer.Behaviour{Kind: peer.Error, Raw: raw(map[string]any{"code": -32099, "message": h.text, "data": map[string]any{h.text: h.text}})}},
			peer.Tool{Name: h.text, Behaviour: peer.Behaviour{Kind: peer.Verbatim, Raw: raw(said)}})
	}
	return spec
}

// hostileHub is a hub to which everybody has said hostile things.
type hostileHub struct {
	console
	tasks          []string
	run, errorPath string
}

func startHostile(t *testing.T, set toolset) hostileHub {
	t.Helper()
	chromium(t)
	dir := t.TempDir()
	command, args, env := peer.Command(hostileSpec())
	for name, value := range env {
		env[name] = strings.ReplaceAll(value, "${", "$${") // no variable of the config
	}
	noise := filepath.Join(dir, "noise")
	if err := os.WriteFile(noise, []byte(allHostile+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	up := server{Command: "/bin/sh", Args: append([]string{"-c", `cat '` + noise + `' >&2; exec "$0" "$@"`, command}, args...), Env: env}
	h := startHub(t, set, map[string]server{"up": up}, map[string]any{
		"agents":  map[string]any{"told": map[string]any{"description": strings.ReplaceAll(allHostile, "${", "$${")}},
		"log":     map[string]any{"level": "debug"},
		"modules": map[string]any{"file": map[string]any{"roots": []string{dir}}},
		"models":  map[string]any{"default": "told", "told": map[string]any{"provider": "script", "pace": "0ms"}},
		"chat":    map[string]any{"approvals": map[string]any{"default": "allow", "rules": []any{map[string]any{"tools": []string{"up__asked"}, "action": "ask", "reason": strings.ReplaceAll(allHostile, "${", "$${")}}}},
		"policy":  map[string]any{"rules": []any{map[string]any{"tools": []string{"up:asked"}, "action": "ask", "reason": strings.ReplaceAll(allHostile, "${", "$${")}}},
	})
	b := hostileHub{console: console{hub: h, token: ownToken(t, h)}}
	b.fill(t, noise)
	return b
}

// fill brings the texts to every place where something of others is shown.
func (b *hostileHub) fill(t *testing.T, file string) {
	t.Helper()
	all := string(mustJSON(allHostile))
	b.api(t, "POST", "/api/tools/context_add?session=work", `{"name":"bad","description":`+all+`,"data":`+string(mustJSON(map[string]any{allHostile: allHostile, "text": allHostile}))+`}`)
	b.api(t, "POST", "/api/tools/context_add?session=work", `{"name":"text","data":`+all+`}`)
	for i, h := range hostiles {
		b.fails(t, http.StatusOK, fmt.Sprint("/api/tools/up__no", i), `{}`, `"TOOL_ERROR"`)
		b.fails(t, http.StatusOK, fmt.Sprint("/api/tools/up__rude", i), string(mustJSON(map[string]any{h.text: h.text})), `"TOOL_ERROR"`)
		b.tell(t, "evils", "echo "+h.text)
		b.api(t, "POST", "/api/tools/task_start", string(mustJSON(map[string]any{"tool": fmt.Sprint("up__rude", i), "arguments": map[string]any{h.text: h.text}})))
	}
	b.api(t, "POST", "/api/tools/task_start", string(mustJSON(map[string]any{"tool": "up__odd0", "arguments": map[string]any{hostiles[0].text: hostiles[0].text}})))
	b.refused(t)
	b.register(t)
	b.callAll(t)
	b.api(t, "POST", "/api/tools/up__grow", `{}`)
	b.fails(t, http.StatusBadGateway, "/api/tools/up__crash", `{}`, `"UPSTREAM_LOST"`)
	b.tell(t, "evil", "call file_read path="+file)
	b.tell(t, "evil", "call up__rude0 "+string(mustJSON(map[string]any{hostiles[0].text: allHostile})))
	var begun struct{ Run struct{ ID string } }
	plan := mustJSON(map[string]any{"plan": map[string]any{"title": allHostile[:200], "steps": []any{
		map[string]any{"id": "first", "title": allHostile[:200], "tool": "up__rude0", "retries": 0, "args": map[string]any{"x": allHostile}},
		map[string]any{"id": "second", "title": hostiles[7].text, "tool": "up__odd0", "after": []string{"first"}, "args": map[string]any{hostiles[0].text: allHostile}}}}})
	if err := json.Unmarshal(b.api(t, "POST", "/api/v1/runs", string(plan)), &begun); err != nil {
		t.Fatal(err)
	}
	b.run = begun.Run.ID
	await.Until(t, "the tasks have ended and the errors are kept", func() bool {
		var tasks struct{ Tasks []struct{ Task string } }
		var book struct{ Last []struct{ ID string } }
		if json.Unmarshal(b.api(t, "GET", "/api/v1/tasks", ""), &tasks) != nil || json.Unmarshal(b.api(t, "GET", "/api/v1/errors", ""), &book) != nil {
			t.Fatal("no JSON")
		}
		b.tasks = nil
		for _, one := range tasks.Tasks {
			b.tasks = append(b.tasks, one.Task)
		}
		if len(book.Last) > 0 {
			b.errorPath = "errors/" + book.Last[0].ID
		}
		return len(b.tasks) > len(hostiles) && len(book.Last) > len(hostiles) && !strings.Contains(string(b.api(t, "GET", "/api/v1/tasks?status=working", "")), `"task"`)
	})
}

// fails makes a call that must not go well, and looks at what is said.
func (b *hostileHub) fails(t *testing.T, status int, path, body, says string) {
	t.Helper()
	got, answer := b.answer(t, "POST", path, body)
	if got != status || !strings.Contains(string(answer), says) {
		t.Errorf("%.60q: %d %.600s, want %d and %s", path, got, answer, status, says)
	}
}

// callAll calls the tools whose names are the texts, by the names by which they are offered, and also as tasks by
// names that nothing has.
func (b *hostileHub) callAll(t *testing.T) {
	t.Helper()
	var page struct{ Tools []struct{ Name, Tool string } }
	if err := json.Unmarshal(b.api(t, "GET", "/api/v1/tools?upstream=up&limit=500", ""), &page); err != nil {
		t.Fatal(err)
	}
	called := 0
	for _, one := range page.Tools {
		if slices.ContainsFunc(hostiles, func(h struct{ name, text string }) bool { return h.text == one.Tool }) {
			b.api(t, "POST", "/api/tools/"+one.Name, `{}`)
			called++
		}
	}
	if called < len(hostiles)-1 { // a name can be too long to be offered
		t.Errorf("only %d of the tools are offered: %+v", called, page.Tools)
	}
	for _, h := range hostiles {
		b.api(t, "POST", "/api/tools/task_start", string(mustJSON(map[string]any{"tool": h.text})))
	}
}

// refused tries the texts as names, none of which the hub takes.
func (b *hostileHub) refused(t *testing.T) {
	t.Helper()
	await.Until(t, "no conversation has such a name", func() bool {
		status, answer := b.answer(t, "POST", "/api/chat", string(mustJSON(map[string]any{"sessionId": hostiles[0].text, "text": "echo x"})))
		return status == http.StatusBadRequest && strings.Contains(string(answer), "is no name of a session")
	})
	for _, h := range hostiles {
		text, path, value := string(mustJSON(h.text)), url.PathEscape(h.text), url.QueryEscape(h.text)
		step := `{"plan":{"steps":[{"id":` + text + `,"tool":"up__odd0"}]},"dryRun":true}`
		for _, one := range []struct {
			verb, path, body string
			status           int
			says             string
		}{
			{"POST", "/api/tools/context_add?session=" + value, `{"name":"v","data":1}`, 400, "is no name of a session"},
			{"POST", "/api/tools/context_add?session=work", `{"name":` + text + `,"data":1}`, 200, "cannot be the name of a value"},
			{"POST", "/api/tools/up__odd0?session=work&saveAs=" + value, `{}`, 400, "cannot be the name of a value"},
			{"POST", "/api/tools/up__" + path, `{}`, 404, "UNKNOWN_TOOL"}, // a tool of that name is offered by another
			{"GET", "/api/v1/tasks/" + path, "", 404, ""},
			{"POST", "/api/v1/runs", step, 400, "/steps/0/id"},
			{"POST", "/api/v1/runs", `{"plan":{"steps":[{"id":"a","tool":"up__odd0"}]},"session":` + text + `}`, 400, "is no name of a session"},
			{"PUT", "/api/v1/plans/" + path, `{"steps":[{"id":"a","tool":"up__odd0"}]}`, 400, ""},
			{"PUT", "/api/v1/modules/" + path, `{"on":false}`, 404, ""},
		} {
			if got, answer := b.answer(t, one.verb, one.path, one.body); got != one.status || !strings.Contains(string(answer), one.says) {
				t.Errorf("%s %.60s as a name: %d %.600s, want %d and %q", h.name, one.path, got, answer, one.status, one.says)
			}
		}
	}
}

// tell says something in a conversation; one who talks too fast is told to wait.
func (b *hostileHub) tell(t *testing.T, session, text string) {
	t.Helper()
	await.Until(t, "the hub listens", func() bool {
		return b.ask(t, "POST", "/api/chat", string(mustJSON(map[string]any{"sessionId": session, "text": text}))) == http.StatusOK
	})
}

// badNames is a plan whose steps have the texts as names.
func badNames() any {
	var steps []any
	for _, h := range hostiles {
		steps = append(steps, map[string]any{"id": h.text, "title": h.text, "tool": h.text, "after": []string{h.text + "?"}, "args": map[string]any{h.text: "@" + h.text}})
	}
	return map[string]any{"title": allHostile[:200], "steps": steps}
}

// views are where the texts are shown, and a word of what must be there.
func (b *hostileHub) views() []view {
	says := func(text string) string {
		return "document.querySelector('main')?.innerText.includes(" + quoted(text) + ")"
	}
	esc := url.PathEscape(allHostile[:600]) // itself in the log once the call that waits is denied, which a slow machine lives to see
	views := []view{
		{path: "live", ready: says("up:rude0")}, {path: "live?search=" + esc, ready: says("record")}, {path: "live/trace/" + esc + "?trace=" + esc, ready: says("pwned(1)")},
		{path: "tools?upstream=up", ready: says("pwned(1)")}, {path: "tools?filter=absent" + esc, ready: says("No tool")}, {path: "tools/" + esc, ready: says("pwned(1)")},
		{path: "servers", ready: says("up")}, {path: "servers/up", ready: says("pwned(1)")}, {path: "servers/" + esc, ready: says("pwned(1)")},
		{path: "agents", ready: says("up:rude0")}, {path: "agents?upstream=" + esc, ready: says("no such tasks")}, {path: "agents/" + b.tasks[0], ready: says("up")},
		{path: "context?search=" + esc, ready: says("No session")}, {path: "context/work", ready: says("pwned(1)")}, {path: "context/work/bad", ready: says("pwned(1)")},
		{path: "context/work/text", ready: says("pwned(1)")}, {path: "context/" + esc, ready: says("pwned(1)")},
		{path: "plans", ready: says("pwned(1)")}, {path: "plans/" + b.run, ready: says("pwned(1)")}, {path: "plans/" + b.run + "?step=first", ready: says("pwned(1)")},
		{path: "plans/" + b.run + "?view=timeline&step=second", ready: says("gnp.exe")},
		{path: "plans/new", ready: "document.querySelector('[data-testid=import]')", more: bring(string(mustJSON(badNames())), "check", "problems")},
		{path: "plans/" + b.run + "?view=table", ready: says("first")}, {path: "plans/" + b.run + "?view=values", ready: says("pwned(1)")},
		{path: "chat", ready: "document.querySelector('[data-testid=talk]')"}, {path: "chat/evil", ready: "document.querySelectorAll('[data-testid=call]').length === 2"},
		{path: "chat/evil?view=trace", ready: says("pwned(1)")}, {path: "chat/evil?view=raw", ready: says("pwned(1)")},
		{path: "errors", ready: says("pwned(1)")}, {path: b.errorPath, ready: "document.querySelector('section.side .facts')"}, {path: "errors/" + esc, ready: says("pwned(1)")}, {path: "errors/kind/" + esc, ready: says("no such code")},
		{path: "logs", ready: says("pwned(1)")}, {path: "logs?search=absent" + esc, ready: says("No record")},
		{path: "sessions", ready: says("work")}, {path: "sessions?search=" + esc, ready: says("No session")},
		{path: "settings", ready: says("servers.up.command")}, {path: "settings?search=" + esc, ready: says("No setting")}, {path: esc, ready: says("no such view")},
	}
	runs := "document.querySelector('[data-testid=run]').click(); while (!document.querySelector('[data-testid=result]')) await new Promise((r) => setTimeout(r, 20)); document.querySelector('[data-testid=as-rendered]').click();"
	for _, task := range b.tasks[max(1, len(b.tasks)-3):] { // of tools that have such a name
		views = append(views, view{path: "agents/" + task, ready: "document.querySelector('section.side .facts')"})
	}
	for i := range hostiles {
		views = append(views, view{path: fmt.Sprint("tools/up__odd", i), ready: "document.querySelector('[data-testid=run]')", more: runs})
	}
	return append(views, view{path: "chat/evils", ready: fmt.Sprint("document.querySelectorAll('[data-testid=assistant]').length === ", len(hostiles))})
}

// TestConsoleHostile shows what hostile servers, models, clients and people may have written, at every place where the
// console shows it, and nothing of it happens: it is all text, and all of it can be seen.
func TestConsoleHostile(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	b := startHostile(t, set)
	elsewhere := newElsewhere(t)
	c := openConsole(t, b.hub, "", elsewhere.proxied)
	c.watchHostile(t)
	// A call that waits for somebody, on the page where it is decided.
	c.do(t, chromedp.Navigate("http://"+b.hub.address+"/console/"))
	c.until(t, "document.querySelectorAll('.plot canvas').length === 2")
	b.waiting(t, "/api/tools/up__asked", string(mustJSON(map[string]any{allHostile: allHostile})))
	c.until(t, "document.querySelector('[data-testid=approval]')?.innerText.includes('pwned(1)')")
	c.harmless(t, "home")
	b.waiting(t, "/api/chat", string(mustJSON(map[string]any{"sessionId": "evilask", "text": "call up__asked " + string(mustJSON(map[string]any{allHostile: allHostile}))})))
	c.visit(t, view{path: "chat/evilask", ready: "document.querySelector('[data-testid=approval]')?.innerText.includes('pwned(1)')", more: "document.querySelector('[data-testid=edit]').click()"})
	c.harmless(t, "chat/evilask")
	for _, v := range append(b.views(), b.agentViews(t)...) {
		c.visit(t, v)
		c.harmless(t, v.path)
	}
	c.visit(t, view{path: "tools/up__odd0", ready: "document.querySelector('[data-testid=run]')"})
	c.picture(t, "hostile-light")
	// A page that asks elsewhere is heard of, and it is the first that did.
	c.do(t, chromedp.Navigate("about:blank"))
	c.run(t, "await fetch('http://last.example/', {mode: 'no-cors'})")
	if asked := elsewhere.asked(); !slices.Equal(asked, []string{"last.example"}) {
		t.Errorf("asked elsewhere: %q, want last.example alone", asked)
	}
}

// elsewhere stands for all hosts but this one, and keeps which of them a browser asks for something.
type elsewhere struct {
	*httptest.Server
	mu    sync.Mutex
	hosts []string
}

func newElsewhere(t *testing.T) *elsewhere {
	t.Helper()
	e := &elsewhere{}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.mu.Lock()
		defer e.mu.Unlock()
		if host := r.URL.Hostname(); !strings.HasSuffix(host, ".googleapis.com") && !strings.HasSuffix(host, ".google.com") { // the browser's own services
			e.hosts = append(e.hosts, host)
		}
		http.Error(w, "nobody is there", http.StatusBadGateway)
	}))
	t.Cleanup(e.Close)
	return e
}

// proxied has a browser ask it for all that is not on this machine.
func (e *elsewhere) proxied(p *cdptarget.CreateBrowserContextParams) {
	p.ProxyServer = e.Listener.Addr().String()
}

func (e *elsewhere) asked() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.hosts)
}

// watchHostile notes in every document from now on what hostile texts do.
func (c console) watchHostile(t *testing.T) {
	t.Helper()
	c.do(t, act(cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: `
		window.hits = [];
		window.pwned = (n) => hits.push(n);
		for (const name of ['alert', 'confirm', 'prompt', 'print', 'open']) window[name] = () => { hits.push(name); return null; };`}))
}

// harmless opens what can be opened, moves over it, and looks whether anything came of it.
func (c console) harmless(t *testing.T, path string) {
	t.Helper()
	got := c.run(t, `for (let i = 0; i < 3; i++) {
			for (const d of document.querySelectorAll('main details:not([open])')) d.open = true;
			await new Promise((r) => requestAnimationFrame(() => setTimeout(r)));
		}
		for (const b of document.querySelectorAll('main .json [role=tab], main [data-testid^="add/"]')) b.click();
		for (const e of document.querySelectorAll('main *')) { e.dispatchEvent(new MouseEvent('mouseover', {bubbles: true})); }
		await new Promise((r) => requestAnimationFrame(() => setTimeout(r, 30)));
		const hidden = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]|[\u{e0000}-\u{e007f}]/u;
		const all = [...document.querySelectorAll('*')];
		const unseen = [...document.querySelectorAll('main, nav')].flatMap((e) => { const m = hidden.exec(e.textContent); return m ? [e.textContent.slice(Math.max(0, m.index - 40), m.index + 10)] : []; });
		for (const e of all) for (const n of ['title', 'aria-label', 'placeholder', 'alt']) if (hidden.test(e.getAttribute(n) || '')) unseen.push(n + ' of ' + e.tagName);
		if (hidden.test(document.title)) unseen.push('the title');
		return {hits, unseen,
			made: [...document.querySelectorAll('body script, main iframe, main object, main embed, main style, main link, main base, main math, main image, #marked, main img:not([src^="data:image/"])')].map((e) => e.outerHTML.slice(0, 100)),
			pictures: [...document.querySelectorAll('main img')].filter((e) => !/^data:image\/(png|jpeg|gif|webp);/.test(e.src)).length,
			links: [...document.querySelectorAll('a')].filter((a) => !/^https?:/.test(a.href)).map((a) => a.href),
			handlers: all.flatMap((e) => [...e.attributes]).filter((a) => /^on/.test(a.name) || a.name === 'style' && /evil/.test(a.value)).length,
			gone: getComputedStyle(document.body).display === 'none', thrown}`)
	if want := `{"hits":[],"unseen":[],"made":[],"pictures":0,"links":[],"handlers":0,"gone":false,"thrown":[]}`; got != want {
		t.Errorf("%.200s: %s", path, got)
	}
}
