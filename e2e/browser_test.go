package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/css"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	cdpruntime "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// browserDeadline bounds one thing that a page does, and pageDeadline what it waits for there, which it can say more about.
// They only end what hangs: a page that has lost its hub comes back within ten seconds, and then asks for much, in the one
// browser of all tests.
const (
	pageDeadline    = 3 * time.Minute
	browserDeadline = pageDeadline + time.Minute
)

// chromium returns the browser to drive. Without one it skips the test, or fails it when peers are required and nobody
// has said that there is none (STOA_BROWSER=none, which e2e/chromium prints where it cannot install one).
func chromium(t *testing.T) string {
	t.Helper()
	if os.Getenv("STOA_BROWSER") == "none" {
		t.Skip("no Chromium is installed, and e2e/chromium could not install one")
	}
	path := installedChromium()
	if path == "" && os.Getenv("STOA_E2E") == "require" {
		t.Fatal("no Chromium is installed; run `make tools` as root, or set STOA_BROWSER to one, or to none")
	}
	if path == "" {
		t.Skip("no Chromium is installed; run `make tools` as root, or set STOA_BROWSER")
	}
	return path
}

func installedChromium() string {
	if path := os.Getenv("STOA_BROWSER"); path != "" {
		return path
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// startedBrowser is the one browser of the run; TestMain ends it. To start one takes more than most tests do in it.
var startedBrowser = sync.OnceValues(func() (*browserProcess, error) {
	dir, err := artefacts()
	if err != nil {
		return nil, err
	}
	b := &browserProcess{}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(installedChromium()), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(filepath.Join(dir, "browser")),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-features", "Translate,SpareRendererForSitePerProcess,AutofillServerCommunication"), // no process for a page that may come, no words about forms to its maker
		chromedp.Env("HOME="+dir), chromedp.CombinedOutput(&b.output), chromedp.WSURLReadTimeout(readyDeadline))
	allocator, endAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	b.ctx, b.close = ctx, func() { cancel(); endAllocator() }
	// The first Do starts the browser, which lives as long as the context of that call.
	if err := chromedp.Do(ctx); err != nil {
		b.close()
		return nil, fmt.Errorf("start the browser: %w\n%s", err, b.output.String())
	}
	theBrowser = b
	return b, nil
})

// theBrowser is there once a test has needed it.
var theBrowser *browserProcess

type browserProcess struct {
	ctx    context.Context
	close  func()
	output bytes.Buffer
}

// end asks the browser to end, and waits until it has.
func (b *browserProcess) end() error {
	err := chromedp.Cancel(b.ctx)
	b.close()
	if err != nil {
		return fmt.Errorf("end the browser: %w\n%s", err, b.output.String())
	}
	return nil
}

// tab is a page of a real browser.
type tab struct{ ctx context.Context }

// openTab opens a page that shows url, with cookies and a store of its own. It is closed when the test ends.
func openTab(t *testing.T, url string, options ...chromedp.CreateBrowserContextOption) tab {
	t.Helper()
	chromium(t)
	b, err := startedBrowser()
	if err != nil {
		t.Fatal(err)
	}
	p := newTab(t, b.ctx, chromedp.WithNewBrowserContext(options...))
	p.do(t, chromedp.Navigate(url))
	return p
}

// newTab opens an empty page in the browser of a context, among the pages of that context unless an option says otherwise.
func newTab(t *testing.T, in context.Context, options ...chromedp.ContextOption) tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(in, options...)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("open a page: %v", err)
	}
	p := tab{ctx}
	// Nobody needs to be told of each change of a page and each thing that it asks for, which is half of the work.
	ask(t, p, css.Disable, cdp.Empty{})
	ask(t, p, dom.Disable, cdp.Empty{})
	ask(t, p, network.Disable, cdp.Empty{})
	ask(t, p, log.Disable, cdp.Empty{})
	// Else a browser that nobody looks at draws now and then only.
	ask(t, p, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	return p
}

// owner is the name of the pages that share cookies and a store with this one, for commands that are about all of them.
func (p tab) owner() cdp.BrowserContextID { return chromedp.FromContext(p.ctx).BrowserContextID }

