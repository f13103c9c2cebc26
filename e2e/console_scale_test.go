package e2e

import (
	"os"
	"path"
	"runtime"
	"strings"
	"testing"
	"time"

	cdppage "github.com/chromedp/cdproto/page"
)

// The bounds of a page, whatever the hub holds. They are sizes: times depend on the machine and are reported.
const (
	mostLoaded = 300_000 // bytes until the first table is shown, as they come over the wire
	mostAnswer = 300_000 // bytes of one answer of the API, uncompressed: five hundred events are the longest
	mostRows   = 1_000   // rows, entries and options that are drawn
)

// scalePages are the pages, and what is seen on each when its first table, list or form is there.
var scalePages = []struct{ path, ready string }{
	{"", "main .plot canvas"},
	{"live", "main li, main tbody tr"},
	{"tools", "main tbody tr"},
	{"tools/wide__echo_00001", "main section.side form"},
	{"servers", "main tbody tr"},
	{"servers/wide", "main section.side tbody tr"},
	{"agents", "main tbody tr"},
	{"context", "main tbody tr"},
	{"context/big", "main tbody tr"},
	{"plans", "main tbody tr"},
	{"chat", "main textarea"},
	{"errors", "main tbody tr"},
	{"logs", "main ol.log li"},
	{"sessions", "main tbody tr"},
	{"settings", "main tbody tr"},
}

// TestConsoleScale opens every page on a hub that has 10,000 tools and 1,000 Sessions and is called 500 times a second,
// each of which is two events. The long form, STOA_SOAK=1, then goes from page to page for ten minutes, and neither the
// page nor the hub may need more at the end than at the beginning.
func TestConsoleScale(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the memory of the hub is read the way Linux offers it")
	}
	set := tools(t)
	chromium(t)
	soak := os.Getenv("STOA_SOAK") != ""
	tools, sessions, window := 2_000, 100, time.Second
	if soak {
		tools, sessions, window = 10_000, 1_000, 10*time.Second
	}
	on := newCrowd(t, set, tools, sessions)
	c := openConsole(t, on.hub, "settings")
	c.measured(t)
	d := on.drive(t, 500)
	t.Log(visitHead)
	for _, p := range scalePages {
		v := c.load(t, p.path, p.ready)
		v = c.over(t, v, on, window)
		t.Log(v)
		v.check(t)
	}
	if soak {
		c.roam(t, on, 10*time.Minute)
	}
	d.stop()
	t.Logf("%d calls were made, and answered as they should be", d.made.Load())
}

// load opens a page as somebody does who was never there, and waits for its first table.
func (c console) load(t *testing.T, at, ready string) visit {
	t.Helper()
	v := visit{page: at}
	all := c.listened(t, func() {
		ask(t, c.tab, cdppage.Navigate, cdppage.NavigateParams{URL: "http://" + c.hub.address + "/console/" + at})
		began := time.Now()
		c.until(t, `location.pathname === `+quoted("/console/"+at)+` && document.querySelector(`+quoted(ready)+`)`)
		v.first = time.Since(began)
	})
	for _, a := range all {
		v.loaded += a.bytes
		v.requests++
		if ext := path.Ext(strings.Split(a.path, "?")[0]); (ext == ".js" || ext == ".mjs" || ext == ".css") && a.bytes > 2000 && a.encoding != "gzip" {
			t.Errorf("%s: %.0f bytes came encoded by %q", a.path, a.bytes, a.encoding)
		}
	}
	if v.loaded > mostLoaded || v.requests < 20 { // fewer would mean that not all was heard of
		t.Errorf("/console/%s: %.0f bytes in %d answers until the first table; %d is the most", at, v.loaded, v.requests, mostLoaded)
	}
	return v
}

// check holds what a page shows, and asks for, to its bounds.
func (v visit) check(t *testing.T) {
	t.Helper()
	if v.largest > mostAnswer {
		t.Errorf("/console/%s: %s is %.0f bytes; %d is the most", v.page, v.from, v.largest, mostAnswer)
	}
	if v.rows > mostRows {
		t.Errorf("/console/%s: %d rows are drawn; %d is the most", v.page, v.rows, mostRows)
	}
}

// roam goes from page to page, by the bar, for a while, and compares each with itself: the second time it was seen with
// the last.
func (c console) roam(t *testing.T, on *crowd, while time.Duration) {
	t.Helper()
	early, late := map[string]visit{}, map[string]visit{}
	for began, round := time.Now(), 0; time.Since(began) < while; round++ {
		for _, p := range scalePages {
			if strings.Contains(p.path, "/") {
				continue // the bar has whole pages only
			}
			stay := 5 * time.Second
			if p.path == "live" {
				stay = 30 * time.Second
			}
			c.run(t, `document.querySelector('nav ul a[href="/console/`+p.path+`"]').click()`)
			c.until(t, `location.pathname === `+quoted("/console/"+p.path)+` && document.querySelector(`+quoted(p.ready)+`)`)
			v := c.over(t, visit{page: p.path}, on, stay)
			c.run(t, `performance.clearResourceTimings()`)
			t.Logf("round %d: %v", round+1, v)
			v.check(t)
			if late[p.path] = v; round == 1 {
				early[p.path] = v
			}
		}
	}
	for at, e := range early {
		l := late[at]
		t.Logf("/console/%s: heap %.1f MB, then %.1f MB; hub %.1f MB, then %.1f MB", at, e.heap/1e6, l.heap/1e6, e.rss/1e6, l.rss/1e6)
		if l.heap > 1.15*e.heap+1e6 {
			t.Errorf("/console/%s: the page held %.1f MB, and %.1f MB at the end", at, e.heap/1e6, l.heap/1e6)
		}
		if l.rss > 1.15*e.rss+8e6 {
			t.Errorf("/console/%s: the hub held %.1f MB, and %.1f MB at the end", at, e.rss/1e6, l.rss/1e6)
		}
	}
}
