package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// plansPage is the page of plans on a hub that has files and a server.
type plansPage struct {
	console
	dir string
	up  *peer.HTTPServer
}

func openPlans(t *testing.T, path string) plansPage {
	t.Helper()
	set := tools(t)
	chromium(t)
	dir := t.TempDir()
	up := peer.Serve(t, peer.Spec{Tools: []peer.Tool{{Name: "echo"}, {Name: "work", Behaviour: peer.Do(peer.Compute)},
		{Name: "rude", Behaviour: peer.Behaviour{Kind: peer.Verbatim, Raw: `{"content":[{"type":"text","text":"<img src=x onerror=thrown.push(3)>"}],"isError":true}`}}}})
	h := startHub(t, set, map[string]server{"up": {URL: up.URL}}, map[string]any{"modules": map[string]any{"file": map[string]any{"roots": []string{dir}}}})
	return plansPage{openConsole(t, h, path), dir, up}
}

// shows waits for what a selector finds.
func (c console) shows(t *testing.T, selector string) {
	t.Helper()
	c.until(t, "document.querySelector("+quoted(selector)+")")
}

// says waits until what a test may click has a text in it.
func (c console) says(t *testing.T, id, text string) {
	t.Helper()
	c.until(t, "document.querySelector("+quoted(by(id))+")?.textContent.includes("+quoted(text)+")")
}

func node(step string) string { return by("node") + `[data-step="` + step + `"]` }

// state waits until a step is shown as being in a state.
func (p plansPage) state(t *testing.T, step, state string) {
	t.Helper()
	p.shows(t, node(step)+`[data-state="`+state+`"]`)
}

// status waits until the run is shown as being in a state.
func (p plansPage) status(t *testing.T, status string) {
	t.Helper()
	p.until(t, "document.querySelector("+quoted(by("status"))+")?.textContent === "+quoted(status))
}

// id is that of the run on the page.
func (p plansPage) id(t *testing.T) string {
	t.Helper()
	p.until(t, "location.pathname.startsWith('/console/plans/run_')")
	return strings.Trim(p.run(t, "return location.pathname.split('/').pop()"), `"`)
}

// moves clicks what leads to another run, and waits for it.
func (p plansPage) moves(t *testing.T, selector string) string {
	t.Helper()
	old := p.id(t)
	p.click(t, selector)
	p.until(t, "location.pathname !== "+quoted("/console/plans/"+old)+" && document.querySelector("+quoted(by("status"))+")")
	return p.id(t)
}

type stepOf struct {
	ID, State string
	Attempts  int
	Pinned    bool
	Result    json.RawMessage
}

type runSeen struct {
	Run struct {
		ID, Status, Session, Title string
		Events                     int
		Breakpoints                json.RawMessage
		Steps                      []stepOf
		Outputs, Context           map[string]json.RawMessage
		From                       *struct{ Run, Reason string }
	}
}

