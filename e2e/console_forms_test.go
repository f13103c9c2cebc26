package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// formSchema has what schemas of real servers have besides plain members. The rule about hosts is one that only the hub
// can check.
const formSchema = `{"type":"object","required":["pair","shape"],"$defs":{
	"node":{"type":"object","required":["name"],"properties":{"name":{"type":"string"},"child":{"$ref":"#/$defs/node"}}},
	"sized":{"properties":{"width":{"type":"number","exclusiveMinimum":0}},"required":["width"]}},"properties":{
	"pair":{"type":"array","prefixItems":[{"type":"string","title":"unit"},{"type":"integer"}],"items":false,"minItems":2},
	"labels":{"type":"object","additionalProperties":{"type":"integer"}},
	"shape":{"oneOf":[
		{"type":"object","properties":{"kind":{"const":"circle"},"radius":{"type":"number"}},"required":["kind","radius"]},
		{"allOf":[{"$ref":"#/$defs/sized"},{"type":"object","properties":{"kind":{"const":"box"},"height":{"type":"number"}},"required":["kind","height"]}]}]},
	"either":{"anyOf":[{"type":"string"},{"type":"integer"},{"type":"array","items":{"type":"string"}}]},
	"tree":{"$ref":"#/$defs/node"},
	"fixed":{"const":7},
	"maybe":{"type":["string","null"]},
	"day":{"type":"string","format":"date"},
	"mail":{"type":"string","format":"email"},
	"level":{"type":"integer","default":3},
	"mixed":{"enum":["a",1,null,true,{"deep":[1]}]},
	"codes":{"type":"object","patternProperties":{"^x-":{"type":"string"}},"additionalProperties":false},
	"host":{"type":"string","pattern":"^[a-z.]+$"}}}`

func field(path string) string { return `[id="field` + path + `"]` }

