package blackbox

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/stoahub/stoa/internal/hubtest/await"
)

// hostile is a page that tries everything a page can: it posts with and without
// a type that the browser asks about first, opens sockets and streams, loads
// what is there as scripts and pictures, and sends a form. At the end it
// reports the results to its own server.
const hostile = `<!doctype html><title>page</title><script>
const hub = new URLSearchParams(location.search).get('hub'), file = new URLSearchParams(location.search).get('file');
const call = (n) => JSON.stringify({jsonrpc: '2.0', id: n, method: 'tools/call', params: {name: 'files__write', arguments: {path: file, text: 'by a page ' + n}}});
const said = {};
const attempt = async (name, f) => { try { said[name] = String(await f()); } catch (e) { said[name] = 'failed'; } };
const socket = (path, text) => new Promise((yes) => {
  const s = new WebSocket('ws://' + hub + path);
  s.onopen = () => { s.send(text); };
  s.onmessage = (m) => yes('open: ' + String(m.data).slice(0, 80));
  s.onclose = s.onerror = () => yes('refused');
});
const load = (tag, path) => new Promise((yes) => {
  const e = document.createElement(tag);
  e.onload = () => yes('loaded'); e.onerror = () => yes('refused');
  e.src = 'http://' + hub + path; document.documentElement.append(e);
});
(async () => {
  await attempt('no type', async () => (await fetch('http://' + hub + '/mcp', {method: 'POST', mode: 'no-cors', body: new Blob([call(1)])})).type);
  await attempt('plain text', async () => (await fetch('http://' + hub + '/mcp', {method: 'POST', mode: 'no-cors', body: call(2)})).type);
  await attempt('json', async () => (await fetch('http://' + hub + '/mcp', {method: 'POST', headers: {'Content-Type': 'application/json'}, body: call(3)})).status);
  await attempt('agent', async () => (await fetch('http://' + hub + '/mcps/files/mcp', {method: 'POST', mode: 'no-cors', body: call(4).replace('files__', '')})).type);
  await attempt('chat', async () => (await fetch('http://' + hub + '/api/chat', {method: 'POST', mode: 'no-cors', body: '{"text":"call files__write {}"}'})).type);
  await attempt('read', async () => (await (await fetch('http://' + hub + '/mcps')).text()).slice(0, 80));
  await attempt('socket', () => socket('/mcp/ws', call(5)));
  await attempt('session socket', () => socket('/s/work/mcp/ws', call(6)));
  await attempt('chat socket', () => socket('/ws', JSON.stringify({type: 'message', payload: {text: 'call files__write {"path":' + JSON.stringify(file) + '}'}})));
  await attempt('list as script', () => load('script', '/mcps'));
  await attempt('list as picture', () => load('img', '/readyz'));
  const form = document.createElement('form');
  form.method = 'post'; form.enctype = 'text/plain'; form.action = 'http://' + hub + '/mcp'; form.target = 'elsewhere';
  const field = document.createElement('input');
  field.name = call(7).replace(/}$/, ',"x":"'); field.value = '"}'; form.append(field);
  const frame = document.createElement('iframe'); frame.name = 'elsewhere';
  const sent = new Promise((yes) => { frame.onload = yes; });
  document.documentElement.append(frame, form); form.submit(); await sent;
  await fetch('/told', {method: 'POST', body: JSON.stringify(said)});
})();
</script>`

// browse has Chromium show the hostile page under an origin, and returns what
// the page says it could do to the hub.
func browse(t *testing.T, h *hub, hub, name, file string) map[string]string {
	t.Helper()
	told := make(chan map[string]string, 1)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/told" {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, hostile) // a browser that is gone needs no page
			return
		}
		var said map[string]string
		if err := json.NewDecoder(r.Body).Decode(&said); err != nil {
			t.Errorf("the page: %v", err)
		}
		told <- said
	}))
	defer site.Close()
	_, port, err := net.SplitHostPort(site.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	folder := t.TempDir()
	browser := exec.CommandContext(ctx, chromium(t), "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--user-data-dir="+folder,
		"--host-resolver-rules=MAP *.example 127.0.0.1", "--remote-debugging-port=0",
		fmt.Sprintf("http://%s:%s/?hub=%s&file=%s", name, port, hub, file))
	browser.Env = append(os.Environ(), "HOME="+folder)
	browser.Cancel = func() error { return browser.Process.Kill() }
	browser.WaitDelay = 10 * time.Second
	if err := browser.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cancel()
		_ = browser.Wait() // it was killed
		await.NoError(t, "the browser's folder is left", func() error { return os.RemoveAll(folder) })
	}()
	select {
	case said := <-told:
		return said
	case <-ctx.Done():
		t.Fatal("the page told nothing")
		return nil
	}
}