// seen is what the hub says of a run.
func (p plansPage) seen(t *testing.T, id string) runSeen {
	t.Helper()
	var out runSeen
	if err := json.Unmarshal(p.api(t, "GET", "/api/v1/runs/"+id+"?results=true&context=true", ""), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// step is what the hub says of a step of a run.
func (p plansPage) step(t *testing.T, id, step string) stepOf {
	t.Helper()
	for _, s := range p.seen(t, id).Run.Steps {
		if s.ID == step {
			return s
		}
	}
	t.Fatalf("%s has no step %s", id, step)
	return stepOf{}
}

// begin starts a run past the browser.
func (p plansPage) begin(t *testing.T, body map[string]any) string {
	t.Helper()
	var out runSeen
	if err := json.Unmarshal(p.api(t, "POST", "/api/v1/runs", jsonOf(t, body)), &out); err != nil {
		t.Fatal(err)
	}
	return out.Run.ID
}

// goTo opens a view of the console as a link does, without loading the page anew.
func (p plansPage) goTo(t *testing.T, path string) {
	t.Helper()
	p.run(t, "history.pushState(null, '', "+quoted("/console/"+path)+"); dispatchEvent(new PopStateEvent('popstate'))")
}

func (p plansPage) file(name string) string { return filepath.Join(p.dir, name) }

func (p plansPage) written(name string) string {
	text, err := os.ReadFile(p.file(name))
	if err != nil {
		return ""
	}
	return string(text)
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// writes is a step that writes a file.
func (p plansPage) writes(id, name, content string, after ...string) map[string]any {
	return map[string]any{"id": id, "tool": "file_write", "after": append([]string{}, after...), "args": map[string]any{"path": p.file(name), "content": content, "mode": "overwrite"}}
}

// echoes is a step that yields what it is given.
func echoes(id string, args map[string]any, after ...string) map[string]any {
	return map[string]any{"id": id, "tool": "up__echo", "args": args, "after": append([]string{}, after...)}
}

// keepFiles has the page keep the files that it gives to the person, for fileKept.
const keepFiles = `window.kept = []; const make = URL.createObjectURL;
	URL.createObjectURL = (b) => { const one = {}; kept.push(one); b.text().then((text) => { one.text = text; }); return make(b); };
	HTMLAnchorElement.prototype.click = function () { kept.at(-1).name = this.download; };`

// fileKept is the file that a click makes.
func (p plansPage) fileKept(t *testing.T, selector string) (name, text string) {
	t.Helper()
	p.run(t, "kept.length = 0")
	p.click(t, selector)
	p.until(t, "kept.length === 1 && kept[0].name && kept[0].text")
	var out struct{ Name, Text string }
	if err := json.Unmarshal([]byte(p.run(t, "return kept[0]")), &out); err != nil {
		t.Fatal(err)
	}
	return out.Name, out.Text
}

// upload gives the page a file.
func (p plansPage) upload(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p.tab.upload(t, by("import"), path)
}

// paste puts a text into a field at once: what matters is that it is there, not every key.
func (c console) paste(t *testing.T, selector, text string) {
	t.Helper()
	c.shows(t, selector)
	c.run(t, "const e = document.querySelector("+quoted(selector)+"); e.focus(); e.select(); document.execCommand('insertText', false, "+quoted(text)+")")
}

// TestConsolePlans brings a plan, debugs its run by clicks, and looks at the files that the steps write.
func TestConsolePlans(t *testing.T) {
	hubtest.Parallel(t)
	p := openPlans(t, "plans")
	plan := map[string]any{"title": "Letters", "steps": []any{p.writes("first", "a.txt", "first"), p.writes("left", "b.txt", "left", "first"), p.writes("right", "c.txt", "right", "first"), p.writes("last", "d.txt", "last", "left", "right")}}
	p.click(t, by("new-run"))
	p.upload(t, "letters.json", jsonOf(t, plan))
	p.until(t, "document.querySelector("+quoted(by("plan-text"))+").value.includes('Letters')")
	p.click(t, by("check"))
	p.says(t, "checked", "nothing was called")
	p.write(t, by("plan-session"), "work")
	p.screens(t, "plans-new")
	p.click(t, by("debug"))
	p.shows(t, by("paused"))
	p.state(t, "first", "pending")
	if p.written("a.txt") != "" {
		t.Error("a run that is paused has written")
	}
	p.click(t, by("break")+`[data-step="last"]`)
	p.shows(t, by("break")+`[data-step="last"][data-on="true"]`)
	p.click(t, by("step"))
	p.state(t, "first", "done")
	if p.written("a.txt") != "first" {
		t.Error("a step was made, and has written nothing")
	}
	p.click(t, by("continue"))
	p.state(t, "right", "done")
	p.says(t, "paused", "before last")
	if p.written("b.txt") != "left" || p.written("c.txt") != "right" || p.written("d.txt") != "" {
		t.Error("it did not stop where it should")
	}
	p.screens(t, "plans-graph")
	p.click(t, node("last")+" .box")
	p.says(t, "inspected", "d.txt")
	p.screens(t, "plans-inspect")
	p.click(t, by("skip"))
	p.state(t, "last", "skipped")
	p.click(t, by("continue"))
	p.status(t, "done")
	if p.written("d.txt") != "" {
		t.Error("a step that was skipped has written")
	}
	for _, view := range []string{"timeline", "table", "values"} {
		p.click(t, by("view-"+view))
		p.until(t, "location.search.includes('view="+view+"')")
		p.screens(t, "plans-"+view)
	}
	old := p.id(t)
	p.goTo(t, "plans")
	p.until(t, "document.querySelectorAll("+quoted(by("runs")+" tbody tr")+").length === 1")
	p.screens(t, "plans")
	if got := p.seen(t, old); got.Run.Status != "done" || got.Run.Session != "work" {
		t.Errorf("the run: %+v", got.Run)
	}
}

// TestConsolePlansPages gives a hub more runs than a page of the list has.
func TestConsolePlansPages(t *testing.T) {
	hubtest.Parallel(t)
	p := openPlans(t, "plans")
	for i := range 52 {
		p.begin(t, map[string]any{"paused": true, "session": "many", "plan": map[string]any{"title": fmt.Sprintf("Number %d", i), "steps": []any{echoes("a", map[string]any{})}}})
	}
	rows := "[...document.querySelectorAll(" + quoted(by("runs")+" tbody tr") + ")]"
	// The list hears of them by itself.
	p.until(t, rows+".length === 50 && "+rows+"[0].textContent.includes('Number 51')")
	p.until(t, "document.querySelector('.pager')?.textContent.includes('1–50 of 52')")
	p.click(t, ".pager button:last-child")
	p.until(t, rows+".length === 2 && "+rows+"[1].textContent.includes('Number 0')")
	if request, err := http.NewRequest("GET", "http://"+p.hub.address+"/api/v1/runs?limit=0", nil); err == nil {
		request.Header.Set("Authorization", "Bearer "+p.token)
		if response, err := client.Do(request); err != nil || response.StatusCode != http.StatusBadRequest {
			t.Errorf("a page of no runs: %v %v", response, err)
		} else {
			response.Body.Close()
		}
	}
}
