package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestConsolePlans brings a plan, debugs its run by clicks, and looks at the files that the steps write.
func TestConsolePlans(t *testing.T) {
	chromium(t)
	h, _, dir := chatConsole(t, "0ms")
	file := func(name string) string { return filepath.Join(dir, name) }
	write := func(id, name string, after ...string) map[string]any {
		return map[string]any{"id": id, "tool": "file_write", "after": append([]string{}, after...), "args": map[string]any{"path": file(name), "content": id, "mode": "overwrite"}}
	}
	plan := map[string]any{"title": "Letters", "steps": []any{write("first", "a.txt"), write("left", "b.txt", "first"), write("right", "c.txt", "first"), write("last", "d.txt", "left", "right")}}
	text, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	brought := filepath.Join(t.TempDir(), "letters.json")
	if err := os.WriteFile(brought, text, 0o600); err != nil {
		t.Fatal(err)
	}
	written := func(name string) bool { _, err := os.Stat(file(name)); return err == nil }
	c := openConsole(t, h, "plans")
	node := func(step, state string) string {
		return by("node") + `[data-step="` + step + `"][data-state="` + state + `"]`
	}
	shows := func(selector string) { t.Helper(); c.until(t, "document.querySelector("+quoted(selector)+")") }

	c.click(t, by("new-run"))
	shows(by("import"))
	c.do(t, chromedp.SetUploadFiles(chromedp.CSS(by("import")), []string{brought}))
	c.until(t, "document.querySelector("+quoted(by("plan-text"))+").value.includes('Letters')")
	c.click(t, by("check"))
	shows(by("checked"))
	c.write(t, by("plan-session"), "work")
	c.click(t, by("debug"))
	shows(by("paused"))
	shows(by("dag"))
	if written("a.txt") {
		t.Error("a run that is paused has written")
	}
	c.click(t, by("break")+`[data-step="last"]`)
	shows(by("break") + `[data-step="last"][aria-checked="true"]`)
	c.click(t, by("step"))
	shows(node("first", "done"))
	if !written("a.txt") {
		t.Error("a step was made, and has written nothing")
	}
	c.click(t, by("continue"))
	shows(node("right", "done"))
	c.until(t, "document.querySelector("+quoted(by("paused"))+")?.innerText.includes('before last')")
	if !written("b.txt") || !written("c.txt") || written("d.txt") {
		t.Error("it did not stop where it should")
	}
	c.screens(t, "plans-paused")
	c.click(t, by("node")+`[data-step="last"] .box`)
	c.click(t, by("inspect"))
	c.until(t, "document.querySelector("+quoted(by("inspected"))+")?.innerText.includes('d.txt')")
	c.click(t, by("skip"))
	shows(node("last", "skipped"))
	c.click(t, by("continue"))
	c.until(t, "!document.querySelector("+quoted(by("stop"))+")")
	if written("d.txt") {
		t.Error("a step that was skipped has written")
	}
	for _, view := range []string{"timeline", "table", "values"} {
		c.click(t, by("view-"+view))
		c.until(t, "location.search.includes('view="+view+"')")
		c.screens(t, "plans-"+view)
	}
	c.click(t, by("view-graph"))

	// Another result of the first step: a fork, which does the rest again.
	old := c.run(t, "return location.pathname")
	c.click(t, by("node")+`[data-step="first"] .box`)
	c.write(t, by("set-value"), `{"forced":true}`)
	c.click(t, by("set"))
	c.until(t, "location.pathname !== "+old)
	shows(node("first", "done"))
	c.until(t, "document.querySelector('main').innerText.includes('a fork of')")
	c.click(t, by("stop"))
	eventually(t, "the fork is stopped", func() bool {
		return strings.Contains(string(c.api(t, "GET", "/api/v1/runs", "")), `"status":"stopped"`)
	})
	if got := string(c.api(t, "GET", "/api/v1/runs/"+strings.Trim(old, `"`)[len("/console/plans/"):], "")); !strings.Contains(got, `"status":"done"`) {
		t.Errorf("the old run: %s", got)
	}
	c.do(t, chromedp.Navigate("http://"+h.address+"/console/plans"))
	c.until(t, "document.querySelectorAll('tbody tr').length === 2")
	c.screens(t, "plans")
}

// TestConsolePlansRepair lets a run come to a step, fail there, and go on when what was missing is there; and takes the
// plan and the run along as files.
func TestConsolePlansRepair(t *testing.T) {
	chromium(t)
	h, _, dir := chatConsole(t, "0ms")
	missing, proof := filepath.Join(dir, "missing.txt"), filepath.Join(dir, "proof.txt")
	plan, err := json.Marshal(map[string]any{"title": "<img src=x onerror=thrown.push(1)>", "steps": []any{
		map[string]any{"id": "look", "tool": "file_list", "args": map[string]any{"path": dir}},
		map[string]any{"id": "read", "tool": "file_read", "after": []string{"look"}, "retries": 0, "args": map[string]any{"path": missing}},
		map[string]any{"id": "prove", "tool": "file_write", "after": []string{"read"}, "args": map[string]any{"path": proof, "content": "yes"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	c := openConsole(t, h, "plans/new")
	state := func(step, state string) {
		t.Helper()
		c.until(t, "document.querySelector("+quoted(by("node")+`[data-step="`+step+`"][data-state="`+state+`"]`)+")")
	}
	c.run(t, "document.querySelector("+quoted(by("plan-text"))+").focus()")
	c.do(t, chromedp.SendKeys(chromedp.CSS(by("plan-text")), string(plan)))
	c.click(t, by("debug"))
	state("look", "pending")
	c.click(t, by("node")+`[data-step="read"] .box`)
	c.click(t, by("run-to"))
	state("look", "done")
	c.until(t, "document.querySelector("+quoted(by("paused"))+")?.innerText.includes('before read')")
	c.click(t, by("continue"))
	state("read", "failed")
	c.screens(t, "plans-failed")
	if err := os.WriteFile(missing, []byte("here"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.click(t, by("fork")) // what is over stays as it is
	state("read", "pending")
	c.click(t, by("continue"))
	state("read", "done")
	state("prove", "done")
	if text, err := os.ReadFile(proof); err != nil || string(text) != "yes" {
		t.Errorf("the last step wrote %q: %v", text, err)
	}
	c.run(t, `window.kept = []; const make = URL.createObjectURL; URL.createObjectURL = (b) => { b.text().then((x) => kept.push(x)); return make(b); }`)
	c.click(t, by("export-plan"))
	c.until(t, "kept.length === 1 && JSON.parse(kept[0]).steps.length === 3")
	c.click(t, by("export-run"))
	c.until(t, "kept.length === 2 && JSON.parse(kept[1]).run.plan.steps.length === 3 && JSON.parse(kept[1]).run.status === 'done'")
}
