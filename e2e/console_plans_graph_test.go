package e2e

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stoahub/stoa/internal/hubtest"
)

// partOf is the member of a member of JSON.
func partOf(t *testing.T, raw []byte, names ...string) json.RawMessage {
	t.Helper()
	for _, name := range names {
		var of map[string]json.RawMessage
		if err := json.Unmarshal(raw, &of); err != nil {
			t.Fatal(err)
		}
		raw = of[name]
	}
	return raw
}

// focused waits until the step in the graph has the focus.
func (p plansPage) focused(t *testing.T, step string) {
	t.Helper()
	p.until(t, "document.activeElement.dataset.step === "+quoted(step))
}

// TestConsolePlansKeys goes through a graph by keys alone, and follows a run that others move.
func TestConsolePlansKeys(t *testing.T) {
	hubtest.Parallel(t)
	p := openPlans(t, "plans")
	hostile := `<img src=x onerror=thrown.push(4)> "'` + "\u202e\x1b[31m"
	id := p.begin(t, map[string]any{"paused": true, "plan": map[string]any{"title": hostile, "steps": []any{
		map[string]any{"id": "top", "title": hostile, "tool": "up__echo", "args": map[string]any{hostile: hostile}}, echoes("west", map[string]any{}, "top"), echoes("east", map[string]any{}, "top"), p.writes("end", "end.txt", "end", "west", "east")}}})
	// A page looks at a run that is at rest now and then. This one does not, so that it knows only what it is told.
	p.run(t, `const later = window.setTimeout; window.setTimeout = (f, ms, ...rest) => (ms > 5000 && ms <= 10000 ? 0 : later(f, ms, ...rest))`)
	p.goTo(t, "plans/"+id)
	p.state(t, "top", "pending")
	p.run(t, "document.querySelector("+quoted(by("fit")+", "+by("view-values"))+").focus()")
	p.do(t, chromedp.KeyEvent(kb.Tab))
	p.focused(t, "top")
	if got := p.run(t, "return document.querySelectorAll('.dag [tabindex=\"0\"]').length"); got != "1" {
		t.Errorf("Tab stops at %s steps", got)
	}
	p.do(t, chromedp.KeyEvent(kb.ArrowDown))
	p.until(t, "['west', 'east'].includes(document.activeElement.dataset.step)")
	p.do(t, chromedp.KeyEvent(kb.ArrowLeft), chromedp.KeyEvent(kb.ArrowLeft))
	left := p.run(t, "return document.activeElement.dataset.step")
	p.do(t, chromedp.KeyEvent(kb.ArrowRight))
	p.until(t, "['west', 'east'].includes(document.activeElement.dataset.step) && document.activeElement.dataset.step !== "+left)
	p.do(t, chromedp.KeyEvent(kb.ArrowDown))
	p.focused(t, "end")
	p.do(t, chromedp.KeyEvent("b"))
	p.shows(t, by("break")+`[data-step="end"][data-on="true"]`)
	if got := string(p.seen(t, id).Run.Breakpoints); got != `[{"step":"end"}]` {
		t.Errorf("the breakpoints are %s", got)
	}
	p.focused(t, "end") // what is drawn anew keeps it
	label := "end: file_write; pending; pauses before end; comes after west, east; step 4 of 4"
	if got := p.run(t, "return document.activeElement.getAttribute('aria-label')"); got != quoted(label) {
		t.Errorf("a screen reader says %s, want %q", got, label)
	}
	p.do(t, chromedp.KeyEvent(kb.Home))
	p.focused(t, "top")
	p.do(t, chromedp.KeyEvent(kb.Enter))
	p.says(t, "inspected", "onerror=thrown.push(4)")
	p.until(t, "location.search.includes('step=top')")
	p.screens(t, "plans-hostile")

	// Another moves the run, and the page is told.
	p.api(t, "POST", "/api/v1/runs/"+id+"/continue", "{}")
	p.state(t, "west", "done")
	p.says(t, "paused", "before end")
	p.says(t, "step-result", "onerror=thrown.push(4)")
	p.run(t, "document.querySelector("+quoted(node("end"))+").focus()")
	p.do(t, chromedp.KeyEvent("b"))
	p.shows(t, by("break")+`[data-step="end"][data-on="false"]`)
	p.api(t, "POST", "/api/v1/runs/"+id+"/continue", "{}")
	p.status(t, "done")
	if got := p.written("end.txt"); got != "end" {
		t.Errorf("written: %q", got)
	}
}

// TestConsolePlansLarge looks at a run of 500 steps while it goes on, and at a plan that is too large to be drawn.
func TestConsolePlansLarge(t *testing.T) {
	hubtest.Parallel(t)
	p := openPlans(t, "plans")
	large := func(n int) map[string]any {
		var steps []any
		for i := range n {
			var after []string
			if i >= 10 {
				after = []string{fmt.Sprintf("s%d", i-10), fmt.Sprintf("s%d", i-10+(i%10+1)%10-i%10)}
			}
			steps = append(steps, echoes(fmt.Sprintf("s%d", i), map[string]any{"i": i}, after...))
		}
		return map[string]any{"title": fmt.Sprintf("%d steps", n), "steps": steps}
	}
	id := p.begin(t, map[string]any{"paused": true, "plan": large(500), "options": map[string]any{"maxParallel": 10}})
	p.run(t, `window.long = []; new PerformanceObserver((l) => long.push(...l.getEntries().map((e) => e.duration))).observe({type: 'longtask'})`)
	p.goTo(t, "plans/"+id)
	p.until(t, "document.querySelectorAll("+quoted(by("node"))+").length === 500")
	p.run(t, "document.querySelector("+quoted(node("s0"))+").focus()")
	p.do(t, chromedp.KeyEvent(kb.End))
	p.focused(t, "s499")
	p.until(t, "(() => { const r = document.activeElement.getBoundingClientRect(); return r.top >= 0 && r.bottom <= innerHeight; })()")
	drawing := p.run(t, "const all = long.splice(0); return {longest: Math.max(0, ...all), layout: performance.getEntriesByName('plan layout').map((e) => e.duration)}")
	p.click(t, by("continue"))
	p.status(t, "done")
	p.until(t, "document.querySelectorAll('.node[data-state=done]').length === 500")
	running := p.run(t, "return {count: long.length, longest: Math.max(0, ...long), sum: long.reduce((a, b) => a + b, 0)}")
	t.Logf("500 steps: drawn %s, long tasks while it ran %s", drawing, running)
	if got := p.run(t, "return performance.getEntriesByName('plan layout').length"); got != "1" {
		t.Errorf("the plan was laid out %s times", got)
	}
	p.screens(t, "plans-500")
	p.click(t, by("fit"))
	p.screens(t, "plans-500-whole")
	p.click(t, by("view-timeline"))
	p.until(t, "document.querySelectorAll("+quoted(by("bar"))+").length === 500")

	id = p.begin(t, map[string]any{"paused": true, "plan": large(700)})
	p.goTo(t, "plans/"+id)
	p.says(t, "too-large", "The plan has 700 steps; up to 600 are drawn")
	p.until(t, "document.querySelectorAll('main tbody tr').length === 700")
	p.run(t, "document.querySelectorAll('main tbody tr')[699].focus()")
	p.do(t, chromedp.KeyEvent(kb.Enter))
	p.says(t, "inspected", "699")
	p.screens(t, "plans-700")
}