// A page of another port or of another name can use nothing of the hub, also
// one whose name is made to lead to this machine.
func TestForeignPagesAreKeptOut(t *testing.T) {
	files, l := upstream(t)
	h := serve(t, object{"files": files})
	_, port, err := net.SplitHostPort(h.address)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ what, hub, name string }{
		{"another port", h.address, "127.0.0.1"},
		{"another name of this machine", h.address, "localhost"},
		{"another site", "localhost:" + port, "evil.example"},
		{"a name that was made to lead here", "evil.example:" + port, "evil.example"},
	} {
		t.Run(c.what, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "written")
			said := browse(t, h, c.hub, c.name, file)
			if exists(file) {
				t.Errorf("the page wrote a file")
			}
			for _, name := range []string{"socket", "session socket", "chat socket", "list as script", "list as picture"} {
				if said[name] != "refused" {
					t.Errorf("%s: %s", name, said[name])
				}
			}
			for _, name := range []string{"json", "read"} {
				if said[name] != "failed" && said[name] != "403" {
					t.Errorf("%s: %s", name, said[name])
				}
			}
		})
	}
	l.want(t, "write", 0)
}

// What browsers say about a page counts on every face, whatever else is there.
func TestOriginOfThisMachineIsForeign(t *testing.T) {
	t.Parallel()
	files, l := upstream(t)
	h := serve(t, object{"files": files})
	file := filepath.Join(t.TempDir(), "written")
	write := func(name string) object {
		return rpc("tools/call", object{"name": name, "arguments": object{"path": file}})
	}
	for what, header := range map[string]http.Header{
		"another port":           {"Origin": {"http://localhost:3000"}},
		"another port, by fetch": {"Sec-Fetch-Site": {"same-site"}},
		"another site, by fetch": {"Sec-Fetch-Site": {"cross-site"}},
		"a file":                 {"Origin": {"null"}},
		"our page, as a form":    {"Origin": {"http://" + h.address}, "Content-Type": {"text/plain"}},
	} {
		for path, body := range map[string]any{
			"/mcp": write("files__write"), "/s/work/mcp": write("files__write"), "/mcps/files/mcp": write("write"),
			"/api/chat": message("call files__write {}"), "/mcps": object{"name": "x", "url": "http://127.0.0.1:1/mcp"},
		} {
			if got := h.send(t, http.MethodPost, path, "", header, body); got.status != http.StatusForbidden && got.status != http.StatusBadRequest {
				t.Errorf("%s at %s: %d %.200s", what, path, got.status, got.text)
			}
		}
		if header.Get("Content-Type") != "" {
			continue
		}
		for _, path := range []string{"/mcp/ws", "/s/work/mcp/ws", "/ws"} {
			ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
			conn, resp, err := websocket.Dial(ctx, "ws://"+h.address+path, &websocket.DialOptions{HTTPHeader: header, HTTPClient: client})
			cancel()
			if err == nil {
				_ = conn.CloseNow()
				t.Errorf("%s opened %s", what, path)
			} else if resp == nil || resp.StatusCode != http.StatusForbidden {
				t.Errorf("%s at %s: %v", what, path, err)
			}
		}
	}
	// Our own page may, and so may one that the config names.
	own := http.Header{"Origin": {"http://" + h.address}, "Sec-Fetch-Site": {"same-origin"}, "Content-Type": {"application/json"}}
	if got := h.send(t, http.MethodPost, "/mcp", "", own, write("files__write")); got.status != http.StatusOK || strings.Contains(got.text, `"error"`) {
		t.Errorf("its own page: %d %s", got.status, got.text)
	}
	h.configure(t, object{"files": files}, object{"auth": object{"origins": list{"http://localhost:3000"}}})
	h.kill(t)
	h.launch(t)
	h.awaitTools(t, object{"files": files})
	named := http.Header{"Origin": {"http://localhost:3000"}, "Sec-Fetch-Site": {"same-site"}, "Content-Type": {"application/json"}}
	if got := h.send(t, http.MethodPost, "/mcp", "", named, write("files__write")); got.status != http.StatusOK || strings.Contains(got.text, `"error"`) {
		t.Errorf("a page that is named: %d %s", got.status, got.text)
	}
	l.want(t, "write", 2)
}
