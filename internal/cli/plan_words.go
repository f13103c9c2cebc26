package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/stoahub/stoa/internal/plan"
)

// debugWord is something that can be said to the debugger.
type debugWord struct {
	name, short, args, help string
	do                      func(d *debugger, ctx context.Context, rest string) error
}

// debugWords is all that can be said to it.
func debugWords() []debugWord {
	move := func(action string) func(*debugger, context.Context, string) error {
		return func(d *debugger, ctx context.Context, rest string) error {
			if rest != "" {
				return failed(exitUsage, "", "%s takes no more words", action)
			}
			return d.act(ctx, action, nil)
		}
	}
	about := func(action string) func(*debugger, context.Context, string) error {
		return func(d *debugger, ctx context.Context, rest string) error {
			if rest == "" || strings.Contains(rest, " ") {
				return failed(exitUsage, "Its steps are: "+strings.Join(d.steps(), ", ")+".", "%s is about one step", action)
			}
			return d.act(ctx, action, map[string]any{"step": rest})
		}
	}
	return []debugWord{
		{"step", "s", "", "do one more step", move("step")},
		{"continue", "c", "", "go on to the next breakpoint, or to the end", move("continue")},
		{"run_to", "r", "STEP", "go on until before a step", about("run_to")},
		{"break", "b", "[STEP [after] [if @REF [TEST [JSON]]]]", "pause before or after a step, always or if a value is so, as in: break step_3 if @results.failed greater 0. Alone: list the breakpoints", (*debugger).setBreak},
		{"clear", "", "[STEP]", "take the breakpoints of a step away, or all", (*debugger).clearBreak},
		{"inspect", "i", "[STEP]", "show what a step would be called with; the next one if none is named", (*debugger).inspect},
		{"vars", "v", "[NAME]", "show what references stand for: inputs, results of steps and outputs", (*debugger).vars},
		{"set", "", "NAME JSON", "change an input, or the result of a step, which is then not called; the run is forked, and the old one stays as it is", (*debugger).set},
		{"skip", "", "STEP", "go on without a step", about("skip")},
		{"retry", "", "STEP", "call a step again that failed, or of which it is not known whether it took effect", about("retry")},
		{"fork", "", "STEP", "begin a run like this one, in which all from a step on is done again", about("fork")},
		{"compare", "", "[RUN [RUN]]", "tell in what two runs differ: this one and the one it was forked from, or another, or two others", (*debugger).compare},
		{"runs", "", "", "list the runs of the session", (*debugger).runs},
		{"use", "", "RUN", "go to another run", (*debugger).use},
		{"status", "", "", "show the run again", func(d *debugger, ctx context.Context, _ string) error { return d.look(ctx, d.at.Run.ID) }},
		{"graph", "", "", "draw the run as a Mermaid flow chart", func(d *debugger, _ context.Context, _ string) error { return d.s.text(runGraph(&d.at.Run)) }},
		{"pause", "", "", "begin nothing more until it is told to go on", move("pause")},
		{"stop", "", "", "end the run; what was done is undone if the plan says so", move("stop")},
		{"quit", "q", "", "end the debugger; the run stays as it is", func(*debugger, context.Context, string) error { return errQuit }},
		{"help", "h", "", "show this", (*debugger).help},
	}
}

func (d *debugger) help(context.Context, string) error {
	var rows [][]cell
	for _, w := range debugWords() {
		rows = append(rows, []cell{{text: strings.TrimSpace(w.name + " " + w.args)}, {text: w.short}, {text: w.help}})
	}
	return d.s.table([]string{"SAY", "OR", "TO"}, rows)
}

func (d *debugger) steps() (ids []string) {
	for i := range d.at.Run.Steps {
		ids = append(ids, d.at.Run.Steps[i].ID)
	}
	return ids
}

// look goes to a run and shows it.
func (d *debugger) look(ctx context.Context, id string) error {
	a, err := d.hub.askRun(ctx, http.MethodGet, "/"+url.PathEscape(id), d.where.query("plan", "results"), nil)
	if err != nil {
		return doing("look at", id, err)
	}
	d.at = a
	return d.show(a)
}

func (d *debugger) use(ctx context.Context, rest string) error {
	if rest == "" {
		return failed(exitUsage, "runs lists them.", "use needs the id of a run")
	}
	return d.look(ctx, rest)
}

// setBreak adds a breakpoint.
func (d *debugger) setBreak(ctx context.Context, rest string) error {
	breaks := d.at.Run.Breaks
	if rest == "" {
		return d.listBreaks()
	}
	step, rest, _ := strings.Cut(rest, " ")
	b := plan.Breakpoint{Step: step}
	rest = strings.TrimSpace(rest)
	if more, ok := strings.CutPrefix(rest, "after"); ok && (more == "" || more[0] == ' ') {
		b.After, rest = true, strings.TrimSpace(more)
	}
	if rest != "" {
		text, ok := strings.CutPrefix(rest, "if ")
		if !ok {
			return failed(exitUsage, "As in: break step_3 after if @results.failed greater 0", "%q does not follow a breakpoint", rest)
		}
		c, err := condition(strings.TrimSpace(text))
		if err != nil {
			return err
		}
		b.If = c
	}
	breaks = slices.DeleteFunc(slices.Clone(breaks), func(o plan.Breakpoint) bool { return o.Step == b.Step && o.After == b.After })
	return d.breaks(ctx, append(breaks, b))
}

