package e2e

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// page opens an empty page that may use the hub and has its client as mcp.
func page(t *testing.T, s site, h hub) tab {
	t.Helper()
	p := openTab(t, s.URL)
	p.run(t, `window.mcp = await import('http://`+h.address+`/MCPBrowserClient.js')`)
	return p
}

func shared(s site) map[string]any {
	return map[string]any{"auth": map[string]any{"origins": []string{s.URL}}}
}

// with runs a script that has a client c of an endpoint.
func (p tab) with(t *testing.T, options, script string) string {
	t.Helper()
	return p.run(t, `
		const c = new mcp.MCPBrowserClient(`+options+`);
		const failure = (p) => p.then((v) => ['no error', v], (e) => e);
		try { `+script+` } finally { await c.close(); }`)
}

// TestBrowserClientFixture holds the browser client to the conformance fixture: by itself, by the router and merged, in
// both eras.
func TestBrowserClientFixture(t *testing.T) {
	hubtest.Parallel(t)
	set, s := tools(t), newSite(t)
	chromium(t)
	h := startHub(t, set, map[string]server{"fixture": {Command: fixtureBinary(t)}}, shared(s))
	for _, version := range []string{legacy, modern} {
		s.mux.Handle("/direct/"+version+"/mcp", proxy(t, fixtureHTTP(t, set, version)))
	}
	p := page(t, s, h)
	hub := "http://" + h.address
	for _, cell := range []struct{ name, base, protocol, prefix, version string }{
		{"direct legacy", s.URL + "/direct/" + legacy, "auto", "", legacy},
		{"direct modern", s.URL + "/direct/" + modern, "auto", "", modern},
		{"agent modern", hub + "/mcps/fixture", "auto", "", modern},
		{"agent legacy", hub + "/mcps/fixture/mcp", "legacy", "", legacy},
		{"merged modern", hub, "modern", "fixture__", modern},
		{"merged legacy", hub + "/mcp", "legacy", "fixture__", legacy},
	} {
		t.Run(cell.name, func(t *testing.T) {
			options := fmt.Sprintf(`{ baseUrl: %q, protocol: %q, logLevel: 'debug', onElicitation: () => ({ action: 'accept', content: { name: 'Ada', username: 'Ada', email: 'ada@example.com' } }) }`, cell.base, cell.protocol)
			for _, row := range fixtureRows {
				t.Run(row.what, func(t *testing.T) {
					got := p.with(t, options, strings.ReplaceAll(row.script, "PREFIX", cell.prefix))
					if want := strings.ReplaceAll(row.want, "VERSION", cell.version); got != want {
						t.Errorf("%s, want %s", got, want)
					}
				})
			}
		})
	}
	p.quiet(t)
}

var fixtureRows = []struct{ what, script, want string }{
	{"version", `return (await c.connect()).version`, `"VERSION"`},
	{"ping", `return [await c.ping()]`, `[null]`},
	{"list", `return (await c.listTools()).filter((t) => t.name === 'PREFIXtest_simple_text').length`, `1`},
	{"call", `return (await c.callTool('PREFIXtest_simple_text')).content`, `[{"type":"text","text":"This is a simple text response for testing."}]`},
	{"progress", `const seen = []; await c.callTool('PREFIXtest_tool_with_progress', {}, { onProgress: (p) => seen.push(p.progress) }); return seen`, `[0,50,100]`},
	{"tool says no", `return (await c.callTool('PREFIXtest_error_handling')).isError`, `true`},
	{"unknown tool", `const e = await failure(c.callTool('PREFIXnothing')); return [e instanceof mcp.MCPError, e.code, e.method]`, `[true,-32602,"tools/call"]`},
	{"elicitation", `
		const tool = (await c.connect()).era === 'modern' ? 'PREFIXtest_input_required_result_elicitation' : 'PREFIXtest_elicitation';
		const r = await c.callTool(tool, { message: 'well?' });
		return [r.isError === true, r.content[0].text.includes('Ada')]`, `[false,true]`},
	{"resources", `return (await c.listResources()).some((r) => r.uri === 'test://static-text')`, `true`},
	{"templates", `return (await c.listResourceTemplates()).length > 0`, `true`},
	{"read", `return (await c.readResource('test://static-text')).contents[0].text`, `"This is the content of the static text resource."`},
	{"prompts", `return (await c.listPrompts()).some((p) => p.name === 'PREFIXtest_simple_prompt')`, `true`},
	{"prompt", `return (await c.getPrompt('PREFIXtest_prompt_with_arguments', { arg1: 'one', arg2: 'two' })).messages[0].role`, `"user"`},
}

