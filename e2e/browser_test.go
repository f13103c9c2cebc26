package e2e

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// browserDeadline bounds one thing that a page does. It only ends what hangs.
const browserDeadline = time.Minute

// chromium returns the browser to drive. Without one it skips the test, or fails it when peers are required and nobody
// has said that there is none (STOA_BROWSER=none, which e2e/chromium prints where it cannot install one).
func chromium(t *testing.T) string {
	t.Helper()
	switch path := os.Getenv("STOA_BROWSER"); path {
	case "":
	case "none":
		t.Skip("no Chromium is installed, and e2e/chromium could not install one")
	default:
		return path
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("STOA_E2E") == "require" {
		t.Fatal("no Chromium is installed; run `make tools` as root, or set STOA_BROWSER to one, or to none")
	}
	t.Skip("no Chromium is installed; run `make tools` as root, or set STOA_BROWSER")
	return ""
}

// tab is a page of a real browser.
type tab struct{ ctx context.Context }

// openTab starts a browser with one page that shows url. Both end with the test.
func openTab(t *testing.T, url string) tab {
	t.Helper()
	var output bytes.Buffer
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(chromium(t)), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Env("HOME="+t.TempDir()), chromedp.CombinedOutput(&output), chromedp.WSURLReadTimeout(readyDeadline))
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	p := tab{ctx}
	t.Cleanup(func() {
		err := chromedp.Cancel(ctx)
		cancel()
		end()
		if err != nil {
			t.Errorf("end the browser: %v\n%s", err, output.String())
		}
	})
	// The first Do starts the browser, which lives as long as the context of that call.
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start the browser: %v\n%s", err, output.String())
	}
	// Else a browser that nobody looks at draws now and then only.
	p.do(t, act(emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}), chromedp.Navigate(url))
	return p
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