// condition reads a condition as people say it: @ref, @ref test, @ref test
// JSON, or as JSON.
func condition(text string) (*plan.Condition, error) {
	c := &plan.Condition{}
	if strings.HasPrefix(text, "{") {
		if err := json.Unmarshal([]byte(text), c); err != nil {
			return nil, failed(exitUsage, "", "the condition is not JSON: %w", err)
		}
		return c, nil
	}
	words := strings.SplitN(text, " ", 3)
	c.Value = words[0]
	if len(words) > 1 {
		c.Is = plan.Test(words[1])
	}
	if len(words) > 2 {
		if c.To = json.RawMessage(strings.TrimSpace(words[2])); !json.Valid(c.To) {
			return nil, failed(exitUsage, `Texts stand in quotes, as in "done".`, "%s is not JSON", words[2])
		}
	}
	return c, nil
}

func (d *debugger) clearBreak(ctx context.Context, rest string) error {
	left := slices.DeleteFunc(slices.Clone(d.at.Run.Breaks), func(b plan.Breakpoint) bool { return rest == "" || b.Step == rest })
	if rest != "" && len(left) == len(d.at.Run.Breaks) {
		return failed(exitUsage, "break lists them.", "there is no breakpoint at %s", rest)
	}
	return d.breaks(ctx, left)
}

func (d *debugger) breaks(ctx context.Context, all []plan.Breakpoint) error {
	a, err := d.hub.askRun(ctx, http.MethodPost, "/"+d.at.Run.ID+"/break", d.where.query("plan"), map[string]any{"breakpoints": all})
	if err != nil {
		return doing("break", d.at.Run.ID, err)
	}
	d.at = a
	if d.json {
		return d.s.json(json.RawMessage(a.raw))
	}
	return d.listBreaks()
}

func (d *debugger) listBreaks() error {
	if d.json {
		return d.s.json(d.at.Run.Breaks)
	}
	if len(d.at.Run.Breaks) == 0 {
		return d.s.text("there are no breakpoints")
	}
	for _, b := range d.at.Run.Breaks {
		text := "break " + map[bool]string{false: "before ", true: "after "}[b.After] + b.Step
		if b.If != nil {
			raw, err := json.Marshal(b.If)
			if err != nil {
				return err
			}
			text += " if " + string(raw)
		}
		if err := d.s.text(text); err != nil {
			return err
		}
	}
	return nil
}

func (d *debugger) inspect(ctx context.Context, rest string) error {
	a, err := d.hub.askRun(ctx, http.MethodPost, "/"+d.at.Run.ID+"/inspect", d.where.query("plan"), map[string]any{"step": rest})
	if err != nil {
		return doing("inspect", d.at.Run.ID, err)
	}
	d.at = a
	switch {
	case d.json:
		return d.s.json(a.Next)
	case a.Next == nil:
		return failed(exitUsage, "Its steps are: "+strings.Join(d.steps(), ", ")+".", "the run is at no step; name one")
	}
	return d.showNext(a.Next)
}

func (d *debugger) vars(ctx context.Context, rest string) error {
	a, err := d.hub.askRun(ctx, http.MethodGet, "/"+d.at.Run.ID, d.where.query("context"), nil)
	if err != nil {
		return doing("look at", d.at.Run.ID, err)
	}
	values := a.Run.Context
	if rest = strings.TrimPrefix(rest, "@"); rest != "" {
		value, ok := values[rest]
		if !ok {
			return failed(exitUsage, "vars lists what there is by now.", "nothing is called %s", rest)
		}
		return d.s.text(string(value))
	}
	if d.json {
		return d.s.json(values)
	}
	if len(values) == 0 {
		return d.s.text("there is nothing yet")
	}
	return showValues(d.s, values)
}

// set changes an input, or what a step yields.
func (d *debugger) set(ctx context.Context, rest string) error {
	name, text, _ := strings.Cut(rest, " ")
	if text = strings.TrimSpace(text); text == "" {
		return failed(exitUsage, `As in: set step_2 {"ok": true}`, "set needs a name and a value")
	}
	if !json.Valid([]byte(text)) {
		return failed(exitUsage, `Texts stand in quotes, as in "done".`, "%s is not JSON", text)
	}
	body := map[string]any{"value": json.RawMessage(text)}
	p := d.at.Run.Plan
	switch owner := p.Owner(name); {
	case slices.ContainsFunc(p.Inputs, func(in plan.Input) bool { return in.Name == name }):
		body["input"] = name
	case owner == "" || owner == name:
		body["step"] = name
	case len(p.Step(owner).Outputs) == 1: // the whole result has this name
		body["step"] = owner
	default:
		return failed(exitUsage, fmt.Sprintf("Set the whole result: set %s {…}", owner), "%s is one of several outputs of %s", name, owner)
	}
	return d.act(ctx, "set", body)
}

func (d *debugger) compare(ctx context.Context, rest string) error {
	a, b := d.at.Run.ID, ""
	switch words := strings.Fields(rest); {
	case len(words) == 0 && d.at.Run.From == nil:
		return failed(exitUsage, "runs lists those of the session.", "the run is no fork; name the run to compare it with")
	case len(words) == 0:
		a, b = d.at.Run.From.Run, a
	case len(words) == 1:
		b = words[0]
	case len(words) == 2:
		a, b = words[0], words[1]
	default:
		return failed(exitUsage, "", "two runs are compared, not %d", len(words))
	}
	raw, err := d.hub.compareRuns(ctx, d.where.query(), a, b)
	if err != nil {
		return doing("compare", a, err)
	}
	if d.json {
		return d.s.json(json.RawMessage(raw))
	}
	return showComparison(d.s, raw)
}

func (d *debugger) runs(ctx context.Context, _ string) error {
	q := d.where.query()
	q.Set("session", d.at.Run.Session)
	raw, err := d.hub.ask(ctx, http.MethodGet, "/api/v1/runs", q, nil)
	if err != nil {
		return fmt.Errorf("list runs: %w", err)
	}
	if d.json {
		return d.s.json(json.RawMessage(raw))
	}
	return showRuns(d.s, raw)
}