// TestConsoleForms fills in what forms of schemas find hard, by keys and clicks, and looks at what the tool got.
func TestConsoleForms(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	chromium(t)
	up := peer.Serve(t, peer.Spec{Tools: []peer.Tool{{Name: "all", RawDefinition: peer.Raw(`{"name":"all","inputSchema":` + strings.NewReplacer("\n", "", "\t", "").Replace(formSchema) + `}`)}}})
	h := startHub(t, set, map[string]server{"up": {URL: up.URL}})
	c := openConsole(t, h, "tools/up__all")
	problem := func(path, want string) {
		t.Helper()
		c.until(t, `document.querySelector('[data-testid="problem`+path+`"]')?.textContent === `+quoted(want))
	}
	fine := func(path string) {
		t.Helper()
		c.until(t, `!document.querySelector('[data-testid="problem`+path+`"]')`)
	}
	// What is there from the beginning: the tuple with its two places, and the default.
	c.until(t, `document.querySelector('[id="field/level"]')?.value === '3' && document.querySelector('[id="field/pair/1"]')`)
	c.write(t, field("/pair/0"), "cm")
	c.write(t, field("/pair/1"), "1.5")
	problem("/pair/1", "must be an integer")
	c.write(t, field("/pair/1"), "15")
	fine("/pair/1")
	c.until(t, `document.querySelector('[data-testid="item/pair"]').disabled`)
	// A map: members are named, filled in and removed.
	c.click(t, by("add/labels"))
	for name, n := range map[string]string{"red": "1", "blue": "many", "green": "3"} {
		c.write(t, by("member/labels"), name)
		c.do(t, chromedp.KeyEvent(kb.Enter))
		c.write(t, field("/labels/"+name), n)
	}
	c.write(t, by("member/labels"), "red")
	c.until(t, `document.querySelector('[data-testid="add-member/labels"]').disabled`)
	problem("/labels/blue", "must be an integer")
	c.click(t, `[aria-label="Remove blue"]`)
	fine("/labels/blue")
	// Forms that a member tells apart, one of them put together of parts.
	c.choose(t, field("/shape"), "1")
	c.write(t, field("/shape/width"), "0")
	problem("/shape/width", "must be more than 0")
	c.write(t, field("/shape/width"), "2")
	problem("/shape/height", "is required")
	c.write(t, field("/shape/height"), "0.5")
	// Forms without such a member.
	c.choose(t, field("/either"), "2")
	c.click(t, by("item/either"))
	c.write(t, field("/either/0"), "one")
	c.choose(t, field("/either"), "1")
	c.write(t, field("/either/="), "42")
	// A schema that refers to itself is opened as far as a person wants.
	c.click(t, by("add/tree"))
	c.write(t, field("/tree/name"), "root")
	c.click(t, by("add/tree/child"))
	c.write(t, field("/tree/child/name"), "leaf")
	c.until(t, `document.querySelector('[data-testid="add/tree/child/child"]') && !document.querySelector('[id="field/tree/child/child/name"]')`)
	c.choose(t, field("/fixed"), "0")
	c.choose(t, field("/maybe"), "1")
	c.write(t, field("/day"), "2026-02-31x")
	problem("/day", "does not look like a date")
	c.write(t, field("/day"), "2026-02-28")
	c.write(t, field("/mail"), "nobody")
	problem("/mail", "does not look like an email")
	c.write(t, field("/mail"), "a@b.example")
	c.choose(t, field("/mixed"), "4")
	c.write(t, field("/codes"), `{"x-a": 1}`)
	// What only the hub knows comes a moment later, at its field.
	c.until(t, `document.querySelector('[data-testid="problem/codes"]')?.textContent.startsWith('/x-a ')`)
	c.write(t, field("/codes"), `{"x-a": "y"}`)
	c.write(t, field("/host"), "No Host")
	c.until(t, `document.querySelector('[data-testid="problem/host"]')?.textContent && document.querySelector('[id="field/host"]').getAttribute('aria-invalid') === 'true'`)
	c.screens(t, "tools-schema")
	c.write(t, field("/host"), "a.example")
	c.until(t, `document.querySelector('[data-testid=verdict]').textContent === 'Ctrl+Enter runs it'`)
	c.click(t, by("run"))
	want := `{"pair":["cm",15],"labels":{"red":1,"green":3},"shape":{"kind":"box","width":2,"height":0.5},"either":42,"tree":{"name":"root","child":{"name":"leaf"}},
		"fixed":7,"maybe":null,"day":"2026-02-28","mail":"a@b.example","level":3,"mixed":{"deep":[1]},"codes":{"x-a":"y"},"host":"a.example"}`
	if got := c.sent(t); !sameJSON(t, got, want) {
		t.Errorf("the tool got %s, want %s", compact(t, got), compact(t, want))
	}
	// What is pasted is in the form, though it is not whole: its member says which form it has.
	c.click(t, by("json"))
	c.run(t, `const e = document.querySelector('[data-testid=text]'); e.focus(); e.select()`)
	c.run(t, `document.execCommand('insertText', false, '{"pair": ["m", 1], "shape": {"kind": "box", "width": 3}, "either": ["x", "y"], "labels": {"new": 5}, "maybe": "text", "level": 12345678901234567890}')`)
	c.click(t, by("form"))
	c.until(t, `document.querySelector('[id="field/shape"]').value === '1' && document.querySelector('[id="field/shape/width"]').value === '3' && document.querySelector('[id="field/either/1"]').value === 'y' &&
		document.querySelector('[id="field/labels/new"]').value === '5' && document.querySelector('[id="field/maybe"]').value === '0' && document.querySelector('[id="field/maybe/="]').value === 'text'`)
	problem("/shape/height", "is required")
	c.click(t, by("json"))
	c.until(t, `JSON.parse(document.querySelector('[data-testid=text]').value).shape.width === 3`)
}

// copied clicks a button that copies, and returns what is on the clipboard then.
func (c console) copied(t *testing.T, label string) string {
	t.Helper()
	c.until(t, `[...document.querySelectorAll('main button')].some((b) => b.textContent === `+quoted(label)+`)`)
	c.run(t, `const b = [...document.querySelectorAll('main button')].find((b) => b.textContent === `+quoted(label)+`); b.focus()`)
	c.do(t, chromedp.KeyEvent(kb.Enter))
	c.until(t, `document.activeElement.textContent === 'Copied'`)
	var text string
	if err := json.Unmarshal([]byte(c.run(t, `return navigator.clipboard.readText()`)), &text); err != nil {
		t.Fatal(err)
	}
	return text
}

