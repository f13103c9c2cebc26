package blackbox

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/stoahub/stoa/internal/hubtest/await"
)

// chromium is the browser to drive. Without one the test is skipped, or fails
// if it must not be (see package e2e).
func chromium(t *testing.T) string {
	t.Helper()
	switch path := os.Getenv("STOA_BROWSER"); path {
	case "":
	case "none":
		t.Skip("no Chromium is installed")
	default:
		return path
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("STOA_E2E") == "require" {
		t.Fatal("no Chromium is installed; set STOA_BROWSER to one, or to none")
	}
	t.Skip("no Chromium is installed; set STOA_BROWSER")
	return ""
}

// tab is a page of a real browser.
type tab struct {
	t   *testing.T
	ctx context.Context
}

// openTab starts a browser with one page. Both end with the test.
func openTab(t *testing.T, url string) tab {
	t.Helper()
	var output bytes.Buffer
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(chromium(t)), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Env("HOME="+t.TempDir()), chromedp.CombinedOutput(&output), chromedp.WSURLReadTimeout(await.Patience))
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
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
	p := tab{t, ctx}
	p.goTo(url)
	return p
}

func (p tab) goTo(url string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, await.Patience)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Navigate(url)); err != nil {
		p.t.Fatalf("the page: %v", err)
	}
}

// run runs the body of an async function in the page and returns what it
// returns, as JSON.
func (p tab) run(body string) (string, error) {
	ctx, cancel := context.WithTimeout(p.ctx, await.Patience)
	defer cancel()
	whole := "(async () => JSON.stringify((await (async () => {" + body + "\n})()) ?? null))()"
	return chromedp.Run(ctx, chromedp.Evaluate[string](whole, chromedp.EvalAwaitPromise))
}
