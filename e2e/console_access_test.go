package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stoahub/stoa/internal/hubtest"
)

// view is one address of the console, and how it is told that all of it is shown.
type view struct {
	name, path, ready string
	more              string // what to do there, as a script, so that more is shown
}

// views are all pages and their main parts on a furnished hub.
func (f furnished) views() []view {
	form := `[...document.querySelectorAll('[data-testid^="add/"]')].forEach((b) => b.click()); await new Promise((r) => setTimeout(r, 100));
		[...document.querySelectorAll('[data-testid^="item/"]')].forEach((b) => b.click());`
	run := `document.querySelector('[data-testid=run]').click(); while (!document.querySelector('[data-testid=result]')) await new Promise((r) => setTimeout(r, 20));
		document.querySelector('[data-testid=hold]').click(); document.querySelector('[data-testid=commands]').click(); document.querySelector('[data-testid=calls]').click();`
	return []view{
		{"home", "", `document.querySelector('[data-testid=approval]') && document.querySelector('[data-testid=attention] li') && document.querySelectorAll('.plot canvas').length === 2`, ""},
		{"live", "live", `document.querySelectorAll('[data-testid=live] > *').length > 5`, ""},
		{"live-trace", "live/trace/" + furnishedTrace + "?trace=" + furnishedTrace, `document.querySelectorAll('[data-testid=trace-tree] li').length === 2 && document.querySelector('[data-testid=live-trace]')`, ""},
		{"tools", "tools", `document.querySelectorAll('main tbody tr').length > 10`, ""},
		{"tools-filtered", "tools?filter=order&upstream=shop&risk=read-only&sort=calls", `document.querySelectorAll('main tbody tr').length === 1`, ""},
		{"tool-form", "tools/shop__order?session=work", `document.querySelector('[data-testid="pick/title"]')`, form},
		{"tool-result", "tools/shop__count", `document.querySelector('[data-testid=run]')`, run},
		{"servers", "servers", `document.querySelectorAll('main tbody tr').length >= 3`, ""},
		{"server", "servers/shop", `document.querySelector('[data-testid=pid]') && document.querySelector('[data-testid=change]')`, ""},
		{"server-failed", "servers/weather", `document.querySelector('section.side .trouble')`, ""},
		{"agents", "agents", `document.querySelector('[data-testid=task]')`, ""},
		{"task", "agents/" + f.task, `document.querySelector('[data-testid=result]')`, ""},
		{"context", "context", `document.querySelector('[data-testid=session-work]')`, ""},
		{"context-session", "context/work", `document.querySelector('[data-testid=value-report]')`, ""},
		{"context-value", "context/work/report", `document.querySelector('[data-testid=preview] .json') && document.querySelector('[data-testid=used-by]')`, `document.querySelector('[data-testid=edit]').click(); while (!document.querySelector('[data-testid=editor]')) await new Promise((r) => setTimeout(r, 20));`},
		{"plans", "plans", `document.querySelectorAll('main tbody tr').length >= 2`, ""},
		{"plan-new", "plans/new", `document.querySelector('[data-testid=plan-text]')`, ""},
		{"plan-form", "plans/new?published=restock", `document.querySelectorAll('main .form :is(input, select, textarea)').length >= 3`, `document.querySelector('[data-testid=options]').click(); document.querySelector('[data-testid=publishing]').click();`},
		{"plan-problems", "plans/new", `document.querySelector('[data-testid=import]')`, bring(brokenPlan, "check", "problems")},
		{"plan-broken", "plans/new", `document.querySelector('[data-testid=import]')`, bring(`{"steps": [{"id": "one",]}`, "", "broken")},
		{"plan-file", "plans/new", `document.querySelector('[data-testid=import]')`, bring(f.exported, "look", "from-file")},
		{"plan-compare", "plans/compare?a=" + f.other + "&b=" + f.run, `document.querySelectorAll('[data-testid=difference]').length >= 2`, ""},
		{"plan-compare-none", "plans/compare", `document.querySelector('main .empty') && document.querySelectorAll('[data-testid=side-a] option').length > 2`, ""},
		{"plan-graph", "plans/" + f.run + "?step=price", `document.querySelectorAll('[data-testid=node]').length === 4 && document.querySelector('[data-testid=step-panel]')`, ""},
		{"plan-timeline", "plans/" + f.run + "?view=timeline", `document.querySelector('[data-testid=timeline]')`, ""},
		{"plan-table", "plans/" + f.run + "?view=table", `document.querySelectorAll('main tbody tr').length === 4`, ""},
		{"plan-values", "plans/" + f.run + "?view=values", `document.querySelector('main .json')`, ""},
		{"chat-new", "chat", `document.querySelector('[data-testid=talk]') && document.querySelector('[data-testid=message]')`, ""},
		{"chat", "chat/trip", `document.querySelectorAll('[data-testid=call]').length >= 2 && document.querySelector('[data-testid=meter]')`, `document.querySelector('[data-testid=call-head]').click();`},
		{"chat-trace", "chat/trip?view=trace", `document.querySelectorAll('[data-testid=turn]').length >= 2`, ""},
		{"chat-raw", "chat/trip?view=raw", `document.querySelectorAll('[data-testid=raw] li').length > 5`, ""},
		{"errors", "errors", `document.querySelector('[data-testid=group-TIMEOUT]') && document.querySelector('[data-testid=error]')`, ""},
		{"error", "errors/" + f.failure, `document.querySelector('section.side .facts')`, ""},
		{"error-codes", "errors/kind", `document.querySelectorAll('main tbody tr').length > 30`, ""},
		{"error-code", "errors/kind/TIMEOUT", `document.querySelector('[data-testid=meaning]') && document.querySelector('[data-testid=met]')`, ""},
		{"logs", "logs", `document.querySelectorAll('.log li').length > 5`, ""},
		{"sessions", "sessions", `document.querySelector('[data-testid=session-work]')`, `document.querySelector('[data-testid=end-work]').click(); while (document.activeElement?.dataset.testid !== 'end-work-yes') await new Promise((r) => setTimeout(r, 20));`},
		{"settings", "settings", `document.querySelectorAll('main tbody tr').length > 20 && document.querySelector('[data-testid=switch-shop]')`, ""},
		{"settings-set", "settings?set=yes", `document.querySelector('main').innerText.includes('servers.shop')`, ""},
	}
}

