package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/plan"
	"github.com/stoahub/stoa/internal/spell"
)

type planDebugCmd struct {
	reach
	asJSON
	runWhere
	Break   []string `help:"Pause before this step; may be given more than once." short:"b" placeholder:"STEP" sep:"none"`
	Command []string `help:"Do this and do not ask for more; may be given more than once." short:"x" placeholder:"WORDS" sep:"none"`
	Plan    string   `arg:"" optional:"" name:"plan" default:"current" help:"File with a plan (JSON or YAML) or @NAME of one that was saved in the session, of which a run is begun; or the id of a run, the newest if left out."`
	Inputs  []string `arg:"" optional:"" name:"inputs" help:"What a plan is given, as for stoa plan run."`
}

func (c *planDebugCmd) Help() string {
	var b strings.Builder
	b.WriteString("A new run is paused before its first step. Commands are read from stdin, one a line; from a terminal with a prompt. Where they come from a file, the first that fails ends it. The run stays as it is when the debugger ends; Ctrl-C pauses it.\n\n")
	for _, w := range debugWords() {
		fmt.Fprintf(&b, "%s: %s\n\n", strings.TrimSpace(w.name+" "+w.args), w.help)
	}
	return strings.TrimSpace(b.String())
}

func (c *planDebugCmd) Run(ctx context.Context, s std) error {
	hub, err := c.keeping(ctx, s, "")
	if err != nil {
		return doing("debug", c.Plan, err)
	}
	defer hub.close()
	d := &debugger{s: s, hub: hub, where: &c.runWhere, json: c.JSON}
	if f, ok := s.in.(*os.File); ok && isTerminal(f) && len(c.Command) == 0 {
		d.asks = true
	}
	a, err := c.begin(ctx, s, hub)
	if err != nil {
		return err
	}
	d.at = a
	if err := d.show(a); err != nil {
		return err
	}
	if len(c.Command) > 0 {
		for _, line := range c.Command {
			if err := d.do(ctx, line); err != nil {
				return d.ended(ctx, err)
			}
		}
		return nil
	}
	if d.asks {
		s.note("help tells what can be said")
	}
	return d.ended(ctx, d.converse(ctx))
}

// begin finds the run, or begins one that is paused.
func (c *planDebugCmd) begin(ctx context.Context, s std, hub *client) (*runAnswer, error) {
	breaks := []plan.Breakpoint{}
	for _, step := range c.Break {
		breaks = append(breaks, plan.Breakpoint{Step: step})
	}
	if runID.MatchString(c.Plan) {
		if len(c.Inputs) > 0 {
			return nil, failed(exitUsage, "Change one with: set NAME JSON", "debug %s: a run has its inputs already", c.Plan)
		}
		path, verb, body := "/"+c.Plan, http.MethodGet, any(nil)
		if len(breaks) > 0 {
			path, verb, body = path+"/break", http.MethodPost, map[string]any{"breakpoints": breaks}
		}
		a, err := hub.askRun(ctx, verb, path, c.query("plan"), body)
		if err != nil {
			return nil, doing("debug", c.Plan, err)
		}
		return a, nil
	}
	p, err := readPlan(c.Plan, s.in)
	if err != nil {
		return nil, err
	}
	inputs, err := arguments(c.Inputs, p.shape(), s.in)
	if err != nil {
		return nil, err
	}
	body := map[string]any{"plan": p.arg, "inputs": json.RawMessage(inputs), "breakpoints": breaks, "paused": true, "session": c.Session}
	a, err := hub.askRun(ctx, http.MethodPost, "", url.Values{"plan": {"true"}}, body)
	if err != nil {
		if placed := p.placed(err); placed != err {
			return nil, placed
		}
		return nil, doing("debug", c.Plan, err)
	}
	return a, nil
}

// debugger is a conversation about a run.
type debugger struct {
	s     std
	hub   *client
	where *runWhere
	json  bool
	asks  bool // a person is at the other end

	at *runAnswer // the run that is looked at
}

// errQuit ends the conversation.
var errQuit = errors.New("quit")

