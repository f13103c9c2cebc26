package e2e

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
)

// why is what a control says of why it cannot be used; "" if it can.
func (c console) why(t *testing.T, id string) string {
	t.Helper()
	c.shows(t, by(id))
	return strings.Trim(c.run(t, "return document.querySelector("+quoted(by(id))+").getAttribute('aria-disabled') === 'true' ? document.querySelector("+quoted(by(id)+"[title]")+").title : ''"), `"`)
}

// TestConsolePlansBreak pauses a run after steps and where a value is so, and moves it by every control there is.
func TestConsolePlansBreak(t *testing.T) {
	hubtest.Parallel(t)
	p := openPlans(t, "plans")
	id := p.begin(t, map[string]any{"paused": true, "plan": map[string]any{"title": "Stops", "inputs": []any{map[string]any{"name": "n", "default": 3}}, "steps": []any{
		echoes("one", map[string]any{"n": "@n"}), echoes("two", map[string]any{"n": "@one.n"}), echoes("three", map[string]any{"n": "@two.n"}),
		echoes("four", map[string]any{"n": "@three.n"}), p.writes("five", "five.txt", "five", "four"), p.writes("six", "six.txt", "six", "five")}}})
	p.goTo(t, "plans/"+id)
	p.state(t, "one", "pending")
	if got := p.why(t, "pause"); got != "it is paused already" {
		t.Errorf("pause of a paused run: %q", got)
	}
	p.hit(t, by("pause")) // says why, and does nothing
	p.until(t, "document.querySelector('[data-testid=pause-why]:not(.hide)')?.textContent === 'Pause: it is paused already'")

	// After a step; and before one, if a value is so, which it is not.
	p.click(t, node("one")+" .box")
	p.choose(t, by("break-when"), "after")
	p.click(t, by("break-add"))
	p.says(t, "breakpoints", "after one")
	p.click(t, node("three")+" .box")
	p.write(t, by("break-value"), "@two.n")
	p.choose(t, by("break-is"), "greater")
	p.write(t, by("break-to"), "many")
	p.click(t, by("break-add"))
	p.until(t, "document.querySelector('.trouble')?.textContent.includes('It is no JSON')")
	p.write(t, by("break-to"), "5")
	p.click(t, by("break-add"))
	p.says(t, "breakpoints", "before three, if @two.n is greater 5")
	want := `[{"step":"one","after":true},{"step":"three","if":{"value":"@two.n","is":"greater","to":5}}]`
	if got := string(p.seen(t, id).Run.Breakpoints); !sameJSON(t, got, want) {
		t.Errorf("the breakpoints are %s, want %s", got, want)
	}
	p.screens(t, "plans-breakpoints")
	p.click(t, by("continue"))
	p.says(t, "paused", "Paused after one: breakpoint after one")
	p.click(t, node("four")+" .box")
	p.click(t, by("run-to")) // past three, whose condition does not hold
	p.says(t, "paused", "Paused before four: it was to run to four")
	p.says(t, "inspected", "3")
	p.click(t, by("step"))
	p.state(t, "four", "done")
	for id, want := range map[string]string{"run-to": "four is done", "skip": "four is done", "retry": "four is done: only what failed, was skipped or is unsure can be tried again", "fork": "", "stop": "", "step": ""} {
		if got := p.why(t, id); got != want {
			t.Errorf("why not %s: %q, want %q", id, got, want)
		}
	}
	p.click(t, node("five")+" .box")
	p.click(t, by("skip"))
	p.state(t, "five", "skipped")
	p.click(t, by("retry")) // it is to be done after all
	p.state(t, "five", "pending")
	p.click(t, node("three")+" .box")
	p.click(t, by("break-clear"))
	p.until(t, "!document.querySelector("+quoted(by("breakpoints"))+")")
	p.click(t, by("continue"))
	p.status(t, "done")
	if p.written("five.txt") != "five" || p.written("six.txt") != "six" {
		t.Error("what was skipped and wanted again was not done")
	}
	for id, want := range map[string]string{"step": "the run is done: fork it to go on from a step", "stop": "the run is done: fork it to go on from a step", "fork": ""} {
		if got := p.why(t, id); got != want {
			t.Errorf("why not %s: %q, want %q", id, got, want)
		}
	}
}

