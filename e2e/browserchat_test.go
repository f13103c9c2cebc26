package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
)

// chatPage is a page that talks with the hub by its socket and nothing else: what it is told it shows. It takes up its
// conversation again when it is loaded again.
const chatPage = `<!doctype html><title>chat</title><link rel="icon" href="data:,">` + watching + `
<pre id="log"></pre>
<form id="say"><input name="text" size="80"><button name="send">Send</button></form>
<div id="ask" hidden><pre id="args"></pre><button id="yes">Allow</button><button id="no">Deny</button></div>
<script>
const id = (name) => document.getElementById(name);
const hub = new URLSearchParams(location.search).get('hub');
const add = (text) => { id('log').textContent += text; };
window.turns = 0;
let ws, pending;
function connect() {
  const session = location.hash.slice(1);
  ws = new WebSocket('ws://' + hub + '/ws' + (session ? '?sessionId=' + session : ''));
  ws.onmessage = (e) => {
    const f = JSON.parse(e.data), p = f.payload ?? {};
    if (f.type === 'connection') {
      location.hash = p.sessionId;
      window.state = p.state;
      for (const m of p.history ?? []) add('[' + m.role + (m.toolName ? ' ' + m.kind + ' ' + m.toolName : '') + '] ' + (m.content ?? JSON.stringify(m.data)) + '\n');
    }
    if (f.type === 'text') add(p.content);
    if (f.type === 'status' && p.tool) add('\n<' + p.state + ' ' + p.tool + (p.status ? ' ' + p.status : '') + '>\n');
    if (f.type === 'approval.asked') { pending = p.approval.id; id('args').textContent = p.approval.tool + ' ' + JSON.stringify(p.approval.args); id('ask').hidden = false; }
    if (f.type === 'approval.decided') id('ask').hidden = true;
    if (f.type === 'turn.ended') { add('\n'); window.turns++; }
    if (f.type === 'error') add('\n<error ' + p.message + '>\n');
  };
}
const send = (type, payload) => ws.send(JSON.stringify({ type, payload }));
id('say').onsubmit = (e) => { e.preventDefault(); send('message', { text: e.target.elements.text.value }); };
id('yes').onclick = () => send('approve', { id: pending, decision: 'approve' });
id('no').onclick = () => send('approve', { id: pending, decision: 'deny', reason: 'not that file' });
connect();
</script>`

// TestBrowserChat talks with the hub in a real page, which has the built-in model use the published filesystem server:
// what the page shows and what is on disk is what was said. A write waits until the owner has allowed it: a page that came
// without a token is shown the question, and cannot answer.
func TestBrowserChat(t *testing.T) {
	hubtest.Parallel(t)
	set, s := tools(t), newSite(t)
	chromium(t)
	folder := resolvedFolder(t)
	h := startHub(t, set, published(set, folder, filepath.Join(t.TempDir(), "graph.jsonl")), shared(s))
	await.Until(t, "the filesystem server is there", func() bool { return offers(h, "files__write_file") })
	s.mux.HandleFunc("GET /chat", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, chatPage)
	})
	p := openTab(t, s.URL+"/chat?hub="+h.address)
	p.run(t, waitUntil(`window.state === 'connected'`))
	shown := func() string {
		t.Helper()
		return p.content(t, "#log")
	}
	say := func(tool string, args map[string]any) {
		t.Helper()
		b, _ := json.Marshal(args)
		quoted, _ := json.Marshal("call " + tool + " " + string(b))
		p.run(t, `document.getElementById('say').elements.text.value = `+string(quoted))
		p.press(t, "#say button")
	}
	ended := func(n string) { t.Helper(); p.run(t, waitUntil(`window.turns === `+n)) }
	decide := h.owner(t)

	path, text := filepath.Join(folder, "note.txt"), "πάντα ῥεῖ, \"quoted\" and <b>plain</b>"
	say("files__write_file", map[string]any{"path": path, "content": text})
	p.run(t, waitUntil(`!document.getElementById('ask').hidden`))
	if args := p.content(t, "#args"); !strings.Contains(args, "files__write_file") || !strings.Contains(args, `and <b>plain</b>`) {
		t.Errorf("the person is asked about %q", args)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("it was written before anybody allowed it")
	}
	p.press(t, "#yes")
	p.run(t, waitUntil(`document.getElementById('log').textContent.includes('may not answer approvals')`))
	if _, err := os.Stat(path); err == nil {
		t.Error("a page without a token has allowed it")
	}
	decide(`{"decision":"approve"}`)
	ended("1")
	if got, err := os.ReadFile(path); err != nil || string(got) != text {
		t.Errorf("on disk: %q, %v", got, err)
	}
	say("files__read_text_file", map[string]any{"path": path})
	ended("2")
	if log := shown(); !strings.Contains(log, text) || !strings.Contains(log, "<complete files__read_text_file ok>") || strings.Count(log, "<error") != 1 {
		t.Errorf("the page shows %s", log)
	}
	other := filepath.Join(folder, "other.txt")
	say("files__write_file", map[string]any{"path": other, "content": "no"})
	p.run(t, waitUntil(`!document.getElementById('ask').hidden`))
	decide(`{"decision":"deny","reason":"not that file"}`)
	ended("3")
	if _, err := os.Stat(other); err == nil || !strings.Contains(shown(), "not that file") {
		t.Errorf("after a denial (%v) the page shows %s", err, shown())
	}

	p.do(t, chromedp.Reload())
	p.run(t, waitUntil(`window.state === 'reconnected'`))
	if log := shown(); !strings.Contains(log, "[user] call files__read_text_file") || !strings.Contains(log, "[assistant start files__write_file]") || !strings.Contains(log, text) {
		t.Errorf("loaded again, the page shows %s", log)
	}
	p.quiet(t)
}

// offers reports whether the hub lists a tool.
func offers(h hub, tool string) bool {
	resp, err := http.Post(h.merged(), "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return err == nil && strings.Contains(string(b), `"`+tool+`"`)
}

// owner is there to be asked until the test ends, and returns what answers the question that waits.
func (h hub) owner(t *testing.T) (decide func(body string)) {
	t.Helper()
	token := ownToken(t, h)
	ask := func(ctx context.Context, verb, path, body string) ([]byte, error) {
		req, err := http.NewRequestWithContext(ctx, verb, "http://"+h.address+"/api/v1/approvals"+path, strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		return io.ReadAll(resp.Body)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var there sync.WaitGroup
	there.Go(func() {
		var page struct{ Next uint64 }
		for ctx.Err() == nil { // who waits for what comes next is there
			raw, err := ask(ctx, http.MethodGet, fmt.Sprintf("?wait=20s&after=%d", page.Next), "")
			if err != nil || json.Unmarshal(raw, &page) != nil {
				return // the test is over, or fails by what it waits for
			}
		}
	})
	t.Cleanup(func() { cancel(); there.Wait() })
	return func(body string) {
		t.Helper()
		var page struct{ Approvals []struct{ ID string } }
		await.Until(t, "a question waits", func() bool {
			raw, err := ask(ctx, http.MethodGet, "", "")
			return err == nil && json.Unmarshal(raw, &page) == nil && len(page.Approvals) == 1
		})
		if raw, err := ask(ctx, http.MethodPost, "/"+page.Approvals[0].ID, body); err != nil || strings.Contains(string(raw), `"error"`) {
			t.Fatalf("decide: %s, %v", raw, err)
		}
	}
}