// brokenPlan has several things wrong with it, each at a place of its own.
const brokenPlan = `{
  "title": "Restock",
  "steps": [
    {"id": "stock", "tool": "shop__nothing"},
    {"id": "stock", "tool": "shop__find", "after": ["nowhere"], "args": {"words": "@never.text"}}
  ]
}`

// bring chooses a file as a person does, clicks what is named then, if anything, and waits for what comes of it.
func bring(text, click, comes string) string {
	wait := func(id string) string {
		return `while (!document.querySelector(` + quoted(by(id)) + `)) await new Promise((r) => setTimeout(r, 20));`
	}
	script := `const files = new DataTransfer();
		files.items.add(new File([` + quoted(text) + `], 'restock.json'));
		const box = document.querySelector('[data-testid=import]');
		box.files = files.files;
		box.dispatchEvent(new Event('change', {bubbles: true}));
		while (!document.querySelector('[data-testid=plan-text]').value) await new Promise((r) => setTimeout(r, 20));`
	if click != "" {
		script += wait(click) + `document.querySelector(` + quoted(by(click)) + `).click();`
	}
	return script + wait(comes)
}

// TestConsoleAccess opens every view of the console by its address alone and holds it to WCAG 2 AA, light, dark and narrow;
// walks over it by Tab; and keeps pictures of it.
func TestConsoleAccess(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	f := furnish(t, set)
	axe, err := os.ReadFile(filepath.Join(set.modules, "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	c := openConsole(t, f.hub, "")
	for _, source := range []string{string(axe), watchClicks} {
		c.do(t, act(cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: source}))
	}
	// A page hears of the focus only where it has it, as the window in front has.
	// Whoever shows Home can be asked; the call waits while the other pages are looked at.
	c.until(t, "document.querySelector('[data-testid=up]')")
	c.waiting(t, "/api/tools/shop__refund?session=work", `{"order":"A-1042","cents":1999}`)
	c.until(t, "document.querySelector('[data-testid=approval]')")
	c.tracedBy(t, furnishedTrace, "shop__count")
	c.tracedBy(t, furnishedTrace, "shop__count")
	for _, v := range f.views() {
		t.Run(v.name, func(t *testing.T) {
			c.visit(t, v)
			c.until(t, "!(document.querySelector('.side')?.getBoundingClientRect().top > innerHeight - 100)")
			c.walk(t)
			c.checked(t, "light", formRules)
			c.checked(t, "light", colourRules)
			c.picture(t, v.name+"-light")
			c.scheme(t, "dark")
			c.checked(t, "dark", colourRules)
			c.picture(t, v.name+"-dark")
			c.scheme(t, "light")
			c.do(t, chromedp.EmulateViewport(380, 800))
			c.checked(t, "narrow", formRules)
			c.picture(t, v.name+"-narrow")
			if wide := c.run(t, wider); wide != "[]" {
				t.Errorf("on a screen of 380 px these are wider: %s", wide)
			}
			c.do(t, chromedp.EmulateViewport(1280, 900))
			c.quiet(t)
		})
	}
	for _, path := range []string{"nope", "servers/nope", "tools/nope", "agents/nope", "context/nope", "context/work/nope", "plans/nope", "errors/nope", "errors/kind/NOPE", "live/987654321", "live/trace/" + strings.Repeat("9", 32),
		"logs/nope", "sessions/nope", "settings/nope", "servers/shop/nope", "context/work/report/nope", "errors/kind/TIMEOUT/nope"} {
		t.Run("unknown "+path, func(t *testing.T) {
			c.visit(t, view{path: path, ready: `/no such|There is no|does not|unknown|not known|nothing|is not/i.test(document.querySelector('main')?.innerText)`})
			c.checked(t, "light", formRules)
			c.checked(t, "light", colourRules)
		})
	}
}

// visit loads a view as if its address had been sent to somebody.
func (c console) visit(t *testing.T, v view) {
	t.Helper()
	c.do(t, chromedp.Navigate("http://"+c.hub.address+"/console/"+v.path))
	c.until(t, v.ready)
	if v.more != "" {
		c.run(t, v.more)
	}
}

const (
	// All rules are one of these. Those of colours take axe far longer than all others, and longer the more is shown.
	formRules   = `{runOnly: {type: 'tag', values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']}, rules: {'color-contrast': {enabled: false}, 'link-in-text-block': {enabled: false}}}`
	colourRules = `{runOnly: {type: 'rule', values: ['color-contrast', 'link-in-text-block']}}`

	// alike are rows that look like one before them: of the same elements, classes and states. One of each has its colours
	// looked at.
	alike = `const seen = new Set(), alike = [];
		const look = (e) => [e.tagName, ...['class', 'style', 'open', 'disabled', 'href', ...e.getAttributeNames().filter((n) => /^aria-(current|selected|pressed|expanded|disabled|invalid)$/.test(n))].map((n) => n === 'href' ? e.hasAttribute(n) : e.getAttribute(n))].join();
		for (const row of document.querySelectorAll('main tbody > tr, main li')) {
			const all = [row.parentElement.closest('[class]')?.className, row.parentElement.tagName, row === document.activeElement, ...[row, ...row.querySelectorAll('*')].map(look)].join(';');
			if (seen.has(all)) alike.push(row); else seen.add(all);
		}`

	// wider finds what makes the page scroll sideways.
	wider = `if (document.documentElement.scrollWidth <= 380) return [];
		return [...document.querySelectorAll('body *')].filter((e) => e.getBoundingClientRect().right > 381 && !e.closest('.scroll, pre')).slice(0, 5).map((e) => e.outerHTML.slice(0, 120));`
)

// checked has axe look at what is shown.
func (c console) checked(t *testing.T, how, rules string) {
	t.Helper()
	var found []struct {
		ID, Help string
		Where    []string
	}
	where := "document"
	if rules == colourRules {
		where = "{include: document, exclude: alike}"
	}
	got := c.run(t, alike+`
		await new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)));
		const {violations} = await axe.run(`+where+`, {...`+rules+`, resultTypes: ['violations'], iframes: false});
		// The name of a step in a drawing begins with what is read in its box, and then says it in words.
		for (const v of violations) if (v.id === 'label-content-name-mismatch') v.nodes = v.nodes.filter((n) => !/^<g class="node/.test(n.html));
		return violations.filter((v) => v.nodes.length).map((v) => ({id: v.id, help: v.help, where: v.nodes.slice(0, 4).map((n) => n.html.slice(0, 160) + ' | ' + [...n.any, ...n.all, ...n.none].map((x) => x.message).join('; ').slice(0, 200))}));`)
	if err := json.Unmarshal([]byte(got), &found); err != nil {
		t.Fatal(err)
	}
	for _, v := range found {
		t.Errorf("%s: %s: %s\n\t%s", how, v.ID, v.Help, strings.Join(v.Where, "\n\t"))
	}
}

// watchClicks notes which elements do something when they are clicked.
const watchClicks = `window.clicked = new Set();
	const listen = EventTarget.prototype.addEventListener;
	EventTarget.prototype.addEventListener = function (type, ...rest) { if (type === 'click' && this instanceof Element) clicked.add(this); return listen.call(this, type, ...rest); };`

// walk goes over the view by Tab: it comes to everything that can be used, in the order in which it is read, and where
// it is can be seen.
func (c console) walk(t *testing.T) {
	t.Helper()
	var n int
	if err := json.Unmarshal([]byte(c.run(t, `
		window.usable = (e) => !e.disabled && e.checkVisibility({visibilityProperty: true}) && e.getClientRects().length > 0;
		window.trail = [];
		addEventListener('focusin', ({target}) => { const s = getComputedStyle(target); const box = target.closest('.dag') && target.querySelector('rect'); // in a drawing the border of the box shows it
			trail.push({target, seen: box ? parseFloat(getComputedStyle(box).strokeWidth) >= 4 : s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 1}); });
		window.wanted = [...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex]')].filter((e) => e.tabIndex >= 0 && usable(e));
		// What has just been opened may take the focus a moment later.
		for (let i = 0; i < 100 && !(trail.length === 1 && document.activeElement === wanted[0]); i++) {
			document.activeElement?.blur();
			trail.length = 0;
			wanted[0].focus();
			await new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)));
		}
		return wanted.length`)), &n); err != nil {
		t.Fatal(err)
	}
	// Once round; a page that is still being filled takes more keys than were counted.
	for tries := 0; tries == 0 || tries < 4 && c.run(t, "return trail.findIndex((s, i) => i > 0 && s.target === wanted[0])") == "-1"; tries++ {
		c.do(t, slices.Repeat([]chromedp.Action[chromedp.Void]{act(input.DispatchKeyEvent, *kb.Encode('\t')[0])}, n+10)...) // that the key is let go changes nothing
	}
	got := c.run(t, `const name = (e) => (e.outerHTML || '').slice(0, 140), out = {};
		const end = trail.findIndex((s, i) => i > 0 && s.target === wanted[0]);
		const way = end > 0 ? trail.slice(0, end) : trail;
		out.first = wanted[0].className;
		out.missed = wanted.filter((e) => e.isConnected && usable(e) && !way.some((s) => s.target === e)).map(name);
		out.back = way.filter((s, i) => i > 0 && s.target.isConnected && way[i - 1].target.isConnected && !(way[i - 1].target.compareDocumentPosition(s.target) & Node.DOCUMENT_POSITION_FOLLOWING)).map((s) => name(s.target));
		out.unseen = way.slice(1).filter((s) => !s.seen).map((s) => name(s.target));
		out.mouse = [...clicked].filter((e) => e.isConnected && usable(e) && e.tabIndex < 0 && !e.closest('.plot, [role=button][tabindex]')).map(name);
		document.activeElement?.blur();
		for (const e of [document.documentElement, ...document.querySelectorAll('.side')]) e.scrollTo(0, 0);
		return out`)
	if got != `{"first":"skip","missed":[],"back":[],"unseen":[],"mouse":[]}` {
		t.Errorf("by Tab: %s", strings.NewReplacer(`\u003c`, "<", `","`, "\",\n\t\"").Replace(got))
	}
}

// scheme chooses light or dark.
func (c console) scheme(t *testing.T, value string) {
	t.Helper()
	c.do(t, act(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: value}}}))
}

// picture keeps what is shown, with what one would scroll to.
func (c console) picture(t *testing.T, name string) {
	t.Helper()
	var size [3]int64
	if err := json.Unmarshal([]byte(c.run(t, "return [innerWidth, innerHeight, Math.floor(Math.min(2000, Math.max(innerHeight, document.documentElement.scrollHeight, ...[...document.querySelectorAll('.side')].map((e) => e.getBoundingClientRect().top + scrollY + e.scrollHeight + 40))))]")), &size); err != nil {
		t.Fatal(err)
	}
	c.do(t, chromedp.EmulateViewport(size[0], size[2]))
	c.run(t, "await new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)))")
	c.take(t, filepath.Join(artifacts(t), "page-"+name+".png"))
	c.do(t, chromedp.EmulateViewport(size[0], size[1]))
}