// proxy stands before a server that knows nothing of pages.
func proxy(t *testing.T, target string) *httputil.ReverseProxy {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &httputil.ReverseProxy{FlushInterval: -1, Transport: transport, ErrorLog: log.New(io.Discard, "", 0), Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL, r.Out.Host = u, u.Host
		r.Out.Header.Del("Origin")
		// A transport that still reads the body when the answer comes may cut the answer short.
		body, err := io.ReadAll(r.In.Body)
		if err != nil {
			t.Errorf("read the page's request: %v", err)
		}
		r.Out.Body = io.NopCloser(bytes.NewReader(body))
	}}
}

const cityTool = `{"name":"mirror","inputSchema":{"type":"object","properties":{"city":{"type":"string","x-mcp-header":"City"}}}}`

func browserPeer(era peer.Era) peer.Spec {
	return peer.Spec{
		Era: era, List: peer.List{PageSize: 2},
		Tools: []peer.Tool{
			{Name: "größe ☃"}, {Name: "mirror", RawDefinition: cityTool},
			{Name: "slow", Behaviour: peer.Behaviour{Kind: peer.Slow, For: time.Hour}},
			{Name: "steps", Behaviour: peer.Behaviour{Kind: peer.Progress, N: 4, For: 100 * time.Millisecond}},
			{Name: "ask", Behaviour: peer.Do(peer.Multi)}, {Name: "grow", Behaviour: peer.Do(peer.Notify)},
			{Name: "touch", Behaviour: peer.Behaviour{Kind: peer.Touch, URI: "test://x"}},
			{Name: "bad", RawDefinition: `{"name":"bad","inputSchema":{"type":"object","properties":{"a":{"type":"object","x-mcp-header":"A"}}}}`},
			{Name: "refuse", Behaviour: peer.Behaviour{Kind: peer.Error, Raw: `{"code":-32099,"message":"not today","data":{"why":["rain"]}}`}},
			{Name: "walk", Behaviour: peer.Behaviour{Kind: peer.Progress, N: 12, For: 100 * time.Millisecond}},
		},
		Resources: []peer.Resource{{URI: "test://x", Text: "x"}},
	}
}