// converse does what is said, line by line.
func (d *debugger) converse(ctx context.Context) error {
	in := newPrompter(d.s.in)
	for {
		if d.asks {
			fmt.Fprint(d.s.out, d.s.paint(d.s.out, bold, d.prompt()))
		}
		in.next()
		select {
		case line, ok := <-in.lines:
			in.asked = false
			if !ok {
				if d.asks {
					fmt.Fprintln(d.s.out)
				}
				return nil
			}
			err := d.do(ctx, line)
			switch {
			case err == nil:
			case errors.Is(err, errQuit) || !d.asks || ctx.Err() != nil:
				return err
			default:
				d.s.report(ctx, err)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// prompt says where the run is.
func (d *debugger) prompt() string {
	v := &d.at.Run
	where := string(v.Status)
	if p := v.Paused; p != nil && p.Step != "" {
		where = map[bool]string{false: "before ", true: "after "}[p.After] + p.Step
	}
	return "(" + where + ") "
}

// ended tells how to come back, and pauses a run that was interrupted.
func (d *debugger) ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		late, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if a, err := d.hub.askRun(late, http.MethodPost, "/"+d.at.Run.ID+"/pause", nil, nil); err == nil {
			d.at = a
		}
	}
	if v := &d.at.Run; d.asks && !v.Status.Over() {
		d.s.note("run %s is %s; come back with: stoa plan debug %[1]s", v.ID, v.Status)
	}
	if errors.Is(err, errQuit) {
		return nil
	}
	return err
}

// do does what one line says.
func (d *debugger) do(ctx context.Context, line string) error {
	line = strings.TrimSpace(line)
	if line == "" || strings.HasPrefix(line, "#") {
		return nil
	}
	first, rest, _ := strings.Cut(line, " ")
	var names []string
	for _, w := range debugWords() {
		if w.name == first || w.short != "" && w.short == first {
			return w.do(d, ctx, strings.TrimSpace(rest))
		}
		names = append(names, w.name)
	}
	hint := "Say help to see what can be said."
	if near := spell.Near(first, names, 2); len(near) > 0 {
		hint = "Is " + strings.Join(near, " or ") + " meant?"
	}
	return failed(exitUsage, hint, "%q means nothing here", first)
}

// act does something to the run and shows where it then is.
func (d *debugger) act(ctx context.Context, action string, body map[string]any) error {
	was := d.at.Run.ID
	if body == nil {
		body = map[string]any{}
	}
	a, err := d.hub.askRun(ctx, http.MethodPost, "/"+was+"/"+action, d.where.query("plan"), body)
	if err != nil {
		return doing(action, was, err)
	}
	if (plan.Act{Action: action}).Moves() && !a.Run.Settled {
		line := newProgressLine(d.s)
		a, err = d.hub.awaitRun(ctx, a.Run.ID, d.where.query("plan", "results"), tellProgress(d.s, line))
		line.clear()
		if err != nil {
			return doing(action, was, err)
		}
	}
	d.at = a
	return d.show(a)
}

// show prints where the run is, and what would be called next.
func (d *debugger) show(a *runAnswer) error {
	if d.json {
		return d.s.json(json.RawMessage(a.raw))
	}
	if a.Note != "" {
		if err := d.s.text(a.Note); err != nil {
			return err
		}
	}
	if err := showRun(d.s, &a.Run); err != nil {
		return err
	}
	return d.showNext(a.Next)
}

func (d *debugger) showNext(next *plan.Inspection) error {
	if next == nil {
		return nil
	}
	text := fmt.Sprintf("next: %s calls %s", next.Step, next.Tool)
	switch {
	case next.When != nil && !*next.When:
		text = fmt.Sprintf("next: %s is skipped: its condition does not hold", next.Step)
	case next.Error != "":
		text += ": " + next.Error
	case next.Items != nil:
		text += fmt.Sprintf(" for each of %s, first with %s", plural(*next.Items, "item"), next.Args)
	default:
		text += " with " + string(next.Args)
	}
	return d.s.text(text)
}