// TestConsoleCommands copies a call, of which every character means something to a shell, and runs it there.
func TestConsoleCommands(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	chromium(t)
	up, h, _ := consoleTools(t, set)
	c := openConsole(t, h, "tools/shop__order?session=work")
	c.do(t, act(browser.SetPermission, browser.SetPermissionParams{Permission: &browser.PermissionDescriptor{Name: "clipboard-read"}, Setting: browser.PermissionSettingGranted, Origin: "http://" + h.address, BrowserContextID: c.owner()}),
		act(browser.SetPermission, browser.SetPermissionParams{Permission: &browser.PermissionDescriptor{Name: "clipboard-write"}, Setting: browser.PermissionSettingGranted, Origin: "http://" + h.address, BrowserContextID: c.owner()}))
	title := "it's $HOME `id` \"q\" \\n !x\nline 2\ttab % é 日本"
	c.click(t, by("json"))
	args, err := json.MarshalIndent(map[string]any{"title": title, "size": "big"}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	c.write(t, by("text"), string(args))
	c.write(t, by("save-as"), "kept")
	c.click(t, by("commands"))
	bin := t.TempDir()
	if err := os.Symlink(stoaBinary(t), filepath.Join(bin, "stoa")); err != nil {
		t.Fatal(err)
	}
	want := compact(t, string(args))
	for i, label := range []string{"Copy as stoa call", "Copy as curl"} {
		line := c.copied(t, label)
		shell := exec.CommandContext(t.Context(), "sh", "-c", line)
		shell.Env = append(environment(t, set), "STOA_DATA="+h.data, "TOKEN="+c.token, "PATH="+bin+":"+os.Getenv("PATH"))
		if out, err := shell.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
		if called := up.State().Called; len(called) != i+1 {
			t.Fatalf("%s: %d calls came to the tool", line, len(called))
		}
		got := string(c.api(t, "GET", fmt.Sprintf("/api/v1/sessions/work/values/kept?version=%d", i+1), ""))
		if !sameJSON(t, got, want) {
			t.Errorf("%s:\nthe tool got %s\nwant %s", line, compact(t, got), want)
		}
	}
}

// pixel is a picture of one red point.
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="

// TestConsoleResults shows results as a person reads them: Markdown, pictures, and what is elsewhere.
func TestConsoleResults(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	chromium(t)
	said := func(content string) peer.Behaviour {
		return peer.Behaviour{Kind: peer.Verbatim, Raw: peer.Raw(`{"content":` + strings.NewReplacer("\n", "", "\t", "").Replace(content) + `}`)}
	}
	up := peer.Serve(t, peer.Spec{Tools: []peer.Tool{
		{Name: "text", Behaviour: said(`[{"type":"text","text":"# Head\n\n**bold** and [a page](https://e.example/a)\n\n- one\n- two"}]`)},
		{Name: "mixed", Behaviour: said(`[{"type":"text","text":"see *this*"},{"type":"image","mimeType":"image/png","data":"` + pixel + `"},
			{"type":"resource_link","uri":"https://e.example/r","name":"report","description":"all of it","mimeType":"text/html","size":2048},{"type":"resource_link","uri":"javascript:thrown.push(1)","name":"evil"},
			{"type":"resource","resource":{"uri":"file:///n.md","mimeType":"text/markdown","text":"**in** it"}}]`)},
	}})
	h := startHub(t, set, map[string]server{"up": {URL: up.URL}})
	c := openConsole(t, h, "tools/up__text")
	c.click(t, by("run"))
	c.click(t, by("as-rendered"))
	c.until(t, `document.querySelector('[data-testid=shown] strong')?.textContent === 'bold' && document.querySelectorAll('[data-testid=shown] li').length === 2 && document.querySelector('[data-testid=shown] a').href === 'https://e.example/a'`)
	c.click(t, by("as-raw"))
	c.until(t, `document.querySelector('[data-testid=shown] pre')?.textContent.includes('# Head\\n')`)
	c.do(t, navigate("http://"+h.address+"/console/tools/up__mixed"))
	c.click(t, by("run"))
	c.click(t, by("as-rendered"))
	c.until(t, `document.querySelector('[data-testid=shown] img')?.naturalWidth === 1 && document.querySelector('[data-testid=shown] em')?.textContent === 'this'`)
	got := c.run(t, `return [...document.querySelectorAll('[data-testid=resource]')].map((r) => [r.querySelector('a')?.href ?? '', r.innerText.replace(/\s+/g, ' ').trim()])`)
	want := `[["https://e.example/r","report https://e.example/r text/html · 2.0 KiB all of it"],["","evil javascript:thrown.push(1)"],["","Resource file:///n.md text/markdown in it"]]`
	if got != want {
		t.Errorf("resources: %s", got)
	}
	c.screens(t, "tools-rendered")
}