// place is a script that waits until what a selector finds is seen, scrolls to it and returns the middle of it.
func place(selector string) string {
	return `let e, box;
		while (!(e = document.querySelector(` + quoted(selector) + `))?.checkVisibility({visibilityProperty: true}) || !e.getClientRects().length) await new Promise((r) => setTimeout(r, 20));
		e.scrollIntoViewIfNeeded();
		box = e.getClientRects()[0];
		return [box.left + box.width / 2, box.top + box.height / 2];`
}

// press clicks what a selector finds.
func (p tab) press(t *testing.T, selector string) {
	t.Helper()
	p.pressAt(t, p.run(t, place(selector)))
}

func (p tab) pressAt(t *testing.T, point string) {
	t.Helper()
	var at [2]float64
	if err := json.Unmarshal([]byte(point), &at); err != nil {
		t.Fatal(err)
	}
	p.do(t, chromedp.MouseClickXY(at[0], at[1]))
}

// keys types a text into what a selector finds.
func (p tab) keys(t *testing.T, selector, text string) {
	t.Helper()
	p.run(t, waitUntil("document.querySelector("+quoted(selector)+")")+"document.querySelector("+quoted(selector)+").focus()")
	p.do(t, chromedp.KeyEvent(text))
}

// upload chooses a file as a person does.
func (p tab) upload(t *testing.T, selector, path string) {
	t.Helper()
	p.run(t, waitUntil("document.querySelector("+quoted(selector)+")"))
	input := ask(t, p, cdpruntime.Evaluate, cdpruntime.EvaluateParams{Expression: "document.querySelector(" + quoted(selector) + ")"})
	ask(t, p, dom.SetFileInputFiles, dom.SetFileInputFilesParams{Files: []string{path}, ObjectID: input.Result.ObjectID})
}

// content is the text of what a selector finds.
func (p tab) content(t *testing.T, selector string) (text string) {
	t.Helper()
	if err := json.Unmarshal([]byte(p.run(t, "return document.querySelector("+quoted(selector)+").textContent")), &text); err != nil {
		t.Fatal(err)
	}
	return text
}

func (p tab) do(t *testing.T, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, browserDeadline)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		t.Fatalf("the page: %v", err)
	}
}

// run runs the body of an async function in the page and returns what it returns, as JSON.
func (p tab) run(t *testing.T, body string) string {
	t.Helper()
	out, err := p.tryRun(body)
	if err != nil {
		t.Fatalf("the page: %v", err)
	}
	return out
}

func (p tab) tryRun(body string) (string, error) {
	ctx, cancel := context.WithTimeout(p.ctx, browserDeadline)
	defer cancel()
	whole := "(async () => JSON.stringify((await (async () => {" + body + "\n})()) ?? null))()"
	return chromedp.Run(ctx, chromedp.Evaluate[string](whole, chromedp.EvalAwaitPromise))
}

// left reports whether a page went elsewhere while something ran in it.
func left(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "navigated or closed") || strings.Contains(err.Error(), "context was destroyed"))
}

// quiet fails the test if something in the page was thrown and nobody caught it.
func (p tab) quiet(t *testing.T) {
	t.Helper()
	if thrown := p.run(t, "return window.thrown"); thrown != "[]" {
		t.Errorf("the page threw %s", thrown)
	}
}

// watching keeps what a page throws.
const watching = `<script>
window.thrown = [];
addEventListener('error', (e) => thrown.push(e.message));
addEventListener('unhandledrejection', (e) => thrown.push('rejected: ' + e.reason));
</script>`

// site serves pages from an origin of its own: an empty one, the example, and whatever is added.
type site struct {
	*httptest.Server
	mux *http.ServeMux
}

func newSite(t *testing.T) site {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(`<!doctype html><title>empty</title><link rel="icon" href="data:,">` + watching))
	})
	mux.Handle("GET /app/", http.StripPrefix("/app", http.FileServer(http.Dir("../examples/browser"))))
	s := site{httptest.NewServer(mux), mux}
	t.Cleanup(func() {
		s.CloseClientConnections() // a page may still hold a stream open
		s.Close()
	})
	return s
}

func navigate(url string) chromedp.Action[chromedp.Void] { return chromedp.Navigate(url) }

// waitUntil is a script that waits for a condition in the page; whoever runs it bounds it.
func waitUntil(condition string) string {
	return "while (!(" + condition + ")) await new Promise((r) => setTimeout(r, 20));\n"
}
