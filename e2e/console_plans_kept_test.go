package e2e

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stoahub/stoa/internal/hubtest"
)

// TestConsolePlansKept runs plans that a session keeps and that are published, with what their forms were filled in with,
// and publishes and takes back one from the page.
func TestConsolePlansKept(t *testing.T) {
	hubtest.Parallel(t)
	p := openPlans(t, "plans")
	plan := map[string]any{"title": "Notes <img src=x onerror=thrown.push(1)>", "inputs": []any{
		map[string]any{"name": "text", "description": "<b>what</b> is noted", "schema": map[string]any{"type": "string", "minLength": 3}}, map[string]any{"name": "count", "schema": map[string]any{"type": "integer"}, "default": 2}},
		"steps": []any{echoes("size", map[string]any{"count": "@count"}), map[string]any{"id": "note", "tool": "file_write", "after": []string{"size"}, "args": map[string]any{"path": p.file("note.txt"), "content": "@text", "mode": "overwrite"}}}, "outputs": map[string]any{"size": "@size"}}
	p.api(t, "POST", "/api/tools/plan_create", jsonOf(t, map[string]any{"plan": plan, "session": "desk", "saveAs": "notes"}))

	// The list hears of it by itself.
	p.until(t, "document.querySelector("+quoted(by("saved"))+")?.innerText.includes('@notes')")
	p.click(t, by("run-saved-notes"))
	p.until(t, `document.querySelector('[id="field/count"]')?.value === '2' && document.querySelector('[data-testid=plan-session]').value === 'desk'`)
	if got := p.why(t, "run"); got != "some inputs are missing or wrong" {
		t.Errorf("why not run: %q", got)
	}
	p.click(t, by("check")) // the plan as such is right
	p.says(t, "checked", "with inputs that fit")
	p.write(t, `[id="field/text"]`, "no")
	p.until(t, `document.querySelector('[data-testid="problem/text"]').textContent === 'must have at least 3 characters'`)
	p.write(t, `[id="field/text"]`, "remember <i>this</i>")
	p.write(t, `[id="field/count"]`, "5")
	p.screens(t, "plans-inputs")
	p.click(t, by("run"))
	p.status(t, "done")
	if got := p.seen(t, p.id(t)); p.written("note.txt") != "remember <i>this</i>" || got.Run.Session != "desk" || string(got.Run.Outputs["size"]) != `{"count":5}` {
		t.Errorf("it wrote %q in session %s, and yields %s", p.written("note.txt"), got.Run.Session, got.Run.Outputs["size"])
	}

	// What was run is published from there, under a name that it may have.
	p.click(t, by("again"))
	p.until(t, "document.querySelector("+quoted(by("plan-text"))+")?.value.includes('Notes')")
	p.click(t, by("publishing"))
	p.write(t, by("publish-name"), "Bad Name")
	if got := p.why(t, "publish"); !strings.Contains(got, "small letters") {
		t.Errorf("why not publish: %q", got)
	}
	p.write(t, by("publish-name"), "notes")
	p.click(t, by("publish"))
	p.says(t, "published", "plan__notes")
	p.api(t, "POST", "/api/tools/plan__notes", `{"text":"by a client"}`)
	if got := p.written("note.txt"); got != "by a client" {
		t.Errorf("the tool wrote %q", got)
	}

	// It is run from the list, with inputs as JSON, by keys.
	p.goTo(t, "plans")
	p.until(t, "document.querySelector("+quoted(by("offered"))+")?.innerText.includes('plan__notes')")
	p.screens(t, "plans-kept")
	p.run(t, "document.querySelector("+quoted(by("run-notes"))+").focus()")
	p.do(t, chromedp.KeyEvent(kb.Enter))
	p.shows(t, `[id="field/text"]`)
	p.until(t, "document.querySelector("+quoted(by("kept"))+").value.includes('notes')")
	p.click(t, by("inputs-json"))
	p.write(t, by("plan-inputs"), `{"text": "as JSON", "count": 12345678901234567890}`)
	p.click(t, by("run"))
	p.status(t, "done")
	if got := p.seen(t, p.id(t)); p.written("note.txt") != "as JSON" || string(got.Run.Outputs["size"]) != `{"count":12345678901234567890}` {
		t.Errorf("it wrote %q and yields %s", p.written("note.txt"), got.Run.Outputs["size"])
	}

	p.goTo(t, "plans")
	p.click(t, by("remove-notes"))
	p.until(t, "document.activeElement.dataset.testid === 'remove-notes-yes'")
	p.do(t, chromedp.KeyEvent(kb.Escape)) // not yet
	p.shows(t, by("remove-notes"))
	if got := string(p.api(t, "GET", "/api/v1/plans", "")); !strings.Contains(got, "plan__notes") {
		t.Errorf("it was taken back without a yes: %s", got)
	}
	p.click(t, by("remove-notes"))
	p.click(t, by("remove-notes-yes"))
	p.until(t, "document.querySelector("+quoted(by("offered"))+").innerText.includes('No plan is published')")
	if got := string(p.api(t, "GET", "/api/v1/plans", "")); strings.Contains(got, "plan__notes") {
		t.Errorf("it is still published: %s", got)
	}
}

