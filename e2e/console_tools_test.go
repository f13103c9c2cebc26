package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// orderSchema has all that a form must know.
const orderSchema = `{"type":"object","required":["title","size"],"$defs":{"address":{"type":"object","required":["city"],"properties":{"city":{"type":"string"},"zip":{"type":"string","maxLength":5}}}},"properties":{
	"title":{"type":"string","minLength":2,"description":"<img src=x onerror=thrown.push(1)> what it is"},
	"size":{"enum":["small","big"]},
	"count":{"type":"integer","minimum":1,"maximum":9},
	"gift":{"type":"boolean"},
	"to":{"$ref":"#/$defs/address"},
	"tags":{"type":"array","items":{"type":"string"},"maxItems":3},
	"pay":{"anyOf":[{"type":"object","title":"Card","properties":{"card":{"type":"string"}},"required":["card"]},{"type":"object","title":"Cash","properties":{"coins":{"type":"integer"}},"required":["coins"]},{"type":"null","title":"Free"}]},
	"extra":{}}}`

func consoleTools(t *testing.T, set toolset) (*peer.HTTPServer, hub, string) {
	t.Helper()
	def := func(name, schema string) peer.Raw {
		return peer.Raw(fmt.Sprintf(`{"name":%q,"description":"<b>hostile</b> & plain","inputSchema":%s,"annotations":{"readOnlyHint":true}}`, name, schema))
	}
	up := peer.Serve(t, peer.Spec{Tools: []peer.Tool{
		{Name: "order", RawDefinition: def("order", strings.NewReplacer("\n", "", "\t", "").Replace(orderSchema))},
		{Name: "slow", RawDefinition: def("slow", `{"type":"object"}`), Behaviour: peer.Behaviour{Kind: peer.Slow, For: browserDeadline}},
		{Name: "no", RawDefinition: def("no", `{"type":"object"}`), Behaviour: peer.Behaviour{Kind: peer.Verbatim, Raw: `{"content":[{"type":"text","text":"<script>thrown.push(2)</script> closed"}],"isError":true}`}},
		{Name: "count", RawDefinition: def("count", `{"type":"object"}`), Behaviour: peer.Do(peer.Count)},
	}})
	folder := resolvedFolder(t)
	h := startHub(t, set, map[string]server{"shop": {URL: up.URL}, "files": published(set, folder, "")["files"]})
	return up, h, folder
}

// sent is what the tool of the result on the page got.
func (c console) sent(t *testing.T) string {
	t.Helper()
	c.until(t, `document.querySelector('[data-testid=result]')`)
	c.click(t, by("as-raw"))
	var answer struct{ Data json.RawMessage }
	if err := json.Unmarshal([]byte(c.text(t, by("shown"))), &answer); err != nil {
		t.Fatal(err)
	}
	if string(answer.Data) == "null" {
		t.Errorf("the hub answered %s", c.text(t, by("shown")))
	}
	return string(answer.Data)
}

