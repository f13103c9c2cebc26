package e2e

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestConsoleLive watches calls as they are made, pauses, filters, opens one by its address, and exports.
func TestConsoleLive(t *testing.T) {
	set := tools(t)
	chromium(t)
	_, h, _ := consoleTools(t, set)
	c := openConsole(t, h, "live")
	c.until(t, `document.querySelector('[data-testid=live]')`) // what was before
	c.api(t, "POST", "/api/tools/shop__count?session=work", "{}")
	c.until(t, `[...document.querySelectorAll('[data-testid=live] li')].some((l) => l.innerText.includes('call.done') && l.innerText.includes('shop:count') && l.innerText.includes('in work'))`)
	c.api(t, "POST", "/api/tools/shop__no", "{}")
	c.choose(t, by("live-level"), "error")
	c.until(t, `[...document.querySelectorAll('[data-testid=live] li')].some((l) => l.innerText.includes('shop:no')) && ![...document.querySelectorAll('[data-testid=live] li')].some((l) => l.innerText.includes('shop:count'))`)
	c.choose(t, by("live-level"), "")
	c.choose(t, by("live-type"), "call")
	c.click(t, by("pause"))
	before := c.run(t, `return document.querySelectorAll('[data-testid=live] li').length`)
	c.api(t, "POST", "/api/tools/shop__count", "{}")
	c.until(t, `/paused, [1-9]/.test(document.querySelector('[data-testid=live-count]').textContent)`)
	if now := c.run(t, `return document.querySelectorAll('[data-testid=live] li').length`); now != before {
		t.Errorf("%s rows while paused, before %s", now, before)
	}
	c.click(t, by("pause"))
	c.until(t, `document.querySelectorAll('[data-testid=live] li').length > `+before)
	c.write(t, by("live-search"), "tool_error")
	c.until(t, `document.querySelectorAll('[data-testid=live] li').length === 1`)
	c.click(t, by("live")+" summary")
	c.screens(t, "live")
	c.click(t, by("live")+" li a")
	c.until(t, `/\/live\/\d+$/.test(location.pathname) && document.querySelector('[data-testid=one]')?.innerText.includes('tool_error')`)
	c.run(t, `const make = URL.createObjectURL; URL.createObjectURL = (b) => { window.exported = b.text(); return make.call(URL, b); }`)
	c.click(t, by("export"))
	var text string
	if err := json.Unmarshal([]byte(c.run(t, `return await window.exported`)), &text); err != nil {
		t.Fatal(err)
	}
	var record struct{ Type, Tool, Kind string }
	if err := json.Unmarshal([]byte(strings.TrimSpace(text)), &record); err != nil || record.Tool != "no" || record.Kind != "tool_error" {
		t.Errorf("the export is %q: %v", text, err)
	}
}