// TestConsolePlansImport shows what is wrong with a plan where it stands, and takes runs along as files and looks at them.
func TestConsolePlansImport(t *testing.T) {
	hubtest.Parallel(t)
	p := openPlans(t, "plans/new")
	p.run(t, keepFiles)
	if got := p.why(t, "run"); got != "there is no plan yet" {
		t.Errorf("why not run: %q", got)
	}
	p.paste(t, by("plan-text"), `{"steps": [`)
	p.shows(t, by("broken"))
	if got := p.why(t, "check"); got != "it is no JSON" {
		t.Errorf("why not check: %q", got)
	}
	wrong := "{\n  \"title\": \"Wrong\",\n  \"steps\": [\n    {\"id\": \"one\", \"tool\": \"up__ecko\", \"after\": [\"nobody\"]},\n    {\"id\": \"two\", \"tool\": \"up__echo\", \"args\": {\"a/b\": \"@gone.x\"}}\n  ]\n}"
	p.paste(t, by("plan-text"), wrong)
	p.click(t, by("check"))
	p.shows(t, by("problem")+`[data-pointer="/steps/0/after/0"]`)
	p.screens(t, "plans-problems")
	for pointer, want := range map[string]string{"/steps/0/after/0": `"nobody"`, "/steps/1/args/a~1b": `"@gone.x"`} {
		p.click(t, by("problem")+`[data-pointer="`+pointer+`"]`)
		if got := p.run(t, "const e = document.activeElement; return e.value.slice(e.selectionStart, e.selectionEnd)"); got != quoted(want) {
			t.Errorf("%s leads to %s, want %s", pointer, got, want)
		}
	}
	if got := p.text(t, by("problem")+`[data-pointer="/steps/0/after/0"]`); !strings.Contains(got, "line 4") {
		t.Errorf("the place reads %q", got)
	}
	p.paste(t, by("plan-text"), `{"steps": [{"id": "one", "tool": "up__ecko"}]}`)
	p.click(t, by("debug")) // what the tools of now say to it
	p.shows(t, by("problem")+`[data-pointer="/steps/0/tool"]`)
	p.click(t, by("publishing"))
	p.paste(t, by("plan-text"), `{"steps":[{"id":"one","tool":"up__echo","args":{"v":"@kept"}}]}`)
	p.write(t, by("publish-name"), "wrong")
	p.click(t, by("publish"))
	p.shows(t, by("problem")+`[data-pointer="/steps/0/args/v"]`)
	if got := string(p.api(t, "GET", "/api/v1/runs", "")); !strings.Contains(got, `"runs":[]`) {
		t.Errorf("there are runs: %s", got)
	}

	right := map[string]any{"title": "Taken / along", "steps": []any{echoes("big", map[string]any{"n": 1}), map[string]any{"id": "bad", "tool": "up__rude", "after": []string{"big"}, "retries": 0, "title": "<b>bad</b>"}, p.writes("never", "never.txt", "x", "bad")}}
	text := strings.Replace(jsonOf(t, right), `"n":1`, `"n":12345678901234567890`, 1)
	p.paste(t, by("plan-text"), text)
	p.click(t, by("options"))
	p.write(t, by("option-retries"), "0")
	p.click(t, by("run"))
	p.status(t, "failed")
	id := p.id(t)
	p.screens(t, "plans-failed")
	name, exported := p.fileKept(t, by("export-plan"))
	if name != "Taken-along.plan.json" || !strings.Contains(exported, "12345678901234567890") || !sameJSON(t, exported, string(partOf(t, p.api(t, "GET", "/api/v1/runs/"+id+"?plan=true", ""), "run", "plan"))) {
		t.Errorf("the plan as %s: %s", name, exported)
	}
	name, journal := p.fileKept(t, by("export-journal"))
	if want := string(p.api(t, "GET", "/api/v1/runs/"+id+"/journal", "")); name != id+".ndjson" || journal != want {
		t.Errorf("the journal as %s:\n%s\nwant\n%s", name, journal, want)
	}
	_, run := p.fileKept(t, by("export-run"))

	// Both can be looked at, and run again.
	for file, text := range map[string]string{"old.run.json": run, "old.ndjson": journal} {
		p.goTo(t, "plans/new")
		p.upload(t, file, text)
		p.until(t, "document.querySelector("+quoted(by("plan-text"))+").value.includes('12345678901234567890')")
		p.click(t, by("look"))
		p.says(t, "from-file", file)
		p.status(t, "failed")
		p.state(t, "big", "done")
		p.state(t, "bad", "failed")
		p.click(t, node("bad")+" .box")
		p.until(t, "document.querySelector("+quoted(by("step-panel"))+").innerText.includes('<img src=x') && !document.querySelector("+quoted(by("skip"))+")")
		p.click(t, by("view-timeline"))
		p.shows(t, by("time-row")+`[data-step="bad"] `+by("bar")+`[data-outcome="failed"]`)
	}
	p.screens(t, "plans-file")
	p.goTo(t, "plans/new")
	p.upload(t, "plan.json", exported)
	p.until(t, "!document.querySelector("+quoted(by("look"))+") && document.querySelector("+quoted(by("plan-text"))+").value.includes('Taken')")
	p.click(t, by("debug"))
	p.state(t, "big", "pending")
	p.click(t, by("step"))
	p.state(t, "big", "done")
	if got := string(p.step(t, p.id(t), "big").Result); got != `{"n":12345678901234567890}` {
		t.Errorf("run again it yields %s", got)
	}
}