// TestConsoleToolForm fills a form by keys and clicks, and the tool gets what was filled in.
func TestConsoleToolForm(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	chromium(t)
	_, h, _ := consoleTools(t, set)
	c := openConsole(t, h, "tools")

	// What is typed stays when the page is drawn again before it was taken in.
	if got := c.run(t, `const e = document.querySelector('[data-testid=filter]'); e.value = 'shop';
		e.dispatchEvent(new Event('input', {bubbles: true}));
		for (let i = 0; i < 3; i++) { dispatchEvent(new PopStateEvent('popstate')); await new Promise((r) => setTimeout(r)); }
		return e.value`); got != `"shop"` {
		t.Errorf("of the filter %s is left", got)
	}
	// By keys: the row of the tool is reached and opened with Enter.
	c.write(t, by("filter"), "shop order")
	c.until(t, `document.querySelectorAll('main tbody tr').length === 1`)
	c.run(t, `document.querySelector('main tbody tr').focus()`)
	c.do(t, chromedp.KeyEvent("\r"))
	c.until(t, `location.pathname === '/console/tools/shop__order' && document.querySelector('[data-testid=run]')`)
	c.until(t, `document.querySelector('[data-testid=verdict]').textContent.startsWith('2 things')`)
	c.write(t, field("/title"), "x")
	c.until(t, `document.querySelector('[data-testid="problem/title"]').textContent === 'must have at least 2 characters'`)
	c.write(t, field("/title"), "Tea & <b>")
	c.choose(t, field("/size"), "1")
	c.write(t, field("/count"), "12")
	c.until(t, `document.querySelector('[data-testid="problem/count"]').textContent === 'must be at most 9'`)
	c.write(t, field("/count"), "many")
	c.until(t, `document.querySelector('[data-testid="problem/count"]').textContent === 'must be an integer'`)
	c.write(t, field("/count"), "7")
	c.choose(t, field("/gift"), "false")
	c.click(t, by("add/to"))
	c.until(t, `document.querySelector('[data-testid="problem/to/city"]').textContent === 'is required'`)
	c.write(t, field("/to/city"), "Oslo")
	c.click(t, by("add/tags"))
	c.click(t, by("item/tags"))
	c.write(t, field("/tags/0"), "a")
	c.click(t, by("item/tags"))
	c.write(t, field("/tags/1"), "b")
	c.click(t, `[aria-label="Move tags 1 up"]`)
	c.choose(t, field("/pay"), "1")
	c.write(t, field("/pay/coins"), "3")
	c.write(t, field("/extra"), `{"any": [1`)
	c.until(t, `document.querySelector('[data-testid="problem/extra"]').textContent === 'this is no JSON yet'`)
	c.write(t, field("/extra"), `{"any": [1]}`)
	c.until(t, `document.querySelector('[data-testid=verdict]').textContent === 'Ctrl+Enter runs it'`)
	c.click(t, by("run"))
	want := `{"title":"Tea & <b>","size":"big","count":7,"gift":false,"to":{"city":"Oslo"},"tags":["b","a"],"pay":{"coins":3},"extra":{"any":[1]}}`
	if got := compact(t, c.sent(t)); !sameJSON(t, got, want) {
		t.Errorf("the tool got %s, want %s", got, want)
	}
	c.screens(t, "tools-form")

	// JSON that is pasted is in the form, and back; what is no JSON cannot be run.
	c.click(t, by("json"))
	c.write(t, by("text"), `{"title": "paste`)
	c.until(t, `document.querySelector('[data-testid=broken]') && document.querySelector('[data-testid=run]').disabled && document.querySelector('[data-testid=form]').disabled`)
	c.write(t, by("text"), `{"title": "pasted", "size": "small", "count": 10, "pay": {"card": "1"}}`)
	c.click(t, by("form"))
	c.until(t, `document.querySelector('[id="field/title"]').value === 'pasted' && document.querySelector('[id="field/pay"]').value === '0' && document.querySelector('[id="field/pay/card"]').value === '1'`)
	// The hub has the last word.
	c.click(t, by("run"))
	c.until(t, `document.querySelector('[data-testid=refusal]')?.textContent.includes('/count')`)
	// What was called is in the history, and comes back from it.
	c.click(t, by("calls"))
	c.click(t, by("history")+" li:last-child button")
	c.until(t, `document.querySelector('[id="field/count"]').value === '7' && document.querySelector('[id="field/to/city"]').value === 'Oslo'`)
	c.write(t, by("save-name"), "tea")
	c.click(t, by("save"))
	c.do(t, chromedp.Reload())
	c.until(t, `document.querySelector('[data-testid=saved] li')`)
	c.click(t, by("saved")+" li button")
	c.until(t, `document.querySelector('[id="field/title"]').value === 'Tea & <b>'`)
	if text := c.text(t, "main"); !strings.Contains(text, "<b>hostile</b> & plain") || !strings.Contains(text, "<img src=x") {
		t.Errorf("foreign text is not shown as it is:\n%s", text)
	}
}