// TestBrowserClient drives what a page does beyond single answers: giving up, listening, being asked, coming back.
func TestBrowserClient(t *testing.T) {
	hubtest.Parallel(t)
	set, s := tools(t), newSite(t)
	chromium(t)
	up := peer.Serve(t, browserPeer(peer.EraBoth))
	gone := peer.Serve(t, peer.Spec{Tools: []peer.Tool{{Name: "echo"}}})
	h := startHub(t, set, map[string]server{"up": {URL: up.URL}, "gone": {URL: gone.URL}}, shared(s))
	gone.Kill()
	p := page(t, s, h)
	for _, protocol := range []string{"modern", "legacy"} {
		t.Run(protocol, func(t *testing.T) {
			options := func(agent, more string) string {
				return fmt.Sprintf(`{ baseUrl: 'http://%s/mcps/%s', protocol: %q, %s }`, h.address, agent, protocol, more)
			}
			for _, row := range peerRows {
				t.Run(row.what, func(t *testing.T) {
					if got := p.with(t, options("up", row.options), row.script); got != row.want {
						t.Errorf("%s, want %s", got, row.want)
					}
				})
			}
			t.Run("abort", func(t *testing.T) { abortInPage(t, p, up, options("up", "")) })
			t.Run("unknown agent", func(t *testing.T) {
				got := p.with(t, options("nobody", ""), `const e = await failure(c.listTools()); return [e.name, e.code, e.status, e.kind, e.hint !== '']`)
				if want := `["MCPError",-32601,404,"unknown_agent",true]`; got != want {
					t.Errorf("%s, want %s", got, want)
				}
			})
			t.Run("unreachable agent", func(t *testing.T) {
				got := p.with(t, options("gone", ""), `const e = await failure(c.callTool('echo')); return [e.name, e.code, e.status, e.kind, e.retryable]`)
				if want := `["MCPError",-32603,502,"unreachable",true]`; got != want {
					t.Errorf("%s, want %s", got, want)
				}
			})
		})
	}
	t.Run("new session", func(t *testing.T) {
		got := p.with(t, fmt.Sprintf(`{ baseUrl: 'http://%s', protocol: 'legacy' }`, h.address), `
			const first = (await c.connect()).session;
			await fetch(c.url, { method: 'DELETE', headers: { 'Mcp-Session-Id': first } });
			const names = await Promise.all([c.listTools(), c.listTools(), c.listResources()]);
			const second = (await c.connect()).session;
			return [first !== '', second !== '', first !== second, names.every((n) => n.length > 0)]`)
		if want := `[true,true,true,true]`; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
	t.Run("foreign page", func(t *testing.T) {
		other := newSite(t)
		p.do(t, navigate(other.URL))
		got := p.run(t, `return await import('http://`+h.address+`/MCPBrowserClient.js').then(() => 'loaded', () => 'refused')`)
		if got != `"refused"` {
			t.Errorf("a page that the config does not name: %s", got)
		}
		p.do(t, navigate(s.URL))
	})
	p.quiet(t)
}

var peerRows = []struct{ what, options, script, want string }{
	{"all pages", "", `return (await c.listTools()).map((t) => t.name).slice(0, 8)`, `["größe ☃","mirror","slow","steps","ask","grow","touch","refuse"]`},
	{"name in a header", "", `return (await c.callTool('größe ☃', { a: 1 })).structuredContent`, `{"a":1}`},
	{"argument in a header", "", `return (await c.callTool('mirror', { city: 'Zürich ' })).structuredContent`, `{"city":"Zürich "}`},
	{"error with data", "", `const e = await failure(c.callTool('refuse')); return [e.message, e.code, e.data, e.kind]`, `["not today",-32099,{"why":["rain"]},""]`},
	{"progress in order", "", `const seen = []; await c.callTool('steps', {}, { onProgress: (p) => seen.push(p.message) }); return seen`, `["step 1 of 4","step 2 of 4","step 3 of 4","step 4 of 4"]`},
	{"progress keeps alive", "timeoutMs: 300, onProgress() {}", `return (await c.callTool('steps')).content[0].text`, `"done"`},
	{"timeout", "", `const e = await failure(c.callTool('slow', {}, { timeoutMs: 200 })); return [e.name, e instanceof mcp.MCPError]`, `["MCPTimeoutError",true]`},
	{"questions", `onElicitation: (p) => ({ action: 'accept', content: {} })`, `return JSON.parse((await c.callTool('ask')).content[0].text).length`, `3`},
	{"aborted before", "", `const e = await failure(c.callTool('slow', {}, { signal: AbortSignal.abort() })); return e.name`, `"AbortError"`},
	{"list changes", "", `
		const heard = Promise.withResolvers();
		const s = await c.listen({ toolsListChanged: true }, { onNotification: heard.resolve });
		await c.callTool('grow');
		const method = await heard.promise;
		s.close();
		await s.closed;
		return [s.honoured.toolsListChanged, method]`, `[true,"notifications/tools/list_changed"]`},
	{"resource changes", "", `
		const heard = [Promise.withResolvers(), Promise.withResolvers()];
		const first = await c.subscribe('test://x', heard[0].resolve);
		const second = await c.subscribe('test://x', heard[1].resolve);
		await c.callTool('touch');
		const uris = (await Promise.all(heard.map((h) => h.promise))).map((p) => p.uri);
		first.close();
		second.close();
		return uris`, `["test://x","test://x"]`},
	{"closed", "", `await c.ping(); await c.close(); const e = await failure(c.ping()); return e.message`, `"the client is closed"`},
}

// abortInPage aborts a call that is under way; the server must hear of it.
func abortInPage(t *testing.T, p tab, up *peer.HTTPServer, options string) {
	before := up.State()
	p.run(t, `
		window.stop = new AbortController();
		window.client = new mcp.MCPBrowserClient(`+options+`);
		window.ended = client.callTool('slow', {}, { signal: stop.signal }).then(() => 'answered', (e) => e.name);`)
	await.Until(t, "the tool runs", func() bool { return len(up.State().Called) > len(before.Called) })
	if got := p.run(t, `stop.abort(); return await ended`); got != `"AbortError"` {
		t.Errorf("the call ended with %s", got)
	}
	await.Until(t, "the tool was told to stop", func() bool { return len(up.State().Cancelled) > len(before.Cancelled) })
	p.run(t, `await client.close()`)
}

// TestBrowserClientResumes cuts the connection in the middle of an answer: a client of 2025-11-25 takes it up again and
// misses nothing; a modern one, whose protocol has no such thing, says so.
func TestBrowserClientResumes(t *testing.T) {
	hubtest.Parallel(t)
	set, s := tools(t), newSite(t)
	chromium(t)
	up := peer.Serve(t, browserPeer(peer.EraBoth))
	h := startHub(t, set, map[string]server{"up": {URL: up.URL}}, shared(s))
	cut := proxy(t, h.agent("up"))
	var cuts atomic.Int32
	cut.ModifyResponse = func(r *http.Response) error {
		if r.Request.Method == http.MethodPost && strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream") {
			cuts.Add(1)
			r.Body = &cutting{r.Body}
		}
		return nil
	}
	s.mux.Handle("/cut/mcp", cut)
	p := page(t, s, h)
	script := `const seen = [];
		const r = await failure(c.callTool('steps', {}, { onProgress: (p) => seen.push(p.progress) }));
		return [seen, r.name ?? r.content?.[0].text ?? r[1].content[0].text]`
	got := p.with(t, `{ baseUrl: '/cut', protocol: 'legacy' }`, script)
	if want := `[[1,2,3,4],"done"]`; got != want || cuts.Load() == 0 {
		t.Errorf("legacy: %s after %d cuts, want %s", got, cuts.Load(), want)
	}
	got = p.with(t, `{ baseUrl: '/cut', protocol: 'modern' }`, script)
	if !strings.HasSuffix(got, `,"MCPTransportError"]`) {
		t.Errorf("modern: %s", got)
	}
	p.quiet(t)
}

// cutting ends a body before the second event that says something: what came just before the end a browser may drop.
type cutting struct{ io.ReadCloser }

func (c *cutting) Read(b []byte) (int, error) {
	n, err := c.ReadCloser.Read(b)
	if bytes.Contains(b[:n], []byte(`step 2 of 4`)) {
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// TestBrowserClientListensOn: who listens goes on listening when a proxy answers once that the hub is away, as while it
// is started again.
func TestBrowserClientListensOn(t *testing.T) {
	hubtest.Parallel(t)
	set, s := tools(t), newSite(t)
	chromium(t)
	up := peer.Serve(t, browserPeer(peer.EraBoth))
	h := startHub(t, set, map[string]server{"up": {URL: up.URL}}, shared(s))
	behind := proxy(t, h.agent("up"))
	var streams atomic.Int32
	var first atomic.Pointer[io.ReadCloser]
	behind.ModifyResponse = func(r *http.Response) error {
		if isListen(r.Request) && streams.Load() == 1 {
			first.Store(&r.Body)
		}
		return nil
	}
	s.mux.HandleFunc("/break", func(http.ResponseWriter, *http.Request) { (*first.Load()).Close() })
	s.mux.HandleFunc("/away/mcp", func(w http.ResponseWriter, r *http.Request) {
		away := int32(2) // a modern stream has begun before, and broken
		if r.Method == http.MethodGet {
			away = 1
		}
		if isListen(r) && streams.Add(1) == away {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"away"}}`)
			return
		}
		behind.ServeHTTP(w, r)
	})
	p := page(t, s, h)
	for protocol, again := range map[string]string{"legacy": "", "modern": "await fetch('/break'); await again.promise;"} {
		streams.Store(0)
		got := p.with(t, fmt.Sprintf(`{ baseUrl: '/away', protocol: %q }`, protocol), `
			const heard = Promise.withResolvers(), again = Promise.withResolvers();
			const s = await c.listen({ toolsListChanged: true }, { onNotification: heard.resolve, onReopen: again.resolve });
			`+again+`
			await c.callTool('grow');
			const method = await heard.promise;
			s.close();
			return method`)
		if want := `"notifications/tools/list_changed"`; got != want {
			t.Errorf("%s: %s, want %s", protocol, got, want)
		}
	}
}

// isListen reports whether a request opens a stream to listen to.
func isListen(r *http.Request) bool {
	return r.Method == http.MethodGet || r.Header.Get("Mcp-Method") == "subscriptions/listen"
}

// TestBrowserClientForms loads the client in each way that a page can, from the hub's own origin and another.
func TestBrowserClientForms(t *testing.T) {
	hubtest.Parallel(t)
	set, s := tools(t), newSite(t)
	chromium(t)
	h := startHub(t, set, map[string]server{"fixture": {Command: fixtureBinary(t)}}, shared(s))
	file := "http://" + h.address + "/MCPBrowserClient.js"
	use := `const c = new MCPBrowserClient({ baseUrl: 'http://` + h.address + `/mcps/fixture' });
		c.listTools().then((tools) => { document.title = 'tools: ' + (tools.length > 0); }, (e) => { document.title = String(e); });`
	forms := map[string]string{
		"module import": `<script type="module">import { MCPBrowserClient } from '` + file + `'; ` + use + `</script>`,
		"module tag":    `<script type="module" src="` + file + `"></script><script type="module">` + use + `</script>`,
		"script tag":    `<script src="` + file + `"></script><script>` + use + `</script>`,
		"twice":         `<script src="` + file + `"></script><script src="` + file + `?classic"></script><script>` + use + `</script>`,
	}
	p := openTab(t, s.URL)
	n := 0
	for what, tags := range forms {
		n++
		path := "/form" + strconv.Itoa(n)
		s.mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, `<!doctype html><title>-</title><link rel="icon" href="data:,">`+watching+tags)
		})
		t.Run(what, func(t *testing.T) {
			p.do(t, navigate(s.URL+path))
			if got := p.run(t, waitUntil(`document.title !== '-' || thrown.length`)+`return [document.title, thrown]`); got != `["tools: true",[]]` {
				t.Error(got)
			}
		})
	}
	t.Run("own origin", func(t *testing.T) {
		p.do(t, navigate("http://"+h.address+"/healthz"))
		got := p.run(t, `const { MCPBrowserClient } = await import('/MCPBrowserClient.js');
			const c = new MCPBrowserClient({ baseUrl: '/mcps/fixture' });
			return [c.url, (await c.callTool('test_simple_text')).content.length]`)
		if want := `["` + h.agent("fixture") + `",1]`; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}
