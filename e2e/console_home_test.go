package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// shopCall calls a tool of the shop beside the test; the code of the answer and what the tool said come when there is one.
func (c console) shopCall(t *testing.T, tool string) <-chan string {
	t.Helper()
	answer := make(chan string, 1)
	request := c.request(t, "POST", "/api/tools/"+tool, `{"why":"<i>me</i>"}`)
	go func() {
		response, err := client.Do(request)
		if err != nil {
			answer <- err.Error()
			return
		}
		defer response.Body.Close()
		var said struct {
			Code string
			Data any
		}
		if err := json.NewDecoder(response.Body).Decode(&said); err != nil {
			said.Code = err.Error()
		}
		answer <- fmt.Sprint(said.Code, " ", said.Data)
	}()
	return answer
}

// TestConsoleHome decides calls that wait, follows what needs attention to where it is mended, and holds the plots to
// what the API says.
func TestConsoleHome(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	chromium(t)
	up := peer.Serve(t, peer.Spec{Tools: []peer.Tool{{Name: "count", Behaviour: peer.Do(peer.Count)}, {Name: "echo"}, {Name: "careful"},
		{Name: "broken", Behaviour: peer.Behaviour{Kind: peer.Error, Raw: `{"code":-32603,"message":"out of order"}`}}}})
	command, args, env := peer.Command(peer.Spec{Tools: []peer.Tool{{Name: "crash", Behaviour: peer.Do(peer.Crash)}}})
	breaker := map[string]any{"failures": 2, "cooldown": "10m"}
	h := startHub(t, set, map[string]server{"shop": {URL: up.URL, Breaker: breaker}, "frail": {Command: command, Args: args, Env: env, Breaker: breaker}},
		map[string]any{"policy": map[string]any{"rules": []any{map[string]any{"tools": []string{"shop:count", "shop:careful"}, "action": "ask", "reason": "counting is <b>costly</b>"}}}})
	c := openConsole(t, h, "")
	c.until(t, `document.querySelectorAll('.plot canvas').length === 2 && document.querySelector('main').innerText.includes('Nothing.')`)

	first := c.shopCall(t, "shop__count")
	c.until(t, `document.querySelector('[data-testid=approval]')?.innerText.includes('counting is <b>costly</b>') && document.querySelector('[data-testid=approval]').innerText.includes('<i>me</i>')`)
	c.until(t, `document.querySelector('[data-testid=asked]').innerText === '1'`)
	c.click(t, by("approve"))
	if code := <-first; !strings.HasPrefix(code, "SUCCESS ") {
		t.Errorf("the approved call: %s", code)
	}
	c.until(t, `!document.querySelector('[data-testid=approval]')`)
	second := c.shopCall(t, "shop__count")
	c.click(t, by("deny"))
	if code := <-second; !strings.HasPrefix(code, "DENIED ") {
		t.Errorf("the denied call: %s", code)
	}
	if called := up.State().Called; len(called) != 1 {
		t.Errorf("the tool was called %d times", len(called))
	}
	c.until(t, `!document.querySelector('[data-testid=approval]')`)
	third := c.shopCall(t, "shop__careful")
	c.click(t, by("edit"))
	c.write(t, by("approval-edit"), `{"why":`)
	c.until(t, "document.querySelector("+quoted(by("approve-edited"))+")?.disabled")
	c.write(t, by("approval-edit"), `{"why":"edited"}`)
	c.click(t, by("approve-edited"))
	if said := <-third; !strings.HasPrefix(said, "SUCCESS ") || !strings.Contains(said, "edited") || strings.Contains(said, "<i>") {
		t.Errorf("the edited call: %s", said)
	}

	// A tool that fails too often: its breaker, and the errors of this minute.
	for range 2 {
		c.ask(t, "POST", "/api/tools/shop__broken", "{}")
	}
	c.until(t, `document.querySelector('[data-testid=breaker-shop]')?.closest('li').innerText === 'breaker open broken of shop is left alone for a while, having failed too often'`)
	// A server that loses its calls: the breaker of its connection.
	for range 2 {
		c.ask(t, "POST", "/api/tools/frail__crash", "{}")
	}
	c.until(t, `document.querySelector('[data-testid=breaker-frail]')?.closest('li').innerText === 'breaker open frail is left alone for a while, as it failed too often'`)
	// A minute may end between the two looks.
	await.Until(t, "the errors of this minute are those of the API", func() bool {
		var book struct{ Groups []struct{ PerMinute []int } }
		if err := json.Unmarshal(c.api(t, "GET", "/api/v1/errors", ""), &book); err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, g := range book.Groups {
			n += g.PerMinute[len(g.PerMinute)-1]
		}
		return c.text(t, by("errors")) == fmt.Sprint(n)
	})

	// Runs that halted, one by its plan and one for good.
	run := func(title, tool string, paused bool) string {
		var got struct{ Run struct{ ID string } }
		body := fmt.Sprintf(`{"plan":{"title":%q,"steps":[{"id":"one","tool":"shop__echo","args":{}},{"id":"two","tool":%q,"args":{},"after":["one"]}]},"session":"work","breakpoints":[%s]}`,
			title, tool, map[bool]string{true: `"two"`}[paused])
		if err := json.Unmarshal(c.api(t, "POST", "/api/v1/runs", body), &got); err != nil || got.Run.ID == "" {
			t.Fatalf("begin a run: %v", err)
		}
		return got.Run.ID
	}
	paused, failed, stopped := run("Careful", "shop__echo", true), run("Bold", "shop__broken", false), run("Given up", "shop__echo", true)
	await.Until(t, "the run that is to be stopped has come to its breakpoint", func() bool {
		return strings.Contains(string(c.api(t, "GET", "/api/v1/runs/"+stopped, "")), `"status":"paused"`)
	})
	c.api(t, "POST", "/api/v1/runs/"+stopped+"/stop", "{}")
	run("Fine", "shop__echo", false)
	c.until(t, `/^stopped Given up after 1 of 2 steps in work/.test(document.querySelector('[data-testid="run-`+stopped+`"]')?.closest('li').innerText)`)
	c.until(t, `/^paused Careful after 1 of 2 steps in work: breakpoint before two/.test(document.querySelector('[data-testid="run-`+paused+`"]')?.closest('li').innerText)`)
	c.until(t, `/^failed Bold after 2 of 2 steps in work: step two failed/.test(document.querySelector('[data-testid="run-`+failed+`"]')?.closest('li').innerText) && document.querySelector('[data-testid=halted]').innerText === '3'`)
	c.plots(t)
	c.screens(t, "home")

	// Everything leads to where it is mended.
	c.click(t, by("run-"+paused))
	c.until(t, `location.pathname === '/console/plans/`+paused+`'`)
	c.do(t, navigate("http://"+h.address+"/console/"))
	c.click(t, by("breaker-shop"))
	c.until(t, `location.pathname === '/console/tools' && location.search.includes('upstream=shop') && document.querySelector('main tbody tr')?.innerText.includes('shop__broken')`)
	c.do(t, navigate("http://"+h.address+"/console/"))
	up.Kill()
	c.click(t, by("bad-shop"))
	c.until(t, `location.pathname === '/console/servers/shop' && document.querySelector('[data-testid=restart]') && document.querySelector('section.side .trouble')`)
}