// TestConsoleToolRun runs tools of real servers, keeps results, refers to them, compares, stops, and takes the call to a shell.
func TestConsoleToolRun(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	chromium(t)
	up, h, folder := consoleTools(t, set)
	c := openConsole(t, h, "tools/files__write_file?session=work")
	file := filepath.Join(folder, "note.txt")
	c.write(t, `[id="field/path"]`, file)
	c.write(t, `[id="field/content"]`, "from the console")
	c.write(t, by("save-as"), "written")
	c.click(t, by("run"))
	c.until(t, `document.querySelector('[data-testid=timing]')`)
	if text, err := os.ReadFile(file); err != nil || string(text) != "from the console" {
		t.Fatalf("the file: %q, %v", text, err)
	}
	// JSON by hand is sent as it is written, whatever lines it has.
	c.click(t, by("json"))
	c.write(t, by("text"), "{\n  \"path\": "+quoted(file)+",\n  \"content\": \"by hand\"\n}")
	c.click(t, by("run"))
	await.Until(t, "the file is written again", func() bool {
		text, err := os.ReadFile(file)
		return err == nil && string(text) == "by hand"
	})
	// A reference by the picker stands for what was kept.
	c.do(t, navigate("http://"+h.address+"/console/tools/shop__order?session=work"))
	c.choose(t, by("pick/title"), "written")
	c.keys(t, `[id="field/title"]`, ".content")
	c.choose(t, `[id="field/size"]`, "0")
	c.until(t, `document.querySelector('[data-testid=verdict]').textContent === 'Ctrl+Enter runs it'`)
	c.run(t, `document.querySelector('[id="field/title"]').focus()`)
	c.do(t, chromedp.KeyEvent("\r", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	if got := c.sent(t); !strings.Contains(got, "Successfully wrote") {
		t.Errorf("@written was %s", got)
	}
	// The same call from a shell has the same effect.
	c.click(t, by("commands"))
	for id, env := range map[string]string{"as-stoa": "", "as-curl": "TOKEN=" + c.token} {
		line := strings.Replace(c.text(t, by(id)), "stoa call", stoaBinary(t)+" call --json --data "+h.data, 1)
		shell := exec.CommandContext(t.Context(), "sh", "-c", line)
		shell.Env = append(environment(t, set), env)
		if out, err := shell.CombinedOutput(); err != nil || !strings.Contains(string(out), "Successfully wrote") {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
	}
	// Results are compared.
	c.do(t, navigate("http://"+h.address+"/console/tools/shop__count"))
	c.click(t, by("run"))
	c.click(t, by("hold"))
	c.click(t, by("run"))
	c.click(t, by("as-compare"))
	c.until(t, `document.querySelector('[data-testid=differ]').textContent.includes('differ') && document.querySelectorAll('tr.differs').length === 2`)
	c.screens(t, "tools-compare")
	// What a tool says is text.
	c.do(t, navigate("http://"+h.address+"/console/tools/shop__no"))
	c.click(t, by("run"))
	c.until(t, `document.querySelector('[data-testid=refusal]')?.textContent.includes('<script>thrown.push(2)</script> closed')`)
	// A call that takes too long is stopped, and its tool is told.
	c.do(t, navigate("http://"+h.address+"/console/tools/shop__slow"))
	c.click(t, by("run"))
	c.click(t, by("stop"))
	await.Until(t, "the tool was told to stop", func() bool { return len(up.State().Cancelled) == 1 })
	// The table tells of all that.
	c.do(t, navigate("http://"+h.address+"/console/tools?upstream=shop&sort=failed"))
	c.until(t, `document.querySelectorAll('main tbody tr').length === 4 && /shop__(no|slow)/.test(document.querySelector('main tbody tr').textContent) && document.querySelector('main tbody tr .failed')`)
	c.screens(t, "tools")
}

// TestConsoleManyTools pages through 10,000 tools.
func TestConsoleManyTools(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	chromium(t)
	spec := peer.Spec{}
	for i := range 10_000 {
		spec.Tools = append(spec.Tools, peer.Tool{Name: fmt.Sprintf("tool_%05d", i), RawDefinition: peer.Raw(fmt.Sprintf(`{"name":"tool_%05d","description":"Does thing number %d of ten thousand.","inputSchema":{"type":"object"}}`, i, i))})
	}
	up := peer.Serve(t, spec)
	h := startHub(t, set, map[string]server{"many": {URL: up.URL}})
	c := openConsole(t, h, "tools?upstream=many")
	c.until(t, `document.querySelector('[data-testid=count]')?.textContent.startsWith('1–50 of 10000')`)
	c.click(t, by("next"))
	c.until(t, `document.querySelector('main tbody tr')?.textContent.includes('tool_00050') && document.querySelectorAll('main tbody tr').length === 50`)
	c.write(t, by("filter"), "number 9999")
	c.until(t, `document.querySelectorAll('main tbody tr').length === 1 && document.querySelector('main tbody tr').textContent.includes('tool_09999')`)
	if got := c.run(t, "return location.search"); !strings.Contains(got, "filter=number+9999") || strings.Contains(got, "offset") {
		t.Errorf("the address is %s", got)
	}
	took := c.run(t, `const began = performance.now(); for (let i = 0; i < 20; i++) await (await fetch('/api/v1/tools?sort=calls&filter=thing&offset=' + i * 50, {headers: {Authorization: 'Bearer ' + JSON.parse(localStorage.getItem('stoa.sign-in')).secret}})).json(); return (performance.now() - began) / 20`)
	t.Logf("a page of 10,000 tools takes %s ms", took)
}

func compact(t *testing.T, text string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func sameJSON(t *testing.T, a, b string) bool { return compact(t, a) == compact(t, b) }

// TestConsoleWhoMayCall asks on the page of a tool what would become of a call by
// others, and is told which rule says so.
func TestConsoleWhoMayCall(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	chromium(t)
	_, h, _ := consoleTools(t, set)
	c := openConsole(t, h, "tools/shop__order")
	c.click(t, `[data-testid=may-call] summary`)
	c.click(t, `[data-testid=may-call] button`)
	c.until(t, `document.querySelector('[data-testid=may-call-answer]')?.textContent.includes('allowed')`)
	c.write(t, `[data-testid=may-call] input[placeholder=none]`, "chat")
	c.click(t, `[data-testid=may-call] button`)
	c.until(t, `document.querySelector('[data-testid=may-call-answer]')?.textContent.includes('Rule: read-only')`)
	c.picture(t, "tool-who-may-call")
	c.write(t, `[data-testid=may-call] input[placeholder=none]`, "nobody")
	c.click(t, `[data-testid=may-call] button`)
	c.until(t, `document.querySelector('[data-testid=may-call]').textContent.includes('there is no agent of that name')`)
}
