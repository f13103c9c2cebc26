package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/plan"
)

type planRunCmd struct {
	reach
	asJSON
	Session     string        `help:"Session that the run belongs to; without it, one of its own." placeholder:"NAME"`
	Detach      bool          `help:"Print the id of the run and do not wait for it; needs a hub that runs."`
	DryRun      bool          `help:"Check everything with these inputs; nothing is called."`
	GoOn        bool          `help:"Go on with steps that do not need one that failed."`
	Timeout     time.Duration `help:"The run may take this long; 5m if left out." placeholder:"5m"`
	Retries     int           `help:"How often a call that failed is tried again; 3 if left out." default:"-1" placeholder:"N"`
	MaxParallel int           `help:"How many calls may be under way at once; 4 if left out." placeholder:"N"`
	Plan        string        `arg:"" name:"plan" help:"${planWord}"`
	Inputs      []string      `arg:"" optional:"" name:"inputs" help:"What the plan is given: key=value pairs, or one of a JSON object, @file and - (stdin)."`
}

func (c *planRunCmd) Help() string {
	return "Everything that can be checked is checked before the first call. Ctrl-C stops the run. If the hub ends, the run goes on when it is started again. " +
		"The exit code is 3 if a tool said no, 4 if one could not be reached or took too long, 5 if a call was denied, and 1 if the run was stopped or needs a decision."
}

// body is what the run is begun with.
func (c *planRunCmd) body(p *planned, s std) (map[string]any, error) {
	inputs, err := arguments(c.Inputs, p.shape(), s.in)
	if err != nil {
		return nil, err
	}
	options := map[string]any{"stopOnError": !c.GoOn}
	if c.Timeout > 0 {
		options["timeout"] = c.Timeout.Milliseconds()
	}
	if c.Retries >= 0 {
		options["retries"] = c.Retries
	}
	if c.MaxParallel > 0 {
		options["maxParallel"] = c.MaxParallel
	}
	body := map[string]any{"plan": p.arg, "inputs": json.RawMessage(inputs), "options": options, "dryRun": c.DryRun}
	if c.Session != "" {
		body["session"] = c.Session
	}
	return body, nil
}

func (c *planRunCmd) Run(ctx context.Context, s std) error {
	p, err := readPlan(c.Plan, s.in)
	if err != nil {
		return err
	}
	body, err := c.body(p, s)
	if err != nil {
		return err
	}
	hub, err := c.keeping(ctx, s, "")
	if err != nil {
		return doing("run", c.Plan, err)
	}
	defer hub.close()
	if c.Detach && len(hub.after) > 0 {
		return failed(exitUsage, "Start one with stoa serve.", "run %s: no hub is running that could go on with it", c.Plan)
	}
	a, err := hub.askRun(ctx, http.MethodPost, "", nil, body)
	if err != nil {
		if placed := p.placed(err); placed != err {
			return placed
		}
		return doing("run", c.Plan, err)
	}
	switch {
	case c.DryRun && c.JSON:
		return s.json(json.RawMessage(a.raw))
	case c.DryRun:
		return s.text("OK: the plan could be run; nothing was called")
	case c.Detach && c.JSON:
		return s.json(json.RawMessage(a.raw))
	case c.Detach:
		return s.text(a.Run.ID)
	}
	return c.follow(ctx, s, hub, a.Run.ID)
}

// follow waits for a run and shows what came of it.
func (c *planRunCmd) follow(ctx context.Context, s std, hub *client, id string) error {
	line := newProgressLine(s)
	a, err := hub.awaitRun(ctx, id, url.Values{"results": {"true"}}, tellProgress(s, line))
	line.clear()
	if err != nil {
		if ctx.Err() != nil {
			hub.stopRun(s, id)
		}
		return doing("run", c.Plan, err)
	}
	if c.JSON {
		if err := s.json(json.RawMessage(a.raw)); err != nil {
			return err
		}
	} else if err := showRun(s, &a.Run); err != nil {
		return err
	}
	return runEnd(&a.Run)
}

// tellProgress shows how far a run is, and once that a person is waited for.
func tellProgress(s std, line *progressLine) func(*plan.View) {
	asked := ""
	return func(v *plan.View) {
		for _, st := range v.Steps {
			if st.Approval != "" && st.Approval != asked {
				asked = st.Approval
				line.clear()
				s.note("%s waits for an approval: stoa approvals", st.ID)
			}
		}
		params, err := json.Marshal(map[string]any{"progress": v.Done, "total": len(v.Steps), "message": fmt.Sprintf("%d of %d steps are over", v.Done, len(v.Steps))})
		if err == nil {
			line.Notify("notifications/progress", params)
		}
	}
}