// plots holds the figures of the plots to what the API counts, and that to the events that it tells.
func (c console) plots(t *testing.T) {
	t.Helper()
	for range 20 {
		c.api(t, "POST", "/api/tools/shop__echo", "{}")
	}
	var page struct {
		Events []struct {
			Type, Kind string
			Time       time.Time
		}
	}
	if err := json.Unmarshal(c.api(t, "GET", "/api/v1/events?after=0&limit=1000&wait=0s&types=call.done", ""), &page); err != nil {
		t.Fatal(err)
	}
	type point struct{ calls, failed float64 }
	made, newest := map[int64]point{}, int64(0)
	for _, e := range page.Events {
		at := e.Time.Unix() / 5 * 5
		p := made[at]
		p.calls += .2
		if e.Kind != "" {
			p.failed += .2
		}
		made[at], newest = p, max(newest, at)
	}
	// A point is shown when its five seconds are over.
	c.run(t, `for (const d of document.querySelectorAll('.plot details')) d.open = true`)
	c.until(t, fmt.Sprintf(`document.querySelector('[data-testid=plot-calls] tr[data-at="%d"]') && document.querySelector('[data-testid=plot-took] tr[data-at="%d"]')`, newest, newest))
	var pulse struct {
		End           time.Time
		Calls, Failed []float64
		P50           []float64 `json:"p50_us"`
		P95           []float64 `json:"p95_us"`
		P99           []float64 `json:"p99_us"`
	}
	if err := json.Unmarshal(c.api(t, "GET", "/api/v1/pulse", ""), &pulse); err != nil {
		t.Fatal(err)
	}
	var shown, want [2][][]string
	got := c.run(t, `return ['plot-calls', 'plot-took'].map((id) => [...document.querySelectorAll('[data-testid=' + id + '] tr[data-at]')].map((r) => [r.dataset.at, ...[...r.cells].slice(1).map((d) => d.innerText)]))`)
	if err := json.Unmarshal([]byte(got), &shown); err != nil {
		t.Fatal(err)
	}
	text := func(v float64) string { return fmt.Sprint(math.Round(v*1000) / 1000) }
	for i, n := range slices.Backward(pulse.Calls) {
		at := pulse.End.Unix() - int64(len(pulse.Calls)-i)*5
		if n == 0 || at > newest {
			continue
		}
		if p := made[at]; math.Abs(p.calls-n/5) > .01 || math.Abs(p.failed-pulse.Failed[i]/5) > .01 {
			t.Errorf("at %d the API counts %v calls and %v failures, by the events it was %+v a second", at, n, pulse.Failed[i], p)
		}
		want[0] = append(want[0], []string{fmt.Sprint(at), text(pulse.Failed[i] / 5), text(n / 5)})
		want[1] = append(want[1], []string{fmt.Sprint(at), text(pulse.P99[i] / 1000), text(pulse.P95[i] / 1000), text(pulse.P50[i] / 1000)})
	}
	if fmt.Sprint(shown) != fmt.Sprint(want) || len(want[0]) != len(made) {
		t.Errorf("the plots show %v\nwant %v\nof %v", shown, want, made)
	}
	c.run(t, `for (const d of document.querySelectorAll('.plot details')) d.open = false`)
}
