package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// TestBrowserExample uses the example page as a person would: it lists, calls with progress, aborts, reads a resource and
// shows an error.
func TestBrowserExample(t *testing.T) {
	hubtest.Parallel(t)
	set, s := tools(t), newSite(t)
	chromium(t)
	up := peer.Serve(t, browserPeer(peer.EraBoth))
	h := startHub(t, set, map[string]server{"up": {URL: up.URL}}, shared(s))
	p := openTab(t, s.URL+"/app/?agent=up&hub=http://"+h.address)
	until := func(what, condition string) {
		t.Helper()
		got := p.run(t, waitUntil(condition)+`return { state: document.getElementById('state').textContent, result: document.getElementById('result').textContent }`)
		t.Logf("%s: %s", what, got)
	}
	choose := func(tool, args string) {
		t.Helper()
		quoted, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		p.run(t, `const f = document.getElementById('call').elements; f.tool.value = '`+tool+`'; f.arguments.value = `+string(quoted))
		p.press(t, `#call button[name=run]`)
	}
	shown := func(id, want string) {
		t.Helper()
		p.run(t, waitUntil(`!document.getElementById('`+id+`').hidden && document.getElementById('`+id+`').textContent`))
		if text := p.content(t, "#"+id); !strings.Contains(text, want) {
			t.Errorf("#%s shows %q, want %q", id, text, want)
		}
	}

	until("connected", `!document.getElementById('main').hidden`)
	shown("state", "version 2026-07-28 of the protocol: 9 tools")
	choose("mirror", `{"city":"Oslo"}`)
	shown("result", `{"city":"Oslo"}`)
	choose("steps", `{}`)
	shown("result", "done")
	shown("step", "step 4 of 4")
	choose("slow", `{}`)
	await.Until(t, "the tool runs", func() bool { return len(up.State().Called) >= 3 })
	p.press(t, `#call button[name=abort]`)
	shown("result", "Aborted.")
	await.Until(t, "the tool was told to stop", func() bool { return len(up.State().Cancelled) == 1 })
	choose("refuse", `{}`)
	shown("result", "MCPError: not today\ncode -32099")
	p.press(t, `#read button`)
	shown("contents", "x")
	choose("grow", `{}`)
	until("the new tool is listed", `[...document.querySelectorAll('#call option')].some((o) => o.value.startsWith('extra_'))`)
	shown("notes", "notifications/tools/list_changed")
}
