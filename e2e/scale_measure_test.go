package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/network"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/performance"
	cdpruntime "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// ask is a command of the browser's protocol with its answer.
func ask[P, R any](t *testing.T, p tab, command cdp.Command[P, R], params P) R {
	t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, browserDeadline)
	defer cancel()
	out, err := chromedp.Call(ctx, command, params)
	if err != nil {
		t.Fatalf("%s: %v", command.Method, err)
	}
	return out
}

// answered is one answer that a page got.
type answered struct {
	path, encoding string
	bytes          float64 // as they came, headers included
}

// listened runs do and returns what the page was sent meanwhile, sockets left out. The browser reports answers only
// here: it would report each frame of a socket as well, which is work that no person's browser does.
func (c console) listened(t *testing.T, do func()) []answered {
	t.Helper()
	ask(t, c.tab, network.Enable, network.EnableParams{})
	ask(t, c.tab, network.SetCacheDisabled, network.SetCacheDisabledParams{CacheDisabled: true})
	ctx, cancel := context.WithCancel(c.ctx)
	target := chromedp.FromContext(c.ctx).Target
	heads, ends := cdp.Events(ctx, target, network.ResponseReceived), cdp.Events(ctx, target, network.LoadingFinished)
	var group sync.WaitGroup
	var mu sync.Mutex
	head, length := map[network.RequestID]answered{}, map[network.RequestID]float64{}
	group.Go(func() {
		for e, err := range heads {
			if err != nil {
				return // it is over
			}
			at, _ := url.Parse(e.Response.URL)
			encoding, _ := e.Response.Headers["Content-Encoding"].(string)
			mu.Lock()
			head[e.RequestID] = answered{path: at.RequestURI(), encoding: encoding}
			mu.Unlock()
		}
	})
	group.Go(func() {
		for e, err := range ends {
			if err != nil {
				return
			}
			mu.Lock()
			length[e.RequestID] = e.EncodedDataLength
			mu.Unlock()
		}
	})
	do()
	ask(t, c.tab, network.Disable, cdp.Empty{})
	<-time.After(50 * time.Millisecond) // all was sent before that answer; it takes a moment to be handed on
	cancel()
	group.Wait()
	var out []answered
	for id, a := range head {
		if n, ok := length[id]; ok { // else it is still on its way
			a.bytes = n
			out = append(out, a)
		}
	}
	return out
}

// measured has the browser keep what is measured.
func (c console) measured(t *testing.T) {
	t.Helper()
	ask(t, c.tab, performance.Enable, performance.EnableParams{})
	// What a page was sent is looked at later, so that all of it has to be kept.
	c.do(t, act(cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: `performance.setResourceTimingBufferSize(100000);`}))
}

// work is what a page's main thread did, in seconds since it began.
func (c console) work(t *testing.T) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	for _, m := range ask(t, c.tab, performance.GetMetrics, cdp.Empty{}).Metrics {
		out[m.Name] = m.Value
	}
	return out
}

// heap is what a page's scripts hold, in bytes, after all that nobody needs was thrown away.
func (c console) heap(t *testing.T) float64 {
	t.Helper()
	ask(t, c.tab, heapprofiler.CollectGarbage, cdp.Empty{})
	return ask(t, c.tab, cdpruntime.GetHeapUsage, cdp.Empty{}).UsedSize
}

// largest is the largest answer of the API that the page got, and from where; answers are counted as they are
// written, uncompressed.
func (c console) largest(t *testing.T) (path string, bytes float64) {
	t.Helper()
	var all []struct {
		Name string
		Size float64
	}
	text := c.run(t, `return performance.getEntriesByType('resource').filter((e) => e.initiatorType === 'fetch').map((e) => ({ name: e.name, size: e.decodedBodySize }))`)
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if e.Size > bytes {
			path, bytes = e.Name, e.Size
		}
	}
	return strings.TrimPrefix(path, "http://"+c.hub.address), bytes
}

// visit is what was seen of one page.
type visit struct {
	page                 string
	loaded               float64 // bytes until the first table
	requests             int
	first                time.Duration // until the first table
	task, script, layout float64       // seconds of the main thread in each second
	heap, rss            float64
	rows                 int
	events               float64 // each second
	largest              float64
	from                 string
}

const visitHead = "page                        first load  asked  first table   main thread  script  layout   heap    rows  largest answer  hub RSS  events/s"

func (v visit) String() string {
	return fmt.Sprintf("%-27s %6.1f KB  %5d  %8d ms  %7.1f ms/s  %6.1f  %6.1f  %5.1f MB %5d  %8.1f KB     %5.1f MB  %7.0f", "/console/"+v.page, v.loaded/1000, v.requests, v.first.Milliseconds(),
		v.task*1000, v.script*1000, v.layout*1000, v.heap/1e6, v.rows, v.largest/1000, v.rss/1e6, v.events)
}

// over measures what the page that is shown does in a while.
func (c console) over(t *testing.T, v visit, on *crowd, while time.Duration) visit {
	t.Helper()
	before, events, began := c.work(t), on.events(t), time.Now()
	<-time.After(while)
	after, took := c.work(t), time.Since(began).Seconds()
	v.events = float64(on.events(t)-events) / time.Since(began).Seconds()
	share := func(names ...string) (sum float64) {
		for _, name := range names {
			sum += (after[name] - before[name]) / took
		}
		return sum
	}
	v.task, v.script, v.layout = share("TaskDuration"), share("ScriptDuration"), share("LayoutDuration", "RecalcStyleDuration")
	if err := json.Unmarshal([]byte(c.run(t, `return document.querySelectorAll('main tr, main li, main option').length`)), &v.rows); err != nil {
		t.Fatal(err)
	}
	v.from, v.largest = c.largest(t)
	v.heap, v.rss = c.heap(t), on.rss(t)
	return v
}