// stopRun stops a run whose command was interrupted.
func (c *client) stopRun(s std, id string) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if _, err := c.askRun(ctx, http.MethodPost, "/"+id+"/stop", url.Values{"wait": {"4s"}}, nil); err != nil {
		s.note("run %s could not be stopped: %v", id, err)
		return
	}
	s.note("run %s is stopped", id)
}

// runEnd is the error of a run that did not come to a good end.
func runEnd(v *plan.View) error {
	switch v.Status {
	case plan.Finished:
		return nil
	case plan.Paused:
		return failed(exitFailed, fmt.Sprintf("Go on with: stoa plan debug %s", v.ID), "run %s is paused: %s", v.ID, v.Reason)
	}
	code, why, hint := exitFailed, v.Reason, ""
	if f := v.Failure; f != nil {
		hint = f.Hint
		if why == "" && f.Step != "" { // it went on without the step
			why = "step " + f.Step + " failed"
		}
		if f.Message != "" && f.Message != why {
			why += ": " + f.Message
		}
		switch {
		case f.Kind != "":
			code = exitCode(f.Kind)
		case f.Step != "":
			code = exitToolSaidNo
		case strings.HasPrefix(f.Message, "the run took longer"):
			code = exitUnreachable
		}
	}
	if hint == "" && v.Status == plan.Failed {
		hint = fmt.Sprintf("stoa plan debug %s -x 'fork STEP' does all again from a step on.", v.ID)
	}
	return failed(code, hint, "run %s %s: %s", v.ID, map[plan.Status]string{plan.Failed: "failed", plan.Stopped: "was stopped"}[v.Status], why)
}

// showRun prints a run for a person.
func showRun(s std, v *plan.View) error {
	head := v.ID
	if v.Title != "" {
		head += fmt.Sprintf(" %q", v.Title)
	}
	head += fmt.Sprintf(" in session %s: %s", v.Session, v.Status)
	if v.Reason != "" {
		head += " (" + v.Reason + ")"
	}
	head += fmt.Sprintf(", %d of %s over, %v", v.Done, plural(len(v.Steps), "step"), time.Duration(v.TookMS)*time.Millisecond)
	if v.From != nil {
		head += fmt.Sprintf("; a fork of %s: %s", v.From.Run, v.From.Reason)
	}
	if err := s.text(head); err != nil {
		return err
	}
	var rows [][]cell
	for i := range v.Steps {
		st := &v.Steps[i]
		tries, took := "", ""
		if st.Attempts > 0 {
			tries = fmt.Sprint(st.Attempts)
		}
		if st.Attempts > 0 && st.State == "done" {
			took = (time.Duration(st.TookMS) * time.Millisecond).String()
		}
		rows = append(rows, []cell{{text: st.ID}, {text: st.Tool}, {st.State, stateColour(st.State)}, {text: tries}, {text: took}, {text: stepNote(v, st)}})
	}
	if len(rows) > 0 {
		if err := s.table([]string{"STEP", "TOOL", "STATE", "CALLS", "TOOK", "NOTE"}, rows); err != nil {
			return err
		}
	}
	return showValues(s, v.Outputs)
}

func stateColour(state string) string {
	switch state {
	case "done":
		return green
	case "failed", "unknown":
		return red
	case "running", "waiting", "retrying":
		return amber
	}
	return dim
}

// stepNote is what there is to say of a step besides its state.
func stepNote(v *plan.View, st *plan.StepView) string {
	var notes []string
	add := func(ok bool, format string, args ...any) {
		if ok {
			notes = append(notes, fmt.Sprintf(format, args...))
		}
	}
	add(v.Paused != nil && v.Paused.Step == st.ID && !v.Paused.After, "← paused before it")
	add(v.Paused != nil && v.Paused.Step == st.ID && v.Paused.After, "← paused after it")
	for _, b := range v.Breaks {
		add(b.Step == st.ID, "break %s", map[bool]string{false: "before", true: "after"}[b.After])
	}
	add(st.Items > 0, "%d of %s done", st.Done, plural(st.Items, "item"))
	add(st.Pinned, "not called: set, or taken over from another run")
	add(st.Fallback, "by its fallback")
	add(st.Reason != "", "%s", st.Reason)
	if st.Error != nil && st.State != "done" {
		add(true, "%s", st.Error.Message)
	}
	if st.Retry != nil {
		add(true, "tried again at %s", st.Retry.Local().Format("15:04:05"))
	}
	add(st.Approval != "", "waits for approval %s", st.Approval)
	add(st.Undone != "", "undone: %s", st.Undone)
	return strings.Join(notes, "; ")
}

// showValues prints values by name, each on a line.
func showValues(s std, values map[string]json.RawMessage) error {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		line := name + " = " + string(values[name])
		if n := width(s.out); n > 0 {
			line = cut(line, n)
		}
		if err := s.text(line); err != nil {
			return err
		}
	}
	return nil
}