// TestConsolePlansPause pauses a run that goes on, repairs what it lacks, and stops another in the middle of a call.
func TestConsolePlansPause(t *testing.T) {
	hubtest.Parallel(t)
	p := openPlans(t, "plans")
	id := p.begin(t, map[string]any{"plan": map[string]any{"title": "Waits", "steps": []any{
		map[string]any{"id": "read", "tool": "file_read", "retries": 50, "backoffMs": 100, "args": map[string]any{"path": p.file("missing.txt")}}, p.writes("proof", "proof.txt", "yes", "read")}}})
	p.goTo(t, "plans/"+id)
	p.state(t, "read", "running")
	if got := p.why(t, "continue"); got != "it is going on: pause it first" {
		t.Errorf("why not continue: %q", got)
	}
	p.until(t, "/try [2-9]/.test(document.querySelector("+quoted(node("read"))+").textContent)")
	p.click(t, by("pause"))
	p.status(t, "paused")
	if err := os.WriteFile(p.file("missing.txt"), []byte("here"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.click(t, by("continue"))
	p.status(t, "done")
	if p.written("proof.txt") != "yes" {
		t.Error("the last step has not written")
	}
	// Every try has a bar of its own, as long as it took.
	p.click(t, by("view-timeline"))
	bars := "[...document.querySelectorAll(" + quoted(by("time-row")+`[data-step="read"] `+by("bar")) + ")]"
	p.until(t, bars+".length >= 3")
	tries := p.step(t, id, "read").Attempts
	if got := p.run(t, "const b = "+bars+"; return [b.length === "+jsonOf(t, tries)+", b.slice(0, -1).every((x) => x.dataset.outcome === 'failed'), b.at(-1).dataset.outcome, b.every((x, i) => !i || +x.getAttribute('x') >= +b[i-1].getAttribute('x') + +b[i-1].getAttribute('width') - 0.7)]"); got != `[true,true,"done",true]` {
		t.Errorf("the bars of %d tries: %s", tries, got)
	}
	p.screens(t, "plans-retries")
	p.click(t, by("time-row")+`[data-step="read"] button`)
	p.until(t, "document.querySelectorAll("+quoted(by("calls")+" tbody tr")+").length === "+jsonOf(t, tries))

	id = p.begin(t, map[string]any{"plan": map[string]any{"steps": []any{map[string]any{"id": "long", "tool": "up__work", "args": map[string]any{"seconds": 600}}}}})
	p.goTo(t, "plans/"+id)
	p.state(t, "long", "running")
	p.click(t, node("long")+" .box")
	for id, want := range map[string]string{"skip": "long is at work", "retry": "long is at work", "run-to": "long is running"} {
		if got := p.why(t, id); got != want {
			t.Errorf("why not %s: %q, want %q", id, got, want)
		}
	}
	await.Until(t, "the server has the call", func() bool { return len(p.up.State().Called) > 0 })
	p.click(t, by("stop"))
	p.status(t, "stopped")
	if got := p.seen(t, id); got.Run.Status != "stopped" {
		t.Errorf("the run is %s", got.Run.Status)
	}
}

// TestConsolePlansFork changes what a run was given and what a step came to, and compares what comes of it.
func TestConsolePlansFork(t *testing.T) {
	hubtest.Parallel(t)
	p := openPlans(t, "plans")
	plan := map[string]any{"title": "Greets", "inputs": []any{map[string]any{"name": "who", "schema": map[string]any{"type": "string", "minLength": 2}}, map[string]any{"name": "times", "schema": map[string]any{"type": "integer"}, "default": 1}},
		"steps":   []any{echoes("aside", map[string]any{"of": "nobody"}), echoes("greet", map[string]any{"who": "@who", "times": "@times"}), map[string]any{"id": "keep", "tool": "file_write", "args": map[string]any{"path": p.file("greeted.txt"), "content": "@greet.who", "mode": "overwrite"}}},
		"outputs": map[string]any{"said": "@greet"}}
	first := p.begin(t, map[string]any{"plan": plan, "inputs": map[string]any{"who": "Ann"}, "session": "work"})
	p.goTo(t, "plans/"+first)
	p.status(t, "done")
	p.click(t, by("inputs")+" summary")
	p.until(t, `document.querySelector('[id="field/who"]')?.value === 'Ann' && document.querySelector('[id="field/times"]').value === '1'`)
	if got := p.why(t, "fork-inputs"); got != "change one first" {
		t.Errorf("why no fork: %q", got)
	}
	p.write(t, `[id="field/who"]`, "B")
	if got := p.why(t, "fork-inputs"); got != "some are not as the plan wants them" {
		t.Errorf("why no fork: %q", got)
	}
	p.write(t, `[id="field/who"]`, "Bob")
	p.write(t, `[id="field/times"]`, "7")
	second := p.moves(t, by("fork-inputs"))
	p.state(t, "aside", "done") // it uses neither, and is taken over
	p.state(t, "greet", "pending")
	p.click(t, by("continue"))
	p.status(t, "done")
	if got := p.seen(t, second); p.written("greeted.txt") != "Bob" || !sameJSON(t, string(got.Run.Outputs["said"]), `{"who":"Bob","times":7}`) || got.Run.From.Run != first {
		t.Errorf("the fork wrote %q and yields %s", p.written("greeted.txt"), got.Run.Outputs["said"])
	}
	if !p.step(t, second, "aside").Pinned {
		t.Error("what does not come of the change was done again")
	}

	// Another result of a step. What is written there arrives as it is written.
	p.click(t, node("greet")+" .box")
	if got := p.why(t, "set"); got != "write a value first" {
		t.Errorf("why not set: %q", got)
	}
	p.write(t, by("set-value"), `{"who": "Cy", "n": 12345678901234567890}`)
	third := p.moves(t, by("set"))
	p.state(t, "greet", "done")
	p.click(t, by("continue"))
	p.status(t, "done")
	if got := string(p.step(t, third, "greet").Result); p.written("greeted.txt") != "Cy" || !strings.Contains(got, "12345678901234567890") {
		t.Errorf("the fork wrote %q, its step yields %s", p.written("greeted.txt"), got)
	}

	// It is compared with what it was forked from, unless another is chosen.
	p.until(t, "document.querySelector("+quoted(by("other"))+").value === "+quoted(second))
	p.click(t, by("compare"))
	p.until(t, "location.search === "+quoted("?a="+second+"&b="+third))
	p.until(t, "document.querySelector("+quoted(by("difference")+`[data-name="greet"]`)+")?.innerText.includes('\"Bob\"')")
	p.until(t, "document.querySelector("+quoted(by("difference")+`[data-name="greet"]`)+").innerText.includes('\"Cy\"') && !document.querySelector("+quoted(by("difference")+`[data-name="who"]`)+")")
	p.screens(t, "plans-compare")
	p.choose(t, by("side-a"), first)
	p.until(t, "document.querySelector("+quoted(by("difference")+`[data-name="who"]`)+")?.innerText.includes('Ann')")
	p.click(t, by("swap"))
	p.until(t, "location.search === "+quoted("?a="+third+"&b="+first))

	// By two marks in the list.
	p.goTo(t, "plans")
	if got := p.why(t, "compare"); got != "mark two runs first" {
		t.Errorf("why not compare: %q", got)
	}
	p.click(t, by("mark")+`[data-run="`+first+`"]`)
	p.click(t, by("mark")+`[data-run="`+second+`"]`)
	p.click(t, by("compare"))
	p.until(t, "location.search === "+quoted("?a="+first+"&b="+second))
	p.until(t, "document.querySelector("+quoted(by("difference")+`[data-name="times"]`)+")")
	names := p.run(t, "return [...document.querySelectorAll("+quoted(by("difference"))+")].map((d) => d.dataset.name)")
	if diff := cmp.Diff(`["who","times","greet","keep"]`, names); diff != "" {
		t.Errorf("what differs (-want +got):\n%s", diff)
	}

	// All again from a step on.
	p.goTo(t, "plans/"+first+"?step=greet")
	fourth := p.moves(t, by("fork"))
	p.state(t, "greet", "pending")
	if got := p.seen(t, fourth); got.Run.From == nil || got.Run.From.Run != first {
		t.Errorf("the fork is of %+v", got.Run.From)
	}
}
